"""What deliveries say of themselves, and which of them do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.wire import compression
from gateway.wire import delivery as wire
from tests.gateway.broker.queues.reading import Client, at_of, numbers, queued
from tests.gateway.broker.subscriptions.world import World, run, said


async def records(world: World, client: Client, begin: int) -> list[wire.Found]:
    """What lies on a lane from an offset on, whole."""
    data: Any = at_of(world, client.index).fetch(begin, 1 << 20, whole_first=True, least=None)
    found: list[wire.Found] = []
    for buffer, position, header in wire.headers_of(
        [b"".join(map(bytes, data if isinstance(data, list) else await data))]
    ):
        assert header.leader_epoch == at_of(world).leader_epoch
        batch = bytes(buffer[position : position + header.size])
        found += wire.records_at(batch, [(header.base_offset, header.last_offset)])
    return found


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_what_comes_again_says_how_often_and_from_where(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(b"other")
        await world.produce(
            *numbers(0, 3), key=b"k", headers=[("mine", b"1"), ("pulsar-redelivery-count", b"9")]
        )
        client = Client(world)
        await client.read()
        first = await records(world, client, 0)
        assert said(first[2].headers) == {"mine": b"1", "pulsar-redelivery-count": b"9"}, "as it is stored"
        await client.commit("ack1;n:0=2")
        await client.read()
        (again,) = await records(world, client, 4)
        assert (again.key, again.value, again.timestamp) == (b"k", b"1", first[2].timestamp)
        ledger, entry, _ = world.at().partition.log.position_of(2)
        partition = world.at().partition
        assert said(again.headers) == {
            "mine": b"1",
            "pulsar-message-id": f"{ledger}:{entry}:{0 if partition.topic.topic.partitioned else -1}:1".encode(),
            "pulsar-redelivery-count": b"1",
            "pulsar-origin-topic": b"t",
            "pulsar-origin-partition": b"0",
            "pulsar-origin-offset": b"2",
        }
        await world.crash()
        client = Client(world)
        assert await records(world, client, 4) == [again]
        await client.read()
        await client.commit("ack1;n:0=4")
        await client.read()
        (third,) = await records(world, client, 5)
        assert said(third.headers) == said(again.headers) | {"pulsar-redelivery-count": b"2"}

    run(test, folder)


def test_an_id_that_is_not_known_any_more_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(b"a")
        client = Client(world)
        await client.read()
        await client.commit("ack1;n:0=0")
        await client.read()

        def unknown(*_: object) -> object:
            raise LookupError

        monkeypatch.setattr("gateway.broker.queues.headers.id_at", unknown)
        (again,) = await records(world, client, 1)
        assert set(said(again.headers)) == {
            "pulsar-redelivery-count",
            "pulsar-origin-topic",
            "pulsar-origin-partition",
            "pulsar-origin-offset",
        }

    run(test)


def test_retry_letters_say_it_too() -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 2))
        client = Client(world)
        await client.read()
        await client.commit("ack1;r:0=1")
        await world.settled()
        client = Client(world)
        await client.read()
        (letter,) = await records(world, client, 2)
        known = said(letter.headers)
        assert (known["pulsar-origin-topic"], known["pulsar-redelivery-count"]) == (b"t-g-RETRY", b"0")
        assert known["RECONSUMETIMES"] == b"1"

    run(test)


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
@pytest.mark.parametrize("which", ["all", "none"])
def test_all_or_none_do(which: str, codec: int) -> None:
    async def test(world: World) -> None:
        await queued(world, partitions=2, pulsar__queue__headers=which)
        await world.produce(*numbers(0, 3), codec=codec, index=1)
        client = Client(world)
        await client.read()
        await client.commit("ack1;n:0=1")
        await client.read()
        found = await records(world, client, 0)
        assert [each.offset for each in found] == [0, 1, 2, 3]
        assert [each.value for each in found] == [b"0", b"1", b"2", b"1"]
        counts = [said(each.headers).get("pulsar-redelivery-count") for each in found]
        assert counts == ([b"0", b"0", b"0", b"1"] if which == "all" else [None] * 4)
        places = {said(each.headers).get("pulsar-origin-partition") for each in found}
        assert places == ({b"1"} if which == "all" else {None})

    run(test)
