"""A queue topic through everything at once: consumers that commit, nack, leave and are lost, disks that fail, restarts.

What is drawn is checked against what Pulsar and Kafka promise: no record is lost, none that was acknowledged comes
again, none is on two lanes at once, and of Key_Shared the records of a key come in the order of their log.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from gateway.broker.errors import KafkaError
from semantics.patterns import Pattern
from store import memory
from tests.gateway.broker.queues.reading import Client, FailingStore, queue_of, queued
from tests.gateway.broker.subscriptions.world import World, run

LANES, MOST_LANES, KEYS = 3, 6, 7

Step = Callable[[], Awaitable[None]]


class Run:
    """One history, and what a consumer knows of it."""

    name = "t-g-QUEUE"

    def __init__(self, world: World, seed: int, kind: str, store: FailingStore) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.kind = kind
        self.store = store
        self.produced = 0
        self.clients: list[Client] = []
        # by lane: offset -> number, of what was read since the lane was last loaded by its consumer
        self.read: list[dict[int, int]] = [{} for _ in range(MOST_LANES)]
        self.acknowledged: set[int] = set()
        self.seen: set[int] = set()
        # of each record its key, and of each key the newest that came
        self.keys: list[int] = []
        self.newest: dict[int, int] = {}
        # a key is in one partition, as producers do it
        self.where = {key: ("t", key % 2) for key in range(KEYS)}

    async def begin(self) -> None:
        await queued(self.world, LANES, kind=self.kind, limit=0, partitions=2, pulsar__nack__delay__ms="0")
        self.come()

    def rare(self) -> list[Step]:
        return [
            self.crash,
            self.leave,
            self.restart,
            self.fail,
            self.again,
            self.grow,
            self.more_lanes,
        ]

    def come(self) -> None:
        """Each lane's consumer begins where the group goes on."""
        for client in self.clients:
            client.leave()
        lanes = range(len(queue_of(self.world, self.name).at))
        self.clients = [Client(self.world, index, name=self.name) for index in lanes]
        queue_of(self.world, self.name).assigned({f"m{index}": [index] for index in lanes})

    async def produce(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            count = self.random.randint(1, 20)
            values = range(self.produced, self.produced + count)
            self.produced += count
            key = self.random.choice(list(self.where))
            topic, index = self.where[key]
            await self.world.produce(
                *[b"%d" % n for n in values], key=[b"%d" % key] * count, topic=topic, index=index
            )
            self.keys += [key] * count

    async def poll(self) -> None:
        client = self.random.choice(self.clients)
        found = await client.poll(self.random.choice([100, 1_000, 1 << 20]))
        for at, value in found.items():
            number = int(value or b"-1")
            known = self.read[client.index].get(at)
            assert known in (None, number), f"offset {at} was {known} and is {number}"
            lane = queue_of(self.world, self.name).at[client.index].lane
            if list(lane.open_ranges(at, at + 1)):
                assert number not in self.acknowledged, f"{number} was acknowledged"
            self.first(number)
            self.read[client.index][at] = number

    def first(self, number: int) -> None:
        """It was sent. What is sent for the first time comes behind all of its key that came before."""
        key = self.keys[number]
        if self.kind == "key_shared" and number not in self.seen:
            assert number > self.newest.get(key, -1), f"{number} came behind {self.newest[key]} of key {key}"
            self.newest[key] = number
        self.seen.add(number)

    async def commit(self) -> None:
        client = self.random.choice(self.clients)
        lane = queue_of(self.world, self.name).at[client.index].lane
        offset = self.random.randint(min(lane.open, client.position), client.position)
        open_ones = [
            at
            for begin, end in lane.open_ranges(lane.open, offset)
            for at in range(begin, end)
            if at in self.read[client.index]
        ]
        named = sorted(self.random.sample(open_ones, min(len(open_ones), self.random.choice([0, 0, 1, 3]))))
        metadata = "ack1;n:0=" + ",".join(map(str, named)) if named else ""
        those = [self.read[client.index][at] for at in open_ones if at not in named]
        outcome = await client.commit(metadata, offset)
        if outcome is None:
            assert not self.acknowledged & set(those), "acknowledged twice"
            self.acknowledged |= set(those)

    async def crash(self) -> None:
        index = self.random.randrange(len(self.clients))
        queue_of(self.world, self.name).crashed(f"m{index}")
        await self.world.settled()
        self.come()

    async def leave(self) -> None:
        index = self.random.randrange(len(self.clients))
        queue_of(self.world, self.name).left(f"m{index}")
        await self.world.settled()
        self.come()

    async def restart(self) -> None:
        await self.world.settled()
        await self.world.crash()
        await self.world.settled()
        self.come()

    async def fail(self) -> None:
        """The disk refuses what the next steps would store."""
        self.store.failing = True
        for step in self.random.choices([self.poll, self.commit], k=3):
            with contextlib.suppress(KafkaError):
                await step()
            await self.world.settled()
        self.store.failing = False
        await self.world.settled()
        self.come()

    async def again(self) -> None:
        """The queue is read again, while something may be on its way."""
        queue_of(self.world, self.name).throw_away("for a test")
        await self.world.settled()
        self.come()

    async def grow(self) -> None:
        topic = self.world.broker.topics.get("t")
        if len(topic.partitions) < 4:
            await self.world.broker.topics.grow("t", len(topic.partitions) + 1)

    async def more_lanes(self) -> None:
        lanes = len(queue_of(self.world, self.name).at)
        if lanes < MOST_LANES:
            await self.world.broker.topics.grow(self.name, lanes + 1)
            await self.world.settled()
            self.come()

    def check(self) -> None:
        """No record is open on two lanes, and none that was acknowledged is open."""
        try:
            queue = queue_of(self.world, self.name)
        except KafkaError:
            return
        held: dict[tuple[int, int], int] = {}
        for at in queue.at:
            lane = at.lane
            for begin, end in lane.open_ranges(lane.open, lane.end):
                for piece in lane.pieces(begin, end):
                    for offset in piece.run.offsets(piece.begin, piece.end):
                        place = piece.run.source, offset
                        assert place not in held, f"{place} is on lanes {held[place]} and {at.index}"
                        held[place] = at.index
        for source in queue.sources.values():
            cursor = source.at.ready()
            holding = {offset for number, offset in held if number == source.id}
            assert cursor.acquired == len(holding), "a lane holds what its rows say, and all of it"

    async def end(self) -> None:
        """All that is left is read and acknowledged."""
        idle = 0
        while idle < 3:
            before = len(self.acknowledged)
            for client in self.clients:
                while True:
                    await self.world.pass_time(100)
                    found = await client.poll()
                    if not found:
                        break
                    for at, value in found.items():
                        number = self.read[client.index][at] = int(value or b"-1")
                        self.first(number)
                lane = queue_of(self.world, self.name).at[client.index].lane
                those = {
                    self.read[client.index][at]
                    for begin, end in lane.open_ranges(lane.open, client.position)
                    for at in range(begin, end)
                }
                await client.commit()
                assert not self.acknowledged & those
                self.acknowledged |= those
            self.check()
            idle = idle + 1 if len(self.acknowledged) == before else 0
        assert self.acknowledged == set(range(self.produced))
        for source in queue_of(self.world, self.name).sources.values():
            assert source.at.ready().start == source.at.partition.high_watermark


class OverPattern(Run):
    """The same over topics that come and go."""

    name = "g-QUEUE"

    async def begin(self) -> None:
        await self.world.topic("t0")
        self.where = dict.fromkeys(range(3), ("t0", 0))
        configs = {"pulsar.subscription.type": self.kind, "pulsar.nack.delay.ms": "0"}
        configs["pulsar.max.redeliver.count"] = "-1"
        await self.world.broker.queues.make_over("g", Pattern("t."), LANES, configs, "earliest")
        for _ in range(3):
            await self.world.settled()
        await self.another()
        self.come()

    def rare(self) -> list[Step]:
        return [*super().rare(), self.another, self.another, self.remove]

    async def another(self) -> None:
        """A topic comes, with keys of its own."""
        number = sum(1 for _ in self.world.broker.catalog.topics("t"))
        name = next(name for name in map("t{}".format, range(9)) if not self.world.broker.catalog.get(name))
        if number < 5:
            await self.world.topic(name)
            first = max([*self.where, *self.keys]) + 1
            self.where.update(dict.fromkeys(range(first, first + 3), (name, 0)))

    async def remove(self) -> None:
        """A topic goes, with all that it has."""
        names = {topic for topic, _ in self.where.values()}
        if len(names) < 2:
            return
        name = self.random.choice(sorted(names))
        await self.world.broker.topics.delete(name)
        gone = {key for key, (topic, _) in self.where.items() if topic == name}
        self.acknowledged |= {number for number, key in enumerate(self.keys) if key in gone}
        for key in gone:
            del self.where[key]
        await self.world.settled()
        self.come()

    async def grow(self) -> None:
        topic = self.world.broker.topics.get(self.random.choice([name for name, _ in self.where.values()]))
        if len(topic.partitions) < 3:
            await self.world.broker.topics.grow(topic.name, len(topic.partitions) + 1)
            self.where[max([*self.where, *self.keys]) + 1] = topic.name, len(topic.partitions)


@pytest.mark.parametrize("what", [Run, OverPattern])
@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_doubled_or_acknowledged_for_nothing(seed: int, kind: str, what: type[Run]) -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        history = what(world, seed, kind, store)
        await history.begin()
        steps = [history.produce, history.poll, history.commit]
        rare = history.rare()
        for _ in range(150):
            step = (
                history.random.choice(rare)
                if history.random.random() < 0.12
                else history.random.choice(steps)
            )
            await step()
            await world.settled()
            history.check()
        await history.end()

    run(test)
