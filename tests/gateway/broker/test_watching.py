"""What is told of a key while it is watched: by members of share groups, at real cursors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from gateway.broker import watching
from gateway.broker.watching import FullError, Watch, Watched
from gateway.wire import compression
from gateway.wire.share import PlainAcks
from semantics.subscriptions.states import Ending
from tests.gateway.broker.subscriptions.world import REJECT, RELEASE, RENEW, World, run

MINUTE = 60_000


def begin(world: World, key: bytes = b"ada", minutes: int = 5, owner: str = "") -> Watch:
    row = world.broker.subscriptions.row("g", "t")
    assert row is not None
    return world.broker.watching.begin(row, key, minutes * MINUTE, owner=owner)


async def told(world: World, key: bytes = b"ada") -> list[tuple[str, int, str]]:
    """What has happened by now: (what, offset, consumer)."""
    await world.settled()
    watch, watched = found(world, key)
    await watched.settled()
    assert watched.missed == 0
    return [(str(event.what), event.place.offset, event.consumer) for event in watch.history.events]


def found(world: World, key: bytes = b"ada") -> tuple[Watch, Watched]:
    row = world.broker.subscriptions.row("g", "t")
    assert row is not None
    known = world.broker.watching.of(row, key)
    assert known is not None
    return known


KEYS = [b"ada", b"bob", b"ada", None]


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_deliveries_and_verdicts_of_the_key_are_told(folder: Path | None, codec: int) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        begin(world)
        await world.produce(*[b"v"] * 4, key=KEYS, codec=codec)
        await world.fetch(at)
        assert await told(world) == [("delivered", 0, "c"), ("delivered", 2, "c")]
        await world.ack(at, 1, 3)
        await world.ack(at, 0)
        await world.ack(at, 2, kind=RENEW)
        assert (await told(world))[2:] == [("acknowledged", 0, "c"), ("lock renewed", 2, "c")]
        await world.ack(at, 2)
        assert (await told(world))[4:] == [("acknowledged", 2, "c")]

    run(test, folder)


def test_of_key_shared_many_that_are_accepted_at_once_are_told(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.configure("g", pulsar__subscription__type="key_shared")
        at = await world.subscribed()
        begin(world)
        await world.produce(*[b"v"] * 4, key=KEYS)
        # it has its slots when they are stored
        at.attach("c")
        await world.settled()
        await world.fetch(at)
        # the second of the key waits for the first
        assert await told(world) == [("delivered", 0, "c")]
        acks = b"".join([struct.pack(">qqxcx", offset, offset, b"\1") for offset in (0, 1, 3)])
        assert at.accept("c", PlainAcks(acks))
        assert (await told(world))[1:] == [("acknowledged", 0, "c")]
        await world.fetch(at)
        assert (await told(world))[2:] == [("delivered", 2, "c")]

    run(test, folder)


def test_by_the_ordering_key_too(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        begin(world)
        await world.produce(b"v", key=b"bob", headers=[("pulsar-ordering-key", b"ada")])
        await world.fetch(at)
        assert await told(world) == [("delivered", 0, "c")]

    run(test, folder)


def test_a_nack_a_lock_that_ran_out_and_a_consumer_that_left(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.configure("g", pulsar__nack__delay__ms="1000")
        at = await world.subscribed()
        begin(world)
        await world.produce(b"v", key=b"ada")
        await world.fetch(at)
        await world.ack(at, 0, kind=RELEASE)
        assert await told(world) == [("delivered", 0, "c"), ("nacked", 0, "c"), ("waits", 0, "")]
        await world.pass_time(1_000)
        await world.fetch(at, "d")
        await world.pass_time(31_000)
        assert (await told(world))[3:] == [("delivered", 0, "d"), ("lock ran out", 0, "d")]
        await world.fetch(at, "e")
        at.detach("e", Ending.LEFT)
        assert (await told(world))[5:] == [("delivered", 0, "e"), ("given back", 0, "e")]

    run(test, folder)


def test_a_death_is_told(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        begin(world)
        await world.produce(b"v", b"w", key=b"ada")
        await world.fetch(at)
        await world.ack(at, 0, kind=REJECT)
        await world.settled()
        events = await told(world)
        assert events[2] == ("rejected", 0, "c")
        assert events[-1] == ("dead letter", 0, "")

    run(test, folder)


def test_one_that_is_over_tells_nothing_and_a_new_cursor_is_watched(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        begin(world, minutes=2)
        await world.produce(b"v", b"v", b"v", key=b"ada")
        assert at.watching is not None
        at.close()
        at.gone = True
        del world.subscription().partitions[0]
        at = world.at()
        assert at.watching is not None
        await world.fetch(at, limit=1, strict=True)
        assert len(await told(world)) == 1
        await world.pass_time(2 * MINUTE)
        assert at.watching is None
        await world.fetch(at, "d", limit=1, strict=True)
        assert ("delivered", 1, "d") not in await told(world)
        # what was told stays until somebody needs the room; asked again it begins anew
        begin(world)
        assert await told(world) == []
        assert at.watching is not None

    run(test, folder)


def test_a_clock_that_was_set_back_ends_a_watch_later(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        begin(world, minutes=2)
        world.clock.ahead -= 10
        await world.pass_time(2 * MINUTE)
        assert at.watching is not None
        await world.pass_time(10)
        assert at.watching is None

    run(test, folder)


def test_there_are_so_many_at_most(folder: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(watching, "MOST", 2)
        await world.subscribed()
        begin(world, b"a", 1)
        begin(world, b"b", 2)
        # the same again is none more
        begin(world, b"b", 2)
        with pytest.raises(FullError):
            begin(world, b"c")
        await world.pass_time(MINUTE)
        begin(world, b"c")
        row = world.broker.subscriptions.row("g", "t")
        assert row is not None
        assert world.broker.watching.of(row, b"a") is None
        found(world, b"b")

    run(test, folder)


def test_who_watches_most_gives_way_to_who_watches_fewer(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(watching, "MOST", 3)
        await world.subscribed()
        begin(world, b"s1", 3, "shop")
        begin(world, b"s2", 2, "shop")
        begin(world, b"s3", 4, "shop")
        with pytest.raises(FullError):
            begin(world, b"s4", 5, "shop")
        row = world.broker.subscriptions.row("g", "t")
        assert row is not None

        def watched() -> list[bytes]:
            return [
                each
                for each in (b"s1", b"s2", b"s3", b"o1", b"r1")
                if world.broker.watching.of(row, each) is not None
            ]

        begin(world, b"o1", 1, "other")
        assert watched() == [b"s1", b"s3", b"o1"], "the one of them that would have ended first is gone"
        # with one more it would have what shop has lost, and shop would be who asks
        for owner in ("other", "shop"):
            with pytest.raises(FullError):
                begin(world, b"more", 5, owner)
        begin(world, b"r1", 1, "root")
        assert watched() == [b"s3", b"o1", b"r1"]
        for owner in ("other", "shop", "root", "nobody"):
            with pytest.raises(FullError):
                begin(world, b"more", 5, owner)
        await world.pass_time(MINUTE)
        begin(world, b"o1", 1, "nobody")

    run(test, folder)


def test_more_than_can_be_looked_at_is_told_as_missed(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(world: World) -> None:
        monkeypatch.setattr(watching, "WAITING", 1)
        at = await world.subscribed()
        begin(world)
        await world.produce(b"v", b"v", key=b"ada")
        at.attach("c")
        for _ in range(2):
            given: Any = at.fetch("c", 1, 1 << 20, 1)
            if not isinstance(given, tuple):
                await given
        _, watched = found(world)
        assert watched.missed == 1
        await watched.settled()

    run(test, folder)
