"""Commits of the broker that somebody waits for."""

from __future__ import annotations

import asyncio

import pytest

from gateway.server import Gateway
from store.api import Family, Put, Refused
from tests.gateway.broker.held import HeldStore, run_held
from tests.gateway.serving import Client

ROWS = [Put(Family.META, b"k", b"v")]


def test_what_follows_a_commit_happens_with_it_and_before_who_waits_goes_on() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        happened: list[str] = []
        waiting = asyncio.ensure_future(
            gateway.broker.write(ROWS, then=lambda: happened.append("then")),
        )
        waiting.add_done_callback(lambda _: happened.append("waiter"))
        await store.has(1)
        assert not happened
        store.land()
        assert happened == ["then"]
        await waiting
        assert happened == ["then", "waiter"]

    run_held(test)


def test_what_follows_a_commit_happens_also_when_nobody_waits_any_more() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        happened: list[str] = []
        waiting = asyncio.ensure_future(
            gateway.broker.write(ROWS, then=lambda: happened.append("then")),
        )
        await store.has(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        store.land()
        assert happened == ["then"]

    run_held(test)


def test_a_commit_that_fails_is_raised_and_nothing_follows_it() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        happened: list[str] = []
        waiting = asyncio.ensure_future(
            gateway.broker.write(ROWS, then=lambda: happened.append("then")),
        )
        await store.has(1)
        store.holding = False
        store.fail(Refused("no"))
        with pytest.raises(Refused, match="no"):
            await waiting
        assert not happened

    run_held(test)
