"""The tail cache against a plain list of batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store import batch
from store.rocksdb.cache import BLOCK_BYTES, Tail, TailCache


def made(base: int, size: int) -> bytes:
    return batch.build(base, bytes(size))


@given(
    parts=st.lists(
        st.lists(st.sampled_from([0, 30, 3000, 70_000]), min_size=1, max_size=6), min_size=1, max_size=20
    ),
    reads=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 300_000), st.booleans()), max_size=15),
    gap=st.sampled_from([0, 0, 3]),
)
def test_reads_give_what_was_added(
    parts: list[list[int]], reads: list[tuple[int, int, bool]], gap: int
) -> None:
    tail = Tail(TailCache(1 << 30))
    every: list[tuple[int, bytes]] = []
    base = 0
    todo = list(reads)
    for sizes in parts:
        first = base
        batches = []
        for size in sizes:
            batches.append((base, made(base, size)))
            base += 1
        tail.add(first, b"".join(data for _, data in batches))
        every += batches
        base += gap
        # readers come between, which joins parts
        for offset, max_bytes, whole_first in todo[:1]:
            wanted = [data for start, data in every if start >= offset]
            if wanted:
                found = tail.read(offset, max_bytes, whole_first)
                whole = b"".join(wanted)
                if len(wanted[0]) > max_bytes:
                    assert b"".join(found) == (wanted[0] if whole_first else b"")
                else:
                    assert b"".join(found) == whole[:max_bytes]
        todo = todo[1:]


def test_the_oldest_of_all_logs_go_first() -> None:
    cache = TailCache(5 * BLOCK_BYTES)
    first, second = Tail(cache), Tail(cache)
    for base in range(3):
        first.add(base, made(base, BLOCK_BYTES))
    for base in range(4):
        second.add(base, made(base, BLOCK_BYTES))
    assert cache.used <= cache.limit
    assert not first.holds(2)
    assert second.holds(0)
    first.add(3, made(3, BLOCK_BYTES))
    assert (second.holds(0), second.holds(1), first.holds(3)) == (False, True, True)


def test_what_is_counted_is_what_is_held() -> None:
    cache = TailCache(1 << 30)
    tail, other = Tail(cache), Tail(cache)
    for base in range(100):
        tail.add(base, made(base, 5000))
        other.add(base, made(base, 100))
    assert cache.used == sum(block.cost for each in (tail, other) for block in each.blocks)
    held = len(tail.blocks)
    tail.drop_below(50)
    assert len(tail.blocks) < held
    assert tail.holds(50)
    assert not tail.holds(0)
    assert cache.used == sum(block.cost for each in (tail, other) for block in each.blocks)
    tail.clear()
    other.clear()
    assert cache.used == 0
    # forgotten blocks in the queue harm nobody
    cache.limit = 1000
    tail.add(200, made(200, 5000))
    assert cache.used == 0
    assert not cache.order


def test_many_small_parts_are_joined_once() -> None:
    tail = Tail(TailCache(1 << 30))
    data = [made(base, 40) for base in range(1000)]
    for base, each in enumerate(data):
        tail.add(base, each)
    found = tail.read(0, 1 << 20, True)
    assert b"".join(found) == b"".join(data)
    assert len(found) < 10
    again = tail.read(0, 1 << 20, True)
    assert all(bytes(a) == bytes(b) for a, b in zip(found, again, strict=True))
    tail.add(1000, made(1000, 40))
    assert b"".join(tail.read(998, 1 << 20, True)) == b"".join([*data[998:], made(1000, 40)])


def test_what_was_forgotten_out_of_turn_leaves_no_places_in_the_queue() -> None:
    cache = TailCache(1 << 30)
    stays = Tail(cache)
    stays.add(0, made(0, 100))
    for _ in range(1000):
        tail = Tail(cache)
        tail.add(0, made(0, 100))
        tail.clear()
    assert len(cache.order) < 200
    assert stays.read(0, 1000, True) == [made(0, 100)]
    cache.limit = 0
    cache.shrink()
    assert (cache.used, stays.blocks) == (0, [])
    assert all(each.owner is None and not each.bases for each in cache.order)
