"""Producer ids: none is ever given twice, whatever fails and however often the gateway starts."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.producer_ids import BLOCK
from gateway.server import Gateway
from store import memory
from store.api import Durability, Refused, Unknown
from tests.gateway.broker.held import HeldStore, run_held, serving_on
from tests.gateway.serving import Client


def test_ids_of_several_starts_are_all_different() -> None:
    async def main() -> None:
        store = memory.open()
        given: list[int] = []
        for count in (1, BLOCK, BLOCK + 1, 3):
            logs, rows, keys = store._logs, store._rows, store._keys
            store = memory.open()
            store._logs, store._rows, store._keys = dict(logs), rows, keys
            async with serving_on(store) as gateway:
                given += [await gateway.broker.producer_ids.allocate() for _ in range(count)]
        assert len(set(given)) == len(given)
        assert min(given) >= 0

    asyncio.run(main())


def test_a_block_is_reserved_with_a_sync_before_its_first_id_is_given() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        asked = [asyncio.ensure_future(gateway.broker.producer_ids.allocate()) for _ in range(3)]
        await store.has(1)
        assert store.queued[0][1] is Durability.FSYNC
        assert not any(each.done() for each in asked)
        store.land()
        assert len({await each for each in asked}) == 3
        assert not store.queued, "one block for all"

    run_held(test)


@pytest.mark.parametrize("outcome", [Refused("no"), Unknown("who knows")])
def test_a_block_that_was_not_reserved_is_not_used(outcome: Exception) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        asked = asyncio.ensure_future(gateway.broker.producer_ids.allocate())
        await store.has(1)
        store.fail(outcome)  # type: ignore[arg-type]
        with pytest.raises(type(outcome)):
            await asked
        store.release()
        first = await gateway.broker.producer_ids.allocate()
        assert await gateway.broker.producer_ids.allocate() == first + 1

    run_held(test)
