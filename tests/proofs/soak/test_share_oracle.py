"""Each broken promise of a share group is detected, and nothing that is right is called one."""

from __future__ import annotations

import pytest

from tests.proofs.soak.share_oracle import (
    ACCEPT,
    REJECT,
    RELEASE,
    Delivery,
    Letter,
    Rules,
    ShareOracle,
    Verdict,
)

T = ("t", 0)


class Told:
    """A share group, and what its members tell; the clock goes on by itself."""

    def __init__(self, rules: Rules = Rules(3)) -> None:  # noqa: B008 a tuple
        self.wrong: list[str] = []
        self.oracle = ShareOracle("g", rules, self.wrong.append)
        self.now = 10

    def given(
        self, offset: int, count: int = 1, *, late: int = 0, key: bytes = b"k", due: int = 0, ms: int = 0
    ) -> None:
        """`late`: the fetch was asked for so many steps ago."""
        self.now += 2
        asked = self.now - 1 - 2 * late
        self.oracle.take(Delivery(T, offset, count, f"r{offset}", key, due, asked, self.now, ms))

    def said(self, offset: int, kind: int, count: int = 1, *, answered: bool = True, ms: int = 0) -> None:
        self.now += 2
        verdict = Verdict(T, offset, count, kind, self.now, ms)
        self.oracle.take(verdict)
        if answered:
            self.now += 2
            self.oracle.take(verdict._replace(answered_ns=self.now))

    def letter(
        self,
        offset: int,
        deliveries: int,
        reason: str = "MAX_DELIVERIES",
        retries: int = 0,
        buried_ns: int = 0,
    ) -> None:
        self.now += 2
        it = Letter(T, offset, deliveries, reason, f"r{offset}", retries, buried_ns)
        self.oracle.letter(it, self.now)

    def start(self, offset: int) -> None:
        self.now += 2
        self.oracle.settled_below(T, offset, self.now)

    @property
    def only(self) -> str:
        assert len(self.wrong) == 1, self.wrong
        return self.wrong[0]


def test_nothing_is_wrong_when_all_is_right() -> None:
    told = Told(Rules(3, (100, 1000, 2.0), key_shared=True))
    told.given(0)
    told.said(0, ACCEPT)
    # released, killed while it is in hand again: the count stays
    told.given(1)
    told.said(1, RELEASE, ms=5)
    told.given(1, 2, ms=105)
    told.given(1, 2, ms=200)
    told.said(1, RELEASE, 2, ms=200)
    told.given(1, 3, ms=400)
    told.said(1, RELEASE, 3)
    told.letter(1, 3)
    # rejected without an answer; and an acceptance of which nobody knows
    told.given(2)
    told.said(2, REJECT, answered=False)
    told.letter(2, 1, "REJECTED")
    told.given(3)
    told.said(3, ACCEPT, answered=False)
    told.start(4)
    # on its way since before the others were settled
    told.given(0, late=30)
    told.oracle.checked(told.now)
    told.oracle.finish({T: 4})
    assert told.wrong == []


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_acknowledged_comes_back(count: int) -> None:
    told = Told()
    told.given(0)
    told.said(0, ACCEPT)
    told.given(0, count)
    assert "came again" in told.wrong[0]
    assert "acknowledged" in told.wrong[0]


def test_what_was_settled_long_ago_comes_back() -> None:
    told = Told()
    told.given(0)
    told.said(0, ACCEPT, answered=False)
    told.start(1)
    told.given(0)
    assert "settled all below 1" in told.only


def test_a_count_falls() -> None:
    told = Told()
    told.given(0)
    told.said(0, RELEASE)
    told.given(0, 1)
    assert "must not fall below 2" in told.only


def test_a_count_that_was_seen_falls() -> None:
    told = Told()
    told.given(0)
    told.given(0, 2)
    told.given(0, 1)
    assert "must not fall below 2" in told.only


def test_more_is_counted_than_anybody_had() -> None:
    told = Told()
    told.given(0, 2)
    told.oracle.checked(told.now)
    assert told.wrong == [], "another member has asked and was not answered"
    told.oracle.checked(told.now + 1)
    assert "counts 2 deliveries, and members had 1" in told.only


def test_a_delivery_that_is_on_its_way_while_others_go_on_is_seen_in_the_end() -> None:
    told = Told()
    asked = told.now
    for count in (1, 3):
        told.given(0, count)
    told.letter(0, 3)
    told.start(1)
    told.oracle.checked(asked)
    assert told.wrong == []
    told.given(0, 2, late=6)
    told.oracle.checked(told.now)
    assert told.wrong == []


