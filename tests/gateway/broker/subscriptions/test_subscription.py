"""Key_Shared on a real broker: who owns which keys, durably, and that a key's records come one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.subscriptions.partition import SubscriptionPartition
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.hashing import slot_of
from semantics.subscriptions.states import Ending
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import RELEASE, Taker, World, run

KEYS = [b"key-%d" % n for n in range(40)]


async def begin(world: World, group: str = "g", **configs: str) -> SubscriptionPartition:
    await world.topic()
    await world.configure(group, pulsar__subscription__type="key_shared", **configs)
    return await world.subscribe(group)


def owner(world: World, key: bytes) -> str | None:
    subscription = world.broker.subscriptions.get("g", "t")
    assert subscription is not None
    assert subscription.selector is not None
    return subscription.selector.owner(slot_of(key, None, 0))


async def come(world: World, *consumers: str) -> None:
    for each in consumers:
        world.at().attach(each)
    await world.settled()


def test_each_key_has_one_consumer_and_one_record_at_a_time(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await begin(world)
        await come(world, "a", "b", "c")
        for _ in range(3):
            await world.produce(*KEYS, key=list(KEYS))
        got = {consumer: await world.fetch(at, consumer) for consumer in "abc"}
        for consumer, records in got.items():
            assert records
            assert {owner(world, value) for value, _ in records.values() if value} == {consumer}
        first = sorted(offset for records in got.values() for offset in records)
        slots = {slot_of(key, None, 0) for key in KEYS}
        assert len(first) == len(slots), "one of each key"
        assert first[-1] < len(KEYS)
        for consumer in "abc":
            assert await world.fetch(at, consumer) == {}
            waiter = Taker(consumer)
            at.parked.add(waiter)
            assert not await world.ack(at, *got[consumer], consumer=consumer)
            assert len(waiter.got) == len(got[consumer]), "the next of each key, without asking"

    run(test, folder)


def test_a_restart_keeps_slots_for_their_members_until_their_session_would_have_run_out(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await begin(world)
        await come(world, "a", "b")
        await world.produce(*KEYS, key=list(KEYS))
        owners = {key: owner(world, key) for key in KEYS}
        before = await world.fetch(at, "a")
        await world.crash()
        at = world.at()
        await come(world, "b")
        assert {key: owner(world, key) for key in KEYS} == owners
        assert not set(await world.fetch(at, "b")) & set(before)
        # back in time
        await come(world, "a")
        assert await world.fetch(at, "a") == before
        await world.crash()
        at = world.at()
        await come(world, "b")
        others = await world.fetch(at, "b")
        assert not await world.ack(at, *others, consumer="b")
        waiter = Taker("b")
        at.parked.add(waiter)
        timeout = at.subscription.config.session_timeout_ms
        await world.pass_time(timeout - 1)
        assert {key: owner(world, key) for key in KEYS} == owners
        await world.pass_time(2_000)
        await world.settled()
        assert {owner(world, key) for key in KEYS} == {"b"}
        assert set(waiter.got) == set(before)

    run(test, folder)


@pytest.mark.parametrize("graceful", [True, False])
def test_nothing_waits_for_a_member_that_the_group_has_no_more_after_a_restart(
    folder: Path | None, graceful: bool
) -> None:
    async def test(world: World) -> None:
        await begin(world)
        await come(world, "a", "b")
        await world.crash()
        await come(world, "b")
        assert {owner(world, key) for key in KEYS} == {"a", "b"}
        world.broker.subscriptions.member_gone("g", "a", graceful=graceful)
        await world.settled()
        assert {owner(world, key) for key in KEYS} == {"b"}

    run(test, folder)


def test_a_consumer_that_crashes_gives_its_keys_to_others_at_once(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await begin(world)
        await come(world, "a", "b")
        await world.produce(*KEYS, key=list(KEYS))
        had = await world.fetch(at, "a")
        await world.fetch(at, "b")
        waiter = Taker("b")
        at.parked.add(waiter)
        at.detach("a", Ending.CRASHED)
        await world.settled()
        await world.settled()
        assert set(waiter.got) == set(had)
        assert at.ready().look(min(had)).count == 1

    run(test, folder)


def test_members_change_in_memory_only_when_that_is_stored() -> None:
    async def test(world: World) -> None:
        store = HeldStore()
        await world.start(store)
        at = await begin(world)
        await come(world, "a")
        await world.produce(*KEYS, key=list(KEYS))
        store.holding = True
        at.attach("b")
        await store.has(1)
        assert {owner(world, key) for key in KEYS} == {"a"}
        store.release()
        await world.settled()
        assert {owner(world, key) for key in KEYS} == {"a", "b"}

    run(test)


def test_strict_order_waits_for_a_released_record_and_pulsars_does_not(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await begin(world, pulsar__nack__delay__ms="1000")
        await come(world, "a")
        await world.produce(b"1", b"2", key=[b"k", b"k"])
        assert list(await world.fetch(at, "a")) == [0]
        assert not await world.ack(at, 0, consumer="a", kind=RELEASE)
        assert await world.fetch(at, "a") == {}
        await world.configure("g", pulsar__key__shared__strict="false")
        assert list(await world.fetch(at, "a")) == [1]
        await world.configure("g", pulsar__key__shared__strict="true")
        await world.pass_time(1000)
        assert not await world.ack(at, 1, consumer="a")
        assert list(await world.fetch(at, "a")) == [0]

    run(test, folder)


def test_sticky_ranges_are_by_client_id_and_uncovered_keys_wait(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.configure(
            "g",
            pulsar__subscription__type="key_shared",
            pulsar__key__shared__mode="sticky",
            pulsar__key__shared__ranges="left:0-32767",
        )
        at = await world.subscribe()
        at.attach("a", "left")
        at.attach("b", "right")
        await world.settled()
        await world.produce(*KEYS, key=list(KEYS))
        left = [n for n, key in enumerate(KEYS) if slot_of(key, None, n) < 32_768]
        assert sorted(await world.fetch(at, "a")) == left
        assert await world.fetch(at, "b") == {}
        subscription = world.broker.subscriptions.get("g", "t")
        assert subscription is not None
        assert "needs the ranges" in subscription.refused["b"]
        await world.configure("g", pulsar__key__shared__ranges="left:0-32767,right:32768-65535")
        await world.settled()
        assert sorted(await world.fetch(at, "b")) == [n for n in range(len(KEYS)) if n not in left]

    run(test, folder)


def test_the_type_changes_while_nobody_is_there_and_what_was_settled_stays_so(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        at = await world.subscribe()
        await world.produce(*KEYS, key=list(KEYS))
        await world.fetch(at)
        await world.ack(at, *range(0, 40, 2))
        at.detach("c", Ending.STOPPED)
        await world.configure("g", pulsar__subscription__type="key_shared")
        await come(world, "a")
        got = await world.fetch(at, "a")
        assert set(got) <= set(range(1, 40, 2))
        await world.ack(at, *got, consumer="a")
        assert set(got) | set(await world.fetch(at, "a")) == set(range(1, 40, 2))

    run(test, folder)


def test_behind_a_burst_of_one_key_the_others_are_served(folder: Path | None) -> None:
    """More than the look-ahead is of one key, and the others lie behind it."""

    async def test(world: World) -> None:
        at = await begin(world, pulsar__key__shared__look__ahead="2000")
        await come(world, "a", "b")
        hot = b"hot"
        for _ in range(12):
            await world.produce(*[hot] * 500, key=[hot] * 500)
        await world.produce(*KEYS, key=list(KEYS))
        got: dict[str, list[bytes | None]] = {"a": [], "b": []}
        for _ in range(6):
            for consumer, values in got.items():
                records = await world.fetch(at, consumer)
                values += [value for value, _ in records.values()]
                if records:
                    assert not await world.ack(at, *records, consumer=consumer)
        others = sorted(value for values in got.values() for value in values if value and value != hot)
        assert others == sorted(KEYS)
        assert owner(world, hot) in [name for name, values in got.items() if hot in values]
        assert sum(values.count(hot) for values in got.values()) < 30, "one at a time, all the while"

    run(test, folder)


def test_a_fetch_that_has_most_of_its_records_does_not_look_on_by_small_steps() -> None:
    """Beside a hot key what lies ahead gives half as much: who is given part of its limit looks on for all of it."""

    async def test(world: World) -> None:
        at = await begin(world)
        await come(world, "a", "b", "c", "d")
        keys = [b"hot" if number % 2 else b"key-%d" % number for number in range(8_000)]
        for first in range(0, len(keys), 25):
            await world.produce(*keys[first : first + 25], key=keys[first : first + 25])
        feeds: list[int] = []
        plain = Cursor.feed

        def feed(cursor: Cursor, *args: Any) -> Any:
            feeds.append(cursor.read)
            return plain(cursor, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cursor, "feed", feed)
            others = 0
            while others < 4_000:
                for consumer in "abcd":
                    got = await world.fetch(at, consumer, 200)
                    others += sum(value != b"hot" for value, _ in got.values())
                    if got:
                        assert not await world.ack(at, *got, consumer=consumer)
        # 800 offsets each time
        assert len(feeds) <= 14

    run(test)
