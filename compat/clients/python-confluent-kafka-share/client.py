"""confluent-kafka's ShareConsumer (librdkafka): the cases lie in acknowledging.py, members.py and topics.py."""

from __future__ import annotations

import sys
from pathlib import Path

import confluent_kafka

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python-confluent-kafka"))
import acknowledging  # noqa: F401 (registers its cases)
import common
import members  # noqa: F401
import topics  # noqa: F401

if __name__ == "__main__":
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    common.main("python-confluent-kafka-share", version)
