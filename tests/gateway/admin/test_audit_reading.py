"""The audit by pages: what memory and the topic have, as one list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admin import audit_reading
from gateway.admin.audit_reading import BEFORE, Kept, Place, merged
from gateway.audit import Audit, Entry, Kind
from gateway.broker.audit_log import Act
from tests.gateway.admin.billing import made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_acts import done
from tests.gateway.admin.test_audit_topic import AT, kept, serve

ON = "audit.topic=true"
WATCH = json.dumps({"key": "k", "minutes": 1})


async def pages(admin: Admin, limit: int, **said: str) -> list[list[dict[str, Any]]]:
    """All of them, by their `next`."""
    found, after = [], ""
    query = "".join([f"&{name}={value}" for name, value in said.items()])
    while True:
        page = (await admin.ask("GET", f"{AT}?limit={limit}{query}&after={after}")).json
        assert len(page["entries"]) <= limit
        found.append(page["entries"])
        after = page.get("next", "")
        if not after:
            return found


async def targets(admin: Admin, limit: int, **said: str) -> list[str]:
    return [each.get("target", "") for page in await pages(admin, limit, **said) for each in page]


async def restarted(admin: Admin) -> None:
    """Memory is as after a start."""
    await admin.broker.write([])
    clock, loop = admin.broker.clock, admin.broker.loop
    admin.broker.audit = Audit(100, clock.wall_ms, loop.time)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_what_came_before_a_restart_is_on_later_pages(limit: int) -> None:
    async def test(admin: Admin) -> None:
        for name in ("a", "b", "c"):
            await admin.plain(name)
        await kept(admin)
        await restarted(admin)
        admin.broker.audit.change("CreateTopics", "User:kim", "h", "kafka", target="between")
        await admin.plain("d")
        await admin.ask("DELETE", "P/nope")
        found = [each.rpartition("/")[2] for each in await targets(admin, limit)]
        # it may be of the same millisecond as one of those beside it
        found.remove("between")
        assert found == ["nope", "d", "c", "b", "a"]
        assert [each.rpartition("/")[2] for each in await targets(admin, limit, kind="refused")] == ["nope"]
        assert [each.rpartition("/")[2] for each in await targets(admin, limit, who="kim")] == ["between"]
        assert len(await targets(admin, limit, who="ANONYMOUS", kind="change")) == 4

    serve(test, ON)


def test_what_comes_meanwhile_shifts_no_page() -> None:
    async def test(admin: Admin) -> None:
        for name in ("a", "b", "c"):
            await admin.plain(name)
        await kept(admin)
        first = (await admin.ask("GET", f"{AT}?limit=2&after=")).json
        await admin.plain("d")
        await kept(admin)
        second = (await admin.ask("GET", f"{AT}?limit=2&after={first['next']}")).json
        assert [each["target"][-1] for each in (*first["entries"], *second["entries"])] == ["c", "b", "a"]

    serve(test, ON)


def test_a_search_that_takes_long_ends_its_page_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        for name in ("a", "b", "c", "d"):
            await admin.plain(name)
        await kept(admin)
        # a page is over after one stretch
        monkeypatch.setattr(audit_reading, "PAGE_NS", 0)
        monkeypatch.setattr(audit_reading, "STRETCH", 2)
        assert [each[-1] for each in await targets(admin, 100)] == ["d", "c", "b", "a"]
        assert len(await pages(admin, 100)) >= 2

    serve(test, ON)


def test_a_cursor_that_is_moved_is_told_once_whatever_stands_behind_its_verb() -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        await kept(admin)
        assert (await admin.ask("POST", "P/orders/subscription/billing/skip/2")).status == 204
        for found in (
            (await pages(admin, 10))[0],
            (await admin.ask("GET", f"{AT}?since=1&kind=change")).json,
        ):
            (skipped,) = [each for each in found if "skip" in each["target"]]
            assert skipped["counts"] == {"messages": 2}

    serve(test, ON)


def test_without_the_topic_memory_is_what_there_is_and_says_which_act_it_was() -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await done(admin, "settle", filter={}, plan=plan["plan"])
        (found,) = await pages(admin, 10)
        assert [(each["what"], each.get("act"), each.get("counts")) for each in found][:2] == [
            ("POST", "settle", {"messages": 3}), ("PUT", None, None),
        ]  # fmt: skip

    serve(test)


def test_messages_of_slices_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.admin.acts.SLICE", 2)

    async def test(admin: Admin) -> None:
        await made(admin, count=5)
        plan = await done(admin, "settle", filter={}, dryRun=True)
        await done(admin, "settle", filter={}, plan=plan["plan"])
        assert (await pages(admin, 10))[0][0]["counts"] == {"messages": 5}

    serve(test)


def test_what_is_no_place_is_refused() -> None:
    async def test(admin: Admin) -> None:
        for text in ("x", "1-2", "1-2-3-4", "-1-2-3", "1-2-99999999999999999"):
            assert (await admin.ask("GET", f"{AT}?after={text}")).status == 400, text

    serve(test, ON)


# -- dry runs

PREVIEWS = [
    ("act", {"do": "settle", "messages": ["nothing"]}),
    ("act", {"do": "eat"}),
    ("act", {"do": "settle", "filter": {"colour": "red"}}),
    ("replay", {"filter": {"colour": "red"}}),
    ("discard", {"rate": -1}),
    ("replay", {"to": "nowhere"}),
]


@pytest.mark.parametrize(("verb", "body"), PREVIEWS)
def test_a_dry_run_that_makes_no_sense_is_no_change_and_no_refusal(verb: str, body: dict[str, Any]) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        path = f"P/orders/subscription/billing/magnetar/{verb}"
        before = await targets(admin, 10)
        assert (await admin.ask("POST", path, json.dumps({**body, "dryRun": True}))).status in (400, 404)
        assert await targets(admin, 10) == before
        # what was to be done is told
        assert (await admin.ask("POST", path, json.dumps(body))).status in (400, 404)
        assert (await targets(admin, 10))[0].endswith(f"magnetar/{verb}")

    serve(test, ON)


def test_a_body_that_is_none_is_no_dry_run() -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        path = "P/orders/subscription/billing/magnetar/act"
        for body in ('{"dryRun": true', '["dryRun"]', '{"dryRun": false, "do": "x"}'):
            before = await targets(admin, 10)
            assert (await admin.ask("POST", path, body)).status == 400
            assert len(await targets(admin, 10, kind="refused")) == 1
            assert (await targets(admin, 10))[-1] == before[-1]

    serve(test)


def test_reads_that_are_no_get_are_no_change() -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        before = await targets(admin, 10)
        assert (await admin.ask("POST", "P/orders/subscription/billing/analyzeBacklog")).status == 200
        assert (await admin.ask("POST", "P/orders/subscription/none/analyzeBacklog")).status == 404
        await admin.ask("PUT", "P/orders/backlogSize", '{"ledgerId": 0, "entryId": 0}')
        assert (await admin.ask("POST", "P/orders/subscription/billing/magnetar/watch", WATCH)).status == 200
        assert await targets(admin, 10) == before

    serve(test, ON)


# -- as one list

events = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["kept", "both", "memory"])), max_size=30)


@given(events, st.integers(1, 7), st.integers(0, 30), st.integers(1, 60))
def test_pages_have_everything_once_in_order(
    steps: list[tuple[int, str]], limit: int, forgotten: int, stretch: int
) -> None:
    """However few records of the topic are looked at for a page, and whatever memory has forgotten."""
    time, acts, entries = 0, list[Kept](), list[Entry]()
    told: list[tuple[int, str]] = []
    for number, (later, where) in enumerate(steps):
        time += later
        name = f"t{number}"
        if where != "memory":
            acts.append(Kept(len(acts), Act(time, "ann", "h", "PUT", name)))
        if where != "kept" and number >= forgotten:
            entries.append(Entry(number, time, Kind.CHANGE, "PUT", "ann", "h", "http", "done", name))
        if where != "memory" or number >= forgotten:
            told.append((time, name))
    found: list[tuple[int, str]] = []
    place: Place | None = Place()
    for _ in range(1000):
        assert place is not None
        top = min(place.offset + BEFORE, len(acts))
        below = [each for each in reversed(acts) if each.offset < top]
        before = [each for each in below if each.offset >= place.offset]
        some = below[len(before) :][:stretch]
        reached = some[-1].offset if some else 0
        remembered = [each for each in entries if (each.time, each.number) < (place.time, place.number)]
        page = merged(some, remembered, limit, place, reached, before)
        assert len(page.rows) <= limit
        found += [(row["time"], row["target"]) for row in page.rows]
        place = page.next
        if place is None:
            break
    assert sorted(found) == sorted(told)
    assert [each[0] for each in found] == sorted([each[0] for each in found], reverse=True)
