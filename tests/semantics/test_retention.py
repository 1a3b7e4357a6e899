"""What retention takes: Kafka's table of segments, and Pulsar's rules for what subscriptions are not done with."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from semantics.retention import Hold, Latest, Place, Policy, Segment, Verdict, decide

NOW = 1_000_000
NEVER = -1


class Piece(NamedTuple):
    """A segment."""

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    created_at: int
    active: bool


def segments(*ages: int, size: int = 100, each: int = 10) -> list[Piece]:
    """Segments of ten records whose newest is so old now; the last is active."""
    last = len(ages) - 1
    return [Piece(i * each, (i + 1) * each, size, NOW - age, 0, i == last) for i, age in enumerate(ages)]


@pytest.mark.parametrize(
    ("policy", "ages", "point"),
    [
        (Policy(100, -1), (300, 200, 50), 20),
        (Policy(100, -1), (300, 101, 100), 20),
        (Policy(100, -1), (50, 300, 300), -1),
        (Policy(100, -1), (300, 300, 300), 30),
        (Policy(-1, -1), (300, 200, 50), -1),
        (Policy(100, -1), (-50, 300, 300), -1),
        (Policy(-1, 299), (0, 0, 0), -1),
        (Policy(-1, 200), (0, 0, 0), 10),
        (Policy(-1, 199), (0, 0, 0), 10),
        (Policy(-1, 100), (0, 0, 0), 20),
        (Policy(-1, 1), (0, 0, 0), 20),
        (Policy(-1, 0), (0, 0, 0), 30),
        (Policy(100, 150), (300, 50, 50, 50), 20),
        (Policy(100, -1), (), -1),
    ],
)
def test_a_log_that_nobody_is_subscribed_to(policy: Policy, ages: tuple[int, ...], point: int) -> None:
    verdict = decide(segments(*ages), policy, 1000, NOW)
    assert verdict == Verdict(point, point, 0, None, ())
    # nor does it matter who is done
    assert decide(segments(*ages), policy, 1000, NOW, [Place("g", 1000, 1000)]) == verdict


def test_segments_without_timestamps_age_from_their_making() -> None:
    old = Piece(0, 10, 100, -1, 500, False)
    new = Piece(10, 20, 100, -1, 950, True)
    assert decide([old, new], Policy(100, -1), 20, 1000).point == 10


def test_an_empty_active_segment_stays() -> None:
    assert decide([Piece(10, 10, 0, -1, 0, True)], Policy(100, -1), 10, NOW).point == -1


OLD = segments(500, 400, 300, 0)


def known(due: int = 0, complete: bool = True, asked: list[int] | None = None) -> object:
    def latest(segment: Segment) -> Latest:
        if asked is not None:
            asked.append(segment.base_offset)
        return Latest(due, complete)

    return latest


@pytest.mark.parametrize("policy", [Policy(100, -1), Policy(-1, 100)])
@pytest.mark.parametrize("state", ["DELAYED", "BACKOFF", "ACQUIRED", "DYING"])
def test_what_a_subscription_holds_is_never_taken(policy: Policy, state: str) -> None:
    places = [Place("done", 40, 40), Place("holds", 3, 35, 15, state), Place("other", 7, 35, 22, "DYING")]
    verdict = decide(OLD, policy, 40, NOW, places, known())  # type: ignore[arg-type]
    assert verdict == (10, 30, 200, None, [Hold("holds", 15, state), Hold("other", 22, "DYING")])


def test_a_limit_that_somebody_set_takes_open_records() -> None:
    places = [Place("behind", 3, 35), Place("never read", 0, 0)]
    for policy in (Policy(100, -1, True), Policy(-1, 100, False)):
        assert decide(OLD, policy, 40, NOW, places, known()).point == 30  # type: ignore[arg-type]


def test_the_limit_by_age_that_nobody_set_takes_only_what_is_settled() -> None:
    places = [Place("done", 40, 40), Place("behind", 13, 35), Place("further", 25, 25)]
    verdict = decide(OLD, Policy(100, -1, False), 40, NOW, places)
    assert verdict == (10, 30, 200, None, [Hold("behind", 13, "OPEN"), Hold("further", 25, "OPEN")])


def test_beside_a_limit_by_size_that_somebody_set_the_age_that_nobody_set_takes_no_open_records() -> None:
    # one segment is too much, and all are old
    verdict = decide(OLD, Policy(100, 300, False), 40, NOW, [Place("behind", 3, 3)], known())  # type: ignore[arg-type]
    assert (verdict.point, verdict.policy, verdict.holds) == (10, 30, [Hold("behind", 3, "OPEN")])


def test_pulsars_limits_take_only_what_is_settled() -> None:
    places = [Place("done", 40, 40), Place("behind", 13, 35), Place("further", 25, 25)]
    for policy in (Policy(-1, 100, evicts=False), Policy(100, 100, False, False), Policy(0, 0, False, False)):
        verdict = decide(OLD, policy, 40, NOW, places)
        assert (verdict.point, verdict.look) == (10, None)
        assert verdict.holds == [Hold("behind", 13, "OPEN"), Hold("further", 25, "OPEN")]
        # what is settled goes, and all where nobody subscribes
        assert decide(OLD, policy, 40, NOW, places[:1]).point >= 30
        assert decide(OLD, policy, 40, NOW).point >= 30


def test_kafkas_age_goes_for_open_records_beside_pulsars_size() -> None:
    place, policy = [Place("g", 0, 40)], Policy(100, 100, True, False)
    assert decide(OLD, policy, 40, NOW, place, known(NOW - 101)).point == 30  # type: ignore[arg-type]
    # it was due not long ago: by age it stays, and by size only settled ones go
    verdict = decide(OLD, policy, 40, NOW, place, known(NOW - 50))  # type: ignore[arg-type]
    assert (verdict.point, verdict.policy, verdict.holds) == (-1, 30, [Hold("g", 0, "OPEN")])


def test_age_counts_from_the_due_time_where_it_is_later() -> None:
    place = [Place("g", 0, 40)]
    policy = Policy(100, -1)
    for due, point in ((NOW + 50, -1), (NOW, -1), (NOW - 100, -1), (NOW - 101, 30), (0, 30)):
        verdict = decide(OLD, policy, 40, NOW, place, known(due))  # type: ignore[arg-type]
        assert (verdict.point, verdict.kept) == (point, 0)


@pytest.mark.parametrize("policy", [Policy(100, -1), Policy(-1, 100)])
def test_delayed_records_that_were_never_looked_at_stay(policy: Policy) -> None:
    verdict = decide(OLD, policy, 40, NOW, [Place("g", 3, 5)], known(NOW + 1))  # type: ignore[arg-type]
    assert verdict == (-1, 30, 300, None, [Hold("g", 5, "DELAYED")])


def test_size_takes_what_is_due() -> None:
    assert decide(OLD, Policy(-1, 100), 40, NOW, [Place("g", 3, 5)], known(NOW)).point == 30  # type: ignore[arg-type]


def test_delays_are_asked_for_only_where_a_segment_would_go_and_somebody_needs_it() -> None:
    asked: list[int] = []
    places = [Place("g", 15, 15), Place("h", 12, 40, 25, "BACKOFF")]
    decide(OLD, Policy(100, -1), 40, NOW, places, known(asked=asked))  # type: ignore[arg-type]
    assert asked == [10]
    decide(OLD, Policy(100, -1, False), 40, NOW, places, known(asked=asked))  # type: ignore[arg-type]
    assert asked == [10]


@pytest.mark.parametrize(
    ("policy", "enough"),
    [(Policy(100, -1), NOW - 100), (Policy(-1, 100), NOW + 1), (Policy(100, 100), NOW + 1)],
)
def test_what_is_not_known_of_delays_is_asked_and_nothing_behind_it_goes(policy: Policy, enough: int) -> None:
    place = [Place("g", 15, 15)]
    for latest in (lambda segment: None, known(enough - 1, complete=False)):
        verdict = decide(OLD, policy, 40, NOW, place, latest)  # type: ignore[arg-type]
        assert (verdict.point, verdict.look) == (10, (OLD[1], enough))
    assert decide(OLD, policy, 40, NOW, place, known(enough, complete=False)).look is None  # type: ignore[arg-type]
