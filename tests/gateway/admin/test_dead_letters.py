"""Dead letters as the API lists them: how long a call looks, and where the next goes on. More is in test_replaying."""

from __future__ import annotations

import asyncio
import base64
import json
from itertools import count
from typing import Any

import pytest

from gateway.admin import slices
from gateway.admin.dead_letters import ANSWER, MOST_HEADER, MOST_HEADERS, MOST_TEXT, Walk, graves_at
from gateway.admin.exchange import Call
from gateway.broker.redrive import reading
from gateway.broker.redrive.place import Graves
from gateway.wire import compression, records
from gateway.wire.letters import MESSAGE
from gateway.wire.properties import ORIGIN_MESSAGE_ID
from semantics.console.grouping import Group
from semantics.console.letter_filter import read_id
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.test_replaying import DLQ, Q, dead
from tests.gateway.admin.test_stretches import Turns

LETTERS = 1_500


async def furnished(admin: Admin) -> None:
    """One letter more than LETTERS, the last another."""
    await dead(admin, 1)
    await admin.produce(DLQ, 0, [b"x"] * (LETTERS - 1))
    await admin.produce(DLQ, 0, [b"found"])


async def written(admin: Admin, *letters: records.Record) -> None:
    """Letters of a client's own."""
    topic = admin.broker.catalog.get(DLQ)
    assert topic is not None
    # few bytes unfold to many
    batch = records.build_batch(letters, codec=compression.GZIP)
    admin.broker.partition(topic, 0).append(batch, records.header(batch), admin.broker.clock.wall_ms())
    await admin.broker.write([])


