"""Calls and pages that walk over many things give the loop back between them: counted, not timed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.admin import (
    browsing,
    cursors,
    lag,
    ranked,
    rates,
    reset_preview,
    share_stats,
    slices,
    stats,
    subscribing,
    subscriptions,
)
from gateway.admin.sums import Sums
from gateway.broker.compaction import Compaction
from gateway.console import visit
from semantics.console import blocking
from semantics.subscriptions.cursor import Cursor
from tests.gateway.admin.billing import EARLIEST, Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.console.browser import Browser, browse

PARTITIONS = 6
Q = "P/orders/subscription/billing/magnetar"


@pytest.fixture(autouse=True)
def each_look_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of slices a stretch has passed whenever somebody looks, so that each look hands over."""
    now = 0.0

    def later() -> float:
        nonlocal now
        now += slices.STRETCH
        return now

    monkeypatch.setattr(slices, "perf_counter", later)


class Turns:
    """How many steps there were in each turn of the loop."""

    def __init__(self) -> None:
        self.steps: Counter[int] = Counter()
        self._turn = 0

    def watch(self, monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
        old = getattr(where, name)

        def step(*arguments: Any, **named: Any) -> Any:
            self.steps[self._turn] += 1
            return old(*arguments, **named)

        monkeypatch.setattr(where, name, step)

    @asynccontextmanager
    async def counting(self) -> AsyncIterator[None]:
        async def others() -> None:
            while True:
                self._turn += 1
                await asyncio.sleep(0)

        self.steps.clear()
        task = asyncio.ensure_future(others())
        try:
            yield
        finally:
            task.cancel()


async def made(admin: Admin) -> None:
    """Topic orders with partitions, and a Key_Shared subscription that somebody reads."""
    await admin.partitioned("orders", PARTITIONS)
    answer = await admin.ask("PUT", "P/orders/subscription/billing?type=key_shared", EARLIEST)
    assert answer.status == 204
    for index in range(PARTITIONS):
        await admin.produce("orders", index, [b"x"] * 5)
        found = admin.broker.subscriptions.get("billing", "orders")
        assert found is not None
        at = found.partition(index)
        at.attach("c1")
        await admin.broker.write([])
        delivery = at.fetch("c1", 2, 1 << 20, 2)
        if not isinstance(delivery, tuple):
            await delivery


@pytest.mark.parametrize(
    ("path", "where", "name"),
    [
        ("P/orders/partitioned-stats", share_stats, "of_partition"),
        ("P/orders/partitioned-stats", stats, "of_partition"),
        ("P/orders/partitioned-stats", stats, "span"),
        ("P/orders/partitioned-internalStats", stats, "span"),
        (f"{Q}/due", Cursor, "stats"),
        ("P/orders/partitioned-internalStats", cursors, "_cursor"),
        ("P/orders/partitioned-internalStats", stats, "internal"),
        (f"{Q}/consumers", share_stats, "of_partition"),
        (f"{Q}/causes", blocking.Heads, "see"),
        (f"{Q}/strip", blocking.Heads, "see"),
        ("POST P/orders/subscription/billing/resetcursor/0?dryRun=true", subscriptions, "by_time"),
        ("POST P/orders/subscription/billing/resetcursor/0?dryRun=true", reset_preview, "_of_cursor"),
        ("/admin/v2/broker-stats/topics", stats, "of_partition"),
        ("/admin/v2/broker-stats/topics", stats, "span"),
        ("/admin/v2/magnetar/subscriptions", Sums, "_part"),
        ("/admin/v2/magnetar/lag", lag, "_standing"),
    ],
)
def test_others_have_their_turn_between_two_partitions(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, path: str, where: Any, name: str
) -> None:
    turns = Turns()
    turns.watch(monkeypatch, where, name)

    async def test(admin: Admin) -> None:
        await made(admin)
        async with turns.counting():
            method, _, there = path.rpartition(" ")
            answer = await admin.ask(method or "GET", there)
        assert answer.status == 200, answer
        assert turns.steps.total() >= PARTITIONS
        assert max(turns.steps.values()) == 1

    serve(test)


def test_others_have_their_turn_between_two_records_of_a_page(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is chosen among all partitions."""
    turns = Turns()
    turns.watch(monkeypatch, browsing._Reader, "take")
    monkeypatch.setattr(browsing, "SLICE_NS", -1)

    async def test(admin: Admin) -> None:
        await made(admin)
        async with turns.counting():
            answer = await admin.ask("GET", "P/orders/magnetar/records")
        assert len(answer.json["records"]) == turns.steps.total() == 5 * PARTITIONS
        assert max(turns.steps.values()) == 1

    serve(test)


def test_of_many_calls_that_come_together_one_begins_in_each_turn(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns()
    turns.watch(monkeypatch, ranked, "page_of")

    async def test(admin: Admin) -> None:
        async def all_at_once() -> None:
            answers = [admin.ask("GET", "/admin/v2/magnetar/subscriptions") for _ in range(50)]
            assert {answer.status for answer in await asyncio.gather(*answers)} == {200}

        # who calls is connected
        await all_at_once()
        async with turns.counting():
            await all_at_once()
        assert turns.steps.total() == 50
        assert max(turns.steps.values()) == 1

    serve(test)


def test_what_is_said_of_a_topic_is_found_out_once_and_not_for_each_of_its_partitions(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns()
    turns.watch(monkeypatch, Compaction, "status")

    async def test(admin: Admin) -> None:
        await made(admin)
        async with turns.counting():
            answer = await admin.ask("GET", "P/orders/partitioned-stats")
        assert len(answer.json["partitions"]) == PARTITIONS
        assert turns.steps.total() == 2, "once for the partitions, and once for all together"

    serve(test)


def test_counters_are_remembered_a_partition_at_a_time(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.watch(monkeypatch, rates, "_counts")

    async def test(admin: Admin) -> None:
        await made(admin)
        async with turns.counting():
            await admin.server._sampled(admin.broker.loop.time())
        assert turns.steps.total() >= PARTITIONS
        assert max(turns.steps.values()) == 1

    serve(test)


def test_others_have_their_turn_between_two_groups(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.watch(monkeypatch, subscribing, "has_committed")

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for number in range(5):
            await admin.commit(f"readers-{number}", "orders", 0, 0)
        async with turns.counting():
            answer = await admin.ask("GET", "P/orders/subscriptions")
        assert len(answer.json) == 5
        assert turns.steps.total() == 5
        assert max(turns.steps.values()) == 1

    serve(test)


def test_a_page_hands_over_between_two_calls_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.watch(monkeypatch, visit, "perform")

    async def test(browser: Browser) -> None:
        await made(browser.admin)
        async with turns.counting():
            page = await browser.get("/ui/s/public/default/orders/billing")
        assert page.status == 200
        assert turns.steps.total() >= 5
        assert max(turns.steps.values()) == 1

    browse(test)
