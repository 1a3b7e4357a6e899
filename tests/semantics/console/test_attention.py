"""What needs attention, by rule: which sums make a sentence, and which do not yet."""

from __future__ import annotations

from typing import Any

import pytest

from semantics.console.attention import RULES, Attention, Finding
from semantics.console.standing import Standing

MINUTE, HOUR = 60_000, 3_600_000
NOW = 1_800_000_000_000


def standing(**sums: Any) -> Standing:
    return Standing("orders", "billing", sums.pop("type", "Shared"), 1, **sums)


def all_found(*noted: tuple[int, dict[str, Any]], at: int = NOW) -> list[Finding]:
    """What there is to say after sums were noted, each so long before."""
    attention = Attention()
    for ago, sums in noted:
        attention.note(standing(**sums), at - ago)
    return [each for name in attention.suspects() for each in attention.of(*name, at)]


def found(*noted: tuple[int, dict[str, Any]], at: int = NOW) -> list[Finding]:
    """The same, but for dead letters that are no news."""
    return [each for each in all_found(*noted, at=at) if each.rule != "letters"]


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


WAITING = {"unread": 9}
HELD: dict[str, Any] = {"type": "Key_Shared", "blocked": 9, "in_hand": 1, "consumers": 1}
IDLE: dict[str, Any] = {"available": 9, "consumers": 1}
DYING: dict[str, Any] = {"dying": 2, "consumers": 1}


@pytest.mark.parametrize(
    ("rule", "sums", "after"),
    [("nobody", WAITING, MINUTE), ("blocked", HELD, 5 * MINUTE), ("idle", IDLE, 5 * MINUTE)],
)
def test_the_oldest_has_waited_long_enough(rule: str, sums: dict[str, Any], after: int) -> None:
    assert found((0, {**sums, "oldest": NOW - after + 1})) == []
    (one,) = found((0, {**sums, "oldest": NOW - after}))
    assert (one.rule, one.since, one.number) == (rule, NOW - after, 9)


@pytest.mark.parametrize(("rule", "sums"), [("full", FULL), ("dying", DYING)])
def test_it_has_lasted_a_minute(rule: str, sums: dict[str, Any]) -> None:
    assert found((MINUTE - 1, sums), (0, sums)) == []
    (one,) = found((MINUTE, sums), (0, sums))
    assert (one.rule, one.since) == (rule, NOW - MINUTE)
    # it is told since when it was seen first, and begins anew where it was over
    (one,) = found((5 * MINUTE, sums), (4 * MINUTE, sums), (0, sums))
    assert one.since == NOW - 5 * MINUTE
    assert found((5 * MINUTE, sums), (4 * MINUTE, {"consumers": 1}), (MINUTE - 1, sums)) == []


def test_what_is_not_so_is_not_told() -> None:
    long_ago = {"oldest": NOW - HOUR}
    # some of them in somebody's hands, or behind others of their keys: not idle
    assert found((0, {**IDLE, **long_ago, "in_hand": 1})) == []
    assert [each.rule for each in found((0, {**IDLE, **long_ago, "in_hand": 0}))] == ["idle"]
    assert [each.rule for each in found((0, {**IDLE, **long_ago, "type": "Key_Shared"}))] == ["idle"]
    assert found((0, {**IDLE, **long_ago, "type": "Exclusive"})) == []
    # of what can be delivered there is none
    assert found((0, {"delayed": 3, "consumers": 1, **long_ago})) == []
    # somebody is there
    assert [each.rule for each in found((0, {**WAITING, **long_ago}))] == ["nobody"]


def test_how_many_wait_where_some_are_delayed() -> None:
    (one,) = found((0, {"unread": 3, "delayed": 4, "oldest": NOW - HOUR}))
    assert one.number == 3
    (one,) = found((0, {"delayed": 4, "oldest": NOW - HOUR}))
    assert one.number == 4


