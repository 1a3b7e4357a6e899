"""A batch of which some records cannot be taken: each record's sender learns whether it was that one."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = pytest.mark.integration


def test_a_keyless_record_among_keyed_ones(tmp_path: Path) -> None:
    with MagnetarPeer(directory=tmp_path) as gateway:
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
        made = admin.create_topics([NewTopic("state", 1, config={"cleanup.policy": "compact"})])
        made["state"].result(30)
        outcomes: dict[bytes, KafkaError | None] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            outcomes[message.value()] = error

        producer = Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 1000})
        for number, key in enumerate((b"a", b"b", None, b"c", None)):
            producer.produce("state", b"%d" % number, key=key, partition=0, on_delivery=delivered)
        assert producer.flush(60) == 0
        codes = {value: error.code() if error is not None else None for value, error in outcomes.items()}
        assert codes == {
            b"0": KafkaError._INVALID_DIFFERENT_RECORD,
            b"1": KafkaError._INVALID_DIFFERENT_RECORD,
            b"2": KafkaError.INVALID_RECORD,
            b"3": KafkaError._INVALID_DIFFERENT_RECORD,
            # librdkafka tells records apart when more than one is named
            b"4": KafkaError.INVALID_RECORD,
        }
