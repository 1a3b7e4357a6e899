"""What was looked at is named by its id: a subscription that was deleted and made anew since is another."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.gateway.admin.billing import EARLIEST, Serve, cursor_of, made, stats
from tests.gateway.admin.conftest import Admin

AT = "P/orders/subscription/billing"
ACTS = [("POST", f"{AT}/skip_all"), ("POST", f"{AT}/resetcursor/0"), ("DELETE", AT)]


async def seen(admin: Admin, method: str, path: str) -> str:
    """The query that says what a look was of."""
    answer = await admin.ask(method, f"{path}?dryRun=true")
    assert answer.status == 200, answer
    return f"?topicId={answer.json['topicId']}&subscriptionId={answer.json['subscriptionId']}"


async def anew(admin: Admin, kind: str = "shared") -> None:
    """Another of the name, of whose five messages two are settled."""
    assert (await admin.ask("DELETE", f"{AT}?force=true")).status == 204
    assert (await admin.ask("PUT", f"{AT}?type={kind}", EARLIEST)).status == 204
    assert (await admin.ask("POST", f"{AT}/skip/2")).status == 204


@pytest.mark.parametrize(("method", "path"), ACTS)
def test_an_act_on_what_was_looked_at_is_done_to_no_other_subscription(
    serve: Serve, method: str, path: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        query = await seen(admin, method, path)
        await anew(admin)
        for look in ("", "&dryRun=true"):
            refused = await admin.ask(method, path + query + look)
            assert (refused.status, "another subscription than" in refused.json["reason"]) == (409, True)
        assert (await stats(admin))["msgBacklog"] == 3
        query = await seen(admin, method, path)
        assert (await admin.ask(method, path + query)).status == 204

    serve(test)


@pytest.mark.parametrize(("method", "path"), ACTS)
def test_one_that_lanes_serve_is_another_than_that_of_the_consumer_group(
    serve: Serve, method: str, path: str
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"m%d" % number for number in range(5)])
        await admin.commit("billing", "orders", 0, 0)
        query = await seen(admin, method, path)
        assert query.endswith("subscriptionId=0")
        assert (await admin.ask("DELETE", AT)).status == 204
        answer = await admin.ask("PUT", f"{AT}?type=shared&lanes=2", EARLIEST)
        assert answer.status == 204, answer
        refused = await admin.ask(method, path + query)
        assert (refused.status, "another subscription than" in refused.json["reason"]) == (409, True)
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)


@pytest.mark.parametrize(("method", "path"), ACTS)
def test_an_id_that_says_nothing_is_not_any(serve: Serve, method: str, path: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        refused = await admin.ask(method, f"{path}?subscriptionId=")
        assert (refused.status, "leave it out if any" in refused.json["reason"]) == (400, True)
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)


@pytest.mark.parametrize(("method", "path"), ACTS)
def test_one_that_is_made_anew_while_an_act_waits_is_another(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        came, go = asyncio.Event(), asyncio.Event()
        ready = admin.broker.audit_log.ready

        async def waiting() -> None:
            """The first to come waits, after it has found its subscription."""
            if not came.is_set():
                came.set()
                await go.wait()
            await ready()

        monkeypatch.setattr(admin.broker.audit_log, "ready", waiting)
        act = asyncio.ensure_future(admin.ask(method, path))
        async with asyncio.timeout(30):
            await came.wait()
            await anew(admin)
            go.set()
            refused = await act
        assert (refused.status, "another subscription than" in refused.json["reason"]) == (409, True), refused
        assert (await stats(admin))["msgBacklog"] == 3

    serve(test)


def test_with_lanes_the_queue_topic_stays_as_well(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 1)
        lanes = f"{AT}?type=shared&lanes=2"
        assert (await admin.ask("PUT", lanes, EARLIEST)).status == 204
        query = await seen(admin, "DELETE", AT)
        assert (await admin.ask("DELETE", AT)).status == 204
        assert (await admin.ask("PUT", lanes, EARLIEST)).status == 204
        assert (await admin.ask("DELETE", AT + query)).status == 409
        assert (await admin.ask("GET", "P/orders-billing-QUEUE/partitions")).json["partitions"] == 2
        assert (await admin.ask("DELETE", AT + await seen(admin, "DELETE", AT))).status == 204

    serve(test)


def test_ids_of_subscriptions_are_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for method, path in ACTS:
            told = (await admin.ask(method, f"{path}?dryRun=true")).json
            assert told["subscriptionId"] == cursor_of(admin).subscription.id, json.dumps(told)

    serve(test)
