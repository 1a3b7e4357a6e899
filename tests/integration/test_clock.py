"""A system clock that is far off, or is set while a gateway runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from tests.integration.cli.test_serve_process import FREE, one_sentence, refused
from tests.integration.test_trouble import eventually

pytestmark = pytest.mark.integration

Start = Callable[..., MagnetarPeer]
HOUR, DAY, YEAR = 3600, 86_400, 31_557_600


def wrapper(file: Path, seconds: int = 0) -> tuple[str, ...]:
    file.write_text(str(seconds))
    return (sys.executable, str(Path(__file__).with_name("shifted_clock.py")), str(file))


def set_to(file: Path, seconds: int) -> None:
    """From now on the system clock is off by so much."""
    new = file.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(file)


@pytest.mark.parametrize("year", [1970, 2200])
def test_a_clock_out_of_this_world_is_refused(year: int, tmp_path: Path) -> None:
    shift = int((year - 1970) * YEAR - time.time()) + DAY
    clock = wrapper(tmp_path / "shift", shift)
    code, lines = refused(*FREE, "--data", str(tmp_path / "data"), wrapper=clock)
    assert code == 1
    assert f"The system clock says {year}-01-" in one_sentence(lines)
    assert not (tmp_path / "data").exists()


def test_a_clock_that_is_set_while_a_gateway_runs(own_gateway: Start, tmp_path: Path) -> None:
    shift = tmp_path / "shift"
    gateway = own_gateway(
        "--set", "log.retention.check.interval.ms=50",
        "--set", "producer.id.expiration.check.interval.ms=50",
        "--set", "offsets.retention.check.interval.ms=50",
        wrapper=wrapper(shift),
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    stamped = {"message.timestamp.type": "LogAppendTime"}
    topics = [
        NewTopic("t", 1, 1, config={"retention.ms": str(DAY * 1000)}),
        NewTopic("stamped", 1, 1, config=stamped),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    acked: list[Message] = []
    refused_with: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acked.append(message)
        else:
            refused_with.append(error)

    producer = Producer({"bootstrap.servers": gateway.bootstrap, "enable.idempotence": True})
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
        }
    )
    revoked: list[object] = []
    consumer.subscribe(["t"], on_revoke=lambda consumer, partitions: revoked.append(partitions))

    def one_more(topic: str = "t") -> None:
        count = len(acked)
        producer.produce(topic, b"%d" % count, on_delivery=delivered)
        assert producer.flush(30) == 0
        assert len(acked) == count + 1, refused_with

    def next_value() -> bytes:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        consumer.commit(message, asynchronous=False)
        return message.value() or b""

    one_more()
    assert next_value() == b"0"
    # records of a producer whose clock is right are within message.timestamp.after.max.ms (an hour)
    for seconds, said in (
        (50 * YEAR, "went ahead by 50 years at once"),
        (0, "jumped back by 50 years"),
        (-HOUR // 2, ""),
        (30 * DAY, "went ahead by 30 days at once"),
        (0, "jumped back by 30 days"),
        (-3 * HOUR, "jumped back by 3 hours"),
        (0, "went ahead by 3 hours at once"),
    ):
        set_to(shift, seconds)
        # what is due every 50 ms has come by
        eventually(lambda said=said: said in gateway.log(), said)  # type: ignore[misc]
        one_more("stamped")
        offset = acked[-1].offset()
        assert offset is not None
        stamp = acked[-1].timestamp()[1] / 1000
        assert abs(stamp - time.time() - seconds) < 60, "LogAppendTime is the system clock, as in Kafka"
        if seconds > -HOUR:
            one_more()
            assert next_value() == b"%d" % (len(acked) - 1)
        else:
            producer.produce("t", b"too early", on_delivery=delivered)
            assert producer.flush(30) == 0
            assert [error.code() for error in refused_with] == [KafkaError.INVALID_TIMESTAMP]
    low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=30)
    assert (low, high) == (0, 7), "nothing was deleted by age"
    (kept,) = consumer.committed([TopicPartition("t", 0)], timeout=30)
    assert kept.offset == 7
    assert revoked == [], "sessions run by a clock that nobody can set"
    consumer.close()

    # stopped, and started when the clock is years ahead
    set_to(shift, 20 * YEAR)
    gateway.restart()
    assert "went ahead by 20 years since this store was last in use" in gateway.log()
    reader = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "g"})
    assert reader.get_watermark_offsets(TopicPartition("t", 0), timeout=30) == (0, 7)
    (kept,) = reader.committed([TopicPartition("t", 0)], timeout=30)
    assert kept.offset == 7
    reader.close()


def test_far_off_timestamps_of_records_are_served_as_they_are(gateway: MagnetarPeer) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    topic = f"far{time.time_ns()}"
    configs = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(30)
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    stamps = [1, 4_102_444_800_000, 253_402_300_800_000, 86_400_000, 2**62]
    for stamp in stamps:
        producer.produce(topic, b"", timestamp=stamp)
        assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "far"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = [consumer.poll(30) for _ in stamps]
    assert [message.timestamp()[1] for message in messages if message is not None] == stamps
    for stamp, offset in ((0, 0), (2, 1), (4_102_444_800_001, 2), (2**61, 4)):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, stamp)], timeout=30)
        assert found.offset == offset
    consumer.close()
