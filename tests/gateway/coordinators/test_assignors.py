"""What assignors promise: everything is somebody's, nothing is two people's, nobody gets what it does not read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.coordinators.assignors import (
    ASSIGNORS,
    Subscriber,
    Target,
    by_failover,
    by_range,
    by_uniform,
)
from semantics.subscriptions.failover import FailoverConsumer, active_of_partition
from tests.examples import examples

TOPICS = [bytes([letter]) * 16 for letter in b"tuvw"]
T, U = TOPICS[:2]
NOTHING: Target = frozenset()


def subscriber(*topics: bytes, instance: str | None = None, target: Target = NOTHING) -> Subscriber:
    return Subscriber(instance, frozenset(topics), target)


def parts(topic: bytes, *indexes: int) -> Target:
    return frozenset((topic, index) for index in indexes)


class TestRange:
    def test_runs_in_order_and_topics_are_cut_at_the_same_places(self) -> None:
        found = by_range({"b": subscriber(T, U), "a": subscriber(T, U)}, {T: 3, U: 3})
        assert found == {"a": parts(T, 0, 1) | parts(U, 0, 1), "b": parts(T, 2) | parts(U, 2)}

    def test_static_members_come_first_by_their_instances(self) -> None:
        found = by_range(
            {"a": subscriber(T), "z": subscriber(T, instance="1"), "y": subscriber(T, instance="2")}, {T: 3}
        )
        assert found == {"z": parts(T, 0), "y": parts(T, 1), "a": parts(T, 2)}

    def test_each_topic_by_its_own_readers(self) -> None:
        found = by_range({"a": subscriber(T), "b": subscriber(T, U)}, {T: 2, U: 2})
        assert found == {"a": parts(T, 0), "b": parts(T, 1) | parts(U, 0, 1)}


class TestUniform:
    def test_a_newcomer_gets_its_part_and_nobody_else_changes_more_than_needed(self) -> None:
        before = by_uniform({"a": subscriber(T), "b": subscriber(T)}, {T: 6})
        members = {name: subscriber(T, target=target) for name, target in before.items()}
        after = by_uniform({**members, "c": subscriber(T)}, {T: 6})
        assert [len(after[name]) for name in "abc"] == [2, 2, 2]
        assert after["a"] < before["a"]
        assert after["b"] < before["b"]

    def test_what_somebody_leaves_is_shared_out_and_the_rest_stays(self) -> None:
        before = by_uniform({name: subscriber(T) for name in "abc"}, {T: 6})
        after = by_uniform({name: subscriber(T, target=before[name]) for name in "ab"}, {T: 6})
        assert after["a"] > before["a"]
        assert after["b"] > before["b"]

    def test_a_topic_that_shrank_or_went(self) -> None:
        had = parts(T, 0, 5) | parts(U, 0)
        assert by_uniform({"a": subscriber(T, target=had)}, {T: 2}) == {"a": parts(T, 0, 1)}

    def test_who_reads_more_makes_room_for_who_reads_less(self) -> None:
        found = by_uniform({"a": subscriber(T, U), "b": subscriber(T)}, {T: 4, U: 4})
        assert found == {"a": parts(U, 0, 1, 2, 3), "b": parts(T, 0, 1, 2, 3)}

    def test_nobody_and_nothing(self) -> None:
        assert by_uniform({}, {T: 3}) == {}
        assert by_uniform({"a": subscriber()}, {}) == {"a": NOTHING}


def consumer(*topics: bytes, client: str = "c", rack: str | None = None, joined: int = 0) -> Subscriber:
    return Subscriber(None, frozenset(topics), NOTHING, client, rack, joined=joined)


class TestFailover:
    def test_partition_mod_consumers_in_the_order_of_their_names(self) -> None:
        """The names are client ids, as Pulsar's are of consumers; member ids say nothing."""
        found = by_failover({"1": consumer(T, client="B"), "2": consumer(T, client="A")}, {T: 5})
        assert found == {"2": parts(T, 0, 2, 4), "1": parts(T, 1, 3)}

    def test_an_instance_id_is_a_name_before_the_client_id(self) -> None:
        static = subscriber(T, instance="Z")._replace(client_id="0")
        found = by_failover({"1": static, "2": consumer(T, client="Y")}, {T: 2})
        assert found == {"2": parts(T, 0), "1": parts(T, 1)}

    def test_of_the_same_name_who_joined_first_and_else_the_lower_member_id(self) -> None:
        found = by_failover({"2": consumer(T), "1": consumer(T)}, {T: 2})
        assert found == {"1": parts(T, 0), "2": parts(T, 1)}
        found = by_failover({"1": consumer(T, joined=5), "2": consumer(T, joined=4)}, {T: 2})
        assert found == {"2": parts(T, 0), "1": parts(T, 1)}

    def test_the_only_topic_without_partitions_is_that_of_who_joined_first(self) -> None:
        members = {
            "1": consumer(T, U, client="A", joined=3),
            "2": consumer(T, U, client="B", joined=2),
            "3": consumer(T, U, client="0", rack="priority=1", joined=1),
        }
        found = by_failover(members, {T: 1, U: 2}, {T: "persistent://public/default/t"})
        assert found == {"1": parts(U, 0), "2": parts(T, 0) | parts(U, 1), "3": NOTHING}

    def test_several_topics_without_partitions_are_on_the_ring(self) -> None:
        """The vector of `tests/semantics/subscriptions/test_failover.py`."""
        plain = {topic: f"persistent://public/default/topic-{at}" for at, topic in enumerate(TOPICS)}
        members = {"1": consumer(*TOPICS, client="A"), "2": consumer(*TOPICS, client="B")}
        found = by_failover(members, dict.fromkeys(TOPICS, 1), plain)
        assert found == {"2": frozenset((topic, 0) for topic in TOPICS[:3]), "1": parts(TOPICS[3], 0)}

    def test_a_topic_that_nobody_reads_is_nobodys(self) -> None:
        plain = {T: "persistent://public/default/t", U: "persistent://public/default/u"}
        for its in ({}, {T: plain[T]}, plain):
            assert by_failover({"1": consumer()}, {T: 1, U: 1}, its) == {"1": NOTHING}

    def test_a_priority_of_the_group_wins_over_the_members_own(self) -> None:
        members = {"1": consumer(T, client="a", rack="priority=1"), "2": consumer(T, client="b")}
        members["1"] = members["1"]._replace(priority=0)
        members["2"] = members["2"]._replace(priority=3)
        assert by_failover(members, {T: 1}) == {"1": parts(T, 0), "2": NOTHING}

    def test_those_of_a_lower_priority_stand_by(self) -> None:
        members = {
            "a": consumer(T, client="a", rack="priority=1"),
            "b": consumer(T, client="b"),
            "c": consumer(T, client="c", rack="eu-west-1"),
        }
        assert by_failover(members, {T: 3}) == {"a": NOTHING, "b": parts(T, 0, 2), "c": parts(T, 1)}
        del members["b"], members["c"]
        members["d"] = consumer(T, client="d", rack="priority=2")
        assert by_failover(members, {T: 3}) == {"a": parts(T, 0, 1, 2), "d": NOTHING}

    def test_each_topic_by_its_own_readers(self) -> None:
        """Who stands by in one topic may be the first in another."""
        members = {"a": consumer(T, client="a"), "b": consumer(T, U, client="b", rack="priority=1")}
        assert by_failover(members, {T: 2, U: 2}) == {"a": parts(T, 0, 1), "b": parts(U, 0, 1)}

    def test_what_somebody_had_does_not_count(self) -> None:
        members = {"2": consumer(T, client="b")._replace(target=parts(T, 0)), "1": consumer(T, client="a")}
        assert by_failover(members, {T: 1}) == {"1": parts(T, 0), "2": NOTHING}