def test_a_dead_letter_counts_what_nobody_had() -> None:
    told = Told()
    for count in (1, 3):
        told.given(0, count)
    told.letter(0, 3)
    told.start(1)
    assert told.wrong == []
    told.oracle.checked(told.now)
    assert "counts 3 deliveries, and members had 2" in told.only


def test_a_library_may_keep_a_delivery_to_itself() -> None:
    told = Told(Rules(3, behind_library=True))
    told.given(0, 2)
    told.oracle.checked(told.now)
    told.oracle.checked(told.now)
    told.letter(0, 3)
    told.start(1)
    assert told.wrong == []


def test_more_deliveries_than_allowed() -> None:
    told = Told()
    for _ in range(4):
        told.given(0, 1)
    told.given(0, 4)
    assert "delivery 4 of at most 3" in told.only


def test_early() -> None:
    told = Told(Rules(3, (100, 1000, 2.0)))
    told.given(0, due=50, ms=49)
    assert "1 ms before it was due" in told.only
    told.said(0, RELEASE, ms=60)
    told.given(0, 2, ms=150)
    assert "10 ms before its backoff was over" in told.wrong[1]


def test_keys_turn_round() -> None:
    told = Told(Rules(3, key_shared=True))
    told.given(5, key=b"a")
    told.given(3, key=b"b")
    told.given(4, key=b"a", late=1)
    told.given(4, key=b"a")
    assert "came after 5 of its key" in told.wrong[-1]


def test_a_record_is_lost() -> None:
    told = Told()
    told.given(0)
    told.said(0, RELEASE)
    told.start(2)
    assert "t-0@0 is lost" in told.wrong[0]
    assert "t-0@1 is settled, and nobody ever had it" in told.wrong[1]


def test_a_dead_letter_is_missing() -> None:
    told = Told()
    told.given(0)
    told.said(0, REJECT)
    told.start(1)
    assert "missing in the dead letter topic" in told.only


def test_a_dead_letter_is_twice() -> None:
    told = Told()
    told.given(0)
    told.said(0, REJECT)
    told.letter(0, 1, "REJECTED")
    told.letter(0, 1, "REJECTED")
    assert "twice" in told.only


def test_a_dead_letter_comes_back() -> None:
    told = Told()
    told.given(0)
    told.said(0, REJECT, answered=False)
    told.letter(0, 1, "REJECTED")
    told.given(0, 2)
    assert "came again, delivery 2, after it was dead" in told.only


def test_dead_too_early() -> None:
    told = Told()
    told.given(0)
    told.said(0, RELEASE)
    told.given(0, 2)
    told.said(0, RELEASE, 2)
    told.letter(0, 2)
    assert "dead after 2 of 3 deliveries" in told.only


def test_dead_and_nobody_wanted_it() -> None:
    told = Told()
    told.given(0)
    told.letter(0, 1, "REJECTED")
    assert "nobody rejected it" in told.only


@pytest.mark.parametrize("known", [False, True])
def test_acknowledged_and_dead(known: bool) -> None:
    told = Told()
    for count in (1, 2, 3):
        told.given(0, count)
    told.said(0, ACCEPT, 3)
    told.letter(0, 3, buried_ns=told.now + 1 if known else 0)
    assert "was acknowledged, and is a dead letter" in told.only


def test_an_acknowledgement_of_what_is_dead_and_settled_changes_nothing() -> None:
    told = Told()
    for count in (1, 2, 3):
        told.given(0, count)
    buried = told.now + 1
    told.said(0, ACCEPT, 3)
    told.letter(0, 3, buried_ns=buried)
    told.start(1)
    assert told.wrong == []


def test_a_retry_letter_that_was_tried_too_often_needs_no_delivery() -> None:
    told = Told()
    told.letter(0, 0, retries=3)
    told.start(1)
    assert told.wrong == []


def test_the_group_goes_back() -> None:
    told = Told()
    told.given(0)
    told.said(0, ACCEPT)
    told.start(1)
    told.start(0)
    assert "first open offset" in told.only


def test_something_never_ends() -> None:
    told = Told()
    told.given(0)
    told.oracle.finish({T: 1})
    assert "never came to an end" in told.only


def test_an_offset_has_two_records() -> None:
    told = Told()
    told.given(0)
    told.now += 2
    told.oracle.take(Delivery(T, 0, 2, "other", b"k", 0, told.now - 1, told.now, 0))
    assert "is other, and was r0" in told.only
