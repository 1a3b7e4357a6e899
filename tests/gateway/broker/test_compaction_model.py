"""A compacted log under writes, transactions, passes, a subscription, time and restarts, held against lists.

The model has every record that was ever written, and which of them a pass may have taken away: those that a later
committed one of their key, in the part that it covered, has taken the place of; those that were aborted; tombstones
that a pass had covered for as long as `delete.retention.ms` says. All else is there, at its offset, as it was written.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.broker.compaction import State
from gateway.compaction import messages
from gateway.compaction.child import Pass
from gateway.compaction.messages import LENGTH, Emptied, Finished, Given, Need, Work, Written
from gateway.compaction.running import Receiver
from gateway.wire import records
from tests.examples import examples
from tests.gateway.broker.compacted import applied, compact, partition, start
from tests.gateway.broker.subscriptions.world import World
from tests.gateway.broker.transacted import coordinated, end

KEYS = (b"a", b"b", b"c", b"d")
PRODUCERS = (0, 1, 2)
"""0 has no transactions."""
RETENTION = 3_600_000

# -- a pass in a thread: what begins a process takes the most time of all ---------------------------------------------


async def in_a_thread(work: Work, receiver: Receiver) -> Finished:
    """As `running.run`."""
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[bytes] = asyncio.Queue()
    given: SimpleQueue[Any] = SimpleQueue()

    class Out:
        def write(self, data: bytes) -> None:
            loop.call_soon_threadsafe(told.put_nowait, data)

        def flush(self) -> None:
            pass

    def go() -> None:
        out: Any = Out()
        out.write(messages.framed(Pass(work, given, out).run()))

    thread = loop.run_in_executor(None, go)
    try:
        while True:
            match messages.from_child.decode((await told.get())[LENGTH.size :]):
                case Need(base):
                    place = await receiver.reserve(base)
                    given.put(Given(*place))
                case Written() as written if written.same:
                    receiver.unreserve(place)
                case Written() as written:
                    await receiver.swap(tuple(written.old), written.rewritten(place))
                case Emptied(old):
                    await receiver.swap(tuple(old), None)
                case Finished() as finished:
                    return finished
    finally:
        await thread


# -- what was written -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Record:
    """A record. `decided`: whether it was committed, None while its transaction is open."""

    key: bytes
    value: bytes | None
    decided: bool | None


@dataclass
class Model:
    written: dict[int, Record] = field(default_factory=dict)
    # producer -> offsets of its open transaction, and its next sequence number
    open: dict[int, list[int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    subscribed: bool = False
    acked: set[int] = field(default_factory=set)
    # (offset below which a pass covered all, when it was over)
    passes: list[tuple[int, int]] = field(default_factory=list)
    # what was there when it was looked at last
    there: list[int] = field(default_factory=list)

    def limit(self, end: int) -> int:
        """The first record that no pass may come to, were there no segments."""
        held = [offset for offset in self.there if offset not in self.acked] if self.subscribed else []
        return min([end, *held[:1], *(its[0] for its in self.open.values())])

    def last(self, below: int) -> dict[bytes, int]:
        """Key -> the offset of its last committed record."""
        return {each.key: at for at, each in sorted(self.written.items()) if each.decided and at < below}

    def old(self, now: int) -> int:
        """Tombstones below it may go."""
        return max([end for end, at in self.passes if now - at >= RETENTION], default=0)


class Machine:
    def __init__(self, world: World) -> None:
        self.world = world
        self.model = Model()
        self.number = 0

    async def begin(self) -> None:
        """Also after a restart."""
        coordinated(self.world)
        compacting: Any = self.world.broker.compaction._compacting
        compacting._run = in_a_thread

    # -- steps

    async def write(self, producer: int, keyed: list[tuple[bytes, bool]]) -> None:
        model = self.model
        contents = []
        for key, tombstone in keyed:
            self.number += 1
            contents.append((key, None if tombstone else b"%06d" % self.number + b"x" * 60))
        sequence = model.sequences.get(producer, 0)
        batch = records.build_batch(
            [
                records.Record(n, self.world.clock.wall_ms(), key, value, [])
                for n, (key, value) in enumerate(contents)
            ],
            producer_id=producer or -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence if producer else -1,
            transactional=bool(producer),
        )
        base = await self.world.append(batch)
        model.sequences[producer] = sequence + len(contents)
        for n, (key, value) in enumerate(contents):
            model.written[base + n] = Record(key, value, None if producer else True)
            model.there.append(base + n)
            if producer:
                model.open.setdefault(producer, []).append(base + n)

    async def end(self, producer: int, committed: bool) -> None:
        if (its := self.model.open.pop(producer, None)) is None:
            return
        assert end(partition(self.world), committed, producer_id=producer)
        await self.world.settled()
        for offset in its:
            self.model.written[offset].decided = committed

    async def take(self, count: int) -> None:
        """The subscription is made, or it acknowledges some."""
        model = self.model
        if not model.subscribed:
            await self.world.subscribe()
            model.subscribed = True
            return
        given = await self.world.fetch(self.world.at(), "c", count, strict=True)
        assert set(given) <= set(model.there)
        assert {at: model.written[at].value for at in given} == {
            at: value for at, (value, _) in given.items()
        }
        if given:
            assert not await self.world.ack(self.world.at(), *given)
            model.acked.update(given)

    async def restart(self) -> None:
        await self.world.broker.compaction.stop()
        await self.world.close()
        await start(self.world)
        await self.begin()

    async def compact(self, asked: bool) -> None:
        model, world = self.model, self.world
        high = partition(world).high_watermark
        now = world.clock.wall_ms()
        # one that was closed by a pass has no other behind it until something is written
        active = [each.base_offset for each in partition(world).log.segments() if each.active]
        limit = model.limit(high if asked or not active else active[0])
        before = list(model.there)
        if asked:
            status = await compact(world)
            assert status.state is State.SUCCESS, status
        else:
            await applied(world)
            assert world.broker.metrics.compactions.labels("error").value == 0
        there = await self.look()
        last, old = model.last(limit), model.old(now)
        gone = set(before) - set(there)
        assert set(there) <= set(before), "what is gone stays so"
        for offset in sorted(gone):
            it = model.written[offset]
            assert offset < limit, f"{offset} lies at or above {limit}"
            replaced = last.get(it.key, -1) > offset
            assert it.decided is not None
            may_go = it.value is None and offset < old
            assert not it.decided or replaced or may_go, f"{offset} is the last of its key"
        if asked and not model.subscribed:
            # all that may go but tombstones, which may stay longer
            left = [
                offset
                for offset in there
                if offset < limit and offset != last.get(model.written[offset].key) and limit > 0
            ]
            assert not left, f"{left} are not the last of their keys"
        if limit:
            model.passes.append((limit, now))

    # -- what there is

    async def look(self) -> list[int]:
        """All that is there is what was written, in its order; and all that was there, unless a pass was at work."""
        found = [each for each in await self.world.read("t") if each.offset in self.model.written]
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))
        for each in found:
            it = self.model.written[each.offset]
            assert (each.key, each.value) == (it.key, it.value)
        self.model.there = offsets
        return offsets

    async def unchanged(self) -> None:
        before = list(self.model.there)
        assert await self.look() == before


# -- steps ------------------------------------------------------------------------------------------------------------

contents = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([False, False, True])), min_size=1, max_size=4
)
writes = st.tuples(st.just("write"), st.sampled_from([0, 0, 1, 2]), contents)
steps = st.lists(
    st.one_of(
        writes,
        writes,
        writes,
        st.tuples(st.just("end"), st.sampled_from([1, 2]), st.booleans()),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("pass_time"), st.sampled_from([1_000, RETENTION // 2, RETENTION])),
        st.tuples(st.just("take"), st.sampled_from([3, 10])),
        st.tuples(st.just("restart")),
    ),
    min_size=10,
    max_size=40,
)


async def play(folder: Path, chosen: list[tuple[Any, ...]]) -> None:
    world = World(folder)
    await start(world)
    try:
        machine = Machine(world)
        await machine.begin()
        await world.topic(
            "t",
            1,
            cleanup__policy="compact",
            internal__segment__bytes="700",
            min__cleanable__dirty__ratio="0",
            delete__retention__ms=str(RETENTION),
        )
        for name, *given in [*chosen, ("end", 1, True), ("end", 2, False), ("compact", True), ("restart",)]:
            doing = getattr(machine if name != "pass_time" else world, name)
            await doing(*given)
            if name != "compact":
                await machine.unchanged()
    finally:
        await world.broker.compaction.stop()
        await world.close()


ONE = ("write", 0, [(b"a", False)])
TWO = ("write", 2, [(b"a", False), (b"a", False)])
ABORTED_IN_HALF: list[tuple[Any, ...]] = [*[ONE] * 6, TWO, ("compact", False), ("take", 3), ("take", 3)]
"""A subscription stands in the middle of a batch whose transaction is aborted in the end."""


@settings(deadline=None, max_examples=examples(10))
@given(steps)
@example(ABORTED_IN_HALF)
def test_what_a_pass_leaves(chosen: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(play(Path(folder) / "data", chosen))
