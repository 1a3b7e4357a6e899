"""What somebody is told who must know which member has what: who has gone, and whether it said so."""

from __future__ import annotations

import pytest

from gateway.coordinators.classic_events import Expel, Gone
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Moved
from tests.gateway.coordinators.consumer_bench import REBALANCE, SESSION, ConsumerBench, T, parts


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


def has(bench: ConsumerBench) -> dict[str, list[int]]:
    found: dict[str, list[int]] = bench.group.owners(T.topic_id, T.partitions)
    return found


def gone(bench: ConsumerBench) -> list[tuple[str, bool]]:
    return [(each.member_id, each.crashed) for each in bench.told if isinstance(each, Gone)]


def moved(bench: ConsumerBench) -> bool:
    return any(isinstance(each, Moved) for each in bench.told)


def test_a_partition_stays_with_its_owner_until_that_has_given_it_up(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    assert moved(bench)
    assert has(bench) == {"a": [0, 1, 2, 3]}
    bench.beat("b", 0, "t")
    assert not bench.told
    bench.beat("a", 1)
    assert not bench.told, "it was told to give up two, and may work on them"
    kept = frozenset(bench.group.members["a"].assigned)
    assert has(bench) == {"a": [0, 1, 2, 3]}
    bench.beat("a", 1, owned=kept)
    assert moved(bench)
    assert len(has(bench)["a"]) == 2, "and the others are nobody's"
    assert list(has(bench)) == ["a"]
    bench.beat("b", 2)
    assert moved(bench)
    assert sorted(has(bench)["a"] + has(bench)["b"]) == [0, 1, 2, 3]
    for name in ("a", "b"):
        bench.beat(name, 2)
        assert not bench.told, "nothing has changed"


def test_one_that_is_silent_is_lost_and_one_that_leaves_is_not(bench: ConsumerBench) -> None:
    for name in ("a", "b"):
        bench.beat(name, 0, "t")
    bench.settle("a", "b")
    bench.leave("b")
    assert gone(bench) == [("b", False)]
    assert list(has(bench)) == ["a"]
    bench.pass_time(SESSION)
    assert gone(bench) == [("a", True)]
    assert has(bench) == {}


def test_one_that_keeps_what_it_must_give_up_is_lost_with_all_of_it(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")
    bench.beat("a", 1)
    bench.pass_time(40_000)
    bench.beat("a", 1)
    bench.beat("b", 2)
    bench.pass_time(REBALANCE - 40_000)
    assert gone(bench) == [("a", True)]
    assert has(bench) == {}


def test_one_is_taken_out_by_somebody_else(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    bench.send(Expel("a", "it stands still"))
    assert gone(bench) == [("a", True)]
    assert bench.state == "Empty"
    assert bench.beat("a", 1).error == Code.UNKNOWN_MEMBER_ID
    bench.send(Expel("a", "it is gone"))
    assert not bench.told
    assert not bench.writes


def test_a_static_member_that_is_away_has_said_so_once(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t", instance="i")
    bench.leave("a", -2, "i")
    assert gone(bench) == [("a", False)]
    assert has(bench) == {}, "what is kept for it is in nobody's hands"
    bench.beat("b", 0, "t", instance="i")
    assert (gone(bench), moved(bench)) == ([("a", False)], True)
    assert has(bench) == {"b": [0, 1, 2, 3]}
    bench.leave("b", -2, "i")
    bench.pass_time(SESSION)
    assert gone(bench) == [("b", False)]


def test_one_that_begins_anew_has_given_up_all(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    bench.beat("b", 0, "t")
    bench.beat("a", 1)
    bench.beat("a", 0, "t")
    assert moved(bench)
    assert not gone(bench)
    assert len(has(bench)["a"]) == 2


def test_what_nobody_subscribes_to_any_more_is_still_in_hand(bench: ConsumerBench) -> None:
    bench.beat("a", 0, "t")
    bench.beat("a", 1, "u", owned=parts(T))
    assert "t" not in bench.group.topics
    assert has(bench) == {"a": [0, 1, 2, 3]}
