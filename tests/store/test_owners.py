"""Who owns a log, and what becomes of the commits of one who does not any more.

What needs no second owner is asked of all drivers, as in test_conformance.py; the rest of the memory driver, which
pretends to have one.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store import memory
from store.api import DropLog, Durability, Family, Fenced, Put, Store, Trim
from tests.store.making import Clock, Outcomes, append, bases, content, soon, with_store, write


@with_store
async def test_the_leader_epoch_of_a_log_is_known_before_it_is_made_and_stays(
    store: Store, clock: Clock
) -> None:
    before = store.leader_epoch(1)
    await write(store, append(1, 0, epoch=before))
    assert store.leader_epoch(1) == before > 0
    assert store.log(1).epoch_end(before) == (before, 1)
    await write(store, DropLog(1))
    assert store.leader_epoch(1) == before


# another owner: the memory driver pretends


def in_a_loop(test: Any) -> Any:
    def run(clock: Clock) -> None:
        asyncio.run(test(memory.open(clock=clock, epoch=4)))

    return run


@in_a_loop
async def test_what_was_written_to_a_log_of_another_owner_is_fenced_with_all_that_came_with_it(
    store: memory.MemoryStore,
) -> None:
    await write(store, append(1, 0), append(2, 0))
    log, other = store.log(1), store.log(2)
    store.fence(1)
    row = Put(Family.META, b"k", b"v")
    for fenced in (append(1, 1), Trim(1, 1), DropLog(1)):
        with pytest.raises(Fenced, match="log 1"):
            await write(store, row, append(2, 1), fenced)
    assert store.get(Family.META, b"k") is None
    assert (log.stale, other.stale) == (True, True)
    assert (store.log(1).end_offset, store.log(2).end_offset) == (1, 1)
    await write(store, row, append(2, 1))
    assert store.log(2).end_offset == 2
    assert other.end_offset == 1, "what is stale shows nothing new"
    assert bases(await content(other)) == [0]


@in_a_loop
async def test_rows_of_a_partition_of_another_owner_are_fenced_too(store: memory.MemoryStore) -> None:
    store.fence(1)
    for family, key in [(Family.DEDUP, b"\0\0\0%c"), (Family.ACK, b"\0\0\0\1\0\0\0%c")]:
        with pytest.raises(Fenced, match="log 1"):
            await write(store, Put(family, key % 1, b""), Put(family, key % 2, b""))
        assert await soon(store.page(family)) == []
        await write(store, Put(family, key % 2, b""))


@in_a_loop
async def test_who_has_the_log_again_writes_to_it_under_a_greater_epoch(store: memory.MemoryStore) -> None:
    await write(store, append(1, 0, epoch=4))
    store.fence(1)
    store.take(1)
    epoch = store.leader_epoch(1)
    assert epoch > 4
    assert store.leader_epoch(2) == 4, "that of the others stays"
    with pytest.raises(Fenced):
        await write(store, append(1, 1, epoch=4))
    await write(store, append(1, 1, epoch=epoch))
    assert (store.log(1).epoch_end(4), store.log(1).epoch_end(epoch)) == ((4, 1), (epoch, 2))


@in_a_loop
async def test_a_log_of_another_owner_is_not_made_here(store: memory.MemoryStore) -> None:
    store.fence(1)
    for first in (append(1, 0), Trim(1, 0)):
        with pytest.raises(Fenced):
            await write(store, first)
    assert store.log(1).end_offset == 0


@in_a_loop
async def test_a_log_whose_drop_was_fenced_is_still_there(store: memory.MemoryStore) -> None:
    await write(store, append(1, 0))
    store.fence(1)
    with pytest.raises(Fenced):
        await write(store, DropLog(1))
    assert bases(await content(store.log(1))) == [0]


@in_a_loop
async def test_a_fenced_commit_is_told_once_and_in_its_turn(store: memory.MemoryStore) -> None:
    outcomes = Outcomes()
    store.fence(1)
    store.commit([append(2, 0)], Durability.OS, outcomes.of("before"))
    store.commit([append(1, 0)], Durability.OS, outcomes.of("fenced"))
    store.commit([append(2, 1)], Durability.OS, outcomes.of("behind"))
    assert [name for name, _ in outcomes.seen] == ["before", "fenced", "behind"]
    assert [type(outcome) for _, outcome in outcomes.seen] == [type(None), Fenced, type(None)]
