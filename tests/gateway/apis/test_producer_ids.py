"""InitProducerId."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error, retriable
from store.api import Refused
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.serving import Client


async def ask(client: Client, version: int = 4, **options: Any) -> tuple[int, int, int]:
    options = {"transactional_id": None, "transaction_timeout_ms": 1000, **options}
    answer = await client.ask(ApiKey.INIT_PRODUCER_ID, version, messages.InitProducerIdRequest(**options))
    return answer.error_code, answer.producer_id, answer.producer_epoch


def test_every_producer_gets_another_id() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        given = [await ask(client, version) for version in range(6)]
        given.append(await ask(client, producer_id=given[0][1], producer_epoch=0))
        assert {(error, epoch) for error, _, epoch in given} == {(0, 0)}
        assert len({producer for _, producer, _ in given}) == 7

    run(test)


def test_an_empty_transactional_id_is_refused() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        assert await ask(client, transactional_id="") == (Error.INVALID_REQUEST, -1, -1)

    run(test)


def test_an_id_that_cannot_be_reserved_is_asked_for_again() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        asked = asyncio.ensure_future(ask(client))
        await store.has(1)
        store.fail(Refused("no"))
        error, producer, epoch = await asked
        assert retriable(error)
        assert (producer, epoch) == (-1, -1)
        store.release()
        assert (await ask(client))[0] == 0

    run_held(test)


@pytest.mark.parametrize(("producer_id", "epoch"), [(7, -1), (-1, 3)])
def test_an_id_goes_with_its_epoch(producer_id: int, epoch: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        refused = await ask(client, producer_id=producer_id, producer_epoch=epoch)
        assert refused == (Error.INVALID_REQUEST, -1, -1)

    run(test)
