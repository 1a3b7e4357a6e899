"""The shell around the cores: writes before answers, the one failure path, timers."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.broker.group_offsets import Along
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.classic_events import Delete, Heartbeat, Join, Leave, Leaver, Plain, Sync
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import GroupHead, Kind, State
from gateway.promise import Promise
from gateway.wire.errors import Error
from store.api import Durability, Family, Put, Write
from tests.gateway.broker.fake_broker import LOOP, FakeBroker, listing
from tests.gateway.broker.group_client import SESSION, Client, caller, value

# -- writes before answers


def test_the_timer_ends_the_first_delay(broker: FakeBroker, client: Client) -> None:
    joined = client.join()
    broker.advance(299)
    assert value(joined) is None
    broker.advance(1)
    assert value(joined).error == 0


def test_no_generation_is_announced_before_it_is_durable(broker: FakeBroker, client: Client) -> None:
    joined = client.join()
    broker.at_once = False
    broker.advance(300)
    assert value(joined) is None
    broker.land()
    assert value(joined).generation == 1
    row = client.row()
    assert row is not None
    assert row.generation == 1


# -- failures


def test_commits_behind_a_failed_row_are_answered_once(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    broker.at_once = False
    first = client.commit("t", 1)
    second = client.commit("t", 2)
    broker.fail()
    assert value(first) == value(second) == Plain(Code.COORDINATOR_NOT_AVAILABLE)
    assert client.row() is None


def test_a_failed_commit_of_offsets_leaves_the_group_alone(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.stable()
    parked = client.join(new="m2")
    broker.at_once = False
    committed = client.commit("t", 1, "m1", 1)
    beat = client.run(Heartbeat(caller(), "m1", 1))
    broker.fail()
    assert value(committed) == Plain(Code.COORDINATOR_NOT_AVAILABLE)
    assert value(beat) == Plain(Code.REBALANCE_IN_PROGRESS)
    assert value(parked) is None
    assert client.offset("t") is None


def test_a_group_of_another_type_is_not_joined(broker: FakeBroker, client: Client) -> None:
    head = GroupHead(group_rows.VERSION, Kind.SHARE, State.EMPTY, 0, "share")
    row = Put(Family.GROUP, b"g", group_rows._encoder.encode(head))
    broker.store.commit([row], Durability.OS, lambda outcome: None)
    assert client.join().error == Code.INCONSISTENT_GROUP_PROTOCOL
    (listed,) = listing(broker)
    assert (listed.kind, listed.state) == (Kind.SHARE, "Empty")


# -- restarts, memory


def test_members_go_on_after_a_restart(client: Client) -> None:
    client.stable()
    after = client.broker.restart()
    later = Client(after)
    after.advance(SESSION - 1)
    assert later.beat("m1", 1) == 0
    after.advance(SESSION - 1)
    assert later.beat("m1", 1) == 0
    after.advance(SESSION)
    assert later.beat("m1", 1) == Code.UNKNOWN_MEMBER_ID


def test_absent_members_run_out_after_a_restart_though_nobody_asks(client: Client) -> None:
    client.stable()
    after = client.broker.restart()
    after.advance(SESSION + 1)
    row = Client(after).row()
    assert row is not None
    assert row.state == State.EMPTY


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (Heartbeat(caller(), "m", 1), Code.UNKNOWN_MEMBER_ID),
        (Sync(caller(), "m", 1), Code.UNKNOWN_MEMBER_ID),
        (Leave(caller(), (Leaver("m"),)), Code.UNKNOWN_MEMBER_ID),
        (Delete(caller()), Code.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_group_that_does_not_exist(client: Client, event: Any, error: Code) -> None:
    assert client.run(event).error == error


# -- offsets


def test_a_commit_by_nobody_makes_a_simple_group(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    assert value(client.commit("t", 42)) == Plain(0)
    assert client.offset("t") == 42
    (listed,) = listing(broker)
    assert listed == ("g", "", "Empty", Kind.CLASSIC, 0)
    assert len(broker.committed) == 1, "the row of the group and the offset are one fact"
    client.commit("t", 43)
    assert len(broker.committed[-1]) == 1, "the row is written once"


def test_a_commit_with_a_generation_needs_the_group(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    assert client.commit("t", 1, "m1", 1) == Plain(Code.GROUP_ID_NOT_FOUND)


def test_a_recreated_topic_does_not_show_old_offsets(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 42)
    broker.topic("t")
    assert client.offset("t") is None
    assert broker.groups.all_committed("g") == []
    client.commit("t", 1)
    assert client.offset("t") == 1


def test_all_committed(broker: FakeBroker, client: Client) -> None:
    for name in ("a", "b", "gone"):
        broker.topic(name)
        client.commit(name, 9)
    broker.topic("other")
    Client(broker, "g2").commit("other", 1)
    broker.drop_topic("gone")
    assert [
        (topic.name, [(index, row.offset, row.metadata) for index, row in rows])
        for topic, rows in broker.groups.all_committed("g")
    ] == [("a", [(0, 9, "note")]), ("b", [(0, 9, "note")])]


def test_in_flight(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    assert broker.groups.in_flight("g") is None
    broker.at_once = False
    client.commit("t", 1)
    client.commit("t", 2)
    landed = broker.groups.in_flight("g")
    assert isinstance(landed, Promise)
    broker.land(count=1)
    assert landed.now() is landed
    broker.land(count=1)
    assert landed.now() is None


@pytest.mark.parametrize("fails", [0, 1])
def test_in_flight_ends_when_commits_fail(broker: FakeBroker, client: Client, fails: int) -> None:
    broker.topic("t")
    if fails:
        client.commit("t", 0)
    broker.at_once = False
    client.commit("t", 1)
    client.commit("t", 2)
    landed = broker.groups.in_flight("g")
    assert isinstance(landed, Promise)
    broker.fail()
    assert landed.now() is None


def test_delete_group_takes_the_offsets_along(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.commit("t", 1)
    Client(broker, "g2").commit("t", 5)
    assert client.run(Delete(caller())) == Plain(0)
    assert client.offset("t") is None
    assert Client(broker, "g2").offset("t") == 5
    assert [one.group_id for one in listing(broker)] == ["g2"]


def test_commits_beside_the_deletion_of_their_group_are_to_come_again(
    broker: FakeBroker, client: Client
) -> None:
    topic = broker.topic("t")
    client.commit("t", 1)
    row = Put(Family.OFFSET, offsets.key("g", "t", 0), offsets.encode(5, -1, 0, -1, topic.topic_id, None))
    staging: list[int] = []

    def stage() -> tuple[int, list[Write]]:
        staging.append(1)
        return 0, list(broker.transactions.staged.stage("tx", [row]))

    def staged() -> Any:
        return broker.groups.stage_offsets("g", "", None, -1, stage, caller())

    broker.at_once = False
    deleted = client.run(Delete(caller()))
    plain, in_transaction = client.commit("t", 5), staged()
    # nothing of that group is left to be taken by a transaction; if there were, it would go, too
    broker.groups.take_offsets("g", [row])
    assert [value(each) for each in (deleted, plain, in_transaction)] == [None, None, None]
    broker.land()
    refused = Plain(Error.COORDINATOR_NOT_AVAILABLE)
    assert [value(each) for each in (deleted, plain, in_transaction)] == [Plain(0), refused, refused]
    assert (client.row(), list(broker.store.scan(Family.OFFSET)), staging) == (None, [], [])
    broker.at_once = True
    assert [value(client.commit("t", 6)), value(staged())] == [Plain(0), Plain(0)]
    assert client.row() is not None
    assert client.offset("t") == 6


def test_a_group_gives_way_unless_it_has_offsets_in_an_open_transaction(
    broker: FakeBroker, client: Client
) -> None:
    client.stable()
    client.leave("m1")
    staged = broker.transactions.staged
    staged.stage("tx", [Put(Family.OFFSET, offsets.key("g", "t", 0), b"")])
    LOOP.run_until_complete(broker.lane_members.give_way("g"))
    assert client.row() is not None
    staged.end("tx", committed=False)
    LOOP.run_until_complete(broker.lane_members.give_way("g"))
    assert client.row() is None


def test_rebalances_and_commits_are_counted(broker: FakeBroker, client: Client) -> None:
    broker.topic("t")
    client.stable()
    client.commit("t", 1, "m1", 1)
    assert broker.metrics.rebalances.value == 1
    assert broker.metrics.offset_commits.value == 1


# -- who has which partitions


def given_to(topic: bytes, *partitions: int) -> bytes:
    """An assignment of one topic's partitions, as consumers write it."""
    head = b"\0\1\0\0\0\1" + len(topic).to_bytes(2, "big") + topic + len(partitions).to_bytes(4, "big")
    return head + b"".join(index.to_bytes(4, "big") for index in partitions) + b"\xff\xff\xff\xff"


