"""Buckets of clients: who shares them, how long they are kept, and that the rows are what counts."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from unittest import mock

import pytest

from gateway.broker import client_quotas
from gateway.broker.client_quotas import ClientQuotas
from gateway.broker.errors import KafkaError
from gateway.peer import Peer
from gateway.wire.errors import Error
from semantics.quotas import CONNECTIONS, FETCHED, MUTATIONS, PRODUCED, WORK, Entity, entity_of
from store import memory
from store.api import Durability
from tests.gateway.broker.held import Clock

ADA, ANY_APP = entity_of([("user", "ada")]), entity_of([("client-id", None)])


class _Node:
    """The store and the clock."""

    def __init__(self, store: memory.MemoryStore | None = None) -> None:
        self.store = store or memory.open()
        self.clock = Clock(1_000)
        self.settings = self

    def integer(self, name: str) -> int:
        return {"quota.window.num": 2, "quota.window.size.seconds": 1}[name]

    def commit(self, writes: Any, done: Any, durability: Durability | None = None) -> None:
        self.store.commit(writes, durability or Durability.OS, done)


class _Told:
    """For how long a connection was left unread, and why."""

    def __init__(self, node: _Node) -> None:
        self.why: list[tuple[str, int, int]] = []
        self.held: list[int] = []
        self.quotas = ClientQuotas(node, lambda *told: self.why.append(told))  # type: ignore[arg-type]

    def opened(self, user: str, client_id: str = "app", number: int = 1) -> Peer:
        peer = Peer(number, "/10.0.0.1", "PLAINTEXT", principal=f"User:{user}")
        peer.client_id = client_id
        self.quotas.opened(peer, self.held.append)
        return peer

    def alter(self, entity: Entity, **values: float | None) -> None:
        asyncio.run(self.quotas.alter([(entity, values)]))


@pytest.fixture
def node() -> _Node:
    return _Node()


@pytest.fixture
def told(node: _Node) -> _Told:
    return _Told(node)


def test_who_no_row_binds_has_none(told: _Told) -> None:
    peer = told.opened("bob", "")
    assert peer.quotas is None
    told.alter(ADA, **{PRODUCED: 100.0})
    assert peer.quotas is None
    told.alter(entity_of([("user", None)]), **{FETCHED: 100.0})
    quotas = peer.quotas
    assert quotas is not None
    assert (quotas.produced, quotas.work, quotas.mutations) == (None, None, None)
    assert quotas.fetched is not None
    told.alter(entity_of([("user", None)]), **{FETCHED: None})
    assert peer.quotas is None


def test_another_client_id_is_another_client(told: _Told) -> None:
    told.alter(entity_of([("client-id", "slow")]), **{PRODUCED: 100.0})
    peer = told.opened("ada", "quick")
    assert peer.quotas is None
    peer.client_id = "slow"
    told.quotas.look(peer)
    assert peer.quotas is not None
    peer.client_id = "quick"
    told.quotas.look(peer)
    assert peer.quotas is None
    assert told.quotas.kept == 0


def test_what_is_owed_outlives_the_connection_and_a_bucket_that_is_full_does_not(
    told: _Told, node: _Node
) -> None:
    told.alter(ADA, **{PRODUCED: 100.0})
    peer = told.opened("ada")
    assert peer.quotas is not None
    assert peer.quotas.after_produce(300, 0) == 2000
    told.quotas.closed(peer)
    assert told.quotas.kept == 1
    again = told.opened("ada")
    assert again.quotas is not None
    assert again.quotas.after_produce(0, 0) == 2000
    node.clock.now += 10_000
    told.quotas.forget_idle()
    assert told.quotas.kept == 1, "somebody uses it"
    assert again.quotas.after_produce(300, 0) == 2000
    told.quotas.closed(again)
    node.clock.now += 2999
    told.quotas.forget_idle()
    assert told.quotas.kept == 1
    node.clock.now += 1
    told.quotas.forget_idle()
    assert told.quotas.kept == 0
    told.quotas.closed(told.opened("ada"))
    assert told.quotas.kept == 0


def test_buckets_of_those_who_are_gone_are_bounded(told: _Told) -> None:
    told.alter(entity_of([("user", None)]), **{PRODUCED: 100.0})
    told.alter(entity_of([("ip", None)]), **{CONNECTIONS: 1.0})
    with mock.patch.object(client_quotas, "MOST_IDLE", 3):
        for each in range(5):
            peer = told.opened(f"u{each}", number=each)
            assert peer.quotas is not None
            peer.quotas.after_produce(300, 0)
            told.quotas.closed(peer)
        # the oldest was forgotten, the newest was not
        first, last = told.opened("u0"), told.opened("u4", number=2)
        assert first.quotas is not None
        assert last.quotas is not None
        assert first.quotas.after_produce(0, 0) == 0
        assert last.quotas.after_produce(0, 0) == 2000
        for each in range(5):
            told.quotas.admits(f"10.0.0.{each}")
        assert told.quotas.kept == 2 + 2 + 3


def test_idle_buckets_are_looked_at_by_slices_and_each_of_them_once(told: _Told, node: _Node) -> None:
    told.alter(entity_of([("user", None)]), **{PRODUCED: 100.0})
    told.alter(entity_of([("ip", None)]), **{CONNECTIONS: 1.0})
    for number, owed in enumerate((300, 900, 300, 300, 900)):
        peer = told.opened(f"u{number}", number=number)
        assert peer.quotas is not None
        peer.quotas.after_produce(owed, 0)
        told.quotas.closed(peer)
    for each in range(3):
        told.quotas.admits(f"10.0.0.{each}")
    node.clock.now += 4000
    with mock.patch.object(client_quotas, "_SLICE", 2):
        kept = [told.quotas.kept]
        rest = told.quotas.forget_idle()
        assert rest is not None
        # a turn of the loop each
        with contextlib.suppress(StopIteration):
            while True:
                kept.append(told.quotas.kept)
                rest.send(None)
    assert kept == [8, 7, 7, 5, 4, 2]
    # of those that still owe, the one that was left first is the first to go
    with mock.patch.object(client_quotas, "MOST_IDLE", 2):
        peer = told.opened("u5", number=5)
        assert peer.quotas is not None
        peer.quotas.after_produce(900, 0)
        told.quotas.closed(peer)
    first, last = told.opened("u1"), told.opened("u4", number=2)
    assert first.quotas is not None
    assert last.quotas is not None
    assert first.quotas.after_produce(0, 0) == 0
    assert last.quotas.after_produce(0, 0) == 4000


def test_another_rate_binds_at_once_and_what_is_owed_stays(told: _Told) -> None:
    told.alter(ADA, **{PRODUCED: 100.0})
    peer = told.opened("ada")
    assert peer.quotas is not None
    peer.quotas.after_produce(300, 0)
    told.alter(ADA, **{PRODUCED: 400.0})
    assert peer.quotas.after_produce(0, 0) == 500


def test_rows_are_there_after_a_restart_and_only_those(told: _Told, node: _Node) -> None:
    told.alter(ADA, **{PRODUCED: 100.0, MUTATIONS: 0.5})
    told.alter(ANY_APP, **{WORK: 12.5})
    told.alter(ADA, **{PRODUCED: None})
    told.alter(entity_of([("user", "bob")]), **{PRODUCED: 1.0})
    told.alter(entity_of([("user", "bob")]), **{PRODUCED: None})
    again = _Told(_Node(node.store))
    again.quotas.load()
    assert again.quotas.rows == told.quotas.rows == {ADA: {MUTATIONS: 0.5}, ANY_APP: {WORK: 12.5}}
    peer = again.opened("ada")
    assert peer.quotas is not None


def test_there_are_only_so_many_rows(told: _Told) -> None:
    with mock.patch.object(client_quotas, "MOST_ROWS", 1):
        told.alter(ADA, **{PRODUCED: 100.0})
        with pytest.raises(KafkaError) as refused:
            told.alter(ANY_APP, **{PRODUCED: 100.0})
        assert refused.value.code == Error.POLICY_VIOLATION
        # those that are there may be changed
        told.alter(ADA, **{PRODUCED: 200.0})
    assert told.quotas.rows == {ADA: {PRODUCED: 200.0}}


def test_percent_are_of_the_time_of_the_loop_and_a_window_is_the_longest_wait(told: _Told) -> None:
    told.alter(ADA, **{WORK: 10.0})
    peer = told.opened("ada")
    quotas = peer.quotas
    assert quotas is not None
    with mock.patch.object(quotas, "_shared", quotas._shared._replace(ns=lambda: 150_000_000)):
        # 100 ms may be used up at once, and 50 more take half a second
        quotas.worked(0)
        assert quotas.after_request() == 500
        assert told.held == [500]
        quotas.worked(0)
        quotas.worked(0)
        assert quotas.after_request() == 1000
    assert told.why == [("request", 500, 0), ("request", 1000, 0)]


def test_an_address_is_the_same_over_either_family(told: _Told) -> None:
    assert told.quotas.admits("10.0.0.1")
    told.alter(entity_of([("ip", "10.0.0.1")]), **{CONNECTIONS: 1.0})
    assert told.quotas.admits("10.0.0.1")
    assert told.quotas.admits("::ffff:10.0.0.1")
    assert not told.quotas.admits("10.0.0.1")
    assert told.quotas.admits("10.0.0.2")
