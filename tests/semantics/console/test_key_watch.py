"""What happened to the messages of a key, by what is told and by how they stand."""

from __future__ import annotations

from semantics.console import key_watch
from semantics.console.key_watch import MOST_EVENTS, MOST_OPEN, TICK, Event, History, Place, What
from semantics.subscriptions.states import RecordState

AT = Place("orders", 0, 7)
ACK, NACK, REJECT, RENEW = 1, 2, 3, 4


def told(history: History) -> list[tuple[int, str]]:
    return [(event.at, str(event.what)) for event in history.events]


def state(name: str, count: int = 0, due: int | None = None, reason: str | None = None) -> RecordState:
    return RecordState(AT.offset, name, count, due=due, reason=reason)


def delivered() -> History:
    history = History()
    history.delivered(1, AT, "c", 0)
    return history


def test_it_is_delivered_and_acknowledged() -> None:
    history = delivered()
    history.looked(2, AT, state("ACQUIRED"))
    history.said(3, AT, "c", RENEW)
    history.said(4, AT, "c", ACK)
    history.looked(5, AT, state("DONE"))
    assert told(history) == [(1, "delivered"), (3, "lock renewed"), (4, "acknowledged")]
    assert history.events[0] == Event(1, What.DELIVERED, AT, "c", 0)
    assert history.open() == []


def test_it_is_nacked_waits_comes_again_and_dies_of_the_last_nack() -> None:
    history = delivered()
    history.said(2, AT, "c", NACK)
    history.looked(2, AT, state("BACKOFF", 1, due=900))
    history.looked(3, AT, state("BACKOFF", 1, due=900))
    history.looked(900, AT, state("AVAILABLE", 1), TICK)
    history.delivered(901, AT, "d", 1)
    history.said(902, AT, "d", NACK)
    # it is buried in the turn of the nack: nobody sees it dying
    history.looked(902, AT, state("DONE"))
    assert told(history) == [
        (1, "delivered"), (2, "nacked"), (2, "waits"), (901, "delivered"), (902, "nacked"), (902, "dead letter"),
    ]  # fmt: skip
    assert (history.events[2].due, history.events[2].count) == (900, 1)


def test_its_lock_runs_out_and_its_consumer_leaves() -> None:
    history = delivered()
    history.looked(2, AT, state("AVAILABLE", 1), TICK)
    history.delivered(3, AT, "d", 1)
    history.looked(4, AT, state("AVAILABLE", 1))
    history.delivered(5, AT, "e", 1)
    history.looked(6, AT, state("DYING", 2, reason="MAX_DELIVERIES"), TICK)
    history.looked(7, AT, state("DONE"))
    assert told(history) == [
        (1, "delivered"), (2, "lock ran out"), (3, "delivered"), (4, "given back"), (5, "delivered"),
        (6, "lock ran out"), (6, "dying"), (7, "dead letter"),
    ]  # fmt: skip
    assert [event.consumer for event in history.events if event.what is not What.DEAD] == [*"ccddeee"]
    assert history.events[-2].reason == "MAX_DELIVERIES"


def test_it_is_rejected_where_there_are_dead_letters_and_where_not() -> None:
    for buries, end in ((True, "dead letter"), (False, "dropped")):
        history = delivered()
        history.said(2, AT, "c", REJECT)
        history.looked(3, AT, state("DONE"), buries=buries)
        assert told(history)[1:] == [(2, "rejected"), (3, end)]


def test_others_settle_it() -> None:
    history = delivered()
    history.said(2, AT, "c", NACK)
    history.looked(2, AT, state("AVAILABLE", 1))
    history.looked(3, AT, state("DONE"))
    assert told(history)[-1] == (3, "settled")


def test_what_is_not_known_is_not_told() -> None:
    history = delivered()
    other = AT._replace(offset=8)
    history.said(2, other, "c", ACK)
    history.looked(3, other, state("DONE"))
    # a gap, and what nobody knows
    history.said(4, AT, "c", 0)
    history.said(4, AT, "c", 9)
    assert told(history) == [(1, "delivered")]


def test_memory_is_bounded() -> None:
    history = History()
    for offset in range(MOST_EVENTS + 5):
        history.delivered(offset, AT._replace(offset=offset), "c", 0)
    assert (len(history.events), history.left_out) == (MOST_EVENTS, 5)
    assert len(history.open()) == key_watch.MOST_OPEN
    assert history.open()[0].offset == MOST_EVENTS + 5 - MOST_OPEN
