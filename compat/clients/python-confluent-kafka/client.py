"""confluent-kafka (librdkafka): the cases lie in records, groups, new_protocol, administration and errors."""

from __future__ import annotations

import sys
from pathlib import Path

import confluent_kafka

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import administration  # noqa: F401 (registers its cases)
import common
import errors  # noqa: F401
import groups  # noqa: F401
import new_protocol  # noqa: F401
import records  # noqa: F401

if __name__ == "__main__":
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    common.main("python-confluent-kafka", version)
