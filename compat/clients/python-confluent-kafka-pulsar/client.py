"""Pulsar's subscriptions with confluent-kafka's ShareConsumer: the cases lie in letters.py, times.py, keys.py,
exclusive.py and transactions.py."""

from __future__ import annotations

import sys
from pathlib import Path

import confluent_kafka

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python-confluent-kafka"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python-confluent-kafka-share"))
import common
import exclusive  # noqa: F401 (registers its cases)
import keys  # noqa: F401 (registers its cases)
import letters  # noqa: F401
import times  # noqa: F401
import transactions  # noqa: F401

if __name__ == "__main__":
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    common.main("python-confluent-kafka-pulsar", version)
