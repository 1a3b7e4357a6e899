"""A gateway that serves a queue topic, and consumers of it, under virtual time.

The broker is the real one, on a memory store: cursors, lanes, the group's coordinator, turns and commits. Nothing
waits for a clock or a socket; all choices come from a seed. What falls into one turn of the loop is one commit, and a
turn may end otherwise: the commit takes longer, it fails, nobody knows whether it happened, or the gateway dies with or
without it.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

from gateway.broker.errors import KafkaError
from gateway.broker.queues.queue import Queue
from gateway.promise import Promise
from gateway.wire import records
from gateway.wire.batch import admit
from gateway.wire.errors import Error
from store import memory
from store.api import Family, StoreError
from tests.gateway.broker.subscriptions.world import Clock, World
from tests.proofs.simulate.lanes.disk import Disk
from tests.proofs.simulate.lanes.member import HEARTBEAT_MS, SESSION_MS, TOPIC, Member
from tests.proofs.simulate.lanes.new_member import NewMember
from tests.proofs.simulate.lanes.oracle import Oracle, Said
from tests.proofs.simulate.lanes.producer import Producer
from tests.proofs.simulate.lanes.scenarios import LaneScenario
from tests.proofs.simulate.lanes.told import Told, refused
from tests.proofs.simulate.ledger import Broken

_STATE = struct.Struct(">BQQQ")
_BEGAN = Clock().now
NOTHING_TAKEN = frozenset(
    {
        Error.UNKNOWN_MEMBER_ID,
        Error.ILLEGAL_GENERATION,
        Error.STALE_MEMBER_EPOCH,
        Error.FENCED_INSTANCE_ID,
        Error.REBALANCE_IN_PROGRESS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.GROUP_ID_NOT_FOUND,
    }
)
"""Errors of an OffsetCommit behind which nothing has happened."""
_AS_CLASSIC = (
    f"group.consumer.min.session.timeout.ms={SESSION_MS}",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    f"group.consumer.min.heartbeat.interval.ms={HEARTBEAT_MS}",
    f"group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}",
)
"""Members of the new protocol are missed as soon as others."""
IDLE_MS = 120_000
"""How long nothing may end while all consumers work: longer than any session, rebalance and nack."""


class LanesWorld:
    """Runs one scenario to its end. Raises Broken."""

    def __init__(self, scenario: LaneScenario, seed: int) -> None:
        self.scenario = scenario
        self.random = random.Random(f"{scenario.name}-{seed}")
        self.oracle = Oracle(scenario.limit, scenario.lanes, keyed=scenario.kind == "key_shared")
        self.inner = World(None, *_AS_CLASSIC)
        self.store = memory.open(clock=self.inner.clock.wall_ms)
        self.disk: Disk
        self.members: list[Member] = []
        self.ending = False
        """nobody dies, nacks or stalls any more"""
        self.steps = self.joined = 0
        self._ids = self._numbered = 0
        self._later: list[tuple[int, int, Callable[[], Any]]] = []
        # asked and not answered: what is called with the answer, and what when it never comes
        self._open: dict[int, Callable[[], None]] = {}
        # answers on their way back
        self._answers: list[tuple[int, Callable[[Any], None], Any]] = []
        self._tasks: set[asyncio.Future[Any]] = set()
        self._problem: BaseException | None = None
        self._published = False

    @property
    def broker(self) -> Any:
        return self.inner.broker

    @property
    def now(self) -> int:
        """Monotonic ms; it goes on when the gateway begins anew."""
        return self.inner.clock.now

    @property
    def seconds(self) -> int:
        """How much of its time has passed."""
        return (self.now - _BEGAN) // 1000

    def new_id(self, member: Member) -> str:
        self._ids += 1
        return f"{member.name}-{self._ids}"

    # -- answers -----------------------------------------------------------------------------------------------------

    def when(
        self,
        pending: Any,
        then: Callable[[Any], None],
        never: Callable[[], None] = lambda: None,
        *,
        at_once: bool = False,
    ) -> None:
        """Have `then` called with what comes of it, or `never` when the gateway dies first. `at_once`: not when the
        client hears of it, but when the gateway sends it.
        """
        self._numbered += 1
        number, life = self._numbered, self.disk

        def came(value: Any) -> None:
            if self.disk is not life:
                return
            if isinstance(value, Awaitable):
                task = asyncio.ensure_future(wait(value))
                self._tasks.add(task)
                task.add_done_callback(partial(done, value))
                return
            self._answers.append((number, then, value))
            if at_once:
                try:
                    self._hear(number)
                except Broken as broken:
                    self._problem = self._problem or broken

        async def wait(value: Awaitable[Any]) -> None:
            # in the very step in which the gateway has it
            came(await value)

        def done(value: Any, task: asyncio.Future[Any]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                # it may not have begun
                if hasattr(value, "close"):
                    value.close()
                return
            error = task.exception()
            if error is None:
                return
            # the lane was read again, or its topic: the client asks again
            if self.disk is life and self._open.pop(number, None) is not None:
                never()
            if not isinstance(error, KafkaError | StoreError | IndexError):
                self._problem = self._problem or error

        self._open[number] = never
        if isinstance(pending, Promise):
            pending.then(came)
        else:
            came(pending)

    def _hear(self, only: int | None = None) -> None:
        """Clients are given their answers."""
        heard = [each for each in self._answers if only in (None, each[0])]
        self._answers = [each for each in self._answers if each not in heard]
        for number, then, value in heard:
            if self._open.pop(number, None) is not None:
                then(value)

    def later(self, do: Callable[[], Any], ms: int = 50) -> None:
        self._numbered += 1
        heappush(self._later, (self.now + ms, self._numbered, do))

    # -- what the oracle is told -------------------------------------------------------------------------------------

    def _queue(self) -> Queue | None:
        """The queue as it is in memory."""
        topic = self.broker.catalog.get(TOPIC)
        found: Queue | None = self.broker.queues._live.get(topic.topic_id)
        return found if found is not None and not found.gone else None

    def moved(self, lanes: Mapping[int, str | None], *, whole: bool) -> None:
        before: list[str | None] = [None] * self.scenario.lanes if whole else self.oracle.owners
        self.oracle.assigned([lanes.get(lane, owner) for lane, owner in enumerate(before)])

    def owners_changed(self) -> None:
        owners: list[str | None] = [None] * self.scenario.lanes
        topic = self.broker.catalog.get(TOPIC)
        for member, lanes in self.broker.lane_members.owners("g", topic).items():
            for lane in lanes:
                owners[lane] = member
        self.oracle.assigned(owners)

    def member_gone(self, member: str, *, crashed: bool) -> None:
        queue = self._queue()
        ends = [at.lane.end for at in queue.at] if queue is not None else []
        self.oracle.gone(member, ends, crashed=crashed and queue is not None)

    def stored_end(self, lane: int) -> int:
        """Where a lane ends in the store."""
        number = self.broker.catalog.get(TOPIC).partitions[lane]
        row = self.store.get(Family.LANE, number.to_bytes(4, "big") + b"s")
        return int(_STATE.unpack_from(row)[3]) if row is not None else 0

    def says(
        self,
        lane: int,
        offset: int,
        names: dict[int, str],
        member: str,
        generation: int,
        *,
        stranger: bool = False,
    ) -> Said:
        """What a commit says of the records that are open there and known to somebody. `stranger`: who is no member."""
        try:
            queue = self.broker.queues.of(self.broker.catalog.get(TOPIC))
        except KafkaError:
            return self.oracle.says(lane, 0, [], [], [])
        if not stranger and refused(self, lane, member, generation):
            return self.oracle.says(lane, 0, [], [], [])
        at = queue.at[lane].lane
        known = self.oracle.at[lane]
        acked: list[int] = []
        nacked: list[int] = []
        dead: list[int] = []
        places: list[int] = []
        for begin, end in at.open_ranges(at.open, at.end):
            for place in range(begin, end):
                verb = names.get(place, "" if place < offset else None)
                if verb is None or place not in known:
                    continue
                {"n": nacked, "d": dead}.get(verb[:1], acked).append(known[place])
                places.append(place)
        return self.oracle.says(lane, at.end, acked, nacked, dead, places)

    def answered(self, lane: int, said: Said, error: int) -> None:
        if error == Error.INVALID_REQUEST:
            raise Broken(f"a commit of lane {lane} was refused as wrong")
        if error in NOTHING_TAKEN or error == Error.NONE:
            self.oracle.answered(lane, said, taken=error == Error.NONE, nothing=error != Error.NONE)
        else:
            self.oracle.unanswered(said)

    # -- life --------------------------------------------------------------------------------------------------------

    async def run(self, limit: int = 200_000) -> None:
        """Until every record has ended. Raises Broken, also when that does not come within so many turns."""
        try:
            await self._begin()
            await self._live(limit)
        except Broken as broken:
            raise Broken(f"{self.scenario.name} at {self.now} ms, turn {self.steps}: {broken}") from broken
        finally:
            for task in self._tasks:
                task.cancel()

    async def _begin(self) -> None:
        scenario = self.scenario
        await self._start()
        await self.inner.topic(partitions=scenario.partitions)
        await self.inner.configure("g", share__auto__offset__reset="earliest")
        configs = {
            "pulsar.subscription.type": scenario.kind,
            "pulsar.max.redeliver.count": str(scenario.limit - 1),
            "pulsar.nack.delay.ms": str(scenario.nack_ms),
        }
        await self.broker.queues.make("t", "g", scenario.lanes, configs)
        for _ in range(3):
            await self.inner.settled()
        for _ in range(scenario.members):
            self._join()

    async def _start(self) -> None:
        self.disk = Disk(self.store)
        self.disk.cold = self._cold
        await self.inner.start(self.disk)
        told = Told(self, self.broker.queues)
        self.broker.groups._following = self.broker.consumer_groups._following = told

    def _cold(self) -> int:
        return self.random.randint(1, 12) if self.random.random() < self.scenario.cold else 0

    def _join(self) -> None:
        pick, scenario = self.random, self.scenario
        self.joined += 1
        name = f"c{self.joined}"
        instance = f"i{self.joined}" if pick.random() < scenario.static else None
        kind = NewMember if scenario.new and pick.random() < scenario.new else Member
        member = kind(self, name, pick.choice(scenario.commit_ms), instance, pick.choice(scenario.most_bytes))
        if scenario.transacts and pick.random() < scenario.transacts:
            member.producer = Producer(member)
        self.members.append(member)

    async def _live(self, limit: int) -> None:
        scenario, pick = self.scenario, self.random
        ended, before = self.now, -1
        left = scenario.messages
        while True:
            self.steps += 1
            self._published = False
            self._hear()
            for _ in range(pick.randint(1, 4)):
                if left and pick.random() < scenario.publish:
                    left -= self._publish(min(left, pick.randint(1, 30)))
                self._act()
            while self._later and self._later[0][0] <= self.now:
                heappop(self._later)[2]()
            await self._end_turn()
            if self._problem is not None:
                raise self._problem
            await self._pass(pick.choice([0, 0, 5, 20, 100, 300]))
            if scenario.transacts and self.steps % 20 == 0:
                self.when(self.broker.transactions.time_out(), lambda nothing: None)
            if not left and not self.ending:
                self.ending = True
                for member in self.members:
                    member.stuck = False
            if self.ending and self.steps % 50 == 0:
                now_left = len(self.oracle.left())
                if now_left != before:
                    before, ended = now_left, self.now
                if await self._all_ended():
                    return
                if self.now - ended > IDLE_MS or self.steps > limit:
                    raise Broken(await self._stuck())

    def _act(self) -> None:
        scenario, pick = self.scenario, self.random
        member = pick.choice(self.members)
        luck = pick.random()
        if not self.ending:
            if luck < scenario.leaves:
                member.leave()
                return
            if luck < scenario.leaves + scenario.dies:
                member.die()
                return
            if luck < scenario.leaves + scenario.dies + 0.01:
                member.stuck = pick.random() < scenario.stalls
        if pick.random() < scenario.asked:
            self._ask_for_end()
        for each in self.members if pick.random() < 0.3 else (member,):
            each.step()

    def _ask_for_end(self) -> None:
        """Somebody asks where a lane ends, as Spark and tools do: it is given what there is."""
        try:
            runtime = self.broker.in_use.topic(TOPIC.encode())
            waits = self.broker.queues.ahead(runtime, self.random.randrange(self.scenario.lanes))
        except KafkaError:
            return
        if waits is not None:
            self.when(waits, lambda nothing: None)

    def kills(self, number: int) -> bool:
        """Whether a record kills who works on it."""
        return number in self.scenario.poison

    def _publish(self, count: int) -> int:
        """Of one key one batch each, as it comes: a key is in one partition."""
        pick, scenario = self.random, self.scenario
        self._published = True
        index = pick.randrange(scenario.partitions)
        keys = sorted(
            pick.randrange(scenario.keys // scenario.partitions + 1) * scenario.partitions + index
            for _ in range(count)
        )
        if pick.random() < 0.5:
            pick.shuffle(keys)
        numbers = [self.oracle.published(key) for key in keys]
        made = [
            records.Record(at, self.inner.clock.wall_ms(), b"%d" % key, b"%d" % number, [])
            for at, (key, number) in enumerate(zip(keys, numbers, strict=True))
        ]
        batch = records.build_batch(made)
        topic = self.broker.catalog.get("t")
        try:
            partition = self.broker.partition(topic, index)
        except KafkaError:
            self.oracle.lost(numbers)
            return count
        partition.append(batch, admit(batch), self.inner.clock.wall_ms())
        return count

    # -- turns -------------------------------------------------------------------------------------------------------

    async def _end_turn(self) -> None:
        scenario, pick, disk = self.scenario, self.random, self.disk
        # at the end nothing breaks: what was left behind does not come back by being read again
        luck = pick.random() if not self.ending else 1.0
        if self._published:
            # what is published is acknowledged here, and so it is stored
            disk.land()
            await self._settle()
        elif luck < scenario.kills:
            await self._kill()
        elif luck < scenario.kills + scenario.fails:
            disk.slow = True
            await self._loop(pick.randint(2, 6))
            disk.fail(happens=pick.random() < 0.5)
            await self._settle()
        elif luck < scenario.kills + scenario.fails + scenario.slow:
            disk.slow = True
            await self._loop(pick.randint(1, 6))
            if pick.random() < 0.7:
                disk.land()
                await self._settle()
        elif luck < scenario.kills + scenario.fails + scenario.slow + scenario.changes:
            disk.land()
            await self._settle()
            await self._change()
        else:
            disk.land()
            await (self._settle() if pick.random() < 0.7 else self._loop(pick.randint(1, 3)))

    async def _loop(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(0)

    async def _settle(self) -> None:
        for _ in range(2):
            await self.inner.settled()
            await self._loop(2)
        self._lanes_follow()

    def _lanes_follow(self) -> None:
        """Lanes are whose the group says, when all of that is stored; a classic group has moments without an answer."""
        groups, queue = self.broker.consumer_groups, self._queue()
        if queue is None or groups.look("g") is None or groups.busy("g"):
            return
        its = self.broker.lane_members.owners("g", self.broker.catalog.get(TOPIC))
        owners = {lane: member for member, lanes in its.items() for lane in lanes}
        found = {lane: owner for lane, owner in enumerate(queue.lanes.owners) if owner is not None}
        if found != owners:
            raise Broken(f"lanes are {found}'s, and the group says {owners}")

    async def _kill(self) -> None:
        """The gateway dies: with what it had sent to the disk or without, and in the turn."""
        pick = self.random
        self.disk.slow = True
        await self._loop(pick.randint(0, 4))
        self.disk.die(stored=pick.random() < 0.5)
        self.broker.subscriptions.timers.close()
        unanswered, self._open, self._answers = list(self._open.values()), {}, []
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        for never in unanswered:
            never()
        await self._start()
        for member in self.members:
            member.cut()
        self.oracle.counts["killed"] += 1
        self.owners_changed()

    async def _change(self) -> None:
        """A topic grows, or the queue is read again for whatever reason."""
        topic = self.broker.catalog.get("t")
        pick = self.random
        if pick.random() < 0.3 and len(topic.partitions) < self.scenario.partitions + 3:
            await self.broker.topics.grow("t", len(topic.partitions) + 1)
        elif (queue := self._queue()) is not None:
            if pick.random() < 0.5:
                queue.throw_away("for a test")
            else:
                source = pick.choice(list(queue.sources.values()))
                if not source.at.unsaved:
                    source.at.discard()
        self.oracle.counts["read again"] += 1

    async def _pass(self, ms: int) -> None:
        if self.disk.slow:
            return
        await self.inner.pass_time(ms)
        await self._loop(2)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _letters(self) -> list[int]:
        found: list[int] = []
        topic = self.broker.catalog.get("t-g-DLQ")
        if topic is not None:
            for index in range(len(topic.partitions)):
                found += [int(each.value or b"-1") for each in await self.inner.read("t-g-DLQ", index)]
        return found

    async def _all_ended(self) -> bool:
        self.disk.land()
        await self._settle()
        self.oracle.letters(await self._letters())
        if self.oracle.left():
            return False
        topic = self.broker.catalog.get("t")
        for index in range(len(topic.partitions)):
            source = self.inner.at(index=index)
            if source.ready().start < source.partition.high_watermark:
                return False
        return True

    async def _stuck(self) -> str:
        left = self.oracle.left()
        queue = self._queue()
        lanes = (
            [
                (at.index, at.lane.open, at.lane.end, at.lane.opened, queue.lanes.owners[at.index])
                for at in queue.at
            ]
            if queue is not None
            else []
        )
        topic = self.broker.catalog.get("t")
        cursors = [self.inner.at(index=index).ready().stats() for index in range(len(topic.partitions))]
        return f"{len(left)} never end, as {left[:5]}; lanes {lanes}; cursors {cursors}"


def run(world: LanesWorld, limit: int = 200_000) -> None:
    """In a loop of its own. Raises Broken."""
    asyncio.run(world.run(limit))
