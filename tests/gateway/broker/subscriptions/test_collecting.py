"""What is dying becomes letters: which records, with which origin, also of batches that are odd or very large."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from gateway.broker.subscriptions import collecting, scanning
from gateway.wire import records
from tests.gateway.broker.subscriptions.world import REJECT, Taker, World, run, said, seen


def test_the_origin_in_a_plain_topic_has_no_partition_and_neither_has_the_topic_of_its_letters() -> None:
    async def test(world: World) -> None:
        await world.broker.topics.create("t", -1, {}, partitioned=False)
        at = await world.subscribe()
        await world.produce(b"a", b"b")
        await world.fetch(at)
        assert not await world.ack(at, 1, kind=REJECT)
        (letter,) = await world.read("t-g-DLQ")
        origin = said(letter.headers)["ORIGIN_MESSAGE_ID"]
        assert origin is not None
        assert origin.split(b":")[2:] == [b"-1", b"1"]
        assert not world.broker.topics.get("t-g-DLQ").partitioned

    run(test)


def test_a_batch_that_cannot_be_opened_is_buried_whole_and_holds_nobody_up(folder: Path | None) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        good = records.build_batch([records.Record(n, 1, None, b"v" * 100, []) for n in range(3)], codec=4)
        header = records.header(good)
        broken = records.assemble(header, b"\xff" * 40)
        await world.append(broken)
        await world.produce(b"after")
        assert await world.fetch(at) == {3: (b"after", 1)}
        await world.settled()
        assert not await world.ack(at, 3)
        (letter,) = await world.read("t-g-DLQ")
        assert letter.value is not None
        assert letter.value[61:] == b"\xff" * 40
        assert said(letter.headers)["pulsar-dead-letter-reason"] == b"CORRUPT"
        assert at.ready().start == 4

    run(test, folder)


def test_a_header_that_says_more_records_than_there_are_bytes_stands_for_one_letter(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        at = await world.subscribed()
        good = records.build_batch([records.Record(0, 1, None, b"v", [])], codec=4)
        header = records.header(good)
        header.count, header.last_offset_delta = 2_000_000_000, 1_999_999_999
        await world.append(records.assemble(header, good[61:]))
        await world.produce(b"after")
        # One fetch need not come to what lies behind it; whoever waits then is woken without anything new.
        taker = Taker("c")
        at.attach("c")
        assert await world.fetch(at) == {}
        at.parked.add(taker)
        await world.settled()
        assert taker.got == [2_000_000_000]
        assert not await world.ack(at, 2_000_000_000)
        assert len(await world.read("t-g-DLQ")) == 1
        assert at.ready().start == 2_000_000_001

    run(test, folder)


def test_a_batch_that_unfolds_to_very_much_is_delivered_and_buried_like_any_other(
    folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread opens it, to look for delays and to bury what is in it: the loop serves others meanwhile."""
    monkeypatch.setattr(scanning, "AT_ONCE", 10_000)
    monkeypatch.setattr(collecting, "AT_ONCE", 10_000)

    async def test(world: World) -> None:
        at = await world.subscribed()
        await world.produce(*[bytes(5_000)] * 5, codec=4)
        await world.produce(b"behind")
        at.attach("c")
        given = at.fetch("c", 500, 1 << 20)
        assert isinstance(given, Awaitable)
        assert sorted(seen(await given)) == [0, 1, 2, 3, 4, 5]
        assert not await world.ack(at, 1, 3, 5, kind=REJECT)
        while at.burying:
            await asyncio.sleep(0)
        await world.settled()
        dead = await world.read("t-g-DLQ")
        assert [(len(each.value or b""), dict(each.headers)["__dlq.errors.offset"]) for each in dead] == [
            (5_000, b"1"),
            (5_000, b"3"),
            (6, b"5"),
        ]
        assert not await world.ack(at, 0, 2, 4)
        assert at.ready().start == 6

    run(test, folder)
