"""Who owns a log: its leader epoch. One suite for all drivers, as test_conformance.py."""

from __future__ import annotations

from store.api import CreateLog, DropLog, Store
from tests.store.making import Clock, append, with_store, write


@with_store
async def test_the_leader_epoch_of_a_log_is_known_before_it_is_made_and_stays(
    store: Store, clock: Clock
) -> None:
    before = store.leader_epoch(1)
    await write(store, CreateLog(1), append(1, 0, epoch=before))
    assert store.leader_epoch(1) == before > 0
    assert store.log(1).epoch_end(before) == (before, 1)
    await write(store, DropLog(1))
    assert store.leader_epoch(1) == before
