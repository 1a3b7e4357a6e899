"""Transactions of several producers in one partition, ended, failed and restarted at random.

Three views must agree: what was done as those who did it know it; the bytes of the log, read from the first to the last
(which batch is of which transaction, how that ended); and what a reader of committed records is given, who asks from
offset to offset and passes over what the lists of aborted transactions say, as Java's client does.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from heapq import heapify, heappop
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.fetching import Fetch
from gateway.broker.partition import Partition
from gateway.peer import Peer
from gateway.wire import records
from store import memory
from store.api import Refused
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import World, run
from tests.gateway.broker.transacted import coordinated, end, partition_of, plain, put

PRODUCERS = (1, 2, 3)
READER = Peer(1 << 40, "/10.1.1.1", "reader")

# -- what was done ----------------------------------------------------------------------------------------------------


@dataclass
class Producer:
    epoch: int = 0
    sequence: int = 0
    # values of its open transaction
    open: list[bytes] = field(default_factory=list)


@dataclass
class Done:
    """What is stored when a turn is, as those who sent it know."""

    producers: dict[int, Producer] = field(default_factory=lambda: {each: Producer() for each in PRODUCERS})
    # what a reader must see in the end: of no transaction, or committed
    visible: set[bytes] = field(default_factory=set)
    # and must not
    aborted: set[bytes] = field(default_factory=set)


# -- what is in the log -----------------------------------------------------------------------------------------------


def in_the_log(data: bytes, high: int) -> tuple[int, list[tuple[int, bytes]], set[int]]:
    """(last stable offset, records below it that are not aborted, producers with an open transaction)."""
    opened: dict[int, list[tuple[int, bytes]]] = {}
    kept: list[tuple[int, bytes]] = []
    for at, header in records.batches(data):
        listed = records.records(data[at : at + header.size])
        found = [(header.base_offset + each.offset_delta, each.value or b"") for each in listed]
        if header.control:
            its = opened.pop(header.producer_id)
            if (listed[0].key or b"")[3]:
                kept += its
        elif header.transactional:
            opened.setdefault(header.producer_id, []).extend(found)
        else:
            kept += found
    stable = min([high, *(its[0][0] for its in opened.values())])
    return stable, sorted(each for each in kept if each[0] < stable), set(opened)


# -- what a reader is given -------------------------------------------------------------------------------------------


async def given_to_a_reader(world: World, size: int) -> tuple[int, list[tuple[int, bytes]]]:
    """(where it came to, the records that it took)."""
    position = 0
    taken: list[tuple[int, bytes]] = []
    while True:
        request = SimpleNamespace(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=size,
            isolation=1,
            session_id=0,
            session_epoch=-1,
            topics=[(b"t", [(0, -1, position, size)])],
            forgotten=[],
        )
        pending: Any = Fetch(world.broker, READER, request, False, lambda *told: told).start()
        _, _, told = await pending if hasattr(pending, "__await__") else pending
        ((_, [(_, error, _, stable, _, buffers, _, aborted)]),) = told
        assert error == 0
        data = b"".join(map(bytes, buffers))
        if not data:
            assert position == stable, "it waits for nothing but what is not decided"
            return position, taken
        # Java: those begin to count with the batch that reaches their first offset, until their marker
        waiting = [(first, producer_id) for producer_id, first in aborted]
        heapify(waiting)
        passed: set[int] = set()
        for at, header in records.batches(data):
            while waiting and waiting[0][0] <= header.last_offset:
                passed.add(heappop(waiting)[1])
            listed = records.records(data[at : at + header.size])
            if header.control:
                if not (listed[0].key or b"")[3]:
                    passed.discard(header.producer_id)
            elif not (header.transactional and header.producer_id in passed):
                taken += [
                    (offset, each.value or b"")
                    for each in listed
                    if (offset := header.base_offset + each.offset_delta) >= position
                ]
            position = header.next_offset


# -- steps ----------------------------------------------------------------------------------------------------------

producers = st.sampled_from(PRODUCERS)
changes = st.one_of(
    st.tuples(st.just("put"), producers, st.integers(1, 3)),
    st.tuples(st.just("put"), producers, st.integers(1, 3)),
    st.tuples(st.just("plain"), st.integers(1, 2)),
    # committed or not, with a later epoch or not
    st.tuples(st.just("end"), producers, st.booleans(), st.booleans()),
    st.tuples(st.just("end"), producers, st.booleans(), st.booleans()),
)
turns = st.tuples(
    st.lists(changes, max_size=6),
    st.sampled_from(["stored", "stored", "stored", "held", "failed", "restarted"]),
)


class Model:
    def __init__(self, world: World, store: HeldStore) -> None:
        self.world = world
        self.store = store
        self.stored = Done()
        # as it will be when everything on its way is stored, and as of each turn on its way
        self.now = Done()
        self.flying: list[Done] = []
        self.number = 0

    def value(self) -> bytes:
        self.number += 1
        return b"%d" % self.number

    def change(self, partition: Partition, step: tuple[Any, ...]) -> None:
        now = self.now
        if step[0] == "plain":
            values = [self.value() for _ in range(step[1])]
            plain(partition, *values)
            now.visible.update(values)
            return
        producer = now.producers[step[1]]
        if step[0] == "put":
            values = [self.value() for _ in range(step[2])]
            put(partition, *values, producer_id=step[1], epoch=producer.epoch, sequence=producer.sequence)
            producer.sequence += len(values)
            producer.open += values
            return
        _, producer_id, committed, later = step
        ended = end(partition, committed, producer_id=producer_id, epoch=producer.epoch + later)
        assert ended == bool(producer.open)
        if ended:
            (now.visible if committed else now.aborted).update(producer.open)
            producer.open = []
            if later:
                producer.epoch, producer.sequence = producer.epoch + 1, 0

    async def turn(self, steps: list[tuple[Any, ...]], outcome: str) -> None:
        partition = partition_of(self.world)
        before = partition.next_offset
        for step in steps:
            self.change(partition, step)
        self.store.holding = True
        if partition.next_offset > before:
            self.flying.append(copy.deepcopy(self.now))
            await self.store.has(len(self.flying))
        if outcome == "held" and len(self.flying) < 4:
            return
        if outcome == "failed" and self.flying:
            self.store.fail(Refused("on purpose"))
            self.flying.clear()
            self.now = copy.deepcopy(self.stored)
        else:
            self.store.release()
            if self.flying:
                self.stored = self.flying[-1]
                self.flying.clear()
        self.store.holding = False
        if outcome == "restarted":
            await self.world.start(self.store)
            coordinated(self.world)

    async def check(self, size: int) -> None:
        partition = partition_of(self.world)
        high = partition.high_watermark
        found = partition.log.read(0, 1 << 20)
        assert isinstance(found, list)
        data = b"".join(found)
        stable, kept, opened = in_the_log(data, high)
        assert partition.last_stable_offset == stable
        assert opened == {each for each, its in self.stored.producers.items() if its.open}
        assert await given_to_a_reader(self.world, size) == (stable, kept)
        # what lies behind the last stable offset is seen by nobody yet
        seen = {value for _, value in kept}
        assert seen <= self.stored.visible
        assert not seen & self.stored.aborted
        if not opened:
            assert (seen, stable) == (self.stored.visible, high)


@settings(deadline=None)
@given(st.lists(turns, max_size=12), st.sampled_from([1, 150, 400, 1 << 20]))
def test_all_see_the_same(steps: list[tuple[list[tuple[Any, ...]], str]], size: int) -> None:
    async def test(world: World) -> None:
        store = HeldStore(memory.open())
        await world.start(store)
        coordinated(world)
        await world.topic()
        model = Model(world, store)
        for changes, outcome in steps:
            await model.turn(changes, outcome)
            await model.check(size)
        # all of them end
        await model.turn([("end", each, True, False) for each in PRODUCERS], "stored")
        await model.check(size)
        assert not any(each.open for each in model.stored.producers.values())

    run(test)
