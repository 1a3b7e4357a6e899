"""The log that the broker sees: what it counts, and what it says of segments, of message ids and of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.api import Append, Durability, Trim
from store.batch import build
from tests.store.making import append, bases, soon
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


@in_a_loop
async def test_reads_of_the_tail_are_hits_and_all_others_misses(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0, [100])], Durability.OS)
    assert bases(b"".join(await soon(store.log(1).read(0, 1000)))) == [0]
    assert await soon(store.log(1).read(1, 1000)) == []
    assert (store.stats().tail_cache_hits, store.stats().tail_cache_misses) == (1, 0)
    await store.close()
    store = await opened(data)
    assert bases(b"".join(await soon(store.log(1).read(0, 1000)))) == [0]
    assert (store.stats().tail_cache_hits, store.stats().tail_cache_misses) == (0, 1)
    await store.close()


@in_a_loop
async def test_a_segment_that_cannot_be_read_is_told_of_all_the_same(data: Path) -> None:
    """Retention must learn of it; only where its newest record stands is not known."""
    store = await opened(data, tail_cache_bytes=0)
    store.log(1).configure(segment_bytes=1)
    for base in range(3):
        await store.write([append(1, base, [300])], Durability.OS)
    segment_files(data)[1].unlink()
    found = store.log(1).segments()
    assert [(each.base_offset, each.next_offset, each.active) for each in found] == [
        (0, 1, False), (1, 2, False), (2, 3, True),
    ]  # fmt: skip
    assert [each.max_timestamp_offset for each in found] == [0, -1, 2]
    await store.close()


@in_a_loop
async def test_message_ids_are_those_of_before_a_start(data: Path) -> None:
    """Over segments and ledgers, and over many rows of the index."""
    store = await opened(data)
    store.log(1).configure(segment_bytes=20_000)
    for base in range(0, 100, 2):
        made = build(base, b"x" * 1000, records=2, timestamp=1)
        await store.write([Append(1, base, base + 2, 1, [made])], Durability.OS)
    known = [store.log(1).position_of(offset) for offset in range(100)]
    assert len(set(known)) == 100
    await store.close()
    store = await opened(data)
    log = store.log(1)
    assert [log.position_of(offset) for offset in range(100)] == known
    assert [log.offset_of(each.ledger, each.entry) for each in known] == [
        each // 2 * 2 for each in range(100)
    ]
    await store.write([Trim(1, 51)], Durability.OS)
    with pytest.raises(KeyError):
        log.offset_of(known[49].ledger, known[49].entry)
    assert log.offset_of(known[50].ledger, known[50].entry) == 50, "half of its batch is still there"
    await store.close()
