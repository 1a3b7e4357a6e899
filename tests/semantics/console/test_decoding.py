"""Payloads as people read them, whoever wrote them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semantics.console.decoding import DEEPEST, HEX, JSON, LONGEST, PREVIEW, TEXT, decoded


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [
        (b'{"id": 7, "of": ["a", null, 1.5]}', JSON, {"id": 7, "of": ["a", None, 1.5]}),
        (b' [1]\n', JSON, [1]),
        (b'"quoted"', JSON, "quoted"),
        (b"3 apples", TEXT, "3 apples"),
        # a number by itself is what somebody wrote, with its zeros
        (b"007", TEXT, "007"),
        (b"", TEXT, ""),
        (b"  ", TEXT, "  "),
        ("Grüße\n\t✓".encode(), TEXT, "Grüße\n\t✓"),
        (b'{"id": 7', TEXT, '{"id": 7'),
        (b"\xff\xfe", HEX, "fffe"),
        (b"a\0b", HEX, "610062"),
        ("a\u0085b".encode(), HEX, "61c28562"),
        # what JSON readers would change or refuse stays text
        (b"[NaN]", TEXT, "[NaN]"),
        (b"[-Infinity]", TEXT, "[-Infinity]"),
        (b'["\\ud800"]', TEXT, '["\\ud800"]'),
        (b'["\\ud83d\\ude00"]', JSON, ["😀"]),
        (b"[18446744073709551616, 1e999, -9223372036854775808]", JSON, ["18446744073709551616", "1e999", -(2**63)]),
    ],
)  # fmt: skip
def test_bytes_are_shown_as_what_they_are(data: bytes, kind: str, value: Any) -> None:
    found = decoded(data)
    assert (found.kind, found.value, found.schema_id, found.cut) == (kind, value, None, False)


@pytest.mark.parametrize("opens", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [DEEPEST + 1, 20_000])
def test_what_is_nested_too_deep_is_text(opens: bytes, depth: int) -> None:
    closes = b"]" if opens == b"[" else b"}"
    depth = min(depth, LONGEST // (len(opens) + 1) - 1)
    data = opens * depth + b"1" + closes * depth
    assert decoded(data).kind == TEXT
    shallow = opens * DEEPEST + b"1" + closes * DEEPEST
    assert decoded(shallow).kind == JSON
    # siblings are not depth
    assert decoded(b"[" + b",".join([b"[]"] * 1000) + b"]").kind == JSON


def test_a_number_of_many_digits_takes_no_time_and_stays_what_it_was() -> None:
    digits = "9" * (LONGEST - 2)
    assert decoded(f"[{digits}]".encode()).value == [digits]


def test_only_so_many_bytes_are_looked_at() -> None:
    long = decoded(b"x" * (LONGEST + 1))
    assert (long.kind, len(long.value), long.cut) == (TEXT, LONGEST, True)
    # cut through a letter
    letters = decoded("ä".encode() * LONGEST)
    assert (letters.kind, letters.cut) == (TEXT, True)
    split = decoded(b"x" + "ä".encode() * LONGEST)
    assert (split.kind, split.value[-1]) == (TEXT, "ä")
    binary = decoded(b"\xff" * (PREVIEW + 1))
    assert (binary.kind, binary.value, binary.cut) == (HEX, "ff" * PREVIEW, True)


def test_confluents_wire_format_tells_its_schema() -> None:
    registered = decoded(b"\0\0\0\0\x07" + b'{"id": 1}')
    assert (registered.kind, registered.value, registered.schema_id) == (JSON, {"id": 1}, 7)
    avro = decoded(b"\0\0\0\1\0" + b"\x02\x06\xff")
    assert (avro.kind, avro.value, avro.schema_id) == (HEX, "000000010002" + "06ff", 256)
    # neither of these has a schema's id
    assert decoded(b"\0\0\0\0\0{}").schema_id is None
    assert decoded(b"\0\xff\xff\xff\xff{}").schema_id is None
    assert decoded(b"\0\0\0\0\7").schema_id is None


@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.recursive(
            st.none() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ).map(lambda value: json.dumps(value).encode()),
    )
)
@example(b'{"a":"\\udc00"}')
def test_whatever_it_is_an_answer_in_json_can_carry_it(data: bytes) -> None:
    found = decoded(data)
    assert msgspec.json.decode(msgspec.json.encode(found.value)) == found.value
