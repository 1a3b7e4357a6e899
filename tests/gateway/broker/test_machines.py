"""Machines at work: writes before answers, the one failure path, what stays in memory, timers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.housekeeping import IDLE_MS
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.coordinators.classic_events import Heartbeat, Join, Plain
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import State
from store.api import Durability, Family, Put
from tests.gateway.broker.fake_broker import FakeBroker, listing
from tests.gateway.broker.group_client import SESSION, Client, caller, value


def _raise(*_: Any) -> None:
    raise AssertionError("a fault")


def test_later_answers_wait_for_the_write_before_them(broker: FakeBroker, client: Client) -> None:
    first, second = client.join(), client.join(new="m2")
    broker.advance(1_000)
    assert value(first).leader == value(second).leader == "m1"
    broker.at_once = False
    led = client.sync("m1", 1, m1=b"A", m2=b"B")
    followed = client.sync("m2", 1)
    beat = client.run(Heartbeat(caller(), "m2", 1))
    assert (value(led), value(followed), value(beat)) == (None, None, None)
    broker.land()
    assert (value(led).assignment, value(followed).assignment, value(beat).error) == (b"A", b"B", 0)


def test_answers_come_with_the_commit_they_rest_on(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.stable()
    broker.at_once = False
    committed = client.commit("t", 5, "m1", 1)
    client.leave("m1")
    beat = client.run(Heartbeat(caller(), "m1", 1))
    broker.land(count=1)
    assert value(committed) == Plain(0)
    assert value(beat) is None
    broker.land(count=1)
    assert value(beat) == Plain(Code.UNKNOWN_MEMBER_ID)


def test_a_failed_row_sends_everybody_back_and_the_group_is_as_stored(
    broker: FakeBroker, client: Client
) -> None:
    client.stable()
    broker.at_once = False
    again, other = client.join("m1"), client.join(new="m2")
    assert broker.queue
    beat = client.run(Heartbeat(caller(), "m1", 2))
    broker.fail()
    for answer in (again, other, beat):
        assert value(answer).error == Code.COORDINATOR_NOT_AVAILABLE
    broker.at_once = True
    assert client.beat("m1", 1) == 0
    row = client.row()
    assert row is not None
    assert (row.generation, row.state) == (1, State.STABLE)


def test_a_fault_in_a_group_is_that_groups_alone(
    broker: FakeBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.stable()
    other = Client(broker, "other")
    waits, hangs = other.join(), client.join(new="m2")
    core = broker.groups.look("g")
    with monkeypatch.context() as patch:
        patch.setattr(type(core), "step", _raise)
        assert client.run(Heartbeat(caller(), "m1", 1)).error == Code.COORDINATOR_NOT_AVAILABLE
    assert value(hangs).error == Code.COORDINATOR_NOT_AVAILABLE
    assert client.beat("m1", 1) == 0
    broker.advance(300)
    assert value(waits).error == 0


def test_timers_go_on_after_a_fault(
    broker: FakeBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.stable()
    core = broker.groups.look("g")
    with monkeypatch.context() as patch:
        patch.setattr(type(core), "step", _raise)
        broker.advance(SESSION)
    assert broker.groups.look("g") is None
    waits = Client(broker, "other").join()
    broker.advance(300)
    assert value(waits).error == 0


def test_an_unreadable_row_is_an_error_and_no_crash(broker: FakeBroker, client: Client) -> None:
    broker.store.commit([Put(Family.GROUP, b"g", b"\xc1")], Durability.OS, lambda outcome: None)
    assert client.beat("m1", 1) == -1
    with pytest.raises(KafkaError):
        broker.groups.get("g")
    assert listing(broker) == []
    broker.advance(1)


def test_a_join_whose_connection_went_away_counts(broker: FakeBroker, client: Client) -> None:
    client.join()
    broker.advance(300)
    assert client.beat("m1", 1) == 0


def test_only_groups_in_use_are_in_memory(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    assert value(client.commit("t", 1)) == Plain(0)
    assert broker.groups.look("g") is not None
    broker.advance(IDLE_MS)
    broker.advance(IDLE_MS)
    assert broker.groups.look("g") is None
    assert client.offset("t") == 1
    assert [one.group_id for one in listing(broker)] == ["g"]


def test_a_group_with_members_stays_in_memory(broker: FakeBroker, client: Client) -> None:
    client.stable()
    for _ in range(20):
        broker.advance(SESSION - 1)
        assert client.beat("m1", 1) == 0
    assert broker.groups.look("g") is not None


def test_a_refused_first_join_leaves_nothing_behind(broker: FakeBroker, client: Client) -> None:
    event = Join(caller(), "", "m", None, "c", "/h", SESSION, 60_000, "", ())
    assert client.run(event).error == Code.INCONSISTENT_GROUP_PROTOCOL
    assert broker.groups.look("g") is None


def test_a_promise_that_nobody_keeps_leaves_nothing_behind(broker: FakeBroker, client: Client) -> None:
    event = Join(caller(), "", "m", None, "c", "/h", SESSION, 60_000, "consumer", (("range", b""),))
    assert client.run(event).error == Code.MEMBER_ID_REQUIRED
    broker.advance(SESSION)
    assert broker.groups.look("g") is None
    assert listing(broker) == []


def test_timers_do_not_pile_up(broker: FakeBroker, client: Client) -> None:
    client.stable()
    for _ in range(1_000):
        broker.advance(1_000)
        assert client.beat("m1", 1) == 0
    assert len(broker.timers) < 10


def test_close_answers_who_waits(broker: FakeBroker, client: Client) -> None:
    joined = client.join()
    broker.groups.close()
    assert value(joined).error == Code.COORDINATOR_NOT_AVAILABLE


def test_who_spoke_while_the_process_stood_still_is_heard_before_anybody_counts_as_silent(
    broker: FakeBroker, client: Client
) -> None:
    client.stable()
    # nothing runs for longer than a session; then timers ring before connections are read
    broker.clock.now += SESSION + STOOD_STILL_MS
    broker.ring()
    assert client.beat("m1", 1) == 0
    broker.advance(SESSION - 1)
    assert client.beat("m1", 1) == 0
    # and who is silent then, too, is expelled
    broker.clock.now += SESSION + STOOD_STILL_MS
    broker.ring()
    broker.advance(HEARD_MS)
    assert client.beat("m1", 1) == Code.UNKNOWN_MEMBER_ID
