"""Dead letters on a real broker: listed, sent again, edited, discarded, each of them once."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import msgspec
import pytest

from gateway.broker.redrive import job_rows, jobs
from gateway.broker.redrive.letter import REPLAY_COUNT, REPLAY_JOB
from gateway.wire import letters, properties, records
from tests.gateway.admin.billing import Serve, ack, made, take
from tests.gateway.admin.conftest import Admin, Answer

DLQ, RETRY = "orders-billing-DLQ", "orders-billing-RETRY"
Q = "P/orders/subscription/billing/magnetar"


async def dead(admin: Admin, count: int, kind: str = "shared") -> None:
    """So many messages of `orders` are dead letters."""
    await made(admin, kind, count)
    left = count
    async with asyncio.timeout(30):
        while left:
            # Key_Shared: its slots are written first, and of a key comes one after the other
            for offset in await take(admin, "c1"):
                await ack(admin, "c1", offset, offset, kind=3)
                left -= 1
            await asyncio.sleep(0)
    await buried(admin, count)


async def buried(admin: Admin, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            topic = admin.broker.catalog.get(DLQ)
            if topic is not None and admin.broker.partition(topic, 0).high_watermark >= count:
                return
            await asyncio.sleep(0)


async def listed(admin: Admin, query: str = "") -> list[dict[str, Any]]:
    answer = await admin.ask("GET", f"{Q}/deadletters{query}")
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json["letters"]
    return found


async def post(admin: Admin, verb: str, **body: Any) -> Answer:
    """Of all letters, where nothing else is said."""
    if not body.keys() & {"plan", "filter"}:
        body["filter"] = {}
    return await admin.ask("POST", f"{Q}/{verb}", json.dumps(body))


async def did(admin: Admin, verb: str, **body: Any) -> dict[str, Any]:
    """The job, when it is over."""
    answer = await post(admin, verb, wait=20, rate=100_000, **body)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    assert found["state"] != "running"
    return found


async def stored(admin: Admin, name: str) -> list[records.Record]:
    topic = admin.broker.catalog.get(name)
    if topic is None:
        return []
    found = []
    for index in range(len(topic.partitions)):
        at = admin.broker.partition(topic, index)
        if at.high_watermark > at.log_start:
            read = at.read(at.log_start, 1 << 22)
            data = b"".join(read if isinstance(read, list) else await read)
            for position, header in records.batches(data):
                found += records.records(data[position : position + header.size])
    return found


def test_a_replay_sends_each_letter_once_to_the_subscription_that_failed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        assert [each["state"] for each in await listed(admin)] == ["open"] * 5
        job = await did(admin, "replay")
        assert (job["state"], job["planned"], job["done"]) == ("done", 5, 5)
        again = await did(admin, "replay")
        assert (again["state"], again["planned"], again["done"]) == ("done", 0, 0)
        sent = await stored(admin, RETRY)
        assert [each.value for each in sent] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
        assert len(await stored(admin, "orders")) == 5
        headers = dict(sent[0].headers)
        assert headers[REPLAY_COUNT] == b"1"
        assert headers[REPLAY_JOB] == str(job["id"]).encode()
        assert headers[properties.REAL_TOPIC] == b"persistent://public/default/orders"
        assert headers[properties.ORIGIN_MESSAGE_ID]
        assert letters.REASON not in headers
        assert not any(name.startswith("__dlq") for name in headers)
        assert await listed(admin) == []
        assert [each["state"] for each in await listed(admin, "?state=replayed")] == ["replayed"] * 5
        reader = admin.broker.subscriptions.get("billing", RETRY)
        assert reader is not None
        at = reader.partition(0)
        at.attach("c1")
        given = at.fetch("c1", 10, 1 << 20, 10)
        if not isinstance(given, tuple):
            given = await given
        assert sum(last - first + 1 for first, last, _ in given.acquired) == 5

    serve(test)


def test_an_edit_that_changes_nothing_is_none_and_one_that_breaks_json_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        await admin.produce("orders", 0, [b'{"n": 1}'])
        assert await take(admin, "c1") == [2]
        await ack(admin, "c1", 2, 2, kind=3)
        await buried(admin, 3)
        edits = {
            "0:0": {"value": base64.b64encode(b"m0").decode()},
            "0:1": {"value": base64.b64encode(b"{").decode()},
            "0:2": {"value": base64.b64encode(b'{"n": }').decode()},
        }
        seen = (await post(admin, "replay", edits=edits, dryRun=True)).json
        assert (seen["letters"], seen["edited"]) == (3, 2)
        assert seen["brokenJson"] == {"0:2": "line 1, column 7: Expecting value"}
        job = await did(admin, "replay", edits=edits)
        assert (job["done"], job["edited"]) == (3, 2)
        states = [each["state"] for each in await listed(admin, "?state=any")]
        assert states == ["replayed", "edited", "edited"]
        assert [each.value for each in await stored(admin, RETRY)] == [b"m0", b"{", b'{"n": }']

    serve(test)


def test_explain_says_what_became_of_the_letter_since(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)

        async def told(offset: int) -> tuple[str, str]:
            found = (await admin.ask("GET", f"P/orders/subscription/billing/explain?offset={offset}")).json
            return found["deadLetter"]["state"], found["explanation"].partition("partition 0.")[2].strip()

        assert await told(0) == ("open", "")
        await did(admin, "replay", filter={"ids": ["0:0"]})
        await did(admin, "discard", filter={"ids": ["0:1"]})
        await did(admin, "replay", filter={"ids": ["0:2"]}, edits={"0:2": {"value": "eA=="}})
        assert await told(0) == ("replayed", "It was replayed since: topics trace follows it.")
        assert await told(1) == ("discarded", "It was discarded since.")
        assert (await told(2))[0] == "edited"

    serve(test)


def test_a_filter_means_some_and_an_edit_changes_one(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        fixed = {"value": base64.b64encode(b"fixed").decode(), "headers": {"by": "ada", "gone": None}}
        job = await did(admin, "replay", filter={"ids": ["0:1", "0:3"]}, edits={"0:3": fixed})
        assert (job["done"], job["edited"]) == (2, 1)
        sent = await stored(admin, RETRY)
        assert [each.value for each in sent] == [b"m1", b"fixed"]
        assert dict(sent[1].headers)["by"] == b"ada"
        states = {each["id"]: each["state"] for each in await listed(admin, "?state=any")}
        assert states == {"0:0": "open", "0:1": "replayed", "0:2": "open", "0:3": "edited", "0:4": "open"}
        assert [each["id"] for each in await listed(admin, "?text=m4")] == ["0:4"]
        discarded = await did(admin, "discard", filter={"text": "m4"})
        assert (discarded["what"], discarded["done"]) == ("discard", 1)
        assert len(await stored(admin, RETRY)) == 2
        counts = (await admin.ask("GET", f"{Q}/deadletters")).json["counts"]
        assert counts == {"open": 2, "replayed": 1, "edited": 1, "discarded": 1}

    serve(test)


def test_a_dry_run_says_what_would_happen_and_does_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await admin.produce("orders", 0, [b"newer"])
        earliest = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
        assert (await admin.ask("PUT", "P/orders/subscription/stock?type=shared", earliest)).status == 204
        found = (await post(admin, "replay", dryRun=True)).json
        assert (found["letters"], found["keys"], found["keysWithNewer"]) == (3, 1, 1)
        assert (found["to"], found["members"], found["otherSubscriptions"]) == (RETRY, 0, [])
        assert await stored(admin, RETRY) == []
        everybody = (await post(admin, "replay", dryRun=True, to="topic")).json
        assert everybody["otherSubscriptions"] == ["stock"]
        assert len(await listed(admin)) == 3
        done = await did_plan(admin, "replay", found["plan"])
        assert done["done"] == 3
        assert (await post(admin, "replay", plan=found["plan"])).status == 409

    serve(test)


async def did_plan(admin: Admin, verb: str, plan: str) -> dict[str, Any]:
    answer = await post(admin, verb, plan=plan, wait=20)
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def test_a_plan_whose_selection_has_changed_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        plan = (await post(admin, "replay", dryRun=True)).json["plan"]
        await did(admin, "discard", filter={"ids": ["0:0"]})
        refused = await post(admin, "replay", plan=plan)
        assert (refused.status, "has changed" in refused.json["reason"]) == (409, True)
        assert await stored(admin, RETRY) == []

    serve(test)


def test_a_plan_is_of_the_letters_that_were_shown_and_not_of_as_many_others(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        plan = (await post(admin, "replay", dryRun=True)).json["plan"]
        await did(admin, "discard", filter={"ids": ["0:0"]})
        await one_more(admin)
        refused = await post(admin, "replay", plan=plan)
        assert (refused.status, "1 of 5 are not to be found any more, and 1 have come" in str(refused.json)) == (
            409, True,
        )  # fmt: skip
        assert await stored(admin, RETRY) == []

    serve(test)


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("anew", ["letters", "subscription", "topic"])
def test_a_plan_is_of_what_was_looked_at_and_not_of_another_of_its_name(
    serve: Serve, verb: str, anew: str
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        plan = (await post(admin, verb, dryRun=True)).json["plan"]
        if anew == "letters":
            assert (await admin.ask("DELETE", f"P/{DLQ}")).status == 204
            await admin.plain(DLQ)
            await admin.produce(DLQ, 0, [b"1", b"2", b"3"])
        elif anew == "topic":
            assert (await admin.ask("DELETE", "P/orders?force=true")).status == 204
            await made(admin)
        else:
            assert (await admin.ask("DELETE", "P/orders/subscription/billing?force=true")).status == 204
            earliest = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
            again = await admin.ask("PUT", "P/orders/subscription/billing?type=shared", earliest)
            assert again.status == 204, again
        refused = await post(admin, verb, plan=plan)
        assert (refused.status, "made anew since" in refused.json["reason"]) == (409, True), refused
        assert [each["state"] for each in await listed(admin, "?state=any")] == ["open"] * 3

    serve(test)


def test_what_came_since_is_not_sent_by_a_plan(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 100)
        plan = (await post(admin, "replay", dryRun=True)).json["plan"]
        await one_more(admin)
        assert (await did_plan(admin, "replay", plan))["done"] == 100
        assert [each["id"] for each in await listed(admin)] == ["0:100"]

    serve(test)


async def one_more(admin: Admin) -> None:
    """A letter more in the topic of the dead letters."""
    count = len(await stored(admin, DLQ))
    await admin.produce("orders", 0, [b"late"])
    (offset,) = await take(admin, "c1")
    await ack(admin, "c1", offset, offset, kind=3)
    await buried(admin, count + 1)


async def die_again(admin: Admin, count: int) -> None:
    """Whoever reads the RETRY topic rejects all of it."""
    reader = admin.broker.subscriptions.get("billing", RETRY)
    assert reader is not None
    at = reader.partition(0)
    at.attach("c1")
    given = at.fetch("c1", 10_000, 1 << 20, 10_000)
    if not isinstance(given, tuple):
        given = await given
    for first, last, _ in given.acquired:
        assert at.acknowledge("c1", [(first, last, b"\3")]) == 0
    await admin.broker.write([])
    await buried(admin, count)


def test_the_loop_guard_leaves_out_what_died_too_often(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        for turn in range(1, 4):
            assert (await did(admin, "replay"))["done"] == 2
            await die_again(admin, 2 + 2 * turn)
        assert [each["replays"] for each in await listed(admin)] == [3, 3]
        dry = (await post(admin, "replay", dryRun=True)).json
        assert (dry["letters"], dry["leftOut"]) == (0, 2)
        assert (await did(admin, "replay"))["leftOut"] == 2
        assert (await did(admin, "replay", maxReplays=4))["done"] == 2

    serve(test)


def test_a_replay_stops_when_more_than_a_tenth_dies_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.broker.redrive import jobs

    monkeypatch.setattr(jobs, "LOOK_S", 0)

    async def test(admin: Admin) -> None:
        await dead(admin, 100)
        # slow enough that it runs while they die
        answer = await post(admin, "replay", rate=200)
        number = answer.json["id"]
        async with asyncio.timeout(30):
            while (row := admin.broker.redrive.row(number)) is None or row.done < 20:
                await asyncio.sleep(0)
        await die_again(admin, 120)
        await admin.broker.redrive.wait(number, 20)
        job = (await admin.ask("GET", f"/admin/v2/magnetar/jobs/{number}")).json
        assert job["state"] == "stopped"
        assert "died again" in job["why"]
        assert job["done"] < 100
        left = await listed(admin, "?limit=1000")
        assert sum(each["replays"] == 0 for each in left) == 100 - job["done"]
        assert sum(each["replays"] == 1 for each in left) == job["diedAgain"]

    serve(test)


def test_jobs_are_listed_stopped_and_told_after_a_restart(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 30)
        first = (await post(admin, "replay", rate=1)).json
        assert first["state"] == "running"
        stopped = await admin.ask("POST", f"/admin/v2/magnetar/jobs/{first['id']}/stop")
        assert (stopped.status, stopped.json["state"]) == (200, "stopped")
        assert (await admin.ask("POST", f"/admin/v2/magnetar/jobs/{first['id']}/stop")).status == 409
        second = (await post(admin, "replay", rate=1)).json
        listing = (await admin.ask("GET", "/admin/v2/magnetar/jobs?limit=1")).json
        assert [each["id"] for each in listing["jobs"]] == [second["id"]]
        assert listing["next"] == str(second["id"])
        # what another process finds
        admin.broker.redrive.close()
        admin.broker.redrive._rows = None
        found = (await admin.ask("GET", f"/admin/v2/magnetar/jobs/{second['id']}")).json
        assert found["state"] == "interrupted"
        assert (await admin.ask("GET", "/admin/v2/magnetar/jobs/99")).status == 404

    serve(test)


def test_jobs_that_begin_at_once_forget_the_same_old_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await did(admin, "discard")
        await did(admin, "discard")
        monkeypatch.setattr(job_rows, "MOST", 2)
        write = admin.broker.write

        async def late(writes: Any) -> None:
            await write(writes)
            # as long as it takes the other one to begin
            await asyncio.sleep(0.05)

        monkeypatch.setattr(admin.broker, "write", late)
        found = await asyncio.gather(did(admin, "discard"), did(admin, "discard"))
        assert [each["state"] for each in found] == ["done"] * 2
        assert sorted(each["id"] for each in found) == [3, 4]
        assert [each.id for each in admin.broker.redrive.rows()] == [4, 3]

    serve(test)


def test_jobs_of_a_tenant_push_none_of_anothers_out(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await did(admin, "discard")
        redrive = admin.broker.redrive
        (mine,) = redrive.rows()
        monkeypatch.setattr(job_rows, "MOST", 2)
        theirs = msgspec.structs.replace(mine, letters="shop/eu/orders-billing-DLQ")
        known = redrive._known()
        for number in range(2, 4):
            known[number] = msgspec.structs.replace(theirs, id=number)
        await did(admin, "discard")
        assert [each.id for each in redrive.rows()] == [4, 3, 2, 1]
        await did(admin, "discard")
        assert [each.id for each in redrive.rows()] == [5, 4, 3, 2]
        # above the bound of all who has most makes room
        monkeypatch.setattr(job_rows, "MOST", 100)
        monkeypatch.setattr(job_rows, "MOST_IN_ALL", 4)
        await did(admin, "discard")
        assert [each.id for each in redrive.rows()] == [6, 5, 3, 2]
        assert [each.id for each in job_rows.load(admin.broker.store)] == [5, 6]

    serve(test)


def test_jobs_are_listed_by_pages(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        for _ in range(3):
            await did(admin, "discard")
        at = "/admin/v2/magnetar/jobs"
        page = (await admin.ask("GET", f"{at}?limit=2")).json
        assert ([each["id"] for each in page["jobs"]], page["next"]) == ([3, 2], "2")
        page = (await admin.ask("GET", f"{at}?limit=2&after=2")).json
        assert ([each["id"] for each in page["jobs"]], page.get("next")) == ([1], None)
        assert "next" not in (await admin.ask("GET", f"{at}?limit=3")).json

    serve(test)


def test_a_subscription_of_ours_is_nowhere_to_be_seen(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        await did(admin, "replay")
        assert (await admin.ask("GET", f"P/{DLQ}/subscriptions")).json == []
        assert (await admin.ask("GET", f"P/{DLQ}/stats")).json["subscriptions"] == {}

    serve(test)


def test_pages_go_on_where_the_last_one_ended(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 7)
        seen, after = [], ""
        while True:
            page = (await admin.ask("GET", f"{Q}/deadletters?limit=3&after={after}")).json
            seen += [each["id"] for each in page["letters"]]
            if "next" not in page:
                break
            after = page["next"]
        assert seen == [f"0:{n}" for n in range(7)]
        assert "next" not in (await admin.ask("GET", f"{Q}/deadletters?limit=7")).json

    serve(test)


def test_groups_say_what_their_letters_have_in_common(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        values = [
            json.dumps({"order": n, "country": "de" if n % 3 else "at", "v": {"currency": "EUR"}}).encode()
            for n in range(9)
        ]
        await admin.produce("orders", 0, values)
        earliest = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", earliest)).status == 204
        await take(admin, "c1")
        await ack(admin, "c1", 0, 8, kind=3)
        await buried(admin, 9)
        found = (await admin.ask("GET", f"{Q}/deadletters/groups?by=json:$.country")).json
        assert [(each["group"], each["count"]) for each in found["groups"]] == [("de", 6), ("at", 3)]
        common = {each["path"]: each["value"] for each in found["groups"][0]["common"]}
        assert common == {"$.country": "de", "$.v.currency": "EUR"}
        reasons = (await admin.ask("GET", f"{Q}/deadletters/groups")).json["groups"]
        assert [(each["group"], each["count"]) for each in reasons] == [("REJECTED", 9)]
        assert (await admin.ask("GET", f"{Q}/deadletters/groups?by=moon")).status == 400

    serve(test)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"filter": {"reasn": "x"}}, "no field"),
        ({"edits": {"0:1": {"value": "%"}}}, "base64"),
        ({"rate": 0}, "rate"),
        ({"moon": 1}, "The body"),
        ({"filter": {"since": "yesterday"}}, "ISO 8601"),
        ({"filter": {"ids": ["x"]}}, "PARTITION:OFFSET"),
    ],
)
def test_what_makes_no_sense_is_refused(serve: Serve, body: dict[str, Any], says: str) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await post(admin, "replay", **body)
        assert (answer.status, says in answer.json["reason"]) == (400, True), answer

    serve(test)


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_all_letters_are_meant_only_where_it_is_said(serve: Serve, verb: str) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        for body in (None, "{}", '{"rate": 5, "wait": 1}'):
            answer = await admin.ask("POST", f"{Q}/{verb}", body)
            assert (answer.status, "Say which letters" in answer.json["reason"]) == (400, True), answer
        assert (await admin.ask("GET", "/admin/v2/magnetar/jobs")).json["jobs"] == []
        assert (await did(admin, verb))["done"] == 2

    serve(test)


def test_another_topic_gets_them_by_their_keys_and_must_be_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        assert (await post(admin, "replay", to="elsewhere")).status == 404
        await admin.partitioned("elsewhere", 3)
        assert (await did(admin, "replay", to="elsewhere"))["done"] == 3
        assert [each.value for each in await stored(admin, "elsewhere")] == [b"m0", b"m1", b"m2"]
        assert (await post(admin, "replay", to=DLQ)).status == 412

    serve(test)


def test_the_list_of_subscriptions_counts_letters_that_are_open(serve: Serve) -> None:
    async def open_letters(admin: Admin) -> int:
        found = (await admin.ask("GET", "/admin/v2/magnetar/subscriptions?topic=orders")).json[
            "subscriptions"
        ]
        return int(next(each for each in found if each["subscription"] == "billing")["deadLetters"])

    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        for _ in range(3):
            assert await open_letters(admin) == 3
        assert not admin.broker.traffic.moved
        await did(admin, "discard", filter={"ids": ["0:0", "0:2"]})
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        assert topic.topic_id in admin.broker.traffic.moved, "who sorts by letters looks again"
        assert await open_letters(admin) == 1

    serve(test)


def test_a_group_with_slashes_sends_nothing_into_another_namespace(serve: Serve) -> None:
    """Its RETRY topic would be called as one of that."""

    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        path = "P/orders/subscription/a%2Fb%2Fc"
        assert (await admin.ask("PUT", f"{path}?type=shared", "{}")).status == 204
        refused = await admin.ask("POST", f"{path}/magnetar/replay", '{"filter": {}}')
        assert (refused.status, "retry.letter.topic" in refused.json["reason"]) == (412, True)

    serve(test)


def test_a_long_job_looks_its_partition_up_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody uses is let go meanwhile."""
    from gateway.broker.redrive import jobs

    monkeypatch.setattr(jobs, "REOPEN_S", -1)

    async def test(admin: Admin) -> None:
        await dead(admin, 150)
        assert (await did(admin, "replay"))["done"] == 150
        assert len(await stored(admin, RETRY)) == 150

    serve(test)


