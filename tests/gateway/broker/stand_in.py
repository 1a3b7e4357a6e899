"""The simplest subscriptions there can be, in place of the broker's: what serving them is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gateway.broker.partition import Partition
from gateway.server import Gateway
from gateway.wire.errors import Error

AVAILABLE, ACQUIRED, DONE = range(3)


class Delivery(NamedTuple):
    buffers: Sequence[Any]
    acquired: Sequence[tuple[int, int, int]]
    size: int


class StandInPartition:
    """Records one by one; redelivered at once, never dead. A whole batch is given, or nothing of it."""

    def __init__(self, gateway: Gateway, partition: Partition) -> None:
        self.broker = gateway.broker
        self.partition = partition
        self.gone = False
        self.record_bytes = 100
        self.read = 0
        self.states: dict[int, tuple[int, str, int]] = {}
        self.consumers: list[str] = []
        self.waiters: list[Any] = []
        # (consumer, graceful) of each that left
        self.left: list[tuple[str, bool]] = []
        partition.waiters.add(self)

    def ready(self) -> StandInPartition:
        return self

    @property
    def available(self) -> int:
        return sum(state == AVAILABLE for state, _, _ in self.states.values())

    def can_serve(self, consumer: str, end: int) -> bool:
        return bool(self.available) or self.read < end

    def attach(self, consumer: str) -> None:
        self.consumers.append(consumer)

    def detach(self, consumer: str, graceful: bool) -> None:
        self.consumers.remove(consumer)
        self.left.append((consumer, graceful))
        for offset, (state, holder, count) in self.states.items():
            if state == ACQUIRED and holder == consumer:
                self.states[offset] = (AVAILABLE, "", count - graceful)
        self._serve()

    def holds(self, consumer: str) -> bool:
        return any(state == ACQUIRED and holder == consumer for state, holder, _ in self.states.values())

    def fetch(self, consumer: str, limit: int, max_bytes: int, strict: bool) -> Delivery:
        for offset in range(self.read, self.partition.high_watermark):
            self.states[offset] = (AVAILABLE, "", 0)
        self.read = self.partition.high_watermark
        acquired: list[tuple[int, int, int]] = []
        for offset, (state, _, count) in sorted(self.states.items()):
            if state == AVAILABLE and len(acquired) < limit:
                self.states[offset] = (ACQUIRED, consumer, count + 1)
                acquired.append((offset, offset, count))
        if not acquired:
            return Delivery((), (), 0)
        data = self.partition.log.read(acquired[0][0], max_bytes)
        assert isinstance(data, list)
        return Delivery(data, acquired, sum(map(len, data)))

    def acknowledge(self, consumer: str, acks: Sequence[tuple[int, int, bytes]]) -> Error:
        every = [
            (offset, types[offset - first] if len(types) > 1 else types[0])
            for first, last, types in acks
            for offset in range(first, last + 1)
        ]
        if any(self.states.get(offset, (DONE, "", 0))[:2] != (ACQUIRED, consumer) for offset, _ in every):
            return Error.INVALID_RECORD_STATE
        for offset, verdict in every:
            if verdict != 4:
                count = self.states[offset][2]
                self.states[offset] = (AVAILABLE, "", count) if verdict == 2 else (DONE, "", count)
        return Error.NONE

    def park(self, waiter: Any) -> None:
        self.waiters.append(waiter)

    def unpark(self, waiter: Any) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)

    def wake(self, partition: Partition, appended: int) -> None:
        self._serve()

    def _serve(self) -> None:
        for waiter in list(self.waiters):
            if waiter in self.waiters and self.can_serve(waiter.consumer, self.partition.high_watermark):
                self.waiters.remove(waiter)
                waiter.wake(self)


class StandIn:
    """All subscriptions of a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._topics: dict[tuple[str, str], list[StandInPartition]] = {}
        gateway.broker.subscriptions = self  # type: ignore[assignment]

    async def ensure(self, group: str, topic: str) -> None:
        broker = self._gateway.broker
        runtime = broker.topic(topic.encode())
        assert runtime is not None
        self._topics[group, topic] = [
            StandInPartition(self._gateway, broker.partition_of(runtime, index))
            for index in range(len(runtime.partitions))
        ]

    def get(self, group: str, topic: str) -> StandInSubscription | None:
        partitions = self._topics.get((group, topic))
        return None if partitions is None else StandInSubscription(partitions)


class StandInSubscription:
    def __init__(self, partitions: list[StandInPartition]) -> None:
        self._partitions = partitions

    def partition(self, index: int) -> StandInPartition:
        return self._partitions[index]
