"""The store that answers late: what it lets nobody do. What it does is in the conformance suite."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest

from store import memory
from store.api import Durability, Family, Fenced, Outcome, Put, of_group, of_partition
from store.memory.late import NotLoaded
from tests.store.making import append, bases, content, load, write


def in_a_loop(test: Callable[[memory.LateStore], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        async def main() -> None:
            await test(memory.open_late(epoch=4))

        asyncio.run(main())

    del run.__wrapped__
    return run


@in_a_loop
async def test_what_was_not_loaded_cannot_be_read(store: memory.LateStore) -> None:
    await store.write([Put(Family.GROUP, b"g", b"")], Durability.OS)
    reads: list[tuple[str, Callable[[], object]]] = [
        ("a log is read of partition 1", lambda: store.log(1)),
        ("a row of group is read of group 'g'", lambda: store.get(Family.GROUP, b"g")),
        ("a row of dedup is read of partition 7", lambda: store.get(Family.DEDUP, b"\0\0\0\7p")),
        ("rows of cursor is read of partition 7", lambda: store.scan(Family.CURSOR, b"\0\0\0\1\0\0\0\7")),
        ("rows of cursor is read of many scopes", lambda: store.scan(Family.CURSOR, b"\0\0\0\1")),
        ("rows of group is read of many scopes", lambda: store.scan(Family.GROUP, b"g")),
    ]
    for text, read in reads:
        with pytest.raises(NotLoaded, match=text):
            read()
    assert len(store.faults) == len(reads)
    store.get(Family.META, b"of the instance")
    await load(store, of_partition(1), of_group("g"))
    assert store.log(1).end_offset == 0
    assert store.get(Family.GROUP, b"g") == b""


@in_a_loop
async def test_nothing_happens_at_once(store: memory.LateStore) -> None:
    outcomes: list[Outcome] = []
    store.commit([Put(Family.META, b"k", b"v")], Durability.OS, outcomes.append)
    assert (store.get(Family.META, b"k"), outcomes) == (None, [])
    assert store.load(of_partition(1)) is not None
    await write(store, append(1, 0), append(1, 1))
    log = store.log(1)
    assert isinstance(log.read(0, 100), Awaitable)
    assert log.read_at_once(0, 100, least=1 << 30) is None
    assert log.read_at_once(1, 100, least=1 << 30) is not None, "the end is at hand"
    assert isinstance(store.page(Family.META), Awaitable)


@in_a_loop
async def test_commits_that_have_nothing_in_common_overtake_each_other(store: memory.LateStore) -> None:
    done: list[int] = []

    def hand_in(number: int) -> None:
        store.commit([Put(Family.META, b"%d" % number, b"")], Durability.OS, lambda _: done.append(number))

    for number in range(20):
        hand_in(number)
    await write(store)
    assert sorted(done) == list(range(20)) != done


@in_a_loop
async def test_what_is_queued_behind_a_commit_that_failed_fails_where_it_shares_a_scope(
    store: memory.LateStore,
) -> None:
    await write(store, Put(Family.GROUP, b"g", b""))
    await load(store, of_partition(1), of_partition(2))
    log, epoch = store.log(1), store.leader_epoch(1)
    store.fence(1)
    outcomes: dict[str, Outcome] = {}

    def hand_in(name: str, *writes: object) -> None:
        store.commit(writes, Durability.OS, lambda outcome: outcomes.update({name: outcome}))  # type: ignore[arg-type]

    hand_in("fenced", append(1, 0, epoch=epoch))
    hand_in("same log", append(1, 1, epoch=epoch), Put(Family.GROUP, b"g", b"1"))
    hand_in("same group", Put(Family.GROUP, b"g", b"2"))
    hand_in("other log", append(2, 0, epoch=epoch))
    hand_in("nothing")
    await write(store)
    assert {name: type(outcome) for name, outcome in outcomes.items()} == {
        "fenced": Fenced,
        "same log": Fenced,
        "same group": Fenced,
        "other log": type(None),
        "nothing": type(None),
    }
    assert log.stale
    assert store.load(of_partition(2)) is None
    for scope in (of_partition(1), of_group("g")):
        assert store.load(scope) is not None, "it is read again by whoever has it"
    store.take(1)
    await write(store, append(1, 0, epoch=store.leader_epoch(1)))
    assert bases(await content(store.log(1))) == [0]


@in_a_loop
async def test_who_takes_a_partition_loads_it(store: memory.LateStore) -> None:
    await load(store, of_partition(1))
    store.fence(1)
    store.take(1)
    with pytest.raises(NotLoaded):
        store.log(1)
    await load(store, of_partition(1))
    assert store.log(1).end_offset == 0
