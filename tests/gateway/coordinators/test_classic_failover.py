"""What members of a classic group of type Failover are told in place of what their leader made."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.coordinators import consumer_metadata
from gateway.coordinators.classic_failover import TopicOf, assignments
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.group_state import Limits
from gateway.coordinators.subscription import assignment
from gateway.coordinators.wording import Wording
from tests.gateway.coordinators.classic_bench import ClassicBench
from tests.gateway.coordinators.mixed_bench import metadata

T = {"t": TopicOf(4, None)}
MADE = {"id-a": consumer_metadata.assignment(1, [("t", [0, 1, 2, 3])])}


def joined(*owned: tuple[str, tuple[int, ...]], prefix: str = "") -> ClassicGroup:
    """Members of these instance ids, which say that they still have these partitions of t."""
    bench = ClassicBench()
    group = bench.group = ClassicGroup("g", Limits(0), 0, Wording(prefix))
    for name, its in owned:
        said = metadata(("t",), [("t", index) for index in its])
        bench.join(name, instance_id=name, protocols=(("cooperative-sticky", said),))
    bench.pass_time(0)
    return group


def told(
    group: ClassicGroup,
    topics: Mapping[str, TopicOf] = T,
    made: Mapping[str, bytes] = MADE,
    **priorities: int,
) -> dict[str, list[int]]:
    """The partitions of t by member."""
    found = assignments(group, made, topics, priorities)
    return {name.removeprefix("id-"): assignment(its).get("t", []) for name, its in found.items()}


def test_partition_mod_consumers_whatever_the_leader_made() -> None:
    assert told(joined(("b", ()), ("a", ()))) == {"a": [0, 2], "b": [1, 3]}


def test_priorities_are_by_name() -> None:
    assert told(joined(("a", ()), ("b", ())), a=2) == {"a": [], "b": [0, 1, 2, 3]}


def test_the_only_topic_without_partitions_is_that_of_who_joined_first() -> None:
    plain = {"t": TopicOf(1, "persistent://public/default/t")}
    assert told(joined(("b", ()), ("a", ())), plain) == {"b": [0], "a": []}


def test_what_a_cooperative_member_has_to_give_up_is_nobodys_until_it_has() -> None:
    assert told(joined(("a", (0, 1, 2, 3)), ("b", ()))) == {"a": [0, 2], "b": []}
    assert told(joined(("a", (0, 2)), ("b", ()))) == {"a": [0, 2], "b": [1, 3]}
    # both say that they have one: neither goes on with it before the other has heard
    assert told(joined(("a", (0, 2)), ("b", (0, 1, 3)))) == {"a": [2], "b": [1, 3]}


def test_names_without_the_namespace_of_the_members() -> None:
    group = joined(("a", (0,)), ("b", ()), prefix="shop/eu/")
    assert told(group, {"shop/eu/t": TopicOf(2, None), "t": TopicOf(9, None)}) == {"a": [0], "b": [1]}


def test_a_topic_that_is_not_there_is_not_given() -> None:
    assert told(joined(("a", ())), {}) == {"a": []}


def test_what_has_a_meaning_of_its_own_stays_as_it_was_made() -> None:
    group = joined(("a", ()))
    tasks = MADE["id-a"][:-4] + b"\0\0\0\2xx"
    assert assignments(group, {"id-a": tasks}, T, {}) == {"id-a": tasks}
    assert assignments(group, {"id-a": MADE["id-a"][:-4] + bytes(4)}, T, {}) != {"id-a": tasks}
    for made in (b"\0\1\0\0", b"\0"):
        assert assignments(group, {"id-a": made}, T, {}) == {"id-a": made}
    assert assignments(group, {"id-a": b""}, T, {}) != {"id-a": b""}


def test_what_members_have_said_themselves_is_no_news() -> None:
    """As librdkafka's leaders have it, under cooperative-sticky."""
    said = b"\0\0\0\0\0\1\0\1t\0\0\0\2xx"
    bench = ClassicBench(Limits(0))
    bench.join("a", protocols=(("cooperative-sticky", said),))
    bench.pass_time(0)
    assert isinstance(bench.group, ClassicGroup)
    assert told(bench.group, made={"id-a": MADE["id-a"][:-4] + b"\0\0\0\2xx"}) == {"a": [0, 1, 2, 3]}
    others = {"id-a": MADE["id-a"][:-4] + b"\0\0\0\2yy"}
    assert assignments(bench.group, others, T, {}) is others


def test_members_that_are_no_consumers_are_left_alone() -> None:
    bench = ClassicBench(Limits(0))
    bench.join("a", protocol_type="connect")
    bench.pass_time(0)
    assert assignments(bench.group, MADE, T, {}) is MADE
    bench = ClassicBench(Limits(0))
    bench.join("a", protocols=(("mine", b"?"),))
    bench.pass_time(0)
    assert assignments(bench.group, MADE, T, {}) is MADE
