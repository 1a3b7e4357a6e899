"""A system clock that jumps: what may be deleted by age, and for how long not."""

from __future__ import annotations

import logging

import pytest

from gateway.broker.clock_watch import HOLD_MS, KEEP_MS, ClockWatch, keep_time, last_seen, span
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.asking import list_offsets
from tests.gateway.broker.held import run
from tests.gateway.serving import Client, batch, create, produce_body

HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_800_000_000_000


class TwoClocks:
    """A clock on the wall that somebody may set, and one that nobody can."""

    def __init__(self) -> None:
        self.wall, self.monotonic = NOW, 5000

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.monotonic

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.monotonic += ms


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


def test_time_that_passes_is_trusted(clock: TwoClocks) -> None:
    watch = ClockWatch(clock, NOW - HOUR)
    for ms in (1, 1000, HOUR, 100 * DAY):
        clock.passes(ms)
        assert watch.trusted
    # a machine that is set right by some minutes
    clock.wall += 600_000
    assert watch.trusted


def test_a_jump_ahead_stops_deletions_for_an_hour(clock: TwoClocks, caplog: pytest.LogCaptureFixture) -> None:
    watch = ClockWatch(clock, None)
    clock.wall += 100 * 365 * DAY
    assert not watch.trusted
    clock.passes(HOLD_MS - 1)
    assert not watch.trusted
    clock.passes(1)
    assert watch.trusted, "a clock that stays is believed"
    assert [record.getMessage() for record in caplog.records] == [
        "the system clock went ahead by 100 years at once: nothing is deleted by age for an hour; if the clock is "
        "wrong, set it right before that"
    ]


def test_a_jump_that_is_taken_back_is_over(clock: TwoClocks) -> None:
    watch = ClockWatch(clock, None)
    clock.wall += 10 * DAY
    clock.passes(1000)
    assert not watch.trusted
    clock.wall -= 10 * DAY
    assert watch.trusted


def test_half_of_a_jump_taken_back_is_not_over(clock: TwoClocks) -> None:
    watch = ClockWatch(clock, None)
    clock.wall += 10 * DAY
    assert not watch.trusted
    clock.wall -= 5 * DAY
    assert not watch.trusted


def test_a_jump_back_deletes_nothing_too_early(clock: TwoClocks, caplog: pytest.LogCaptureFixture) -> None:
    watch = ClockWatch(clock, None)
    clock.wall -= 5 * HOUR
    assert watch.trusted, "what is younger than it was is kept longer"
    assert "jumped back by 5 hours" in caplog.text


@pytest.mark.parametrize(
    ("away", "trusted", "said"),
    [
        (None, True, ""),
        (HOUR, True, ""),
        (2 * DAY, False, "went ahead by 2 days since this store was last in use"),
        (-5 * DAY, True, "is 5 days behind the time when this store was last in use"),
    ],
)
def test_a_start_compares_with_the_time_in_the_store(
    clock: TwoClocks, caplog: pytest.LogCaptureFixture, away: int | None, trusted: bool, said: str
) -> None:
    caplog.set_level(logging.WARNING)
    watch = ClockWatch(clock, None if away is None else NOW - away)
    assert watch.trusted is trusted
    assert said in caplog.text
    assert bool(caplog.records) is bool(said)


def test_retention_by_age_waits_while_retention_by_size_goes_on(clock: TwoClocks) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        broker = gateway.broker
        for topic, configs in (
            ("age", {"retention__ms": str(DAY)}),
            ("size", {"retention__bytes": "0", "retention__ms": "-1"}),
        ):
            await create(client, topic, 1, **configs)
            for _ in range(2):
                await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(b"x" * 500)))
        clock.wall += 50 * 365 * DAY
        keep_time(broker, broker.clock_watch)
        await broker.retention.apply()

        async def start_of(topic: str) -> int:
            (found,) = await list_offsets(client, topic, (0, -2))
            return int(found.offset)

        assert await start_of("age") == 0
        assert await start_of("size") == 2
        seen = last_seen(broker.store)
        assert seen is None or seen < NOW + DAY, "a time in doubt is not kept"
        clock.passes(HOLD_MS)
        await broker.retention.apply()
        assert await start_of("age") == 2, "what Kafka would delete at once"
        keep_time(broker, broker.clock_watch)
        broker.turn.end()
        assert last_seen(broker.store) == clock.wall
        assert KEEP_MS < HOLD_MS

    run(test, clock=clock)


def test_spans() -> None:
    assert [span(ms) for ms in (90 * 60_000, 3 * HOUR, 47 * HOUR, 2 * DAY, 800 * DAY)] == [
        "90 minutes", "3 hours", "47 hours", "2 days", "2 years",
    ]  # fmt: skip
