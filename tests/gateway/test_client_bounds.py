"""What one client is told: the longest wait, why, and whether its connection is left unread."""

from __future__ import annotations

import pytest

from gateway.client_bounds import MOST_WAIT_MS, ClientBounds, Shared
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


def test_a_fetch_is_held_by_what_was_fetched_before(world: World) -> None:
    assert world.bounds.before_fetch() == 0
    world.bounds.after_fetch(1500)
    assert world.bounds.before_fetch() == 500
    assert (world.held, world.told) == ([500], [("fetch", 500, 0)])
    world.now = 500
    assert world.bounds.before_fetch() == 0
    assert world.bounds.most_fetched == 1000


def test_mutations_hold_only_who_made_some(world: World) -> None:
    assert world.bounds.may_mutate()
    world.bounds.mutate(15)
    assert not world.bounds.may_mutate()
    assert world.bounds.after_request() == 0
    assert world.bounds.after_request(mutated=True) == 500
    assert (world.held, world.told) == ([500], [("mutations", 500, 0)])


def test_nobody_waits_for_more_than_a_minute_and_goes_on_owing(world: World) -> None:
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
