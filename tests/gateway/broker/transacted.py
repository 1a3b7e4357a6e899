"""A partition that takes batches of transactions, and a coordinator that lets in whatever the test does not refuse."""

from __future__ import annotations

from typing import Any

from gateway.broker.errors import KafkaError
from gateway.broker.partition import Partition
from gateway.wire.batch import admit
from store.api import Write
from tests.gateway.broker.subscriptions.world import Slot, World
from tests.gateway.serving import batch


class Coordinator:
    """Stands behind the port `Home.transactions`."""

    def __init__(self) -> None:
        # (producer id, epoch, partition's index, implicit)
        self.asked: list[tuple[int, int, int, bool]] = []
        self.refuses: KafkaError | None = None
        self.rows: list[Write] = []

    def entrusted(self, subscription: int, partition: int) -> list[tuple[str, list[tuple[int, int]]]]:
        """Nothing is said of messages in transactions."""
        return []

    def admit(self, producer_id: int, epoch: int, partition: Partition, implicit: bool) -> list[Write]:
        if self.refuses is not None:
            raise self.refuses
        self.asked.append((producer_id, epoch, partition.index, implicit))
        return self.rows


def coordinated(world: World) -> Coordinator:
    """The world has a coordinator from now on."""
    coordinator = Coordinator()
    stand_in: Any = coordinator
    world.broker.transactions = stand_in
    return coordinator


def partition_of(world: World, topic: str = "t", index: int = 0) -> Partition:
    found = world.broker.catalog.get(topic)
    assert found is not None
    return world.broker.partition(found, index)


def put(
    partition: Partition,
    *values: bytes,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = True,
    implicit: bool = False,
    codec: int = 0,
) -> int:
    """The base offset of a batch that is in the open turn now. Raises KafkaError."""
    data = batch(
        *(values or (b"v",)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence if producer_id >= 0 else -1,
        transactional=transactional,
        codec=codec,
    )
    return partition.append(data, admit(data), 1_000, implicit=implicit)


def plain(partition: Partition, *values: bytes) -> int:
    """The same of a batch that has no producer."""
    return put(partition, *values, producer_id=-1, epoch=-1, transactional=False)


def end(partition: Partition, committed: bool = True, *, producer_id: int = 7, epoch: int = 0) -> bool:
    return partition.end_transaction(producer_id, epoch, committed, 0, 2_000)


async def done(world: World) -> object:
    """The open turn is over: its outcome."""
    slot = Slot()
    world.broker.turn.await_commit(slot)
    return await slot.told
