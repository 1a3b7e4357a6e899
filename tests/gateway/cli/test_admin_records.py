"""What `topics produce` reads and `topics consume` writes, without a gateway."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.cli.admin_client import AdminError
from gateway.cli.admin_records import (
    Record,
    Template,
    as_json,
    from_json,
    from_lines,
    header,
    human,
    moment_ms,
    span_ms,
    unescaped,
)


def test_a_line_is_a_message_with_a_key_in_front_of_the_separator() -> None:
    lines = [b"ada:3 apples\n", b"a:b:c\r\n", b":empty key\n", b"key:\n", b"bob:last"]
    found = [(record.key, record.value) for record in from_lines(lines, b":")]
    assert found == [
        (b"ada", b"3 apples"), (b"a", b"b:c"), (b"", b"empty key"), (b"key", b""), (b"bob", b"last"),
    ]  # fmt: skip
    assert [record.value for record in from_lines([b"a:b\n", b"\n"])] == [b"a:b", b""]
    assert [record.value for record in from_lines([b"k:\n"], b":", null_when_empty=True)] == [None]


def test_a_line_without_the_separator_is_named_unless_there_is_a_key_for_it() -> None:
    lines = from_lines([b"ada:3 apples\n", b"no key\n"], b"\t:")
    with pytest.raises(AdminError, match="Line 1 has no key: there is no"):
        next(lines)
    lines = from_lines([b"ada:3 apples\n", b"no key\n"], b":")
    assert next(lines).key == b"ada"
    with pytest.raises(AdminError, match="Line 2 has no key: there is no ':' in it"):
        next(lines)
    (record,) = from_lines([b"no key\n"], b":", keyless=True)
    assert (record.key, record.value) == (None, b"no key")


binary = st.none() | st.binary()
names = st.text(st.characters(exclude_categories=["Cs"]))


@given(binary, binary, st.lists(st.tuples(names, binary)))
def test_what_is_consumed_as_json_is_produced_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    consumed = Record(value, key, headers, "orders", 3, 17, 1_700_000_000_000, 2)
    line = as_json(consumed)
    assert "\n" not in line
    (again,) = from_json([line.encode()])
    assert (again.key, again.value, again.headers) == (key, value, headers)


def test_json_has_one_style() -> None:
    record = Record(b"3 apples", None, [("colour", b"red")], "orders", 0, 7, 5, 2)
    assert json.loads(as_json(record)) == {
        "topic": "orders", "partition": 0, "offset": 7, "timestamp": 5, "key": None, "value": "3 apples",
        "headers": [{"key": "colour", "value": "red"}], "deliveryCount": 2,
    }  # fmt: skip
    assert json.loads(as_json(Record(b"\xff")))["valueBase64"] == "/w=="


def test_json_may_be_short_and_its_value_an_object() -> None:
    (record,) = from_json([b"\n", b'{"value": {"n": 1, "b": [true]}, "headers": {"a": "b", "none": null}}\n'])
    assert record.value == b'{"n":1,"b":[true]}'
    assert record.headers == [("a", b"b"), ("none", None)]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"{", "Line 2"), (b"[]", "no object"), (b'{"vaule": 1}', "vaule"), (b'{"key": "k"}', "no value"),
        (b'{"valueBase64": "?"}', "Line 2"), (b'{"valueBase64": 1}', "no text"),
        (b'{"value": 1, "headers": 3}', "headers"),
        (b"\xff", "Line 2"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_named_by_its_line(line: bytes, word: str) -> None:
    with pytest.raises(AdminError) as refused:
        list(from_json([b'{"value": "good"}\n', line]))
    assert "Line 2 is no record" in refused.value.reason
    assert word in refused.value.reason


def test_a_person_reads_one_line_and_nothing_reaches_the_terminal_raw() -> None:
    record = Record(
        "3 äpfel\n\x1b[2J".encode() + b"\xff", b"ada", [("a", b"b"), ("c", None)], "orders", 1, 17, 0, 2
    )
    assert human(record) == (
        r"[1:17 1970-01-01T00:00:00.000Z] ada: 3 äpfel\n\x1b[2J\xff {a=b, c=(null)} (delivery 2)"
    )
    assert human(Record(None, None, [], "orders", 0, 1)) == "[0:1] (null)"
    assert human(Record(b"v", None, [], "orders", 0, 1, 2**62)) == f"[0:1 {2**62}] v"


def test_templates_are_kcats() -> None:
    record = Record(b"3 apples", b"ada", [("a", b"b"), ("c", None)], "orders", 1, 17, 5, 2)
    assert Template(r"%t %p %o %k %K %s %S %h %T %d %%\n\t\x41ü").render(record) == (
        "orders 1 17 ada 3 3 apples 8 a=b,c=NULL 5 2 %\n\tAü".encode()
    )
    assert Template("%k|%K|%s|%S|%d").render(Record(None)) == b"|-1||-1|0"
    for wrong in ("%z", "%s %"):
        with pytest.raises(AdminError, match="means nothing"):
            Template(wrong)


def test_escapes() -> None:
    assert unescaped(r"a\tb\\n\x00\xFF\e\0ü\\q") == b"a\tb\\n\x00\xff\x1b\0" + "ü\\q".encode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [(r"a\q", r"'\q'"), (r"\x4", r"'\x'"), (r"\xg1", r"'\x'"), ("a\\", "'\\'"), ("\\\n", r"'\\n'")],
)
def test_what_is_no_escape_is_refused(text: str, shown: str) -> None:
    with pytest.raises(AdminError) as refused:
        unescaped(text, "--key-separator")
    assert refused.value.reason.startswith(f"{shown} means nothing in --key-separator. There are ")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("5s", 5000), ("5", 5000), ("1.5m", 90_000), ("2h", 7_200_000), ("1w", 604_800_000)],
)  # fmt: skip
def test_time_spans(text: str, ms: int) -> None:
    assert span_ms(text) == ms


@pytest.mark.parametrize("text", ["", "s", "-5s", "5 s", "5y", "1e3s", "５s"])
def test_what_is_no_time_span(text: str) -> None:
    with pytest.raises(AdminError):
        span_ms(text)


def test_points_in_time() -> None:
    noon = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
    for text in (str(noon), "2026-01-31T12:00:00Z", "2026-01-31 12:00", "2026-01-31T13:00:00+01:00"):
        assert moment_ms(text) == noon
    for wrong in ("", "noon", "31.1.2026"):
        with pytest.raises(AdminError):
            moment_ms(wrong)


def test_headers() -> None:
    assert header("a=b=c") == ("a", b"b=c")
    assert header("a=") == ("a", b"")
    for wrong in ("a", "=b"):
        with pytest.raises(AdminError):
            header(wrong)
