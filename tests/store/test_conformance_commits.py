"""What every driver must do, one test a promise: rows, what is loaded, how commits end. Logs: test_conformance.py."""

from __future__ import annotations

from typing import Any

from store import batch
from store.api import (
    INSTANCE,
    Delete,
    DeleteRange,
    Durability,
    Family,
    Put,
    Store,
    Write,
    of_group,
    of_partition,
)
from tests.store.making import (
    Clock,
    Outcomes,
    append,
    bases,
    content,
    load,
    soon,
    with_store,
    write,
)

# rows


@with_store
async def test_rows(store: Store, clock: Clock) -> None:
    await write(
        store,
        *(Put(Family.CATALOG, key, key * 2) for key in (b"a", b"ab", b"abc", b"b", b"\xff", b"\xff\xff")),
        Put(Family.META, b"a", b"other family"),
    )
    assert store.get(Family.CATALOG, b"ab") == b"abab"
    assert store.get(Family.CATALOG, b"x") is None
    assert [key for key, _ in store.scan(Family.CATALOG)] == [b"a", b"ab", b"abc", b"b", b"\xff", b"\xff\xff"]
    assert [key for key, _ in store.scan(Family.CATALOG, b"a")] == [b"a", b"ab", b"abc"]
    assert [key for key, _ in store.scan(Family.CATALOG, b"a", b"ab")] == [b"ab", b"abc"]
    assert [key for key, _ in store.scan(Family.CATALOG, b"b", b"a")] == [b"b"]
    assert [key for key, _ in store.scan(Family.CATALOG, b"a", b"c")] == []
    assert [key for key, _ in store.scan(Family.CATALOG, limit=2)] == [b"a", b"ab"]
    assert [key for key, _ in store.scan(Family.CATALOG, b"\xff")] == [b"\xff", b"\xff\xff"]
    assert list(store.scan(Family.CATALOG, limit=0)) == []
    await write(store, Delete(Family.CATALOG, b"ab"), Delete(Family.CATALOG, b"nothing"))
    await write(store, DeleteRange(Family.CATALOG, b"abc", b"\xff"))
    assert [key for key, _ in store.scan(Family.CATALOG)] == [b"a", b"\xff", b"\xff\xff"]


@with_store
async def test_long_scans(store: Store, clock: Clock) -> None:
    keys = [number.to_bytes(4, "big") + b"suffix" for number in range(5000)]
    await write(store, *(Put(Family.CATALOG, key, b"v") for key in keys))
    assert [key for key, _ in store.scan(Family.CATALOG)] == keys
    assert [key for key, _ in store.scan(Family.CATALOG, b"\0\0")] == keys
    assert [key for key, _ in store.scan(Family.CATALOG, keys[77][:4])] == [keys[77]]
    assert [key for key, _ in store.scan(Family.CATALOG, b"\0", keys[4321], 3)] == keys[4321:4324]


@with_store
async def test_later_writes_of_a_commit_win(store: Store, clock: Clock) -> None:
    await write(
        store,
        Put(Family.META, b"k", b"1"),
        Delete(Family.META, b"k"),
        Put(Family.META, b"l", b"1"),
        Put(Family.META, b"l", b"2"),
        Put(Family.META, b"m", b"1"),
        DeleteRange(Family.META, b"m", b"n"),
    )
    assert [store.get(Family.META, key) for key in (b"k", b"l", b"m")] == [None, b"2", None]


@with_store
async def test_pages_are_what_a_scan_gives_some_at_a_time(store: Store, clock: Clock) -> None:
    keys = [number.to_bytes(4, "big") + b"producer" for number in range(10)]
    await write(store, *(Put(Family.DEDUP, key, b"v") for key in keys))
    assert await soon(store.page(Family.DEDUP)) == [(key, b"v") for key in keys]
    assert [key for key, _ in await soon(store.page(Family.DEDUP, b"", keys[3], 4))] == keys[3:7]
    assert [key for key, _ in await soon(store.page(Family.DEDUP, keys[5][:4]))] == [keys[5]]
    assert await soon(store.page(Family.DEDUP, b"\1")) == []
    assert await soon(store.page(Family.DEDUP, limit=0)) == []


# scopes


@with_store
async def test_the_instance_is_loaded(store: Store, clock: Clock) -> None:
    assert store.load(INSTANCE) is None


