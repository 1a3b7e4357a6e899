"""One heap for all that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.broker.subscriptions.timers import NEVER, Timers, Turns
from tests.gateway.broker.subscriptions.world import Clock


class Alone:
    """As much of a broker as timers need."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.call: tuple[int, Callable[[], None]] | None = None
        self.calls = 0

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Any:
        self.calls += 1
        self.call = (monotonic_ms, callback)

        return self

    def cancel(self) -> None:
        self.call = None

    def advance(self, ms: int) -> None:
        end = self.clock.now + ms
        while self.call is not None and self.call[0] <= end:
            at, callback = self.call
            self.call = None
            self.clock.now = max(at, self.clock.now)
            callback()
        self.clock.now = end


class Due:
    def __init__(self, broker: Alone, *times: int) -> None:
        self.broker = broker
        self.due_at = NEVER
        self.times = sorted(broker.clock.now + each for each in times)
        self.rang: list[int] = []

    def tick(self) -> None:
        now = self.broker.clock.now
        while self.times and self.times[0] <= now:
            self.rang.append(now - self.times.pop(0))

    def next_due(self) -> int:
        return self.times[0] if self.times else NEVER


def make() -> tuple[Alone, Timers]:
    broker = Alone()
    return broker, Timers(broker)


def test_everybody_rings_at_each_of_their_times() -> None:
    broker, timers = make()
    ones = [Due(broker, n, n + 500, 7_000) for n in range(1, 50)]
    for each in reversed(ones):
        timers.arm(each, each.next_due())
    broker.advance(10_000)
    assert all(each.rang == [0, 0, 0] for each in ones)
    assert len(timers) == 0
    assert broker.call is None, "nothing is left to be woken for"


def test_one_that_breaks_or_is_disarmed_does_not_keep_others_waiting() -> None:
    broker, timers = make()
    broken, gone, good = Due(broker, 5), Due(broker, 5), Due(broker, 5)
    broken.tick = None  # type: ignore[assignment, method-assign]
    for each in (broken, gone, good):
        timers.arm(each, each.next_due())
    timers.disarm(gone)
    broker.advance(10)
    assert good.rang == [0]
    assert gone.rang == []


def test_after_a_stand_still_nobody_rings_before_connections_were_read() -> None:
    broker, timers = make()
    one = Due(broker, 500, 2 * STOOD_STILL_MS)
    timers.arm(one, one.next_due())
    # nothing runs for so long, and then timers ring before anything is read
    broker.clock.now += 500 + STOOD_STILL_MS
    broker.advance(0)
    assert one.rang == []
    broker.advance(HEARD_MS)
    assert one.rang == [STOOD_STILL_MS + HEARD_MS]
    # what is a little late is so for another reason
    broker.clock.now += 500 + STOOD_STILL_MS - HEARD_MS - 2
    broker.advance(0)
    assert len(one.rang) == 2
    # and what was due when it was armed
    old = Due(broker, -2 * STOOD_STILL_MS)
    timers.arm(old, old.next_due())
    broker.advance(1)
    assert len(old.rang) == 1


def test_what_is_armed_earlier_again_and_again_leaves_nothing_behind() -> None:
    broker, timers = make()
    late = Due(broker, 3_600_000)
    for _ in range(5_000):
        late.times.insert(0, broker.clock.now + 1)
        timers.arm(late, late.next_due())
        broker.advance(2)
        assert len(timers) <= 1_001
    assert len(late.rang) == 5_000
    broker.advance(3_600_000)
    assert len(late.rang) == 5_001
    assert len(timers) == 0


def test_of_those_that_wait_for_their_turn_one_goes_on_in_each_round_of_the_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        turns, went, rounds = Turns(loop), [], 0

        def tick() -> None:
            nonlocal rounds
            rounds += 1
            loop.call_soon(tick)

        async def work(name: str) -> None:
            for part in range(3):
                await turns.next()
                went.append((rounds, name, part))

        tick()
        gone = asyncio.ensure_future(work("gone"))
        working = [asyncio.create_task(work(name)) for name in "abc"]
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(*working)
        assert [each[1] for each in went] == ["a", "b", "c"] * 3
        assert len({each[0] for each in went}) == 9, "each in a round of its own"
        # and again when nobody waited for a while
        await asyncio.sleep(0)
        await asyncio.wait_for(turns.next(), 5)

    asyncio.run(main())
