"""Any order of deliveries, verdicts, departures, failed commits and crashes: answered acknowledgements never return,
everything else does, and each dead letter is there once.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store.api import Refused, Unknown
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import ACCEPT, REJECT, RELEASE, Slot, World, run

LIMIT = 3
CONSUMERS = ("a", "b", "c")


class Story:
    """One run: what was answered, as clients know it."""

    def __init__(self, world: World, store: HeldStore, seed: int, kind: str) -> None:
        self.world = world
        self.store = store
        self.random = random.Random(seed)
        self.kind = kind
        self.produced = 0
        self.keys: dict[int, bytes] = {}
        # in the hands of each consumer, as far as it knows
        self.held: dict[str, dict[int, int]] = {each: {} for each in CONSUMERS}
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        # deliveries that somebody has seen end without an ack, and was answered for
        self.counted: dict[int, int] = {}

    async def begin(self) -> None:
        world = self.world
        await world.topic()
        await world.configure(
            "g",
            pulsar__subscription__type=self.kind,
            pulsar__max__redeliver__count=str(LIMIT - 1),
            pulsar__nack__delay__ms="50",
        )
        await world.subscribe()

    async def step(self) -> None:
        action = self.random.choices(
            (self.produce, self.fetch, self.verdicts, self.leave, self.wait, self.fail, self.crash),
            (4, 12, 12, 2, 3, 2, 1),
        )[0]
        await action()

    async def produce(self) -> None:
        count = self.random.randint(1, 12)
        keys = [b"k%d" % self.random.randrange(6) for _ in range(count)]
        values = [b"%d" % (self.produced + n) for n in range(count)]
        base = await self.world.produce(*values, key=keys, codec=self.random.choice((0, 0, 4)))
        assert base == self.produced
        self.produced += count
        for n, key in enumerate(keys):
            self.keys[base + n] = key

    async def fetch(self) -> None:
        consumer = self.random.choice(CONSUMERS)
        at = self.world.at()
        at.attach(consumer)
        await self.world.settled()
        got = await self.world.fetch(
            at,
            consumer,
            self.random.randint(1, 9),
            self.random.choice((10, 500, 1 << 20)),
            strict=self.random.random() < 0.5,
        )
        for offset, (value, count) in got.items():
            assert value == b"%d" % offset
            assert offset not in self.accepted, "an answered acknowledgement came back"
            assert offset not in self.rejected
            assert count <= LIMIT
            assert count > self.counted.get(offset, 0), "a count fell"
            for other in CONSUMERS:
                self.held[other].pop(offset, None)
            self.held[consumer][offset] = count

    def choose(self) -> tuple[str, list[tuple[int, int, bytes]]]:
        consumer = self.random.choice(CONSUMERS)
        held = sorted(self.held[consumer])
        # What lies below the start was settled when nobody held it any more; as in Kafka, verdicts on it mean nothing.
        start = self.world.at().ready().start
        chosen = [offset for offset in held if offset >= start and self.random.random() < 0.7]
        kinds = self.random.choices((ACCEPT, RELEASE, REJECT), (6, 3, 1), k=len(chosen))
        return consumer, [(offset, offset, kind) for offset, kind in zip(chosen, kinds, strict=True)]

    def answered(self, consumer: str, verdicts: list[tuple[int, int, bytes]]) -> None:
        for offset, _, kind in verdicts:
            count = self.held[consumer].pop(offset)
            if kind == ACCEPT:
                self.accepted.add(offset)
            elif kind == REJECT:
                self.rejected.add(offset)
            else:
                self.counted[offset] = count

    async def verdicts(self) -> None:
        consumer, verdicts = self.choose()
        if not verdicts:
            return
        at = self.world.at()
        error = at.acknowledge(consumer, verdicts)
        assert await self.world.settled() is None
        if error:
            # locks that ran out, or what was thrown away
            assert error == Error.INVALID_RECORD_STATE
            self.held[consumer].clear()
        else:
            self.answered(consumer, verdicts)

    async def leave(self) -> None:
        consumer = self.random.choice(CONSUMERS)
        ending = self.random.choice(list(Ending))
        self.world.at().detach(consumer, ending)
        self.held[consumer].clear()
        await self.world.settled()

    async def wait(self) -> None:
        ms = self.random.choice((10, 60, 31_000))
        await self.world.pass_time(ms)

    async def fail(self) -> None:
        """The commit of some verdicts, or of two turns of them, fails."""
        told: list[Any] = []
        self.store.holding = True
        for _ in range(self.random.randint(1, 2)):
            consumer, verdicts = self.choose()
            if verdicts and not self.world.at().acknowledge(consumer, verdicts):
                slot = Slot()
                self.world.broker.turn.await_commit(slot)
                self.world.broker.turn.end()
                told.append(slot)
        self.store.holding = False
        if self.store.queued:
            self.store.fail(self.random.choice((Refused("no"), Unknown("?"))))
        await self.world.settled()
        for slot in told:
            assert await slot.told is not None
        for held in self.held.values():
            held.clear()

    async def crash(self) -> None:
        """With verdicts on their way, which nobody was answered."""
        self.store.holding = True
        consumer, verdicts = self.choose()
        if verdicts and self.world.at().acknowledge(consumer, verdicts):
            verdicts = []
        self.world.broker.turn.end()
        if self.random.random() < 0.5:
            # it was stored, and only the answer is missing
            if self.store.queued:
                for offset, _, kind in verdicts:
                    if kind == ACCEPT:
                        self.accepted.add(offset)
                    elif kind == REJECT:
                        self.rejected.add(offset)
            self.store.release()
        self.store.queued.clear()
        self.store.holding = False
        self.store = HeldStore(self.store.inner)
        self.world.store = self.store
        for held in self.held.values():
            held.clear()
        await self.world.crash()

    async def end(self) -> None:
        """Everything that is left is delivered, or dead."""
        world = self.world
        await self.crash()
        at = world.at()
        last = set(range(self.produced)) - self.accepted - self.rejected
        seen: set[int] = set()
        at.attach("a")
        # Key_Shared: nobody else comes back for its slots
        await world.pass_time(50_000)
        for _ in range(4 * self.produced + 20):
            at.attach("a")
            await world.settled()
            got = await world.fetch(at, "a")
            assert not set(got) & (self.accepted | self.rejected)
            seen |= set(got)
            assert not got or not await world.ack(at, *got, consumer="a")
            await world.pass_time(60)
            if at.ready().start == self.produced:
                break
        assert at.ready().start == self.produced
        letters = [int(each.value or b"") for each in await self.dead()]
        assert len(letters) == len(set(letters)), "a dead letter is there twice"
        assert set(letters) >= self.rejected, "a dead letter is missing"
        assert not set(letters) & self.accepted
        assert last <= seen | set(letters), "a message is lost"
        assert not seen & set(letters)

    async def dead(self) -> list[Any]:
        if self.world.broker.catalog.get("t-g-DLQ") is None:
            return []
        return await self.world.read("t-g-DLQ")


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
@pytest.mark.parametrize("seed", range(15))
def test_nothing_answered_returns_and_nothing_else_is_lost(seed: int, kind: str) -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        story = Story(world, store, seed, kind)
        await story.begin()
        for _ in range(150):
            await story.step()
        await story.end()

    run(test)