@with_store
async def test_what_was_loaded_stays_so(store: Store, clock: Clock) -> None:
    for scope in (of_partition(1), of_group("g"), of_group("nobody's")):
        waits = store.load(scope)
        assert store.load(scope) is waits
        for _ in range(2):
            await soon(waits)
    await store.write(
        [
            append(1, 0),
            Put(Family.GROUP, b"g", b"row"),
            Put(Family.DEDUP, b"\0\0\0\1p", b"row"),
        ],
        Durability.OS,
    )
    for scope in (of_partition(1), of_group("g"), of_group("nobody's")):
        assert store.load(scope) is None
    assert store.log(1).end_offset == 1
    assert store.get(Family.GROUP, b"g") == b"row"
    assert store.get(Family.GROUP, b"nobody's") is None
    assert list(store.scan(Family.DEDUP, b"\0\0\0\1")) == [(b"\0\0\0\1p", b"row")]


# the order of things


@with_store
async def test_done_is_called_once_each_in_order(store: Store, clock: Clock) -> None:
    outcomes = Outcomes()
    store.commit([Put(Family.META, b"k", b"v")], Durability.OS, outcomes.of("row"))
    for base in range(50):
        durability = Durability.FSYNC if base % 7 == 0 else Durability.OS
        store.commit([append(1, base)], durability, outcomes.of(str(base)))
    await write(store)
    assert sorted(outcomes.seen, key=lambda each: each[0] != "row") == [
        ("row", None),
        *((str(base), None) for base in range(50)),
    ]
    await load(store, of_partition(1))
    assert bases(await content(store.log(1))) == list(range(50))


@with_store
async def test_commits_to_one_scope_are_done_in_the_order_in_which_they_came(
    store: Store, clock: Clock
) -> None:
    done: list[tuple[str, int]] = []

    def hand_in(name: str, number: int, *writes: Write) -> None:
        store.commit(writes, Durability.OS, lambda outcome: done.append((name, number)))

    for number in range(20):
        for partition in range(3):
            hand_in(f"log {partition}", number, append(partition, number))
        hand_in("row", number, Put(Family.META, b"k", b"%d" % number))
        hand_in("group", number, Put(Family.GROUP, b"g", b"%d" % number))
        cursor = bytes(7) + b"\0" + bytes([number])
        hand_in("log 0", number, Put(Family.CURSOR, cursor, b""), Put(Family.META, b"k%d" % number, b""))
        if number % 7 == 3:
            hand_in("nothing", number)
            hand_in("behind", number, Put(Family.META, b"l", b""))
    await write(store)
    for name in {name for name, _ in done}:
        numbers = [number for each, number in done if each == name]
        assert numbers == sorted(numbers), name
    assert len(done) == 20 * 6 + 2 * 3
    for number in (3, 10, 17):
        before = done[: done.index(("nothing", number))]
        assert len(
            [each for each in before if each[1] <= number and each[0] not in ("nothing", "behind")]
        ) == (6 * (number + 1))


@with_store
async def test_a_commit_from_within_done_comes_after_those_before_it(store: Store, clock: Clock) -> None:
    order: list[Any] = []
    store.commit([Put(Family.META, b"k", b"v")], Durability.OS, order.append)

    def first(outcome: object) -> None:
        order.append("first")
        store.commit([Put(Family.META, b"k", b"v")], Durability.OS, lambda outcome: order.append("nested"))
        order.append("still first")

    store.commit([append(1, 0)], Durability.FSYNC, first)
    store.commit([append(1, 1)], Durability.OS, lambda outcome: order.append("second"))
    for _ in range(3):
        await write(store, durability=Durability.FSYNC)
    assert order[0] is None
    assert sorted(order[1:]) == ["first", "nested", "second", "still first"]
    assert order.index("still first") == order.index("first") + 1 < order.index("nested")


@with_store
async def test_a_callback_that_fails_harms_nobody(store: Store, clock: Clock) -> None:
    outcomes = Outcomes()

    def bad(outcome: object) -> None:
        raise RuntimeError("in a callback")

    store.commit([Put(Family.META, b"k", b"v")], Durability.FSYNC, bad)
    store.commit([append(1, 0)], Durability.OS, outcomes.of("next"))
    await write(store)
    assert outcomes.seen == [("next", None)]


@with_store
async def test_stats_count(store: Store, clock: Clock) -> None:
    await write(store, append(1, 0, [100]))
    await write(store, append(1, 1, [100]), durability=Durability.FSYNC)
    stats = store.stats()
    assert stats.commits == 2
    assert 1 <= stats.groups <= 2
    assert stats.bytes_appended == 322
    assert batch.HEADER_BYTES == 61


# durable before a checkpoint


@with_store
async def test_logs_are_synced_when_somebody_asks(store: Store, clock: Clock) -> None:
    made = append(1, 0, [100_000])
    await write(store, made)
    await soon(store.sync([(1, 0), (9, 0)]))
    await write(store, append(1, 1))
    await soon(store.sync([(1, 0)]))
    assert store.log(1).end_offset == 2
    assert bases(await content(store.log(1))) == [0, 1]
    await soon(store.sync([]))