SUBSCRIPTIONS = st.lists(st.sampled_from(TOPICS), unique=True)
MEMBERS = st.dictionaries(st.sampled_from("abcdef"), SUBSCRIPTIONS, min_size=1)
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9))


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.text("ab", max_size=2), st.integers(0, 2)), min_size=1), st.integers(1, 9))
def test_failover_is_that_of_the_subscription(those: list[tuple[str, int]], count: int) -> None:
    """Whatever members are called, and also where several have the same name."""
    members = {
        f"{number:03}": consumer(T, client=name, rack=f"priority={priority}")
        for number, (name, priority) in enumerate(those)
    }
    # one name for each, in the same order
    named = [
        FailoverConsumer(f"{name:2}{number:03}", priority) for number, (name, priority) in enumerate(those)
    ]
    owners = {index: name for name, places in by_failover(members, {T: count}).items() for _, index in places}
    active = [active_of_partition(named, index) for index in range(count)]
    assert [owners[index] for index in range(count)] == [
        named[at].name[2:] for at in active if at is not None
    ]


@settings(max_examples=examples(200))
@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.lists(st.tuples(MEMBERS, COUNTS), min_size=1, max_size=4),
    st.booleans(),
)
def test_whatever_happens(
    name: str, rounds: list[tuple[dict[str, list[bytes]], dict[bytes, int]]], same: bool
) -> None:
    """Over several rounds, each of which begins with what the one before it has assigned."""
    before: dict[str, Target] = {}
    for wanted, counts in rounds:
        everything = [topic for topics in wanted.values() for topic in topics]
        members = {
            member: Subscriber(
                None,
                frozenset(topic for topic in (everything if same else topics) if topic in counts),
                before.get(member, NOTHING),
            )
            for member, topics in wanted.items()
        }
        found = ASSIGNORS[name](members, counts)
        assert found.keys() == members.keys()
        owners = {place: member for member, places in found.items() for place in places}
        assert len(owners) == sum(map(len, found.values())), "nothing is two people's"
        read = {topic for member in members.values() for topic in member.topics}
        assert owners.keys() == {(topic, index) for topic in read for index in range(counts[topic])}
        assert all(place[0] in members[member].topics for place, member in owners.items())
        if name == "uniform":
            load = {member: len(places) for member, places in found.items()}
            assert all(
                load[owner] <= load[reader] + 1
                for (topic, _), owner in owners.items()
                for reader, member in members.items()
                if topic in member.topics
            )
            again = {member: each._replace(target=found[member]) for member, each in members.items()}
            assert ASSIGNORS[name](again, counts) == found, "nothing moves where nothing has changed"
        before = found
