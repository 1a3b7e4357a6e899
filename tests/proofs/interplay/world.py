"""Publishers, consumers and administrators of one topic, on a whole broker whose clock and timers are held."""

from __future__ import annotations

import random
from functools import partial

import msgspec

from gateway.broker.errors import KafkaError
from gateway.broker.quota_gate import Unmeasured
from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.wire import records
from gateway.wire.batch import admit
from semantics.names import DEFAULT
from tests.gateway.broker.subscriptions.world import ACCEPT, RELEASE, Headers, World
from tests.proofs.interplay.oracle import Oracle, Rules
from tests.proofs.simulate.ledger import Broken

NACK_MS = 7_000
CONSUMERS = ("a", "b")
KEYS = 4
ACTIONS = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")

TTLS = (None, None, 0, 20_000, 90_000)
KEPT_MS = (None, None, 0, -1, 30_000)
KEPT_BYTES = (None, -1, 0, 1_500)
QUOTA_BYTES = (None, None, -1, 900, 2_500)
QUOTA_MS = (None, None, -1, 40_000)
"""What levels say; None: nothing."""

Said = dict[str, str]


def _rules(said: Said) -> Rules:
    def number(name: str, default: int) -> int:
        return int(said.get(name, default))

    return Rules(
        number("pulsar.message.ttl.ms", 0),
        # Kafka's default of the broker, which goes for what is settled only
        number("pulsar.retention.ms", 7 * 86_400_000),
        number("pulsar.retention.bytes", -1),
        number("pulsar.backlog.quota.bytes", -1),
        number("pulsar.backlog.quota.ms", -1),
        said.get("pulsar.backlog.quota.bytes.policy", ACTIONS[0]),
        said.get("pulsar.ttl.from") == "publish",
    )


