from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantics.lanes.marks import LARGEST, Mark, Marks, MarksError, Verb, check, misspelt, parse
from tests.examples import examples

A, N, D, R = Verb.ACK, Verb.NACK, Verb.DEAD, Verb.RETRY


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("ack1;", Marks()),
        ("ack1;s", Marks((), True)),
        ("ack1;n=17", Marks((Mark(17, 17, N),))),
        ("ack1;n:5000=17,+3;d=21", Marks((Mark(17, 17, N, 5000), Mark(20, 20, N, 5000), Mark(21, 21, D)))),
        ("ack1;r:0=3-5", Marks((Mark(3, 5, R, 0),))),
        ("ack1;a=10-12,+2*3,+1", Marks((Mark(10, 12, A), Mark(14, 16, A), Mark(17, 17, A)))),
        ("ack1;d=9;s;n=2", Marks((Mark(2, 2, N), Mark(9, 9, D)), True)),
        ("ack1;n:1=1;n:2=2", Marks((Mark(1, 1, N, 1), Mark(2, 2, N, 2)))),
        (f"ack1;n={LARGEST}", Marks((Mark(LARGEST, LARGEST, N),))),
        ("ack1;n=007", Marks((Mark(7, 7, N),))),
        # clients in C send the byte that ends a string
        ("ack1;\0", Marks()),
        ("ack1;s;n=17\0", Marks((Mark(17, 17, N),), True)),
    ],
)
def test_what_is_said(said: str, meant: Marks) -> None:
    assert parse(said) == meant


@pytest.mark.parametrize(
    "foreign",
    [
        None,
        "",
        "ack",
        "acknowledged",
        "hello",
        "Ack1;n=1",
        " ack1;n=1",
        "bi:rQABAA==",
        "member-1f0e",
        "ack-1;",
        "ack1x;",
        "\0",
        "ack\0",
    ],
)
def test_what_others_write_is_left_alone(foreign: str | None) -> None:
    assert parse(foreign) is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ack2;n=1", "'ack2;n=1' is not known"),
        ("ack1", "'ack1' is not known"),
        ("ack1\0", "'ack1' is not known"),
        ("ack1:n=17", "ack1 and a semicolon"),
        ("ack1=17", "ack1 and a semicolon"),
        ("ack1 ;n=17", "ack1 and a semicolon"),
        ("ack1,17", "ack1 and a semicolon"),
        ("ack1|n=3", "ack1 and a semicolon"),
        ("ack1.n=3", "ack1 and a semicolon"),
        ("ack1-n=3", "ack1 and a semicolon"),
        ("ack1_n=3", "ack1 and a semicolon"),
        ("ack1\0;n=3", "ack1 and a semicolon"),
        ("ack1\uff1bn=3", "ack1 and a semicolon"),
        ("ack1\u00a0;n=3", "ack1 and a semicolon"),
        ("ack12", "'ack12' is not known"),
        ("ack1;n=17\0\0", "names no offsets"),
        ("ack1;n=1\x007", "names no offsets"),
        ("ack01;n=1", "'ack01;n=1' is not known"),
        ("ack1;x=1", "no item"),
        ("ack1;n", "no item"),
        ("ack1;n=1;", "no item"),
        ("ack1;;n=1", "no item"),
        ("ack1;s=1", "no item"),
        ("ack1;n:=1", "no item"),
        ("ack1;n:-1=1", "no item"),
        ("ack1;n:99999999999999999999=1", "no item"),
        ("ack1;N=1", "no item"),
        ("ack1; n=1", "no item"),
        ("ack1;a:5=1", "only n and r"),
        ("ack1;d:5=1", "only n and r"),
        ("ack1;n=", "names no offsets"),
        ("ack1;n=1,", "names no offsets"),
        ("ack1;n=-1", "names no offsets"),
        ("ack1;n=1-", "names no offsets"),
        ("ack1;n=1 ,2", "names no offsets"),
        ("ack1;n=0x1", "names no offsets"),
        ("ack1;n=1*2", "names no offsets"),
        ("ack1;n=+1", "nothing before it"),
        ("ack1;n=2,1", "ascend"),
        ("ack1;n=2,2", "Offset 2 is named twice"),
        ("ack1;n=3-2", "ascend"),
        ("ack1;n=1,+0", "named twice"),
        ("ack1;n=1,+1*0", "ascend"),
        (f"ack1;n={LARGEST},+1", "beyond"),
        ("ack1;n=9999999999999999999", "larger than"),
        ("ack1;n=1;d=1", "named twice"),
        ("ack1;n=1-9;d=5", "named twice"),
        ("ack1;n=٣", "names no offsets"),
    ],
)
def test_what_cannot_be_followed_says_why(said: str, why: str) -> None:
    with pytest.raises(MarksError, match=why):
        parse(said)


@pytest.mark.parametrize("said", ["ACK1;n=17", " ack1;n=17", "ack;n=17", "Ack 1;", "\nack1;n=1"])
def test_what_was_meant_to_name_deliveries_and_does_not_is_known(said: str) -> None:
    assert parse(said) is None
    why = misspelt(said)
    assert why is not None
    assert "begins with ack1;" in why


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "ack1;n=17",
        "ack1;",
        "ack2;n=1",
        "backlog;n=1",
        "acknowledged; all",
        "{}",
        "AAAAAAA=",
        "1;ack1;",
    ],
)
def test_what_others_write_is_not_taken_for_a_slip(said: str | None) -> None:
    assert misspelt(said) is None


def test_a_zero_that_a_client_library_adds_is_not_shown() -> None:
    why = misspelt("ACK1;n=0\0")
    assert why is not None
    assert r"\x00" not in why
    with pytest.raises(MarksError) as found:
        parse("ack1;x\0")
    assert r"\x00" not in str(found.value)
    assert "\0" not in str(found.value)


def test_a_very_long_item_is_not_repeated_to_the_client() -> None:
    with pytest.raises(MarksError) as found:
        parse("ack1;" + "x" * 4_000)
    assert len(str(found.value)) < 250


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("ack1;a=9", "below the committed offset 10"),
        ("ack1;n=10", "above the committed offset 10"),
        ("ack1;d=5-10", "above the committed offset 10"),
        ("ack1;r=15", "above the committed offset 10"),
        ("ack1;a=20", "next one is 20"),
        ("ack1;a=10-20", "next one is 20"),
    ],
)
def test_names_that_do_not_belong_to_the_commit(said: str, why: str) -> None:
    marks = parse(said)
    assert marks is not None
    with pytest.raises(MarksError, match=why):
        check(marks, 10, 20)


def test_names_that_belong_to_the_commit() -> None:
    for said in ("ack1;a=10-19", "ack1;n=0-9", "ack1;r:5=9;d=8;a=10;s", "ack1;"):
        marks = parse(said)
        assert marks is not None
        check(marks, 10, 20)


@given(st.text(alphabet="ack1;snrd=:,-+*0123456789 x", max_size=40).map(lambda text: "ack1;" + text))
@settings(max_examples=examples(500), deadline=None)
def test_whatever_is_written_is_followed_or_refused(said: str) -> None:
    try:
        marks = parse(said)
    except MarksError:
        return
    assert marks is not None
    end = -1
    for mark in marks.named:
        assert end < mark.first <= mark.last <= LARGEST
        end = mark.last
