"""Counters of subscriptions: they outlive cursors and types, and end with their subscription."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from semantics.subscriptions.states import Ending
from store.api import Outcome, StoreError
from tests.gateway.admin.billing import COUNTERS, EARLIEST, ONE, Serve, ack, cursor_of, made, stats, take
from tests.gateway.admin.conftest import Admin


async def counters(admin: Admin) -> dict[str, int]:
    """What stats say was counted, those that are not 0."""
    states = (await stats(admin))["magnetar"]["states"]
    return {name: states[name] for name in COUNTERS if states[name]}


def let_go(admin: Admin) -> None:
    """What nobody uses leaves memory."""
    for _ in range(3):
        admin.broker.subscriptions.release_idle()
        admin.broker.in_use.release_idle()
    assert not list(admin.broker.subscriptions.live())


async def shown(admin: Admin, prefix: str) -> dict[str, int]:
    """What the metrics say under names that begin so."""
    lines = [
        line for piece in await admin.server._scrape._make() for line in piece.data().decode().splitlines()
    ]
    found = [line.rsplit(" ", 1) for line in lines if line.startswith(prefix)]
    return {name: int(float(value)) for name, value in found}


async def shared_metrics(admin: Admin) -> dict[str, int]:
    return await shown(admin, "magnetar_share_")


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_counters_stay_when_an_idle_subscription_is_let_go(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, kind, 8)
        for number, verdict in enumerate((1, 1, 3, 1)):
            # one by one: under Key_Shared they are of one key
            assert await take(admin, "c", 1) == [number]
            await ack(admin, "c", number, number, verdict)
        while cursor_of(admin).burying or (await counters(admin)).get("buried") != 1:
            await asyncio.sleep(0.01)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        first = {"delivered": 4, "acknowledged": 3, "rejected": 1, "buried": 1}
        assert await counters(admin) == first
        metrics = await shared_metrics(admin)
        where = 'cluster="standalone",namespace="public/default",topic="persistent://public/default/orders-billing-DLQ"'
        letters = {f"magnetar_dead_letter_topic_messages{{{where}}}": 1}
        assert await shown(admin, "magnetar_dead_letter") == letters
        let_go(admin)
        assert await shown(admin, "magnetar_dead_letter") == letters
        assert await counters(admin) == first
        assert not list(admin.broker.subscriptions.live()), "asking does not bring it to life"
        assert await shared_metrics(admin) == metrics

        assert await take(admin, "c", 1) == [4]
        await ack(admin, "c", 4, 4)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        again = {**first, "delivered": 5, "acknowledged": 4}
        assert await counters(admin) == again
        backlog = (await admin.ask("POST", "P/orders/subscription/billing/analyzeBacklog")).json
        assert {name: backlog["magnetar"]["states"][name] for name in again} == again
        for _ in range(2):
            let_go(admin)
            assert await counters(admin) == again
            # loaded, and let go without anything to count
            cursor_of(admin).ready()
            assert await counters(admin) == again

    serve(test)


def test_partitions_count_for_themselves(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        await admin.produce("orders", 0, [b"x", b"y"])
        await admin.produce("orders", 2, [b"x", b"y"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        for index, limit in ((0, 1), (2, 2)):
            found = admin.broker.subscriptions.get("billing", "orders")
            assert found is not None
            at = found.partition(index)
            at.attach("c")
            await admin.broker.write([])
            assert isinstance(at.fetch("c", limit, 1 << 20, limit), tuple)
            at.detach("c", Ending.STOPPED)
            await admin.broker.write([])
        let_go(admin)
        each = [
            (await admin.ask("GET", f"P/orders-partition-{index}/stats")).json["subscriptions"]["billing"]
            for index in range(3)
        ]
        assert [one["magnetar"]["states"]["delivered"] for one in each] == [1, 0, 2]
        whole = (await admin.ask("GET", "P/orders/partitioned-stats")).json["subscriptions"]["billing"]
        assert whole["magnetar"]["states"]["delivered"] == 3
        assert len(admin.broker.subscriptions.counted) == 2, "nothing is kept of what counted nothing"

    serve(test)


def test_counters_stay_when_a_subscription_gets_another_type(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        await ack(admin, "c", 0, 1)
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        before = await counters(admin)
        assert before == {"delivered": 2, "acknowledged": 2}
        path = "P/orders/subscription/billing/properties"
        answer = await admin.ask("PUT", path, json.dumps({"pulsar.subscription.type": "key_shared"}))
        assert answer.status == 204, answer
        found = await stats(admin)
        assert found["type"] == "Key_Shared"
        assert await counters(admin) == before
        assert await take(admin, "c", 1) == [2]
        assert await counters(admin) == {"delivered": 3, "acknowledged": 2}

    serve(test)


def test_counters_stay_when_a_commit_fails(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async def test(admin: Admin) -> None:
        own = {"pulsar.ack.timeout.ms": "1000"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **own})
        await made(admin)
        assert await take(admin, "c", 3) == [0, 1, 2]
        await ack(admin, "c", 0, 0)
        before = await counters(admin)
        assert before == {"delivered": 3, "acknowledged": 1}
        at = cursor_of(admin)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.ready()), "writes", broken)
            at.acknowledge("c", [(1, 1, ONE)])
            # of the turn that is lost
            at.ready().tick(admin.broker.clock.monotonic_ms() + 5_000, admin.broker.clock.wall_ms())
            at.touch()
            seen = await counters(admin)
            await asyncio.sleep(0.05)
        assert at.cursor is None
        assert await counters(admin) == seen == {"delivered": 3, "acknowledged": 2, "timedOut": 1}
        assert (await shared_metrics(admin))["magnetar_share_timeouts_total"] == 1
        assert await take(admin, "c", 1) == [1]
        assert await counters(admin) == {**seen, "delivered": 4}
        assert (await shared_metrics(admin))["magnetar_share_timeouts_total"] == 1

    serve(test)


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("what", ["P/orders/subscription/billing", "P/orders"])
def test_a_subscription_that_is_made_again_counts_from_0(serve: Serve, what: str, idle: bool) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        if idle:
            let_go(admin)
            assert len(admin.broker.subscriptions.counted) == 1
        assert (await admin.ask("DELETE", what)).status == 204
        assert len(admin.broker.subscriptions.counted) == 0
        if what == "P/orders":
            await made(admin)
        else:
            answer = await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)
            assert answer.status == 204, answer
        assert await counters(admin) == {}
        assert await take(admin, "c", 1) == [0]
        assert await counters(admin) == {"delivered": 1}

    serve(test)


def test_a_deletion_that_fails_leaves_the_counters(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: object, ended: Callable[[Outcome], None], *__: object) -> None:
        ended(StoreError("no"))

    async def test(admin: Admin) -> None:
        await made(admin)
        assert await take(admin, "c", 2) == [0, 1]
        cursor_of(admin).detach("c", Ending.STOPPED)
        await admin.broker.write([])
        with monkeypatch.context() as patched:
            patched.setattr(admin.broker, "commit", failing)
            assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status >= 400
        assert await counters(admin) == {"delivered": 2}

    serve(test)
