"""What needs attention, by rule: which sums make a sentence, and which do not yet."""

from __future__ import annotations

from typing import Any

import pytest

from semantics.console.attention import Attention, Finding
from semantics.console.standing import Standing

MINUTE, HOUR = 60_000, 3_600_000
NOW = 1_800_000_000_000


def standing(**sums: Any) -> Standing:
    return Standing("orders", "billing", sums.pop("type", "Shared"), 1, **sums)


def found(*noted: tuple[int, dict[str, Any]], at: int = NOW) -> list[Finding]:
    """What there is to say after sums were noted, each so long before."""
    attention = Attention()
    for ago, sums in noted:
        attention.note(standing(**sums), at - ago)
    return [each for name in attention.suspects() for each in attention.of(*name, at)]


FULL = {"in_hand": 9, "full": (3,), "consumers": 2}
SAYS = [
    (
        "nobody", [(0, {"unread": 1_204, "oldest": NOW - 3 * HOUR})], 3 * HOUR, 1_204,
        "1,204 messages wait for billing on orders and no consumer is connected: the oldest has waited 3 hours.",
    ),
    (
        "nobody", [(0, {"delayed": 1, "oldest": NOW - MINUTE})], MINUTE, 1,
        "1 message waits for billing on orders and no consumer is connected: the oldest has waited 1 minute.",
    ),
    (
        "full", [(90_000, FULL), (0, FULL)],
        90_000, 1,
        "Partition 3 of billing on orders delivers nothing: as many messages are unacknowledged as may be, 9 in all,"
        " for 1 minute.",
    ),
    (
        "blocked", [(0, {"type": "Key_Shared", "blocked": 1_200, "in_hand": 1, "consumers": 2, "oldest": NOW - HOUR})],
        HOUR, 1_200,
        "1,200 messages wait behind earlier messages of their keys for billing on orders: the oldest open one has"
        " waited 1 hour.",
    ),
    (
        "idle", [(0, {"available": 2, "consumers": 3, "oldest": NOW - 5 * MINUTE})], 5 * MINUTE, 2,
        "2 messages wait for billing on orders, and none of its 3 consumers has one in hand: the oldest has waited 5"
        " minutes.",
    ),
    (
        "dying", [(2 * MINUTE, {"dying": 1, "consumers": 1}), (0, {"dying": 1, "consumers": 1})], 2 * MINUTE, 1,
        "1 message of billing on orders is to be a dead letter and could not be stored as such for 2 minutes.",
    ),
    (
        "deadLetters",
        [(HOUR, {"dead_letters": 5}), (3 * MINUTE, {"dead_letters": 6}), (0, {"dead_letters": 8})], 3 * MINUTE, 3,
        "3 messages of billing on orders became dead letters in the last 3 minutes: 8 are open.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "noted", "ago", "number", "sentence"), SAYS)
def test_it_is_said(
    rule: str, noted: list[tuple[int, dict[str, Any]]], ago: int, number: int, sentence: str
) -> None:
    (one,) = found(*noted)
    assert (one.rule, one.since, one.number, one.sentence) == (rule, NOW - ago, number, sentence)
    assert (one.topic, one.group, one.partition) == ("orders", "billing", 3 if rule == "full" else None)


SILENT: dict[str, list[tuple[int, dict[str, Any]]]] = {
    "nothing is open": [(0, {})],
    "nobody is there, but the oldest came just now": [(0, {"unread": 9, "oldest": NOW - 1_000})],
    "all is delayed": [(0, {"delayed": 9})],
    "full for a moment": [(1_000, FULL), (0, FULL)],
    "full, with a pause": [
        (HOUR, FULL), (MINUTE, {"consumers": 1}), (1_000, FULL),
    ],
    "keys block each other for a minute": [(0, {"blocked": 9, "in_hand": 1, "consumers": 1, "oldest": NOW - MINUTE})],
    "consumers are at work": [(0, {"available": 2, "in_hand": 1, "consumers": 1, "oldest": NOW - HOUR})],
    "what a consumer group has in hand is not known": [
        (0, {"type": "Failover", "unread": 2, "consumers": 1, "oldest": NOW - HOUR})
    ],
    "dead letters that were there at the start": [(0, {"dead_letters": 5})],
    "dead letters of an hour ago": [(2 * HOUR, {}), (HOUR, {"dead_letters": 5}), (0, {"dead_letters": 5})],
    "dead letters become fewer": [(HOUR, {"dead_letters": 5}), (0, {"dead_letters": 4})],
}  # fmt: skip


@pytest.mark.parametrize("case", SILENT)
def test_nothing_is_said(case: str) -> None:
    assert found(*SILENT[case]) == []


def test_what_is_gone_is_not_spoken_of() -> None:
    attention = Attention()
    attention.note(standing(unread=1, oldest=NOW - HOUR), NOW)
    attention.drop("orders", "billing")
    assert attention.suspects() == []
    assert attention.of("orders", "billing", NOW) == []
