"""What the helper writes, read by the gateway's grammar."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.queue import LIMIT, Names, TooManyError
from semantics.lanes.marks import Mark, Verb, check, parse
from tests.examples import examples

T = "orders-billing-QUEUE"


def test_a_nack_is_named_below_the_committed_offset_and_an_ack_above() -> None:
    names = Names()
    names.nack(T, 0, 17, delay_ms=5_000)
    names.nack(T, 0, 20, delay_ms=5_000)
    names.nack(T, 0, 5)
    names.dead_letter(T, 0, 21)
    names.retry_later(T, 0, 22, delay_ms=0)
    names.ack(T, 0, 30)
    names.ack(T, 0, 19)
    assert names.metadata(T, 0, 25) == "ack1;n=5;n:5000=17,+3;d=21;r:0=22;a=30"
    assert names.metadata(T, 0, 6) == "ack1;n=5;a=19,+11"
    assert names.metadata(T, 0, 6, seek=True) == "ack1;s;n=5;a=19,+11"
    assert names.metadata(T, 1, 25) == ""
    assert names.metadata("other", 0, 25, seek=True) == "ack1;s"


def test_the_last_word_on_an_offset_counts() -> None:
    names = Names()
    names.nack(T, 0, 17)
    names.dead_letter(T, 0, 17)
    assert names.metadata(T, 0, 18) == "ack1;d=17"


def test_names_are_repeated_until_a_commit_is_answered() -> None:
    names = Names()
    names.nack(T, 0, 17)
    names.nack(T, 0, 25)
    assert names.metadata(T, 0, 20) == names.metadata(T, 0, 20) == "ack1;n=17"
    names.committed(T, 0, 20)
    assert names.metadata(T, 0, 20) == ""
    assert names.metadata(T, 0, 26) == "ack1;n=25"
    names.lost(T, 0)
    assert names.metadata(T, 0, 26) == ""


def test_what_is_said_while_a_commit_is_on_its_way_is_said_with_the_next() -> None:
    names = Names()
    names.ack(T, 0, 30)
    assert names.metadata(T, 0, 20) == "ack1;a=30"
    names.ack(T, 0, 40)
    names.committed(T, 0, 20)
    assert names.metadata(T, 0, 20) == "ack1;a=40"


def test_a_nack_that_is_said_behind_an_ack_on_its_way_stays() -> None:
    names = Names()
    names.ack(T, 0, 17)
    assert names.fit(T, 0, 10) == (10, "ack1;a=17")
    names.nack(T, 0, 17)
    names.committed(T, 0, 10)
    assert names.fit(T, 0, 18) == (18, "ack1;n=17")


def test_what_was_on_its_way_is_forgotten_with_the_partition() -> None:
    names = Names()
    names.ack(T, 0, 17)
    assert names.metadata(T, 0, 10) == "ack1;a=17"
    names.lost(T, 0)
    names.ack(T, 0, 17)
    names.committed(T, 0, 10)
    assert names.metadata(T, 0, 10) == "ack1;a=17"


def test_a_limit_below_a_seek_is_refused() -> None:
    with pytest.raises(TooManyError, match="0 names"):
        Names().fit(T, 0, 5, seek=True, limit=3)


def test_runs_are_short() -> None:
    names = Names()
    for offset in (*range(100, 200), *range(300, 400), 402):
        names.nack(T, 0, offset)
    assert names.metadata(T, 0, 500) == "ack1;n=100-199,+101*100,+3"


@pytest.mark.parametrize("wrong", [-1, -5])
def test_what_is_no_offset_and_no_delay_is_refused(wrong: int) -> None:
    names = Names()
    with pytest.raises(ValueError, match="0 or more"):
        names.nack(T, 0, wrong)
    with pytest.raises(ValueError, match="0 ms or more"):
        names.nack(T, 0, 5, delay_ms=wrong)
    assert names.metadata(T, 0, 100) == ""


def test_too_many_names_are_said_in_several_commits() -> None:
    names = Names()
    nacked = list(range(0, 9_000, 3))
    for offset in nacked:
        names.nack(T, 0, offset)
    seen: list[int] = []
    commits = 0
    committed = 0
    while committed < 9_000:
        offset, metadata = names.fit(T, 0, 9_000)
        assert committed < offset
        assert len(metadata) <= LIMIT
        marks = parse(metadata)
        assert marks is not None
        seen += [at for mark in marks.named for at in range(mark.first, mark.last + 1)]
        names.committed(T, 0, offset)
        committed = offset
        commits += 1
    assert seen == nacked
    assert commits == 3


def test_a_name_that_fits_nowhere() -> None:
    names = Names()
    for offset in range(0, 100, 2):
        names.ack(T, 0, offset + 1_000)
    with pytest.raises(TooManyError):
        names.fit(T, 0, 10, limit=20)


verbs = st.sampled_from(["a", "n", "n:5", "d", "r", "r:0"])


@given(st.dictionaries(st.integers(0, 60), verbs, max_size=30), st.integers(0, 61), st.booleans())
@settings(max_examples=examples(300), deadline=None)
def test_the_gateway_reads_what_was_said(said: dict[int, str], offset: int, seek: bool) -> None:
    names = Names()
    for at, verb in said.items():
        match verb.partition(":"):
            case ("a", _, _):
                names.ack(T, 0, at)
            case ("d", _, _):
                names.dead_letter(T, 0, at)
            case ("n", _, delay):
                names.nack(T, 0, at, delay_ms=int(delay) if delay else None)
            case (_, _, delay):
                names.retry_later(T, 0, at, delay_ms=int(delay) if delay else None)
    marks = parse(names.metadata(T, 0, offset, seek=seek))
    expected = {at: verb for at, verb in said.items() if (verb == "a") == (at >= offset)}
    if marks is None:
        assert not expected
        assert not seek
        return
    assert marks.seek == seek
    check(marks, offset, 61)
    assert {at: _word(mark) for mark in marks.named for at in range(mark.first, mark.last + 1)} == expected


def _word(mark: Mark) -> str:
    assert mark.verb in Verb
    return mark.verb if mark.delay_ms is None else f"{mark.verb}:{mark.delay_ms}"


def test_it_needs_nothing_but_python() -> None:
    asked = "import sys, magnetar.queue; print([name for name in sys.modules if '.' not in name])"
    found = subprocess.run(
        [sys.executable, "-S", "-c", asked], capture_output=True, text=True, check=True
    ).stdout
    for other in ("gateway", "semantics", "store", "pipeline", "confluent_kafka", "numpy"):
        assert f"'{other}'" not in found
