"""The tour's share group: four members on three partitions, each order acknowledged by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

MEMBERS = 4
PATIENCE = 60.0
CONFIGS = {
    # a share group begins at a topic's end unless its config says otherwise
    "share.auto.offset.reset": "earliest",
    # the orders were there first: whoever asks first takes no more than this of them at once
    "pulsar.receiver.queue.size": "50",
}


@dataclass
class Packed:
    """What the group has done."""

    accepted: list[int]
    """Orders that each member accepted."""
    rejected: int = 0


def configure(bootstrap: str, group: str) -> None:
    """Give the group its CONFIGS."""
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in CONFIGS.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE)


def pack(bootstrap: str, topic: str, group: str, orders: int, damaged: Callable[[Message], bool]) -> Packed:
    """Take `orders` records by turns and reject those that are `damaged`. Raises TimeoutError after a minute."""
    members = [
        ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        for _ in range(MEMBERS)
    ]
    packed = Packed([0] * MEMBERS)
    try:
        for member in members:
            member.subscribe([topic])
        deadline = time.monotonic() + PATIENCE
        while sum(packed.accepted) + packed.rejected < orders:
            if time.monotonic() > deadline:
                raise TimeoutError
            for number, member in enumerate(members):
                for message in member.poll(0.05):
                    if message.error() is not None:
                        continue
                    reject = damaged(message)
                    member.acknowledge(message, AcknowledgeType.REJECT if reject else AcknowledgeType.ACCEPT)
                    packed.rejected += reject
                    packed.accepted[number] += not reject
                member.commit_sync()
        return packed
    finally:
        for member in members:
            member.close()