def test_the_assignment_of_a_group_is_what_its_members_were_given(broker: FakeBroker, client: Client) -> None:
    groups = broker.groups
    assert groups.assignment("g") == {}
    client.join()
    second = client.join(new="m2")
    broker.advance(1_000)
    assert value(second).generation == 1
    assert groups.assignment("g") == {"m1": {}, "m2": {}}
    client.sync("m2", 1)
    client.sync("m1", 1, m1=given_to(b"q", 0, 2), m2=given_to(b"q", 1))
    assigned = {"m1": {"q": [0, 2]}, "m2": {"q": [1]}}
    assert groups.assignment("g") == assigned
    assert broker.restart().groups.assignment("g") == assigned
    client.leave("m2")
    assert groups.assignment("g") == {"m1": {"q": [0, 2]}}


def test_other_protocols_have_no_partitions(broker: FakeBroker, client: Client) -> None:
    joined = client.run(
        Join(caller(), "", "w1", None, "c", "/h", SESSION, 60_000, "connect", (("range", b""),), False)
    )
    broker.advance(300)
    assert value(joined).generation == 1
    client.sync("w1", 1, w1=given_to(b"q", 0))
    assert broker.groups.assignment("g") == {}


def test_followers_are_told_of_assignments_and_of_who_is_gone(broker: FakeBroker, client: Client) -> None:
    told = broker.queues.told
    joined = client.join()
    second = client.join(new="m2")
    broker.advance(1_000)
    assert value(joined).generation == value(second).generation == 1
    assert told == []
    client.sync("m2", 1)
    broker.at_once = False
    client.sync("m1", 1, m1=b"A", m2=b"B")
    # not before it is durable
    assert told == []
    broker.land()
    assert told == [("g", "assigned")]
    broker.at_once = True
    client.leave("m2")
    assert told[1:] == [("g", "m2", "left")]
    broker.advance(SESSION)
    assert told[2:] == [("g", "m1", "crashed")]


# -- what is done along with a commit


def test_what_goes_along_with_a_commit_is_stored_with_it_or_not_done(
    broker: FakeBroker, client: Client
) -> None:
    topic = broker.topic("t")
    client.stable()
    members: list[bool] = []
    row = offsets.encode(7, 3, 0, -1, topic.topic_id, "")

    def along(member: bool) -> list[Write]:
        members.append(member)
        return [Put(Family.OFFSET, offsets.key("g", "t", 0), row)]

    def commit(member_id: str, generation: int) -> Any:
        return value(
            broker.groups.commit_offsets("g", member_id, None, generation, [], caller(), Along([], along))
        )

    assert commit("m1", 1) == Plain(Code.NONE)
    assert client.offset("t") == 7
    # not those whose time is over, nor strangers while there are members
    assert commit("m1", 0) == Plain(Code.ILLEGAL_GENERATION)
    assert commit("m9", 1) == Plain(Code.UNKNOWN_MEMBER_ID)
    assert commit("", -1) == Plain(Code.UNKNOWN_MEMBER_ID)
    assert members == [True]
    client.leave("m1")
    assert commit("", -1) == Plain(Code.NONE)
    assert members == [True, False]