def test_a_dry_run_counts_keys_that_would_wait_behind_another_message(serve: Serve) -> None:
    """Of Key_Shared: one that was sent before was nacked, and what is sent of its key now comes after it."""

    async def test(admin: Admin) -> None:
        await dead(admin, 2, "key_shared")
        assert (await did(admin, "replay", filter={"ids": ["0:0"]}))["done"] == 1
        assert (await post(admin, "replay", dryRun=True)).json["keysBehindBlocked"] == 0
        reader = admin.broker.subscriptions.get("billing", RETRY)
        assert reader is not None
        at = reader.partition(0)
        at.attach("c1")
        await admin.broker.write([])
        acquired: list[tuple[int, int, Any]] = []
        async with asyncio.timeout(30):
            while not acquired:
                given = at.fetch("c1", 10, 1 << 20, 10)
                acquired = list((given if isinstance(given, tuple) else await given).acquired)
                await asyncio.sleep(0)
        ((first, last, _),) = acquired
        assert at.acknowledge("c1", [(first, last, b"\2")]) == 0
        await admin.broker.write([])
        found = (await post(admin, "replay", dryRun=True)).json
        assert (found["letters"], found["keys"], found["keysBehindBlocked"]) == (1, 1, 1)

    serve(test)


def test_a_tenant_leaves_jobs_to_others(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MOST_OF_TENANT", 1)

    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        begun = (await post(admin, "replay", rate=1)).json
        refused = await post(admin, "replay", rate=1)
        assert (refused.status, "1 jobs of tenant public" in refused.json["reason"]) == (503, True)
        assert (await admin.ask("POST", f"/admin/v2/magnetar/jobs/{begun['id']}/stop")).status < 300

    serve(test)
