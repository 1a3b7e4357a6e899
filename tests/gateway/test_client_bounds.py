"""What one client is told: the longest wait, why, and whether its connection is left unread."""

from __future__ import annotations

import pytest

from gateway.client_bounds import AT_ONCE_MS, MOST_WAIT_MS, ClientBounds, Shared
from semantics.quotas import Bucket


class World:
    """A client with each kind of bucket: a second of it may be used up at once. Time stands."""

    def __init__(self) -> None:
        self.now = 0
        self.ns = 0
        self.held: list[int] = []
        self.told: list[tuple[str, int, int]] = []
        shared = Shared(lambda: self.now, lambda: self.ns, 1000, lambda *told: self.told.append(told))
        produced, fetched, work, mutations = (Bucket(rate, 1, 0) for rate in (1000, 1000, 100, 10))
        self.bounds = ClientBounds(shared, self.held.append, produced, fetched, work, mutations)


@pytest.fixture
def world() -> World:
    return World()


def test_of_a_produce_the_longest_wait_is_told_and_its_caller_holds_the_connection(world: World) -> None:
    assert world.bounds.after_produce(900, 0) == 0
    assert world.told == []
    # 200 bytes beyond it, and 110 ms of work, of which 10 are beyond it
    world.ns = 110_000_000
    assert world.bounds.after_produce(300, 0) == 200
    assert world.bounds.after_produce(0, 60_000_000) == 600
    assert world.told == [("produce", 200, 300), ("request", 600, 0)]
    assert world.held == []


def test_what_one_read_brings_is_taken_by_itself_and_its_work_is_charged_in_the_end(world: World) -> None:
    bounds = world.bounds
    produced, work = bounds.produced, bounds.work
    assert produced is not None
    assert work is not None
    assert not bounds.lets_produce(100), "nothing is being read"
    bounds.since = 5.0
    assert bounds.lets_produce(300)
    assert bounds.at_once is produced, "for those behind it"
    assert (produced.level, work.level) == (700, 100)
    bounds.settle(5.03)
    assert work.level == pytest.approx(70)
    assert not bounds.since
    bounds.settle(9.0)
    assert work.level == pytest.approx(70)
    assert world.told == []


def test_of_one_read_nobody_takes_what_is_not_there(world: World) -> None:
    bounds = world.bounds
    bounds.since = 5.0
    world.ns = 5_000_000_000
    assert not bounds.lets_produce(1001)
    assert bounds.at_once is None
    assert bounds.after_produce(1001, bounds.begin()) == 1
    assert not bounds.lets_produce(0)
    # what comes in meanwhile is there, when a read looks again
    world.now = 11
    assert not bounds.lets_produce(10)
    bounds.settle(5.0)
    bounds.since = 5.001
    assert bounds.lets_produce(10)
    assert not bounds.lets_produce(1)


def test_who_has_little_work_left_is_charged_by_itself(world: World) -> None:
    bounds = world.bounds
    world.ns = (100 - AT_ONCE_MS) * 1_000_000
    bounds.worked(0)
    bounds.since = 5.0
    assert bounds.lets_produce(1)
    world.ns += 1_000_000
    bounds.worked(world.ns - 1_000_000)
    assert not bounds.lets_produce(1)
    world.now = 10
    bounds.since = 5.01
    assert bounds.lets_produce(1)


def test_no_work_of_a_read_is_charged_twice_or_left_out(world: World) -> None:
    bounds, work = world.bounds, world.bounds.work
    assert work is not None
    bounds.since = 5.0
    assert bounds.lets_produce(300)
    # 10 ms of work on this one, and 20 on one that is charged by itself
    world.ns = 5_030_000_000
    assert bounds.after_produce(800, bounds.begin()) == 100
    assert work.level == pytest.approx(70)
    world.ns = 5_040_000_000
    bounds.worked(bounds.begin())
    assert work.level == pytest.approx(60)
    bounds.settle(5.045)
    assert work.level == pytest.approx(55)


def test_where_nothing_is_said_of_bytes_any_number_may_come_at_once(world: World) -> None:
    bounds = ClientBounds(world.bounds._shared, world.held.append, None, None, Bucket(100, 1, 0), None)
    bounds.since = 5.0
    assert bounds.lets_produce(10**12)
    assert bounds.at_once is not None
    assert bounds.at_once.level > 10**12


def test_a_fetch_is_held_by_what_was_fetched_before(world: World) -> None:
    assert world.bounds.before_fetch() == 0
    world.bounds.after_fetch(1500)
    assert world.bounds.before_fetch() == 500
    assert (world.held, world.told) == ([500], [("fetch", 500, 0)])
    world.now = 500
    assert world.bounds.before_fetch() == 0
    assert world.bounds.most_fetched == 1000


def test_a_fetch_on_the_short_way_is_let_go_in_a_read_alone_whose_work_is_charged_in_the_end(
    world: World,
) -> None:
    bounds, work = world.bounds, world.bounds.work
    assert work is not None
    assert not bounds.lets_fetch(10), "nothing is being read"
    bounds.settle(5.0)
    assert work.level == 100
    bounds.since = 5.0
    assert bounds.lets_fetch(10)
    assert not bounds.lets_fetch(1001), "more than one answer may have"
    bounds.settle(5.03)
    assert work.level == pytest.approx(70)


def test_who_owes_work_or_bytes_is_let_go_by_no_short_way(world: World) -> None:
    bounds = world.bounds
    bounds.since = 5.0
    bounds.after_fetch(1001)
    assert not bounds.lets_fetch(10)
    world.now = 2
    bounds.since = 5.002
    assert bounds.lets_fetch(10)
    assert bounds.work is not None
    bounds.work.take(101, world.now)
    assert not bounds.lets_fetch(10)
    assert world.told == []


def test_mutations_hold_only_who_made_some(world: World) -> None:
    assert world.bounds.may_mutate()
    world.bounds.mutate(15)
    assert not world.bounds.may_mutate()
    assert world.bounds.after_request() == 0
    assert world.bounds.after_request(mutated=True) == 500
    assert (world.held, world.told) == ([500], [("mutations", 500, 0)])


def test_nobody_waits_for_longer_at_a_time_and_goes_on_owing(world: World) -> None:
    assert world.bounds.after_produce(200_000, 0) == MOST_WAIT_MS
    world.now = MOST_WAIT_MS
    assert world.bounds.after_produce(0, 0) == MOST_WAIT_MS


def test_for_work_nobody_waits_for_more_than_a_window(world: World) -> None:
    world.ns = 10_000_000_000
    world.bounds.worked(0)
    assert world.bounds.before_fetch() == 1000


def test_what_nothing_is_said_of_binds_nobody() -> None:
    shared = Shared(lambda: 0, lambda: 10**12, 1000, lambda *_: pytest.fail("nobody waits"))
    bounds = ClientBounds(shared, lambda _: pytest.fail("nobody waits"), None, None, None, None)
    bounds.mutate(10**9)
    bounds.after_fetch(10**9)
    assert bounds.after_produce(10**9, bounds.begin()) == 0
    assert (bounds.before_fetch(), bounds.after_request(mutated=True)) == (0, 0)
    assert bounds.may_mutate()
    assert bounds.most_fetched is None
