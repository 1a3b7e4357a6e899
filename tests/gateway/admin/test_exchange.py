"""Calls and replies without HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.admin import exchange
from gateway.admin.exchange import Call, RefusedError


@pytest.mark.parametrize(
    ("query", "default", "found"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"force": ""}, True, True),
        ({"force": "true"}, False, True),
        ({"force": "FALSE"}, True, False),
        ({"other": "true"}, False, False),
    ],
)
def test_a_parameter_is_true_or_false(query: dict[str, str], default: bool, found: bool) -> None:
    assert Call("GET", (), query).flag("force", default) is found


@pytest.mark.parametrize("text", ["yes", "1", " true", "x" * 1000])
def test_a_parameter_that_is_neither_is_refused_and_not_repeated_at_length(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        Call("GET", (), {"force": text}).flag("force")
    assert (refused.value.status, refused.value.reason) == (
        400, f"The parameter force is true or false, not '{text[:40]}'.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, 9),
        ({"n": ""}, 9),
        ({"n": "1"}, 1),
        ({"n": "20"}, 20),
        ({"n": "007"}, 7),
        ({"n": "9".zfill(19)}, 9),
    ],
)
def test_a_parameter_is_a_number(query: dict[str, str], found: int) -> None:
    assert Call("GET", (), query).whole_number("n", 1, 20, 9) == found


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "21",
        "-1",
        "+1",
        "1.0",
        "one",
        " 1",
        "1_0",
        "٣",
        "9" * 5_000,
        "2".zfill(20),
        "0" * 19 + "199999",
        "0" * 19 + "9" * 4_300,
    ],
)
def test_a_parameter_that_is_no_number_or_another_is_refused(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        Call("GET", (), {"n": text}).whole_number("n", 1, 20)
    assert (refused.value.status, refused.value.reason) == (
        400, f"The parameter n is a number from 1 to 20, not {text[:40]!r}.",
    )  # fmt: skip


@pytest.mark.parametrize(("body", "found"), [(b"", None), (b" \n", None), (b"null", None), (b" [1] ", [1])])
def test_a_body_is_json_or_nothing(body: bytes, found: object) -> None:
    assert Call("PUT", (), body=body).json() == found


@pytest.mark.parametrize("body", [b"{", b"nonsense", b'"\xff"', b"[" * 100_000, b"1 2"])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(RefusedError, match="The body is not JSON: ") as refused:
        Call("PUT", (), body=body).json()
    assert refused.value.status == 400


def test_a_write_has_no_body_and_tells_what_it_did_in_a_header() -> None:
    did = exchange.done(messages=3, before=0)
    assert (did.status, did.body, did.content_type) == exchange.DONE[:3] == (204, b"", None)
    assert json.loads(did.headers["X-Magnetar-Result"]) == {"messages": 3, "before": 0}


def test_json_is_typed_words_are_bare_and_an_error_is_an_object() -> None:
    assert exchange.json(["ü"])[:3] == (200, '["ü"]'.encode(), "application/json")
    assert exchange.text("ok")[:3] == (200, b"ok", "text/plain; charset=utf-8")
    refused = exchange.refusal(409, 'There is "one".')
    assert (refused.status, refused.content_type) == (409, "application/json")
    assert json.loads(refused.body) == {"reason": 'There is "one".'}


@pytest.mark.parametrize(
    "value", [{"a": 1, "each": {"x": {"b": [1]}, "ü\n": None}}, {"each": {}}, {"each": {"x": 1}, "z": 2}]
)
def test_an_answer_of_many_things_is_the_same_json(value: dict[str, object]) -> None:
    reply = asyncio.run(exchange.json_of_many(value, "each"))
    assert json.loads(reply.body) == value
    assert reply.looked_through
    assert reply.value is value


@pytest.mark.parametrize(
    "value",
    [{"each": {"shop/eu/\x1fg": 1}}, {"each": {"x": "shop/eu/\x1fg"}}, {"g": "shop/eu/\x1fg", "each": {}}],
)
def test_an_answer_of_many_things_says_whether_ids_of_groups_may_be_in_it(value: dict[str, object]) -> None:
    assert not asyncio.run(exchange.json_of_many(value, "each")).looked_through


@pytest.mark.parametrize(
    "value",
    [{}, {"a": {}}, {"a": {"x": {"n": [1, None]}}, "ü\n": {"y": "z", "x": 2}}, {"a": {"\ud7ff": "é"}}],
)
def test_an_answer_of_many_things_below_names_is_the_same_json(value: dict[str, object]) -> None:
    reply = asyncio.run(exchange.json_of_tree(value, 2))
    assert json.loads(reply.body) == value
    assert reply.looked_through
    assert reply.value is value
    with_id = asyncio.run(exchange.json_of_tree({**value, "g": {"shop/eu/\x1fg": 1}}, 2))
    assert not with_id.looked_through