def test_a_page_ends_with_its_time_and_the_next_goes_on(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await furnished(admin)
        whole = (await admin.ask("GET", f"{Q}/deadletters?text=found")).json
        assert (whole["looked"], len(whole["letters"]), "next" in whole) == (LETTERS + 1, 1, False)
        found: list[dict[str, Any]] = []
        looked, after, pages = 0, "", 0
        while True:
            page = (await admin.ask("GET", f"{Q}/deadletters?text=found&work=1&after={after}")).json
            looked, found, pages = looked + page["looked"], found + page["letters"], pages + 1
            if "next" not in page:
                break
            after = page["next"]
        assert (looked, found) == (LETTERS + 1, whole["letters"])
        assert pages > 1
        for work in ("0", "201", "x"):
            assert (await admin.ask("GET", f"{Q}/deadletters?work={work}")).status == 400

    serve(test)


def test_groups_say_that_they_are_not_of_all_when_their_time_is_over(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await furnished(admin)
        part = (await admin.ask("GET", f"{Q}/deadletters/groups?work=1")).json
        assert part["atLeast"] is True
        assert part["looked"] < LETTERS
        whole = (await admin.ask("GET", f"{Q}/deadletters/groups")).json
        assert ("atLeast" in whole, whole["looked"]) == (False, LETTERS + 1)

    serve(test)


def test_a_header_whose_name_is_no_text_keeps_no_letter_from_being_listed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        # as what comes from the wire has it
        odd: records.Headers = [("a\udcff", b"1")]
        await written(admin, records.Record(0, admin.broker.clock.wall_ms(), None, b"odd", odd))
        answer = await admin.ask("GET", f"{Q}/deadletters")
        assert [each["value"] for each in answer.json["letters"]] == ["m0", "odd"]
        assert answer.json["letters"][1]["headers"] == {"a\ufffd": "1"}

    serve(test)


def test_of_a_letter_with_very_much_in_it_the_beginning_is_listed(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        headers: records.Headers = [(f"h{number}", b"y" * 1_000) for number in range(MOST_HEADERS)]
        headers += [("n" * 1_000, None), (MESSAGE, b"m" * 10_000), (ORIGIN_MESSAGE_ID, b"o" * 10_000)]
        now = admin.broker.clock.wall_ms()
        await written(admin, records.Record(0, now, b"\xff" * 10_000, b"v" * 10_000, headers))
        (letter,) = (await admin.ask("GET", f"{Q}/deadletters?text=vvv")).json["letters"]
        assert len(letter["headers"]) == MOST_HEADERS
        assert {len(value) for value in letter["headers"].values()} == {MOST_HEADER}
        assert (letter["headersLeftOut"], letter["keyCut"]) == (1, True)
        assert len(letter["key"]) == len(letter["message"]) == MOST_TEXT
        assert len(base64.b64decode(letter["keyBase64"])) == MOST_TEXT
        assert len(letter["origin"]["messageId"]) == MOST_HEADER
        (plain,) = (await admin.ask("GET", f"{Q}/deadletters?text=m0")).json["letters"]
        assert not {"headersLeftOut", "keyCut", "keyBase64"} & plain.keys()

    serve(test)


def test_a_page_of_letters_ends_when_it_is_large_and_the_next_goes_on(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        now = admin.broker.clock.wall_ms()
        headers: records.Headers = [(f"h{number}", b"y" * MOST_HEADER) for number in range(50)]
        many = 3 * ANSWER // (50 * MOST_HEADER)
        await written(admin, *(records.Record(n, now, b"k", b"big", headers) for n in range(many)))
        found, after, pages = 0, "", 0
        while True:
            answer = await admin.ask("GET", f"{Q}/deadletters?limit=1000&text=big&after={after}")
            assert len(answer.body) < 2 * ANSWER
            found, pages = found + len(answer.json["letters"]), pages + 1
            if "next" not in answer.json:
                break
            after = answer.json["next"]
        assert (found, pages) == (many, 3)

    serve(test)


@pytest.mark.parametrize("by", ["reason", "json:$.a", "json:$.b"])
def test_half_of_a_surrogate_keeps_no_letter_from_its_group(serve: Serve, by: str) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await admin.produce(DLQ, 0, [b'{"a": "\\ud800", "b": {"\\udfff": 1}}'] * 2)
        answer = await admin.ask("GET", f"{Q}/deadletters/groups?by={by}")
        assert answer.status == 200
        assert sum(each["count"] for each in answer.json["groups"]) == 3

    serve(test)


def test_of_many_that_look_at_letters_one_has_each_turn(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns()
    turns.watch(monkeypatch, Graves, "holds")
    monkeypatch.setattr(reading, "SLICE_S", -1.0)

    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        async with turns.counting():
            answers = await asyncio.gather(
                *(
                    admin.ask("GET", f"{Q}/deadletters{more}")
                    for more in ("", "?text=m", "/groups", "/groups?by=json:$.a")
                )
            )
        assert [answer.status for answer in answers] == [200] * 4
        assert turns.steps.total() == 4 * 5
        assert max(turns.steps.values()) == 1

    serve(test)


def test_others_have_their_turn_between_two_groups_told_and_forgotten(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, forgotten = Turns(), Turns()
    told.watch(monkeypatch, Group, "common")
    monkeypatch.setattr(Group, "__del__", lambda _: None, raising=False)
    forgotten.watch(monkeypatch, Group, "__del__")
    # each look is long
    looks = count()
    monkeypatch.setattr(slices, "perf_counter", lambda: float(next(looks)))

    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        await admin.produce(DLQ, 0, [b'{"a": %d}' % number for number in range(9)])
        async with told.counting(), forgotten.counting():
            answer = await admin.ask("GET", f"{Q}/deadletters/groups?by=json:$.a")
        assert answer.json["groupsFound"] == 10
        for turns in (told, forgotten):
            assert turns.steps.total() == 10
            assert max(turns.steps.values()) == 1

    serve(test)


def test_a_walk_without_any_time_comes_on_by_a_letter_or_a_partition(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 1)
        chosen = json.dumps({"pulsar.dead.letter.topic": "graves"})
        assert (await admin.ask("PUT", "P/orders/subscription/billing/properties", chosen)).status == 204
        await admin.partitioned("graves", 5)
        await admin.produce("graves", 1, [b"a", b"b"])
        await admin.produce("graves", 4, [b"c"])
        path = (
            "persistent",
            "public",
            "default",
            "orders",
            "subscription",
            "billing",
            "magnetar",
            "deadletters",
        )
        graves = (await graves_at(admin.broker, Call("GET", path))).graves
        values, after = [], (0, 0)
        for _ in range(20):
            walk = Walk(admin.broker, graves, after, seconds=0)
            values += [letter.value async for letter, _ in walk.letters()]
            if walk.over:
                break
            after = read_id(walk.next)
        assert values == [b"a", b"b", b"c"]
        assert walk.over

    serve(test)