def test_several_partitions_that_are_full() -> None:
    sums = {"in_hand": 1_200, "full": (2, 5), "consumers": 2}
    (one,) = found((2 * MINUTE, sums), (0, sums))
    assert (one.partition, one.number) == (2, 2)
    assert one.sentence == (
        "2 partitions, 2 the first, of billing on orders deliver nothing: as many messages are unacknowledged as may"
        " be, 1,200 in all, for 2 minutes."
    )


def test_the_most_urgent_comes_first() -> None:
    sums = {**HELD, **DYING, "full": (1,), "oldest": NOW - HOUR}
    few = found(
        (HOUR, {**sums, "dead_letters": 1}),
        (MINUTE, {**sums, "dead_letters": 2}),
        (0, {**sums, "dead_letters": 2}),
    )
    assert [each.rule for each in few] == ["full", "blocked", "dying", "deadLetters"]
    assert [each.rule for each in few] == [each for each in RULES if each in {one.rule for one in few}]


def letters(*counts: tuple[int, int], at: int = NOW) -> list[tuple[int, int, str]]:
    """(how many more, for how long in minutes, the end of the sentence), after counts at minutes before."""
    noted = [(ago * MINUTE, {"dead_letters": count}) for ago, count in counts]
    return [
        (each.number, (at - each.since) // MINUTE, each.sentence.partition(": ")[2])
        for each in found(*noted, at=at)
    ]


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        # there at the start: none of them is news, however soon
        ([(0, 5)], []),
        ([(1, 5), (0, 5)], []),
        ([(1, 0), (0, 1)], [(1, 0, "1 is open.")]),
        ([(1, 5), (0, 6)], [(1, 0, "6 are open.")]),
        # for ten minutes it is news
        ([(60, 0), (9, 1), (0, 1)], [(1, 9, "1 is open.")]),
        ([(60, 0), (10, 1), (0, 1)], []),
        ([(60, 0), (10, 1), (9, 3), (0, 3)], [(2, 9, "3 are open.")]),
        ([(60, 2), (12, 4), (8, 5), (3, 9), (0, 9)], [(5, 8, "9 are open.")]),
        # some were seen to: what comes from here on is new
        ([(60, 0), (5, 9), (4, 3), (0, 3)], []),
        ([(60, 0), (5, 9), (4, 3), (2, 4), (0, 4)], [(1, 2, "4 are open.")]),
        ([(60, 0), (5, 9), (4, 0), (0, 0)], []),
    ],
)
def test_dead_letters_are_news_for_ten_minutes(
    counts: list[tuple[int, int]], told: list[tuple[int, int, str]]
) -> None:
    assert letters(*counts) == told


def test_of_one_minute_the_first_is_when_it_began() -> None:
    noted = [
        (ago, {"dead_letters": count})
        for ago, count in ((HOUR, 0), (90_000, 1), (90_000 - MINUTE + 1, 2), (0, 2))
    ]
    (one,) = found(*noted)
    assert (one.number, one.since) == (2, NOW - 90_000)
    # a minute later it is another time, and the first of both is told all the same
    noted[2] = 90_000 - MINUTE, {"dead_letters": 2}
    (one,) = found(*noted)
    assert (one.number, one.since) == (2, NOW - 90_000)


def test_a_rise_all_the_time_is_remembered_as_far_as_it_is_told() -> None:
    noted = [(ago * MINUTE, {"dead_letters": 100 - ago}) for ago in range(60, -1, -1)]
    (one,) = found(*noted)
    assert (one.number, (NOW - one.since) // MINUTE) == (10, 9)
    attention = Attention()
    for ago, sums in noted:
        attention.note(standing(**sums), NOW - ago)
    assert len(attention._seen["orders", "billing"].dead) == 12


def test_who_has_nothing_to_say_is_not_looked_at() -> None:
    attention = Attention()
    for sums, suspect in (
        ({}, False), ({"oldest": NOW}, True), ({"full": (1,)}, True), ({"dying": 1}, True), ({"consumers": 1}, False),
        ({"dead_letters": 1}, True), ({}, False),
    ):  # fmt: skip
        attention.note(standing(**sums), NOW)
        assert bool(attention.suspects()) is suspect, sums


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (60, "1 minute"), (119, "1 minute"), (120, "2 minutes"), (3_599, "59 minutes"), (3_600, "1 hour"),
        (7_199, "1 hour"), (7_200, "2 hours"), (86_399, "23 hours"), (86_400, "1 day"), (172_800, "2 days"),
    ],
)  # fmt: skip
def test_how_long_is_said_in_the_largest_unit(seconds: int, said: str) -> None:
    (one,) = found((0, {"unread": 1, "oldest": NOW - seconds * 1000}))
    assert one.sentence.endswith(f"has waited {said}.")