class Interplay:
    """One life of one topic. Everything follows from the seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self._random = random.Random(seed)
        self._steps = steps
        self._kinds = {"one": self._random.choice(["shared", "key_shared"]), "two": "shared"}
        self.world = World()
        self.oracle = Oracle(self._kinds)
        self._topic: Said = {}
        self._namespace: Said = {}
        self.counts = {"published": 0, "refused": 0, "expired": 0, "deleted": 0, "crashes": 0}

    async def run(self) -> None:
        """Raises Broken."""
        world, dice = self.world, self._random
        await world.start()
        await world.topic("t", 1, internal__segment__bytes="400")
        for name, kind in self._kinds.items():
            await world.configure(
                name,
                pulsar__subscription__type=kind,
                pulsar__nack__delay__ms=str(NACK_MS),
                pulsar__ack__timeout__ms="0",
                pulsar__max__redeliver__count="-1",
                pulsar__key__shared__strict="false",
            )
            await world.subscribe(name)
        await self._change()
        plays = (
            [self._publish] * 8
            + [self._consume] * 8
            + [self._wait] * 4
            + [self._age] * 3
            + [self._retain] * 3
            + [self._change] * 2
            + [self._crash]
        )
        for _ in range(self._steps):
            await dice.choice(plays)()
            await self._compare()
        await self._end()
        await world.close()

    # -- what people do ---------------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        dice, world = self._random, self.world
        for _ in range(dice.randint(1, 4)):
            now = world.clock.wall_ms()
            delay = dice.choice([0, 0, 0, 5_000, 50_000])
            headers: Headers = [("pulsar-deliver-after", b"%d" % delay)] if delay else []
            key = b"%d" % dice.randrange(KEYS)
            data = records.build_batch(
                [records.Record(0, now, key, bytes(dice.randint(0, 200)), headers)], codec=0
            )
            found = world.broker.topics.get("t")
            while True:
                partition = world.broker.partition(found, 0)
                try:
                    partition.append(data, admit(data), now)
                except Unmeasured as unmeasured:
                    await unmeasured.wait()
                    continue
                except KafkaError:
                    self.counts["refused"] += 1
                    self.oracle.refused(now)
                    # what keeps publishers out counts for some milliseconds
                    await world.pass_time(25)
                else:
                    await self._compare(published=(now, now + delay, len(data)))
                    self.counts["published"] += 1
                break
        await self._quiet()

    async def _consume(self) -> None:
        dice, world = self._random, self.world
        name, consumer = dice.choice(list(self._kinds)), dice.choice(CONSUMERS)
        at = self._at(name)
        at.attach(consumer)
        await world.settled()
        found = await world.fetch(at, consumer, dice.randint(1, 6), strict=True)
        self.oracle.fetched(name, consumer, found, world.clock.wall_ms())
        its = self.oracle.of[name].hands
        held = [offset for offset, who in its.items() if who == consumer]
        some = sorted(dice.sample(held, dice.randint(0, len(held))))
        if dice.random() < 0.3:
            if some and await world.ack(at, *some, consumer=consumer, kind=RELEASE):
                raise Broken(f"{name} could not nack {some}")
            self.oracle.nacked(name, some, world.clock.wall_ms() + NACK_MS)
        else:
            if some and await world.ack(at, *some, consumer=consumer, kind=ACCEPT):
                raise Broken(f"{name} could not acknowledge {some}")
            self.oracle.acked(name, some)

    async def _wait(self) -> None:
        await self.world.pass_time(self._random.choice([10, 900, 8_000, 31_000]))

    async def _age(self) -> None:
        await self.world.broker.message_ttl_job.apply()
        self.oracle.aged(self.world.clock.wall_ms())

    async def _retain(self) -> None:
        world, oracle = self.world, self.oracle
        await world.broker.retention.apply()
        log = world.broker.log_of(world.broker.topics.get("t"), 0)
        oracle.retained(
            [(each.base_offset, each.next_offset) for each in log.segments() if not each.active],
            world.clock.wall_ms(),
        )

    async def _crash(self) -> None:
        if self._random.random() < 0.3:
            self.counts["crashes"] += 1
            await self.world.crash()
            self.oracle.restarted()

    async def _change(self) -> None:
        dice, broker = self._random, self.world.broker
        said = self._drawn()
        before = self.oracle.rules
        # what the topic itself says, or what a topic of the namespace has that says nothing
        if its_own := dice.random() < 0.5:
            if dice.random() < 0.3:
                said["pulsar.ttl.from"] = "publish"
            self._topic = said
            fixed = {"internal.segment.bytes": "400"}
            await broker.topics.configure("t", lambda old: {**fixed, **said})
        else:
            before, self._namespace = _rules(self._namespace), said
            await broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=dict(said)))
        self.oracle.rules = self._resolved()
        after = self.oracle.rules if its_own else _rules(said)
        if after.shortens(before):
            self.oracle.aged(self.world.clock.wall_ms())
        await self._quiet()

    def _drawn(self) -> Said:
        dice = self._random
        action = dice.choice(ACTIONS)
        drawn = {
            "pulsar.message.ttl.ms": dice.choice(TTLS),
            "pulsar.retention.ms": dice.choice(KEPT_MS),
            "pulsar.retention.bytes": dice.choice(KEPT_BYTES),
            "pulsar.backlog.quota.bytes": dice.choice(QUOTA_BYTES),
            "pulsar.backlog.quota.ms": dice.choice(QUOTA_MS),
        }
        said = {name: str(value) for name, value in drawn.items() if value is not None}
        return said | {"pulsar.backlog.quota.bytes.policy": action, "pulsar.backlog.quota.ms.policy": action}

    def _resolved(self) -> Rules:
        return _rules({**self._namespace, **self._topic})

    # -- compared ---------------------------------------------------------------------------------------------------

    def _at(self, name: str) -> SubscriptionPartition:
        return self.world.at(name)

    async def _quiet(self) -> None:
        """Until nothing is under way."""
        world = self.world
        await world.settled()
        while world.broker.backlog_quotas.evicting or world.broker.message_ttl_job.busy:
            await world.settled()

    async def _compare(self, published: tuple[int, int, int] | None = None) -> None:
        """What the broker has against what it must have. Evictions by bytes come beside what is published."""
        world, oracle = self.world, self.oracle
        await self._quiet()
        if published is not None:
            oracle.published(*published)
        found = world.broker.topics.get("t")
        log = world.broker.log_of(found, 0)
        if log.end_offset != len(oracle.log):
            raise Broken(f"the log ends at {log.end_offset}, not {len(oracle.log)}")
        for name, its in oracle.of.items():
            cursor = self._at(name).ready()
            there = {
                offset
                for offset in range(log.start_offset, log.end_offset)
                if cursor.look(offset).state != "DONE"
            }
            if more := there - its.open:
                raise Broken(f"{name} has {sorted(more)} open, which are settled")
            if gone := sorted(its.open - there):
                oracle.evicted(name, gone, world.clock.wall_ms())
            if cursor.stats()["expired"] != its.expired:
                raise Broken(f"{name} counts {cursor.stats()['expired']} expired, not {its.expired}")
        if published is not None:
            oracle.bounded(published[2])
        self.counts["deleted"] += log.start_offset - oracle.begin
        oracle.cut(log.start_offset, world.clock.wall_ms())

    async def _end(self) -> None:
        """Without limits every message that is open comes, and is acknowledged."""
        world, oracle = self.world, self.oracle
        self._topic, self._namespace = {}, {}
        # the topic last: where it says nothing, what its namespace still says would count at once
        await world.broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies={}))
        await world.broker.topics.configure("t", lambda old: {"internal.segment.bytes": "400"})
        oracle.rules = self._resolved()
        for name in self._kinds:
            at = self._at(name)
            its = oracle.of[name]
            for _ in range(200):
                if not its.open:
                    break
                await world.pass_time(10_000)
                for consumer in CONSUMERS:
                    at.attach(consumer)
                    await world.settled()
                    found = await world.fetch(at, consumer)
                    oracle.fetched(name, consumer, found, world.clock.wall_ms())
                    held = sorted(offset for offset, who in its.hands.items() if who == consumer)
                    if held and await world.ack(at, *held, consumer=consumer):
                        raise Broken(f"{name} could not acknowledge {held}")
                    oracle.acked(name, held)
            if its.open:
                raise Broken(f"{name} was never given {sorted(its.open)}")
        await self._compare()
        self.counts["expired"] += sum(each.expired for each in oracle.of.values())
