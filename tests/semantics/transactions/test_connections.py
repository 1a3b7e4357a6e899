"""Late requests of the old protocol."""

from __future__ import annotations

from semantics.transactions.codes import Api
from semantics.transactions.connections import NewestConnections
from semantics.transactions.states import Producer


def test_a_request_on_an_older_connection_is_late() -> None:
    newest = NewestConnections()
    assert newest.takes(Producer(7, 0), Api.END_TXN, 1)
    assert newest.takes(Producer(7, 0), Api.END_TXN, 1)
    assert newest.takes(Producer(7, 0), Api.END_TXN, 4)
    assert not newest.takes(Producer(7, 0), Api.END_TXN, 1)
    assert not newest.takes(Producer(7, 0), Api.END_TXN, 3)
    assert newest.takes(Producer(7, 0), Api.END_TXN, 4)


def test_a_late_request_does_not_count_as_seen() -> None:
    newest = NewestConnections()
    newest.takes(Producer(7, 0), Api.PRODUCE, 4)
    newest.takes(Producer(7, 0), Api.PRODUCE, 2)
    assert not newest.takes(Producer(7, 0), Api.PRODUCE, 3)


def test_each_api_and_each_producer_has_connections_of_its_own() -> None:
    newest = NewestConnections()
    newest.takes(Producer(7, 0), Api.END_TXN, 9)
    assert newest.takes(Producer(7, 0), Api.PRODUCE, 2)
    assert newest.takes(Producer(8, 0), Api.END_TXN, 2)
    assert not newest.takes(Producer(7, 0), Api.END_TXN, 8)


def test_what_is_forgotten_costs_nothing() -> None:
    newest = NewestConnections()
    for producer_id in range(100):
        newest.takes(Producer(producer_id, 0), Api.END_TXN, 5)
    for producer_id in range(100):
        newest.forget(producer_id)
        newest.forget(producer_id)
    assert len(newest) == 0
    assert newest.takes(Producer(7, 0), Api.END_TXN, 1)


def test_a_producer_of_another_epoch_begins_anew() -> None:
    newest = NewestConnections()
    newest.takes(Producer(7, 0), Api.END_TXN, 9)
    assert newest.takes(Producer(7, 1), Api.END_TXN, 2)
    assert not newest.takes(Producer(7, 1), Api.END_TXN, 1)
    assert len(newest) == 1
