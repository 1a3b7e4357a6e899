"""Findings of one rule about one topic: which are told together, and what is said of them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from semantics.console.attention import RULES, Finding
from semantics.console.together import STEP, Several
from semantics.console.together import together as walk

MINUTE, HOUR = 60_000, 3_600_000
NOW = 1_800_000_000_000


def together(findings: list[Finding], *more: Any) -> list[Finding | Several]:
    return driven(walk(findings, *more))[0]


def driven(walking: Generator[None, None, list[Finding | Several]]) -> tuple[list[Finding | Several], int]:
    """(what it came to, how often it has stopped)"""
    stops = 0
    while True:
        try:
            next(walking)
        except StopIteration as end:
            return end.value, stops
        stops += 1


def finding(rule: str, topic: str, number: int) -> Finding:
    about = f"tx-{number}" if rule == "transaction" else ""
    group = "" if about else f"s{number}"
    return Finding(
        rule, topic, group, None, NOW - HOUR + number * MINUTE, number, f"{rule} {topic} {number}", about
    )


def test_three_of_one_rule_and_one_topic_are_one_at_the_place_of_the_first() -> None:
    some = [finding("nobody", topic, number) for number in range(1, 5) for topic in ("orders", "sales")]
    some = [each for each in some if each.topic == "orders" or each.number < 3]
    some.append(finding("letters", "orders", 9))
    found = together(some, NOW, str.upper, str.title)
    assert found[0] == Several(
        "nobody", "orders", 4, NOW - HOUR + MINUTE, 10,
        "10 messages wait for 4 subscriptions on ORDERS (S1, S2 and 2 more) and no consumer is connected to any of"
        " them: the oldest has waited 59 minutes.",
    )  # fmt: skip
    assert found[1:] == [each for each in some if each.topic == "sales" or each.rule == "letters"]


def test_two_are_told_one_by_one() -> None:
    some = [finding("full", "orders", number) for number in (1, 2)]
    assert together(some, NOW) == some


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("nobody", "6 messages wait for 3 subscriptions on orders (s1, s2 and 1 more) and no consumer"),
        ("full", "6 partitions of 3 subscriptions on orders (s1, s2 and 1 more) deliver nothing"),
        (
            "transaction",
            "3 transactions (tx-1, tx-2 and 1 more) have been open for up to 59 minutes: they hold back 6 messages from"
            " readers of committed records in orders.",
        ),
        ("blocked", "6 messages wait behind earlier messages of their keys for 3 subscriptions on orders"),
        (
            "idle",
            "6 messages wait for 3 subscriptions on orders (s1, s2 and 1 more), and none of their consumers",
        ),
        ("dying", "6 messages of 3 subscriptions on orders (s1, s2 and 1 more) are to be dead letters"),
        ("job", "The last replays or discards of dead letters of 3 subscriptions on orders"),
        ("deadLetters", "6 messages of 3 subscriptions on orders (s1, s2 and 1 more) became dead letters"),
        ("letters", "6 dead letters of 3 subscriptions on orders (s1, s2 and 1 more) are open"),
    ],
)
def test_each_rule_has_a_sentence(rule: str, says: str) -> None:
    (one,) = together([finding(rule, "orders", number) for number in (1, 2, 3)], NOW)
    assert one.sentence.startswith(says)
    assert rule in RULES


def test_no_rule_is_without_one() -> None:
    for rule in RULES:
        together([finding(rule, "orders", number) for number in (1, 2, 3)], NOW)


def test_a_long_walk_stops_often() -> None:
    some = [finding("nobody", f"t{number}", number) for number in range(3 * STEP)]
    found, stops = driven(walk(some, NOW))
    assert (found, stops) == (some, 6)


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "letters",
            "5,000 dead letters are open in BIN, where those of 3 subscriptions on ORDERS (s1, s2 and 1 more) go:"
            " nobody has replayed or discarded them.",
        ),
        (
            "deadLetters",
            "5,000 dead letters have come to BIN, where those of 3 subscriptions on ORDERS (s1, s2 and 1 more) go, in"
            " the last 59 minutes.",
        ),
        (
            "job",
            "The last replays or discards of dead letters of 3 subscriptions on ORDERS (s1, s2 and 1 more) ended by"
            " themselves before they had done all: 5,000 dead letters are open in BIN.",
        ),
    ],
)
def test_letters_in_one_topic_are_counted_once(rule: str, says: str) -> None:
    # one of them was looked at before others had come
    some = [
        finding(rule, "orders", number)._replace(letters="bin", number=5_000 - number % 2)
        for number in (1, 2, 3)
    ]
    own = [finding(rule, "orders", number) for number in (4, 5, 6)]
    one, other = together([*some, *own], NOW, str.upper)
    assert isinstance(one, Several)
    assert (one.findings, one.number, one.sentence) == (3, 5_000, says)
    assert isinstance(other, Several)
    assert (other.findings, other.number) == (3, 15)
    (single,) = together([each._replace(number=1) for each in some], NOW)
    assert isinstance(single, Several)
    assert "1 dead letter " in single.sentence
