"""What is a violation of the order of a key, and what is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compat.day.events import Event
from compat.day.ledger import Findings, Record, check, rate
from tests.compat.day.scenes import acked, held, killed, took


def look(events: Sequence[Event], letters: Sequence[Record] = (), **sent: int) -> Findings:
    """All dead letters are those that should be."""
    return check(events, sent, letters, letters)


def test_a_day_without_anything_wrong() -> None:
    found = look([took(1, 0), took(2, 0, key="bob", lane=1), acked(2.5, 1), took(3, 1)], ada=2, bob=1)

    assert found.good
    assert found.deliveries == Counter({1: 3})


def test_a_later_record_first_is_out_of_order() -> None:
    found = look([took(1, 0), took(2, 2), took(3, 1)], ada=3)

    assert found.out_of_order == ["member 1 got ada 2 on lane 0 at 2 before 1 was settled"]
    assert not found.good


def test_the_order_is_looked_for_over_all_members() -> None:
    found = look([took(1, 0, member=1), took(2, 2, member=2), took(3, 1, member=1)], ada=3)

    assert len(found.out_of_order) == 1


def test_it_is_the_order_of_the_work_that_counts_not_that_of_the_telling() -> None:
    assert look([took(2, 1, member=2), took(1, 0, member=1)], ada=2).good


def test_other_keys_do_not_wait() -> None:
    assert look([took(1, 0, nacked=True), took(2, 0, key="bob"), took(3, 0, offset=1)], ada=1, bob=1).good


def test_what_a_member_did_not_acknowledge_may_come_again_from_there() -> None:
    events = [
        *(took(1, 0), acked(1.5, 1), took(2, 1), took(3, 2), killed(4, 1)),
        *(took(5, 1, member=2, offset=7, failed=1), took(6, 2, member=2, offset=8, failed=1)),
        *(acked(6.5, 9, member=2), took(7, 3, member=2, offset=9)),
    ]

    found = look(events, ada=4)

    assert found.good
    assert found.deliveries == Counter({1: 2, 2: 2})


def test_going_back_does_not_allow_to_leave_something_out() -> None:
    events = [took(1, 0), took(2, 1), took(3, 2), killed(4, 1), took(5, 0, member=2), took(6, 2, member=2)]

    assert len(look(events, ada=3).out_of_order) == 1


def test_nothing_of_a_key_is_done_while_a_nacked_one_waits() -> None:
    events = [took(1, 0, nacked=True), took(2, 1), took(3, 0, offset=2, failed=1), took(4, 1, offset=3)]

    found = look(events, ada=2)

    assert found.out_of_order == ["member 1 got ada 1 on lane 0 at 1 before 0 was settled"]


def test_behind_a_dead_letter_the_key_goes_on() -> None:
    events = [took(1, 0, nacked=True), took(2, 0, offset=1, failed=1, nacked=True), took(3, 1, offset=2)]

    found = look(events, [("ada", 0)], ada=2)

    assert found.good
    assert found.deliveries == Counter({2: 1, 1: 1})
    assert [one.offset for one in found.deaths["ada", 0]] == [0, 1]


def test_between_two_deliveries_of_what_dies_later_the_key_waits() -> None:
    events = [took(1, 0, nacked=True), took(2, 1, offset=2), took(3, 0, offset=1, failed=1, nacked=True)]

    assert len(look(events, [("ada", 0)], ada=2).out_of_order) == 1


def test_a_key_stays_on_its_lane() -> None:
    found = look([took(1, 0), took(2, 1, lane=5)], ada=2)

    assert found.out_of_order == ["member 1 got ada 1 on lane 5 at 1 after lane 0 had the key"]


def test_two_members_at_one_key_at_the_same_time() -> None:
    found = look([took(1, 0, lasted=2), took(2, 1, member=2)], ada=2)

    assert found.out_of_order == ["member 2 got ada 1 on lane 0 at 1 while member 1 worked on 0 of it"]


def test_what_was_acknowledged_must_not_come_again() -> None:
    events = [took(1, 0), acked(2, 1), took(3, 0, member=2, offset=5)]

    found = look(events, ada=1)

    assert found.acknowledged_again == ["member 2 got ada 0 on lane 0 at 5, though it was acknowledged"]
    assert not found.good


def test_a_commit_acknowledges_its_own_lane_up_to_its_offset() -> None:
    assert look([took(1, 0), acked(2, 0), acked(2, 9, lane=1), took(3, 0, member=2, offset=5)], ada=1).good


def test_a_commit_says_nothing_of_what_another_left_open() -> None:
    # the dead member's comes again under 5; the other one's commit of 5 is of what lay between
    crashed = [took(1, 0), killed(2, 1), took(3, 0, key="bob", member=2, offset=4), acked(4, 5, member=2)]
    revoked = [took(1, 0), held(2, 1), acked(4, 5)]

    for events in (crashed, revoked):
        assert look([*events, took(5, 0, member=2, offset=5)], ada=1, bob=0).good


def test_what_was_only_nacked_is_lost_unless_it_is_a_dead_letter() -> None:
    events = [took(1, 0, nacked=True)]

    assert look(events, ada=2).lost == [("ada", 0), ("ada", 1)]
    assert look(events, [("ada", 0)], ada=1).good


def test_dead_letters_are_exactly_the_poison() -> None:
    events = [took(1, 0), took(2, 0, key="bob", nacked=True)]

    def wrong(letters: Sequence[Record]) -> list[Record]:
        return check(events, {"ada": 1, "bob": 1}, letters, [("bob", 0)]).wrong_letters

    assert wrong([("bob", 0)]) == []
    assert wrong([]) == [("bob", 0)]
    assert ("ada", 0) in wrong([("bob", 0), ("ada", 0)])


def test_a_delivery_that_nobody_worked_on_is_counted_when_the_gateway_says_so() -> None:
    assert look([took(1, 0, failed=2)], ada=1).deliveries == Counter({3: 1})


def test_the_rate_counts_each_record_once_when_it_is_finished() -> None:
    events = [took(0.1, 0), took(0.4, 1, lasted=0.3), took(1.2, 0), took(1.3, 2, nacked=True), took(2.6, 3)]

    assert rate(events, 0.5) == [2.0, 2.0, 0.0, 0.0, 0.0, 2.0]
    assert rate([], 1.0) == []
