"""What is deleted, and a job that is stopped, have their record in the commit that does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from store.api import Delete, Family, Write
from tests.gateway.admin.billing import EARLIEST, made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_acts_audited import ON, failing, of_audit, of_job
from tests.gateway.admin.test_audit_topic import AT, kept, serve
from tests.gateway.admin.test_replaying import dead, post

Of = Callable[[Write], bool]
JOBS = "/admin/v2/magnetar/jobs"
TOPIC = "persistent/public/default/orders"


async def told(admin: Admin) -> list[tuple[str, str, str, dict[str, Any]]]:
    """What the topic has of deletions and stops, and of what failed, the oldest first."""
    return [
        (each["what"], each["target"], each.get("outcome", "done"), each.get("counts", {}))
        for each in await kept(admin)
        if each["what"] == "DELETE" or each["target"].endswith("/stop") or "outcome" in each
    ]


def of_deletion(family: Family) -> Of:
    return lambda write: isinstance(write, Delete) and write.family is family


async def shared(admin: Admin) -> None:
    await made(admin, count=3)


async def lanes(admin: Admin) -> None:
    await admin.plain("orders")
    assert (
        await admin.ask("PUT", "P/orders/subscription/billing?type=key_shared&lanes=2", "{}")
    ).status < 300


async def group(admin: Admin) -> None:
    await admin.plain("orders")
    await admin.produce("orders", 0, [b"m0"])
    await admin.commit("billing", "orders", 0, 1)


DELETIONS = [
    (shared, f"{TOPIC}/subscription/billing", Family.SUBSCRIPTION, {}),
    (group, f"{TOPIC}/subscription/billing", Family.OFFSET, {}),
    (lanes, f"{TOPIC}/subscription/billing", Family.SUBSCRIPTION, {}),
    (shared, TOPIC, Family.CATALOG, {"messages": 3}),
]


@pytest.mark.parametrize("which", ["rows", "audit"])
@pytest.mark.parametrize(("make", "what", "family", "counts"), DELETIONS)
def test_what_is_deleted_is_told_in_the_same_commit(
    make: Callable[..., Any],
    what: str,
    family: Family,
    counts: dict[str, int],
    which: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(admin: Admin) -> None:
        await make(admin)
        await kept(admin)
        of = of_deletion(family) if which == "rows" else of_audit(admin)
        came = failing(admin, monkeypatch, of)
        assert (await admin.ask("DELETE", f"/admin/v2/{what}")).status == 503
        assert came
        # it is there, and the topic tells that it failed
        assert (await admin.ask("GET", "P/orders/stats")).json["subscriptions"].keys() == {"billing"}
        assert await told(admin) == [("DELETE", what, "HTTP 503", {})]
        assert (await admin.ask("DELETE", f"/admin/v2/{what}")).status == 204
        assert (await told(admin))[1:] == [("DELETE", what, "done", counts)]
        assert (await admin.ask("GET", f"{AT}?limit=1&kind=change")).json[0]["target"] == what
        assert len((await admin.ask("GET", f"{AT}?since=1&kind=change")).json) == len(await kept(admin))

    serve(test, ON)


def test_where_nobody_wants_the_topic_all_is_deleted_as_ever() -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=1)
        assert (await admin.ask("DELETE", f"/admin/v2/{TOPIC}/subscription/billing")).status == 204
        assert (await admin.ask("DELETE", f"/admin/v2/{TOPIC}")).status == 204
        found = (await admin.ask("GET", f"{AT}?limit=2&kind=change")).json
        assert [each["target"] for each in found] == [TOPIC, f"{TOPIC}/subscription/billing"]

    serve(test)


async def running(admin: Admin) -> int:
    """A job that has not sent all for a long time."""
    await dead(admin, 5)
    number: int = (await post(admin, "replay", rate=1)).json["id"]
    async with asyncio.timeout(30):
        while (row := admin.broker.redrive.row(number)) is None or not row.done:
            await asyncio.sleep(0)
    await kept(admin)
    return number


@pytest.mark.parametrize("which", ["none", "job", "audit"])
def test_who_stops_a_job_is_told_by_the_commit_that_stores_its_end(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        number = await running(admin)
        if which != "none":
            failing(admin, monkeypatch, of_job if which == "job" else of_audit(admin))
        answer = await admin.ask("POST", f"{JOBS}/{number}/stop")
        rows = [each for each in await kept(admin) if each["target"].startswith(("jobs/", "magnetar/jobs"))]
        found = [(each["what"], each["target"], each["outcome"]) for each in rows if "outcome" in each]
        if which == "none":
            assert answer.status == 200
            assert [(each["what"], each.get("counts", {}).get("job")) for each in rows] == [
                ("POST", number), ("replay ended", number),
            ]  # fmt: skip
            assert found == [("replay ended", f"jobs/{number}", "stopped")]
            assert (await admin.ask("POST", f"{JOBS}/{number}/stop")).status == 409
        else:
            # neither its end nor who stopped it is stored, and so it is told
            assert answer.status == 503
            assert found == [("POST", f"magnetar/jobs/{number}/stop", "HTTP 503")]

    serve(test, ON)


def test_a_stop_is_told_once_where_memory_and_the_topic_are_asked_together() -> None:
    async def test(admin: Admin) -> None:
        number = await running(admin)
        assert (await admin.ask("POST", f"{JOBS}/{number}/stop")).status == 200
        found = (await admin.ask("GET", f"{AT}?since=1&kind=change")).json
        assert sum(each["target"].endswith("/stop") for each in found) == 1

    serve(test, ON)


@pytest.mark.parametrize(("make", "what"), [(each[0], each[1]) for each in DELETIONS])
def test_where_the_topic_cannot_be_written_nothing_is_deleted(make: Callable[..., Any], what: str) -> None:
    async def test(admin: Admin) -> None:
        await make(admin)
        await kept(admin)
        topic = admin.broker.audit_log.topic
        assert topic is not None
        log: Any = admin.broker.partition(topic, 0).log
        log.refuses = "damaged"
        assert (await admin.ask("DELETE", f"/admin/v2/{what}")).status == 503
        await admin.broker.write([])
        assert (await admin.ask("GET", "P/orders/stats")).json["subscriptions"].keys() == {"billing"}
        log.refuses = ""
        assert (await admin.ask("DELETE", f"/admin/v2/{what}")).status == 204

    serve(test, ON)


SPACE = "namespaces/shop/eu"
OF_MANY = [
    ("DELETE", SPACE, "?force=true"),
    ("DELETE", "tenants/shop", "?force=true"),
    ("POST", f"{SPACE}/clearBacklog", ""),
    ("POST", f"{SPACE}/clearBacklog/billing", ""),
    ("POST", f"{SPACE}/unsubscribe/billing", ""),
]


async def space(admin: Admin) -> None:
    """Two topics with a message and a subscription each."""
    assert (await admin.ask("PUT", "/admin/v2/tenants/shop", "{}")).status == 204
    assert (await admin.ask("PUT", f"/admin/v2/{SPACE}", "{}")).status == 204
    for name in ("a", "b"):
        for path in (name, f"{name}/subscription/billing"):
            body = EARLIEST if "subscription" in path else "{}"
            assert (await admin.ask("PUT", f"/admin/v2/persistent/shop/eu/{path}", body)).status == 204
        await admin.produce(f"shop/eu/{name}", 0, [b"m"])
    await kept(admin)


async def backlog(admin: Admin) -> list[int]:
    """What is open on each of both."""
    found = []
    for name in ("a", "b"):
        answer = await admin.ask("GET", f"/admin/v2/persistent/shop/eu/{name}/stats")
        its = answer.json["subscriptions"] if answer.status == 200 else {}
        found.append(its["billing"]["msgBacklog"] if its else 0)
    return found


@pytest.mark.parametrize(("method", "what", "query"), OF_MANY)
def test_what_takes_many_commits_is_told_before_the_first_or_not_done(
    method: str, what: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await space(admin)
        before = len(await kept(admin))
        topic = admin.broker.audit_log.topic
        assert topic is not None
        log: Any = admin.broker.partition(topic, 0).log
        log.refuses = "damaged"
        assert (await admin.ask(method, f"/admin/v2/{what}{query}")).status == 503
        assert await backlog(admin) == [1, 1]
        log.refuses = ""
        failing(admin, monkeypatch, of_audit(admin))
        assert (await admin.ask(method, f"/admin/v2/{what}{query}")).status == 503
        assert await backlog(admin) == [1, 1]
        assert (await admin.ask(method, f"/admin/v2/{what}{query}")).status == 204
        assert await backlog(admin) == [0, 0]
        found = [each for each in (await kept(admin))[before:] if each["target"] == what]
        assert [each.get("outcome", "done") for each in found[-2:]] == ["begun", "done"]
        assert {each["what"] for each in found} == {method}
        told_ = (await admin.ask("GET", f"{AT}?since=1&kind=change")).json
        assert [each.get("outcome", "done") for each in told_[:2]] == ["done", "begun"]

    serve(test, ON)


def test_what_is_refused_at_once_was_not_begun() -> None:
    async def test(admin: Admin) -> None:
        await space(admin)
        for method, path in (
            ("DELETE", SPACE), ("DELETE", "namespaces/shop/no?force=true"), ("DELETE", "tenants/no?force=true"),
            ("POST", "namespaces/shop/no/clearBacklog"), ("DELETE", "tenants/shop"),
        ):  # fmt: skip
            assert (await admin.ask(method, f"/admin/v2/{path}")).status in (404, 409)
        assert not [each for each in await kept(admin) if each.get("outcome") == "begun"]

    serve(test, ON)


def test_the_first_commit_of_many_comes_behind_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves of it is told, whenever it comes."""

    async def test(admin: Admin) -> None:
        await space(admin)
        order: list[str] = []
        commit, of = admin.broker.durable.commit, of_audit(admin)

        def seen(writes: Sequence[Write], *more: Any) -> None:
            order.append("told" if any(of(each) for each in writes) else "done")
            commit(writes, *more)

        monkeypatch.setattr(admin.broker.durable, "commit", seen)
        assert (await admin.ask("DELETE", f"/admin/v2/{SPACE}?force=true")).status == 204
        assert order[0] == "told"
        assert "done" in order

    serve(test, ON)
