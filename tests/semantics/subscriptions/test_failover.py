"""Failover: who is active."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.failover import (
    FailoverConsumer,
    Ring,
    active_by_hash,
    active_of_partition,
    active_of_topic,
    in_turn,
    line,
)

A, B, C, D = (FailoverConsumer(name) for name in "ABCD")

consumers = st.lists(
    st.builds(FailoverConsumer, st.text("abc", min_size=1, max_size=3), st.integers(0, 2)), max_size=8
)


def named(present: Sequence[FailoverConsumer], index: int | None) -> str | None:
    return None if index is None else present[index].name


def assignment(present: Sequence[FailoverConsumer], partitions: int) -> list[str | None]:
    return [named(present, active_of_partition(present, partition)) for partition in range(partitions)]


def in_line(present: Sequence[FailoverConsumer], partition: int) -> list[str | None]:
    return [named(present, index) for index in line(present, partition)]


def test_more_partitions_than_consumers() -> None:
    """1-pulsar-messaging-concepts, "Failover | Partitioned topics": 9 partitions, 3 consumers."""
    assert assignment([C, A, B], 9) == ["A", "B", "C"] * 3


def test_fewer_partitions_than_consumers() -> None:
    """1-pulsar-messaging-concepts, "Failover | Partitioned topics": 2 partitions, 4 consumers.

    p0 is A's and then B's, as its figure has it. For p1 the figure shows C, then D; the rule beside it, partition mod
    consumers, gives B, then C, and the rule decides.
    """
    assert assignment([A, B, C, D], 2) == ["A", "B"]
    assert in_line([A, B, C, D], 0)[:2] == ["A", "B"]
    assert in_line([A, B, C, D], 1)[:2] == ["B", "C"]


def test_one_topic_without_partitions_goes_by_who_came_first() -> None:
    """1-pulsar-messaging-concepts, "Failover | Non-partitioned topics"; 4-pulsar-messaging-concepts-2.6 likewise."""
    assert [active_of_topic([A, B]), active_of_topic([B, A]), active_of_topic([A])] == [0, 0, 0]
    assert active_of_topic([]) is None


def test_priority_before_name() -> None:
    """4-pulsar-messaging-concepts-2.6, Failover: sorted by priority, then name; evenly over the highest priority."""
    low, high, higher = FailoverConsumer("a", 1), FailoverConsumer("z", 0), FailoverConsumer("y", 0)
    assert assignment([low, high, higher], 4) == ["y", "z", "y", "z"]
    assert active_of_topic([low, high, higher]) == 1
    assert in_line([low, high], 5) == ["z", "a"]
    assert {active_by_hash([low, high], f"t{number}") for number in range(50)} == {1}


def test_of_the_same_name_the_one_that_is_given_first_comes_first() -> None:
    again = FailoverConsumer("A")
    assert in_turn([B, again, A, FailoverConsumer("0", 1)]) == [1, 2, 0]
    assert in_turn([]) == []
    assert {active_by_hash([again, A], f"t{number}") for number in range(50)} == {0}


@pytest.mark.parametrize(
    ("topics", "active"),
    [
        # with the ring over all 32 bits it would be A B B A
        (["topic-0", "topic-1", "topic-2", "topic-3"], "BBBA"),
        # B B A B
        (["topic1", "topic2", "topic3", "topic4"], "BBBA"),
    ],
)
def test_four_topics_without_partitions(topics: list[str], active: str) -> None:
    """1-pulsar-messaging-concepts, "Failover | Non-partitioned topics": 4 topics, 2 consumers, by their hashes. Who it
    is was found with Pulsar's way to make its ring; its figure, which gives each consumer two, names no topics.
    """
    full = [f"persistent://public/default/{topic}" for topic in topics]
    assert [named([A, B], active_by_hash([A, B], topic)) for topic in full] == list(active)
    assert [named([B, A], active_by_hash([B, A], topic)) for topic in full] == list(active)


def test_several_topics_without_partitions_are_shared_out() -> None:
    topics = [f"persistent://public/default/topic-{i}" for i in range(40)]
    active = [active_by_hash([A, B], topic) for topic in topics]
    assert set(active) == {0, 1}
    assert active_by_hash([], "topic") is None


@given(consumers, st.text("xyz", max_size=3), st.integers(0, 7))
def test_who_goes_leaves_its_topics_and_nobody_elses_move(
    present: list[FailoverConsumer], topic: str, gone: int
) -> None:
    same = [consumer._replace(priority=0) for consumer in present]
    before = Ring(same).active(topic)
    if before is None or gone >= len(same) or gone == before:
        return
    rest = same[:gone] + same[gone + 1 :]
    assert Ring(rest).active(topic) == before - (gone < before)


@given(consumers, st.integers(0, 20))
def test_everybody_is_in_line_once_and_the_next_takes_over(
    present: list[FailoverConsumer], partition: int
) -> None:
    order = line(present, partition)
    assert sorted(order) == list(range(len(present)))
    assert active_of_partition(present, partition) == (order[0] if order else None)
    if order:
        rest = [consumer for index, consumer in enumerate(present) if index != order[0]]
        assert named(rest, active_of_partition(rest, partition)) == (
            named(present, order[1]) if len(order) > 1 else None
        )


@given(consumers, st.integers(0, 30))
def test_partitions_are_even_over_the_highest_priority(
    present: list[FailoverConsumer], partitions: int
) -> None:
    active = [active_of_partition(present, partition) for partition in range(partitions)]
    if not present:
        assert active == [None] * partitions
        return
    highest = min(consumer.priority for consumer in present)
    counts = [active.count(index) for index, each in enumerate(present) if each.priority == highest]
    assert sum(counts) == partitions
    assert max(counts) - min(counts) <= 1