def test_letters_that_come_each_second_are_all_counted() -> None:
    begun = 9 * MINUTE
    noted = [(begun - second * 1000, {"dead_letters": 5 + second}) for second in range(41)]
    (one,) = found((HOUR, {"dead_letters": 5}), *noted, (0, {"dead_letters": 45}))
    assert (one.number, one.since) == (40, NOW - begun + 1000)


def test_of_one_it_is_said_so() -> None:
    (one,) = found((0, {"available": 1, "consumers": 1, "oldest": NOW - HOUR}))
    assert one.sentence.startswith("1 message waits for billing on orders, and its consumer has none in hand")
    (one,) = found((HOUR, {"dead_letters": 0}), (2 * MINUTE, {"dead_letters": 1}), (0, {"dead_letters": 1}))
    assert one.sentence == (
        "1 message of billing on orders became a dead letter in the last 2 minutes: 1 is open."
    )


def test_dead_letters_that_are_no_news_are_told_until_somebody_has_seen_to_them() -> None:
    (one,) = all_found((HOUR, {"dead_letters": 303}), (0, {"dead_letters": 303}))
    assert (one.rule, one.since, one.number) == ("letters", NOW - HOUR, 303)
    assert one.sentence == (
        "303 dead letters of billing on orders are open: nobody has replayed or discarded them."
    )
    (one,) = all_found((0, {"dead_letters": 1}))
    assert one.sentence == "1 dead letter of billing on orders is open: nobody has replayed or discarded it."
    # while some are news, they are told once
    news = (2 * MINUTE, {"dead_letters": 3})
    assert [each.rule for each in all_found((HOUR, {"dead_letters": 1}), news)] == ["deadLetters"]
    assert [each.rule for each in all_found((2 * HOUR, {}), (HOUR, news[1]))] == ["letters"]
    assert all_found((HOUR, news[1]), (0, {})) == []


def test_of_letters_in_a_topic_that_others_may_have_it_is_that_topic_that_has_them() -> None:
    there = {"dead_letters": 5_000, "letters_in": "bin"}
    (one,) = all_found((HOUR, there), (0, there))
    assert (one.rule, one.number, one.letters) == ("letters", 5_000, "bin")
    assert one.sentence == (
        "5,000 dead letters are open in bin, where those of billing on orders go: nobody has replayed or discarded"
        " them."
    )
    (one,) = all_found((0, {**there, "dead_letters": 1}))
    assert one.sentence.startswith("1 dead letter is open in bin, where those of billing on orders go: ")
    assert one.sentence.endswith(" discarded it.")
    (one,) = all_found((HOUR, there), (2 * MINUTE, {**there, "dead_letters": 5_003}))
    assert (one.rule, one.number, one.letters) == ("deadLetters", 3, "bin")
    assert one.sentence == (
        "3 dead letters have come to bin, where those of billing on orders go, in the last 2 minutes: 5,003 are open."
    )
    (one,) = all_found((HOUR, there), (2 * MINUTE, {**there, "dead_letters": 5_001}))
    assert one.sentence.startswith("1 dead letter has come to bin, ")
    attention = Attention()
    attention.note(standing(**there), NOW)
    (one,) = attention.of("orders", "billing", NOW, str.upper)
    assert "in BIN, where those of billing on ORDERS go" in one.sentence
