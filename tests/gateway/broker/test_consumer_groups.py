"""Consumer groups of KIP-848 over commits that fail, time that passes, restarts and sweeps."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.consumer_groups import Beating
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import JoinAnswer, Plain
from gateway.coordinators.consumer_events import Beat
from gateway.coordinators.group_rows import Kind
from gateway.wire.errors import Error
from store.api import Family, Put, Write
from tests.gateway.broker.fake_broker import FakeBroker, listing
from tests.gateway.broker.group_client import Client, caller, value

SESSION = 45_000


def with_topics(*flags: str) -> FakeBroker:
    broker = FakeBroker(*flags)
    broker.topic("t", 2)
    broker.topic("u")
    return broker


def brief() -> FakeBroker:
    """One on which offsets live for twenty minutes, and are looked at often."""
    return with_topics("offsets.retention.minutes=20", "offsets.retention.check.interval.ms=100")


@pytest.fixture
def broker() -> FakeBroker:
    return with_topics()


def send(broker: FakeBroker, member: str, epoch: int, *names: str) -> Any:
    """A heartbeat: its answer, or a promise of it."""
    joins = epoch == 0
    beating = Beating(
        "g",
        member,
        epoch,
        None,
        None,
        30_000 if joins else -1,
        names or None,
        None,
        None,
        frozenset() if joins else None,
        ("/h", "c"),
        caller(),
    )
    groups = broker.consumer_groups
    return groups.leave(beating) if epoch < 0 else groups.heartbeat(beating)


def beat(broker: FakeBroker, member: str, epoch: int, *names: str) -> Beat:
    answer: Beat = value(send(broker, member, epoch, *names))
    return answer


def commit(broker: FakeBroker, topic: str, member: str, epoch: int) -> int:
    found = broker.catalog.get(topic)
    assert found is not None
    row = offsets.encode(5, 0, broker.clock.wall_ms(), -1, found.topic_id, "")
    rows: list[Write] = [Put(Family.OFFSET, offsets.key("g", topic, 0), row)]
    answer: Plain = value(broker.committing.commit_offsets("g", member, None, epoch, rows, caller()))
    return answer.error


def committed(broker: FakeBroker) -> set[str]:
    return {offsets.place(key).topic for key, _ in broker.store.scan(Family.OFFSET)}


def stay(broker: FakeBroker, ms: int) -> None:
    """Time passes, and the member a says that it lives."""
    for _ in range(ms // (SESSION - 1) + 1):
        broker.advance(SESSION - 1)
        assert beat(broker, "a", 2).error == 0


def test_nobody_is_told_before_it_is_stored(broker: FakeBroker) -> None:
    broker.at_once = False
    waits = send(broker, "a", 0, "t")
    assert value(waits) is None
    broker.land()
    assert value(waits).epoch == 2


def test_a_commit_that_fails_leaves_the_group_as_it_was(broker: FakeBroker) -> None:
    assert beat(broker, "a", 0, "t").epoch == 2
    broker.at_once = False
    joins, goes_on = send(broker, "b", 0, "t"), send(broker, "a", 2)
    broker.fail()
    assert value(joins).error == value(goes_on).error == Error.COORDINATOR_NOT_AVAILABLE
    broker.at_once = True
    assert beat(broker, "a", 2).epoch == 2
    assert beat(broker, "b", 2).error == Error.UNKNOWN_MEMBER_ID


def test_the_silent_are_out_also_after_a_restart(broker: FakeBroker) -> None:
    beat(broker, "a", 0, "t")
    broker.advance(SESSION - 1)
    assert beat(broker, "a", 2).error == 0
    after = broker.restart()
    after.advance(SESSION - 1)
    assert beat(after, "a", 2).error == 0
    after.advance(SESSION)
    assert beat(after, "a", 2).error == Error.UNKNOWN_MEMBER_ID
    (listed,) = listing(after)
    assert (listed.kind, listed.state, listed.members) == (Kind.CONSUMER, "Empty", 0)


def test_offsets_of_what_members_read_stay() -> None:
    broker = brief()
    beat(broker, "a", 0, "t")
    assert [commit(broker, topic, "a", 2) for topic in ("t", "u")] == [0, 0]
    stay(broker, 15 * 60_000)
    assert committed(broker) == {"t", "u"}
    stay(broker, 15 * 60_000)
    assert committed(broker) == {"t"}


def test_an_empty_group_goes_with_its_offsets_when_it_has_been_empty_for_long() -> None:
    broker = brief()
    beat(broker, "a", 0, "t")
    commit(broker, "t", "a", 2)
    stay(broker, 30 * 60_000)
    assert beat(broker, "a", -1).error == 0
    broker.advance(19 * 60_000)
    assert committed(broker) == {"t"}
    broker.advance(2 * 60_000)
    assert committed(broker) == set()
    assert listing(broker) == []


class TestIdsThatChangeTheirKind:
    def test_to_the_new_protocol_and_only_with_a_commit(self, broker: FakeBroker) -> None:
        commit(broker, "t", "", -1)
        broker.at_once = False
        joins = send(broker, "a", 0, "t")
        broker.fail()
        broker.at_once = True
        assert value(joins).error == Error.COORDINATOR_NOT_AVAILABLE
        assert [listed.kind for listed in listing(broker)] == [Kind.CLASSIC]
        assert beat(broker, "a", 0, "t").error == 0
        assert [listed.kind for listed in listing(broker.restart())] == [Kind.CONSUMER]
        assert committed(broker) == {"t"}

    def test_back_and_the_sweep_looks_at_the_group_in_memory(self) -> None:
        """The row is that of the old group, which has been empty for long, until the new one is stored."""
        broker = brief()
        beat(broker, "a", 0, "t")
        commit(broker, "t", "a", 2)
        beat(broker, "a", -1)
        broker.advance(20 * 60_000 - 100)
        waits = Client(broker).join()
        broker.advance(250)
        assert value(waits) is None
        assert [listed.kind for listed in listing(broker)] == [Kind.CLASSIC]
        assert committed(broker) == {"t"}
        broker.advance(100)
        joined: JoinAnswer = value(waits)
        assert joined.error == 0
        assert beat(broker, "a", 0, "t").error == Error.GROUP_ID_NOT_FOUND
