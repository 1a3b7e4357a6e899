"""Describe, list and delete groups, in every version; where the coordinator is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.broker.pages import ROWS
from gateway.coordinators import group_rows
from gateway.coordinators.group_rows import ClassicRow, Kind, State
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Durability
from tests.gateway.apis.group_client import SUBSCRIPTION, Client
from tests.gateway.broker.fake_broker import FakeBroker, listing
from tests.gateway.broker.placing import TwoNodes

# -- administration


@pytest.mark.parametrize("version", range(7))
def test_describe(broker: FakeBroker, client: Client, version: int) -> None:
    broker.topic("t")
    member_id = client.member()
    # twice is as good as once
    fields: dict[str, Any] = {"groups": ["g", "nobody", "g"]}
    if version >= 3:
        fields["include_authorized_operations"] = True
    found, missing = client.ask(ApiKey.DESCRIBE_GROUPS, version, **fields).groups
    assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = found.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "cli", "/10.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"A")
    if version >= 3:
        assert found.authorized_operations == 3400
    assert missing.group_state == "Dead"
    assert missing.error_code == (Error.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert missing.error_message == "Group nobody not found."


@pytest.mark.parametrize("version", range(6))
def test_list(broker: FakeBroker, client: Client, version: int) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    groups = client.ask(ApiKey.LIST_GROUPS, version).groups
    assert [(one.group_id, one.protocol_type) for one in groups] == [("g", "consumer"), ("simple", "")]
    if version >= 4:
        assert [one.group_state for one in groups] == ["Stable", "Empty"]
    if version >= 5:
        assert [one.group_type for one in groups] == ["classic", "classic"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"states_filter": ["STABLE "]}, ["g"]),
        ({"states_filter": ["empty", "Dead"]}, ["simple"]),
        ({"types_filter": ["Classic"]}, ["g", "simple"]),
        ({"types_filter": ["share", "consumer"]}, []),
    ],
)
def test_list_filters(broker: FakeBroker, client: Client, filters: dict[str, Any], found: list[str]) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    answer = client.ask(ApiKey.LIST_GROUPS, 5, **filters)
    assert [one.group_id for one in answer.groups] == found


def with_many_groups(broker: FakeBroker, count: int) -> None:
    """Groups that are rows only; the sweep comes no more."""
    broker.settle()
    row = ClassicRow(group_rows.VERSION, Kind.CLASSIC, State.EMPTY, 0, "consumer", 1, None, None, [])
    writes = [group_rows.put(f"g{index:04}", row) for index in range(count)]
    broker.store.commit(writes, Durability.OS, lambda outcome: None)


def turns_of(work: Any) -> tuple[int, Any]:
    """How often others have their turn, and what comes of it."""
    assert isinstance(work, Coroutine)
    count = 0
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return count, end.value
        count += 1


def test_others_have_their_turn_while_many_groups_are_listed(broker: FakeBroker, client: Client) -> None:
    client.member()
    with_many_groups(broker, 2_200)
    names = ["g", *(f"g{index:04}" for index in range(2_200))]
    turns, found = turns_of(broker.group_kinds.listing())
    assert [one.group_id for one in found] == names
    assert turns == 2_200 // ROWS, "a page at a time"
    answer = client.ask(ApiKey.LIST_GROUPS, 5, types_filter=["classic"])
    assert [one.group_id for one in answer.groups] == names


def test_of_many_groups_in_memory_each_is_listed_as_it_is_at_its_turn(broker: FakeBroker) -> None:
    with_many_groups(broker, 1_200)
    for index in range(1_200):
        assert broker.groups.get(f"g{index:04}") is not None
    work = broker.group_kinds.listing()
    assert isinstance(work, Coroutine)
    for _ in range(3):
        # all rows, and the first groups in memory
        work.send(None)
    broker.groups.release_idle()
    broker.groups.release_idle()
    _, found = turns_of(work)
    assert len(found) == 1_200


def test_many_groups_are_deleted_in_slices(broker: FakeBroker, client: Client) -> None:
    with_many_groups(broker, 600)
    broker.committed.clear()
    names = [f"g{index:04}" for index in range(600)]
    answer = client.ask(ApiKey.DELETE_GROUPS, 2, groups_names=[*names, *names])
    assert [(one.group_id, one.error_code) for one in answer.results] == [(name, 0) for name in names]
    assert listing(broker) == []


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("version", range(3))
def test_delete_groups(broker: FakeBroker, client: Client, version: int, at_once: bool) -> None:
    topic = broker.topic("t")
    client.member()
    client.commit(9, topic, group_id="simple")
    broker.at_once = at_once
    asked = client.send(ApiKey.DELETE_GROUPS, version, groups_names=["g", "simple", "nobody", "simple"])
    broker.land()
    answer = asked()
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("g", Error.NON_EMPTY_GROUP),
        ("simple", 0),
        ("nobody", Error.GROUP_ID_NOT_FOUND),
    ]
    assert client.fetch(9, topic, [0], "simple")[0][1] == -1


def test_offset_delete(broker: FakeBroker, client: Client) -> None:
    used, free = broker.topic("t", 1), broker.topic("free", 2)
    client.commit(9, used)
    client.commit(9, free, partitions=[0, 1])
    client.member()
    request = messages.OffsetDeleteRequest

    def topic(name: str, *partitions: int) -> Any:
        return request.OffsetDeleteRequestTopic(
            name=name,
            partitions=[request.OffsetDeleteRequestPartition(partition_index=index) for index in partitions],
        )

    asked = [topic("t", 0), topic("free", 0, 7), topic("no", 0)]
    answer = client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=asked)
    assert answer.error_code == 0
    results = {one.name: {p.partition_index: p.error_code for p in one.partitions} for one in answer.topics}
    assert results == {
        "t": {0: Error.GROUP_SUBSCRIBED_TO_TOPIC},
        "free": {0: 0, 7: Error.UNKNOWN_TOPIC_OR_PARTITION},
        "no": {0: Error.UNKNOWN_TOPIC_OR_PARTITION},
    }
    assert [row[1] for row in client.fetch(9, free, [0, 1])] == [-1, 5]
    assert client.fetch(9, used, [0])[0][1] == 5


@pytest.mark.parametrize(
    ("group_id", "error"), [("", Error.INVALID_GROUP_ID), ("nobody", Error.GROUP_ID_NOT_FOUND)]
)
def test_offset_delete_refused(client: Client, group_id: str, error: Error) -> None:
    assert client.ask(ApiKey.OFFSET_DELETE, 0, group_id=group_id).error_code == error


def test_offset_delete_of_other_protocols(client: Client) -> None:
    client.member(protocol_type="connect")
    assert client.ask(ApiKey.OFFSET_DELETE, 0, group_id="g").error_code == Error.NON_EMPTY_GROUP


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
def test_find_coordinator(client: Client, version: int) -> None:
    if version < 4:
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key="g")
    else:
        answer = client.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["g", "h"])
        assert [one.key for one in answer.coordinators] == ["g", "h"]
        found = answer.coordinators[1]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "plain.example", 9092)


@pytest.mark.parametrize("version", range(7))
def test_of_two_nodes_the_one_that_coordinates_the_group_is_named(client: Client, version: int) -> None:
    client.broker.placement = placement = TwoNodes()

    def find(*groups: str) -> list[tuple[int, int, str, int]]:
        if version >= 4:
            found = client.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=[*groups]).coordinators
        else:
            found = [client.ask(ApiKey.FIND_COORDINATOR, version, key=group) for group in groups]
        return [(each.error_code, each.node_id, each.host, each.port) for each in found]

    seven, eight = (0, 7, "seven.example", 9092), (0, 8, "eight.plain.example", 9093)
    assert find("g1", "g2", "g3") == [seven, eight, seven]
    placement.gone = {8}
    nobody = (Error.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    assert find("g1", "g2", "g3") == [seven, nobody, seven]


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize(("kind", "error"), [(2, Error.INVALID_REQUEST)])
def test_no_coordinator_of_other_kinds(client: Client, version: int, kind: int, error: Error) -> None:
    if version < 4:
        found = client.ask(ApiKey.FIND_COORDINATOR, version, key="x", key_type=kind)
    else:
        answer = client.ask(ApiKey.FIND_COORDINATOR, version, coordinator_keys=["x"], key_type=kind)
        (found,) = answer.coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (error, -1, "", -1)
    assert error.retriable is False
    assert found.error_message
