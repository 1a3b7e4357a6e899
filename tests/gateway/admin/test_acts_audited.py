"""Acts and their records in the topic of the audit are one commit each: neither is there without the other."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.broker.redrive.jobs import Redrive
from store.api import Append, Family, Outcome, Put, Refused, Write
from tests.gateway.admin.billing import made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_acts import asked, done
from tests.gateway.admin.test_audit_topic import AT, kept, serve
from tests.gateway.admin.test_open_messages import offsets, page
from tests.gateway.admin.test_replaying import dead, did, listed, post

ON = "audit.topic=true"
Of = Callable[[Write], bool]


def audited(admin: Admin) -> int:
    topic = admin.broker.audit_log.topic
    assert topic is not None
    return topic.partitions[0]


def failing(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, of: Of, first: int = 0, most: int = 1
) -> list[int]:
    """Commits with such writes fail: of these the one after `first`, and so many of them. The numbers of those that
    came.
    """
    store = admin.broker.durable
    commit = store.commit
    came: list[int] = []

    def failing_commit(
        writes: Sequence[Write], durability: Any, done: Callable[[Outcome], None], *more: Any
    ) -> None:
        if any(of(each) for each in writes):
            came.append(len(came))
            if first <= came[-1] < first + most:
                admin.broker.loop.call_soon(done, Refused("the disk is tired"))
                return None
        return commit(writes, durability, done, *more)

    monkeypatch.setattr(store, "commit", failing_commit)
    return came


def of_cursor(write: Write) -> bool:
    return isinstance(write, Put) and write.family is Family.CURSOR


def of_job(write: Write) -> bool:
    return isinstance(write, Put) and write.key.startswith(b"redrive-job/")


def of_audit(admin: Admin) -> Of:
    number = audited(admin)
    return lambda write: isinstance(write, Append) and write.partition == number


async def acts(admin: Admin) -> list[dict[str, Any]]:
    """What the topic has of acts, the oldest first."""
    return [each for each in await kept(admin) if each["what"] not in ("PUT", "DELETE")]


@pytest.mark.parametrize("which", ["cursor", "audit"])
def test_an_act_that_is_not_stored_is_not_told_and_one_that_is_not_told_is_not_done(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await kept(admin)
        came = failing(admin, monkeypatch, of_cursor if which == "cursor" else of_audit(admin))
        assert (await asked(admin, "settle", filter={}, plan=plan["plan"])).status == 503
        assert came
        assert offsets(await page(admin)) == [0, 1, 2]
        # that it failed is told, and nothing else
        assert [(each["what"], each["outcome"]) for each in await acts(admin)] == [("POST", "HTTP 503")]
        plan = await done(admin, "settle", filter={}, dryRun=True)
        assert (await done(admin, "settle", filter={}, plan=plan["plan"]))["messages"] == 3
        told = (await acts(admin))[1:]
        assert [(each["what"], each["counts"], each["plan"]) for each in told] == [
            ("settle", {"messages": 3, "partition": 0}, plan["plan"])
        ]
        assert told[0]["target"].endswith("orders/subscription/billing/magnetar/act")

    serve(test, ON)


@pytest.mark.parametrize("which", ["cursor", "audit"])
@pytest.mark.parametrize(
    ("verb", "counts", "left"),
    [("skip/2", {"messages": 2}, [2]), ("skip_all", {"messages": 3}, []), ("resetcursor/0", {}, [0, 1, 2])],
)
def test_a_cursor_that_is_moved_has_its_record_in_the_same_commit(
    monkeypatch: pytest.MonkeyPatch, which: str, verb: str, counts: dict[str, int], left: list[int]
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        await admin.broker.audit_log.ready()
        path = f"P/orders/subscription/billing/{verb}"
        came = failing(admin, monkeypatch, of_cursor if which == "cursor" else of_audit(admin))
        if verb.startswith("reset") and which == "cursor":
            # where it is already: there is nothing of the cursor to write, and the record stands alone
            came.append(0)
        else:
            assert (await admin.ask("POST", path)).status == 503
            assert offsets(await page(admin)) == [0, 1, 2]
            assert [(each["what"], each["outcome"]) for each in await acts(admin)] == [("POST", "HTTP 503")]
        assert came
        assert (await admin.ask("POST", path)).status < 300
        assert offsets(await page(admin)) == left
        (told,) = [each for each in await acts(admin) if "outcome" not in each]
        assert told.get("counts", {}) == counts
        assert told["target"].endswith("orders/subscription/billing/" + verb.partition("/")[0])

    serve(test, ON)


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_what_is_told_of_an_act_in_slices_is_what_was_done(
    fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.admin.acts.SLICE", 2)

    async def test(admin: Admin) -> None:
        await made(admin, count=6)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await kept(admin)
        failing(admin, monkeypatch, of_audit(admin), fails_at)
        assert (await asked(admin, "settle", filter={}, plan=plan["plan"])).status == 503
        assert offsets(await page(admin)) == list(range(2 * fails_at, 6))
        told = [each["counts"]["messages"] for each in await acts(admin) if each["what"] == "settle"]
        assert told == [2] * fails_at
        assert (await acts(admin))[-1]["outcome"] == "HTTP 503"

    serve(test, ON)


def test_an_act_is_told_once_where_memory_and_the_topic_are_asked_together() -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await done(admin, "settle", filter={}, plan=plan["plan"])
        await admin.broker.write([])
        found = (await admin.ask("GET", f"{AT}?since=1&kind=change")).json
        assert [each["what"] for each in found] == ["settle", "PUT", "PUT"]

    serve(test, ON)


def test_an_act_waits_until_there_is_a_topic_for_its_record() -> None:
    """It is made with the first change: here that is the act."""

    async def test(admin: Admin) -> None:
        await admin.broker.topics.create("orders", 1, {})
        await admin.produce("orders", 0, [b"m0"])
        await admin.broker.subscriptions.ensure("billing", "orders", [0])
        assert admin.broker.audit_log.topic is None
        plan = await done(admin, "settle", filter={}, dryRun=True)
        assert (await done(admin, "settle", filter={}, plan=plan["plan"]))["messages"] == 1
        assert [each["what"] for each in await acts(admin)] == ["settle"]

    serve(test, ON)


async def told_of_jobs(admin: Admin) -> list[tuple[str, str, dict[str, Any]]]:
    return [(each["what"], each.get("outcome", "done"), each.get("counts", {})) for each in await acts(admin)]


def test_a_job_is_told_when_it_begins_and_when_it_is_over() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        seen = (await post(admin, "replay", dryRun=True, filter={"ids": ["0:0", "0:1"]})).json
        await did(admin, "replay", plan=seen["plan"])
        edit = {"value": base64.b64encode(b"mended").decode()}
        await did(admin, "replay", filter={"ids": ["0:2"]}, edits={"0:2": edit})
        await did(admin, "discard")
        to = {"to": "orders-billing-RETRY"}
        over = {"edited": 0, "leftOut": 0, "diedAgain": 0}
        assert await told_of_jobs(admin) == [
            ("replay", "done", {"job": 1, "letters": 2, **to}),
            ("replay ended", "done", {"job": 1, "letters": 2, **over}),
            ("edit", "done", {"job": 2, "letters": 1, **to}),
            ("replay ended", "done", {"job": 2, "letters": 1, **over, "edited": 1}),
            ("discard", "done", {"job": 3, "letters": 2}),
            ("discard ended", "done", {"job": 3, "letters": 2, **over}),
        ]
        assert (await acts(admin))[0]["plan"] == seen["plan"]
        assert {each["target"] for each in (await acts(admin))[1::2]} == {"jobs/1", "jobs/2", "jobs/3"}

    serve(test, ON)


def test_a_discard_is_told_as_one_whatever_edits_stand_in_it() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await did(admin, "discard", edits={"0:0": {"value": base64.b64encode(b"mended").decode()}})
        assert [each[0] for each in await told_of_jobs(admin)] == ["discard", "discard ended"]

    serve(test, ON)


@pytest.mark.parametrize("which", ["job", "audit"])
def test_a_job_whose_beginning_is_not_stored_is_not_told_and_does_nothing(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await kept(admin)
        await post(admin, "discard", dryRun=True)
        failing(admin, monkeypatch, of_job if which == "job" else of_audit(admin))
        assert (await post(admin, "discard")).status == 503
        assert [each["state"] for each in await listed(admin)] == ["open"] * 3
        assert (await admin.ask("GET", "/admin/v2/magnetar/jobs")).json["jobs"] == []
        assert await told_of_jobs(admin) == [("POST", "HTTP 503", {})]

    serve(test, ON)


@pytest.mark.parametrize("which", ["job", "audit"])
def test_a_job_whose_end_is_not_stored_is_told_as_interrupted_after_the_next_start(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await kept(admin)
        # of the audit the second, of the job the third: what it has done is stored before its end
        of, first = (of_job, 2) if which == "job" else (of_audit(admin), 1)
        failing(admin, monkeypatch, of, first)
        await did(admin, "discard")
        assert [each[0] for each in await told_of_jobs(admin)] == ["discard"]
        # what a process begins with
        admin.broker.redrive = Redrive(admin.broker, admin.broker.subscriptions)
        await admin.broker.redrive.store_interrupted()
        assert [each[:2] for each in await told_of_jobs(admin)][1:] == [("discard ended", "interrupted")]
        # and it is told once
        admin.broker.redrive = Redrive(admin.broker, admin.broker.subscriptions)
        await admin.broker.redrive.store_interrupted()
        assert len(await told_of_jobs(admin)) == 2
        assert (await admin.ask("GET", "/admin/v2/magnetar/jobs/1")).json["state"] == "interrupted"

    serve(test, ON)


def test_a_record_has_no_payload_and_is_not_large() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        said = {"X-Magnetar-Why": "w" * 4000, "X-Magnetar-Command": "c" * 4000}
        edit = {"value": base64.b64encode(b"hush").decode(), "headers": {"token": "hush"}}
        body = {"filter": {"text": "m0"}, "edits": {"0:0": edit}, "wait": 20, "rate": 100_000}
        where = "P/orders/subscription/billing/magnetar/replay"
        assert (await admin.ask("POST", where, json.dumps(body), **said)).status == 200
        rows = [json.dumps(each) for each in await acts(admin)]
        assert len(rows) == 2
        for each in rows:
            assert len(each) < 2_000
            assert not any(secret in each for secret in ("hush", "aHVzaA", "m0", "token"))

    serve(test, ON)


def test_where_the_topic_is_not_wanted_acts_have_no_records() -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await done(admin, "settle", filter={}, plan=plan["plan"])
        assert admin.broker.audit_log.topic is None
        newest = (await admin.ask("GET", f"{AT}?kind=change")).json[0]
        assert (newest["what"], newest.get("outcome")) == ("POST", "done")

    serve(test)
