"""Queue topics with confluent-kafka's Consumer: the cases lie in python-common/queue_topics."""

from __future__ import annotations

import sys
from pathlib import Path

import confluent_kafka

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "python-common"))
from queue_topics import program

if __name__ == "__main__":
    if sys.argv[1:2] != ["--member"]:
        import protocol  # noqa: F401 (it registers its case)
        import transactions  # noqa: F401 (the same)
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    program.main("python-confluent-kafka-queue", version)
