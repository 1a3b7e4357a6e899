"""Queue topics with aiokafka's AIOKafkaConsumer: the cases lie in python-common/queue_topics."""

from __future__ import annotations

import sys
from pathlib import Path

import aiokafka

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "python-common"))
from queue_topics import program

if __name__ == "__main__":
    program.main("python-aiokafka-queue", aiokafka.__version__)
