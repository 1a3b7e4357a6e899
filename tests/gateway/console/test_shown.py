"""Numbers, ages and values as people read them."""

from __future__ import annotations

import pytest

from gateway.console import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (0.25, "0.2"), (12.6, "13"), (1812.0, "1,812"), (-1, "-1")],
)
def test_numbers(value: float, text: str) -> None:
    assert shown.number(value) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0.0 s"), (400, "0.4 s"), (12_000, "12 s"), (60_000, "1 min"), (262_000, "4 min 22 s"),
        (47 * 60_000, "47 min"), (90 * 60_000, "1 h 30 min"), (2 * 3_600_000, "2 h"), (148 * 3_600_000, "6 d 4 h"),
    ],
)  # fmt: skip
def test_ages(ms: int, text: str) -> None:
    assert shown.age(ms) == text


def test_sizes() -> None:
    assert [shown.size(each) for each in (0, 1023, 1536, 200 * 1024, 5 << 40, -1)] == [
        "0 B", "1023 B", "1.5 KiB", "200 KiB", "5.0 TiB", "no limit",
    ]  # fmt: skip


def test_a_key_is_one_line_whatever_is_in_it() -> None:
    assert shown.one_line(b"customer-17") == "customer-17"
    assert shown.one_line(None) == ""
    assert shown.one_line(b"a\nb\x07") == "a\\u000ab\\u0007"
    assert shown.one_line(b"\xff\xfe") == "fffe"
    # text that is turned round reads as something else
    assert "‮" not in shown.one_line("safe‮exe".encode())
    assert shown.one_line(b"x" * 1000, 10) == "x" * 10 + "…"
    # cut within a character
    assert shown.one_line("ä".encode() * 500, 10).startswith("ä" * 10)


def test_json_keeps_its_numbers_and_is_escaped() -> None:
    found = shown.value(b'{"a":1.50,"big":123456789012345678901234567890,"t":"<script>alert(1)</script>"}')
    assert found.kind == "JSON"
    assert "<script>" not in found.text
    assert "&lt;script&gt;" in found.text
    assert '<span class="j-n">1.50</span>' in found.text
    assert "123456789012345678901234567890" in found.text


def test_json_that_would_make_a_great_many_lines_is_not_put_in_lines() -> None:
    """32 KB of it made 28 MB, and held the loop for nine seconds."""
    deep = b"[" * 900 + b"1," * 15_000 + b"1" + b"]" * 900
    assert shown.value(deep) == ("JSON", deep.decode(), False)
    wide = b"[" * shown.DEEPEST + b"1," * 30_000 + b"1" + b"]" * shown.DEEPEST
    for found in shown.value(wide), shown.by_schema("AVRO", wide):
        assert found.cut
        assert len(found.text) == shown.LARGEST_TEXT
        assert "\n" in found.text
    large = b"[" + b"1," * shown.LARGEST_JSON + b"1]"
    assert shown.by_schema("AVRO", large) == ("Avro", large.decode()[: shown.LARGEST_TEXT], True)


def test_what_is_no_json_is_text_and_what_is_no_text_hex() -> None:
    assert shown.value(b"<b>x</b> \x1b[31m").text == "&lt;b&gt;x&lt;/b&gt; \\u001b[31m"
    assert shown.value(b"{broken").kind == "text"
    found = shown.value(bytes(range(256)) * 4)
    assert (found.kind, found.cut) == ("hex", True)
    assert (
        found.text.splitlines()[4]
        == "00000040  40 41 42 43 44 45 46 47 48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"
    )
    assert shown.value(b"abc", "hex").kind == "hex"
    assert shown.value(b'{"a":1}', "text").kind == "text"
    assert shown.value(b"\xff", "text").text == "�"
    assert shown.value(b"").kind == "text"


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b"9" * 60_000,
        b'"' + b"\\u" * 20_000,
        b"1e" + b"9" * 5000,
        b'"\\ud800"',
    ],
    ids=["deep", "deep objects", "huge", "broken escapes", "huge exponent", "lone surrogate"],
)
def test_hostile_values_are_shown_somehow(hostile: bytes) -> None:
    assert shown.value(hostile).kind in ("JSON", "text", "hex")


def test_a_word_of_one_and_of_others() -> None:
    assert [f"{count} {shown.plural('byte', count)}" for count in (0, 1, 2, 0.5)] == [
        "0 bytes", "1 byte", "2 bytes", "0.5 bytes",
    ]  # fmt: skip


def test_a_name_is_cut_where_a_key_is() -> None:
    assert shown.short("plain") == "plain"
    assert shown.short("x" * 30_000) == shown.one_line(b"x" * 30_000) == "x" * 200 + "…"
    assert shown.short("a\u202eb") == "a\\u202eb"


def test_a_name_breaks_between_its_parts_and_is_escaped() -> None:
    assert shown.jointed("User:ANONYMOUS") == "User:<wbr>ANONYMOUS"
    assert shown.jointed("a.b://c/d.") == "a.<wbr>b://<wbr>c/<wbr>d."
    assert shown.jointed("<b>:\u202e") == "&lt;b&gt;:<wbr>\\u202e"
    assert shown.jointed(7) == 7
