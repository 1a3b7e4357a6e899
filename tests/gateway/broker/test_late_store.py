"""A gateway on a store that lets it wait for everything: what clients see is the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire.errors import Error
from store import memory
from tests.gateway.broker.asking import errors, fetch, list_offsets
from tests.gateway.broker.held import run
from tests.gateway.broker.produced import numbered, put, read
from tests.gateway.serving import Client, batch, create

Test = Callable[[Gateway, Client, memory.LateStore], Coroutine[Any, Any, None]]


@pytest.fixture(params=[1, 2, 3])
def late(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test on a gateway whose store answers late; nothing may have been read that was not loaded."""

    def run_late(test: Test) -> None:
        store = memory.open_late(seed=request.param)

        async def body(gateway: Gateway, client: Client) -> None:
            await test(gateway, client, store)
            assert store.faults == []

        run(body, store=store)

    return run_late


async def values(client: Client, name: str) -> list[bytes | None]:
    return [record.value for record in await read(client, name)]


def test_what_was_produced_is_fetched_in_order(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        for count in range(5):
            assert await put(client, numbered(count)) == (0, count)
        assert await put(client, numbered(4)) == (0, 4), "it came before"
        assert await values(client, "t") == [b"%d" % count for count in range(5)]

    late(test)


def test_who_asks_first_waits_until_a_partition_is_loaded(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        for name in ("fetched", "listed"):
            await create(client, name)
        assert errors(await fetch(client, {"fetched": {0: 0}})) == {0: 0}
        (listed,) = await list_offsets(client, "listed", (0, -1))
        assert (listed.error_code, listed.offset) == (0, 0)
        assert await put(client, batch(b"v"), "fetched") == (0, 0)

    late(test)


def test_a_partition_that_comes_back_is_loaded_again(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        await create(client, "t")
        assert await put(client, numbered(0)) == (0, 0)
        log = gateway.broker.topics.get("t").partitions[0]
        store.fence(log)
        assert await put(client, numbered(1)) == (Error.NOT_LEADER_OR_FOLLOWER, -1)
        store.take(log)
        assert await put(client, numbered(1)) == (0, 1)
        assert await values(client, "t") == [b"0", b"1"]

    late(test)


def test_many_partitions_take_records_at_the_same_time(late: Callable[[Test], None]) -> None:
    async def test(gateway: Gateway, client: Client, store: memory.LateStore) -> None:
        names = [f"t{number}" for number in range(8)]
        for name in names:
            await create(client, name)

        async def fill(name: str) -> None:
            mine = await Client.connect(gateway)
            for count in range(10):
                assert await put(mine, numbered(count), name) == (0, count)
            mine.close()

        await asyncio.gather(*map(fill, names))
        for name in names:
            assert await values(client, name) == [b"%d" % count for count in range(10)]

    late(test)
