"""A segment that was damaged while the gateway was stopped: clients read everything else."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from compat.peers.magnetar import MagnetarPeer

pytestmark = pytest.mark.integration

Start = Callable[..., MagnetarPeer]
COUNT = 60
ROOT = Path(__file__).parents[2]


def filled(gateway: MagnetarPeer) -> AdminClient:
    """Two partitions of `COUNT` batches of one record each."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    admin.create_topics([NewTopic("t", 2, 1)])["t"].result(30)
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "batch.num.messages": 1, "linger.ms": 0})
    for number in range(COUNT):
        for partition in (0, 1):
            producer.produce(
                "t",
                b"%04d" % number + os.urandom(800),
                partition=partition,
                timestamp=1_700_000_000_000 + number,
            )
        assert producer.flush(30) == 0
    return admin


def segments(gateway: MagnetarPeer) -> list[Path]:
    """One file for each partition, in their order."""
    return sorted((gateway.data / "segments").glob("*/*.seg"))


def flip(path: Path, nth: int) -> None:
    """A bit in the records of the batch nth."""
    data = bytearray(path.read_bytes())
    at = data.index(b"%04d" % nth) + 100
    data[at] ^= 1
    path.write_bytes(data)


def consumer(gateway: MagnetarPeer, offset: int, partition: int = 0, **more: object) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "g",
            "enable.partition.eof": True,
            "fetch.error.backoff.ms": 50,
            **more,
        }
    )
    made.assign([TopicPartition("t", partition, offset)])
    return made


def numbers(reader: Consumer) -> tuple[list[int], KafkaError | None]:
    """What comes until the partition's end or another error, and that error."""
    found: list[int] = []
    while True:
        message = reader.poll(30)
        assert message is not None
        error = message.error()
        if error is not None:
            return found, None if error.code() == KafkaError._PARTITION_EOF else error
        value = message.value()
        assert value is not None
        assert message.offset() == int(value[:4])
        found.append(int(value[:4]))


def test_one_damaged_batch_is_told_and_everything_else_is_read(own_gateway: Start) -> None:
    gateway = own_gateway()
    admin = filled(gateway)
    assert gateway.stop() == 0
    flip(segments(gateway)[0], 20)
    gateway.start()
    assert not any("Log" in line for line in gateway.lines)

    reader = consumer(gateway, OFFSET_BEGINNING)
    found, error = numbers(reader)
    assert found == list(range(20)), "what stands before it comes"
    assert error is not None
    assert error.code() == KafkaError.INVALID_MSG
    reader.seek(TopicPartition("t", 0, 21))
    assert numbers(reader) == (list(range(21, COUNT)), None), "and what stands behind it"
    reader.close()
    assert numbers(consumer(gateway, 0, 1)) == (list(range(COUNT)), None), "the other partition is whole"

    by_time = consumer(gateway, 0)
    for number in (0, 19, 21, COUNT - 1):
        (answer,) = by_time.offsets_for_times([TopicPartition("t", 0, 1_700_000_000_000 + number)], 30)
        assert (answer.error, answer.offset) == (None, number)
    with pytest.raises(KafkaException) as raised:
        by_time.offsets_for_times([TopicPartition("t", 0, 1_700_000_000_020)], 30)
    assert raised.value.args[0].code() == KafkaError.INVALID_MSG
    by_time.close()

    (line,) = [line for line in gateway.log().splitlines() if "are damaged" in line]
    name = segments(gateway)[0].name
    assert 'topic "t", partition 0: the offsets 20 to 20 are damaged' in line
    assert f"{name} at byte " in line
    assert "magnetar store verify" in line
    metrics = urllib.request.urlopen(gateway.admin_url + "/metrics", timeout=30).read().decode()
    (count,) = [line for line in metrics.splitlines() if line.startswith("magnetar_reads_corrupt_total ")]
    assert float(count.split()[1]) >= 2

    # the policy, while it runs
    admin.incremental_alter_configs(
        [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                "t",
                incremental_configs=[entry("corrupt.message.policy", "skip")],
            )
        ]
    )
    reader = consumer(gateway, OFFSET_BEGINNING)
    wanted = [number for number in range(COUNT) if number != 20]
    assert numbers(reader) == (wanted, None)
    (answer,) = reader.offsets_for_times([TopicPartition("t", 0, 1_700_000_000_020)], 30)
    assert (answer.error, answer.offset) == (None, 21)
    reader.close()

    # a partition that lost records takes new ones
    producer = Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce("t", b"%04d" % COUNT, partition=0)
    assert producer.flush(30) == 0
    assert numbers(consumer(gateway, COUNT)) == ([COUNT], None)

    assert gateway.stop() == 0
    done = gateway.verify()
    assert done.returncode == 1
    assert 'topic "t", partition 0: ' in done.stdout
    assert "a wrong CRC: offset 20 is damaged" in done.stdout
    assert "partition 1" not in done.stdout


def entry(name: str, value: str) -> object:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def test_a_file_that_is_gone_takes_only_its_own_records(own_gateway: Start) -> None:
    gateway = own_gateway()
    filled(gateway)
    assert gateway.stop() == 0
    segments(gateway)[0].unlink()
    gateway.start()
    found, error = numbers(consumer(gateway, 0))
    assert found == []
    assert error is not None
    assert error.code() == KafkaError.INVALID_MSG
    assert numbers(consumer(gateway, 0, 1)) == (list(range(COUNT)), None)
    # new records begin a new file
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "delivery.timeout.ms": 20_000})
    producer.produce("t", b"%04d" % COUNT, partition=0)
    assert producer.flush(30) == 0
    assert numbers(consumer(gateway, COUNT)) == ([COUNT], None)
