"""Failover: who is active."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semantics.subscriptions.failover import (
    FailoverConsumer,
    active_by_hash,
    active_of_partition,
    active_of_topic,
    assignment,
    in_turn,
    line,
)

A, B, C, D = (FailoverConsumer(name) for name in "ABCD")

consumers = st.lists(
    st.builds(FailoverConsumer, st.text("abc", min_size=1, max_size=3), st.integers(0, 2)),
    max_size=8,
    unique_by=lambda consumer: consumer.name,
)


def test_more_partitions_than_consumers() -> None:
    """1-pulsar-messaging-concepts, "Failover | Partitioned topics": 9 partitions, 3 consumers."""
    assert assignment([C, A, B], 9) == ["A", "B", "C"] * 3


def test_fewer_partitions_than_consumers() -> None:
    """1-pulsar-messaging-concepts, "Failover | Partitioned topics": 2 partitions, 4 consumers.

    p0 is A's and then B's, as its figure has it. For p1 the figure shows C, then D; the rule beside it, partition mod
    consumers, gives B, then C, and the rule decides.
    """
    assert assignment([A, B, C, D], 2) == ["A", "B"]
    assert line([A, B, C, D], 0)[:2] == ["A", "B"]
    assert line([A, B, C, D], 1)[:2] == ["B", "C"]


def test_one_topic_without_partitions_goes_by_who_came_first() -> None:
    """1-pulsar-messaging-concepts, "Failover | Non-partitioned topics"; 4-pulsar-messaging-concepts-2.6 likewise."""
    assert active_of_topic([A, B]) == "A"
    assert active_of_topic([B, A]) == "B"
    assert active_of_topic([A]) == "A"
    assert active_of_topic([]) is None


def test_priority_before_name() -> None:
    """4-pulsar-messaging-concepts-2.6, Failover: sorted by priority, then name; evenly over the highest priority."""
    low, high, higher = FailoverConsumer("a", 1), FailoverConsumer("z", 0), FailoverConsumer("y", 0)
    assert assignment([low, high, higher], 4) == ["y", "z", "y", "z"]
    assert active_of_topic([low, high, higher]) == "z"
    assert line([low, high], 5) == ["z", "a"]


def test_of_the_same_name_the_one_that_is_given_first_comes_first() -> None:
    again = FailoverConsumer("A")
    assert in_turn([B, again, A, FailoverConsumer("0", 1)]) == [1, 2, 0]
    assert in_turn([]) == []


def test_several_topics_without_partitions_are_shared_out() -> None:
    """1-pulsar-messaging-concepts, "Failover | Non-partitioned topics": by the hashes of consumer and topic."""
    topics = [f"persistent://public/default/topic-{i}" for i in range(40)]
    active = [active_by_hash([A, B], topic) for topic in topics]
    assert set(active) == {"A", "B"}
    assert active == [active_by_hash([B, A], topic) for topic in topics]
    # who goes leaves its topics, and nobody else's move
    without = [active_by_hash([B], topic) for topic in topics]
    assert all(new == old for new, old in zip(without, active, strict=True) if old == "B")
    assert active_by_hash([], "topic") is None


@given(consumers, st.integers(0, 20))
def test_everybody_is_in_line_once_and_the_next_takes_over(
    present: list[FailoverConsumer], partition: int
) -> None:
    order = line(present, partition)
    assert sorted(order) == sorted(consumer.name for consumer in present)
    assert active_of_partition(present, partition) == (order[0] if order else None)
    if order:
        rest = [consumer for consumer in present if consumer.name != order[0]]
        assert active_of_partition(rest, partition) == (order[1] if len(order) > 1 else None)


@given(consumers, st.integers(0, 30))
def test_partitions_are_even_over_the_highest_priority(
    present: list[FailoverConsumer], partitions: int
) -> None:
    assigned = assignment(present, partitions)
    if not present:
        assert assigned == [None] * partitions
        return
    highest = min(consumer.priority for consumer in present)
    counts = [assigned.count(consumer.name) for consumer in present if consumer.priority == highest]
    assert sum(counts) == partitions
    assert max(counts) - min(counts) <= 1
