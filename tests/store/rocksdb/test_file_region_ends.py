"""Where large answers ended: what follows is found without the index."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from store import batch, rocksdb
from store.api import Append, Durability, Family
from store.rocksdb.database import Database
from store.rocksdb.file_region import AnswerEnds
from store.rocksdb.files import Files
from store.rocksdb.segments import Segment
from tests.store.making import soon
from tests.store.rocksdb.regions import (
    BATCHES,
    LEAST,
    MIB,
    NOWAIT,
    made,
    read_in,
)

pytestmark = NOWAIT


@pytest.mark.parametrize("known", [True, False], ids=["right", "checked"])
def test_who_goes_on_from_the_end_of_an_answer_asks_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    asked: list[bytes] = []
    at_or_before = Database.at_or_before

    def counted(self: Database, family: Family, key: bytes) -> tuple[bytes, bytes] | None:
        asked.append(key)
        return at_or_before(self, family, key)

    monkeypatch.setattr(Database, "at_or_before", counted)
    looks: list[int] = []
    read_cached = Files.read_cached

    def looked(self: Files, descriptor: int, size: int, position: int) -> memoryview | None:
        looks.append(position)
        return read_cached(self, descriptor, size, position)

    monkeypatch.setattr(Files, "read_cached", looked)

    async def main() -> None:
        store, data = await made(tmp_path / "data")
        size = len(data) // BATCHES
        if not known:
            await store.close()
            store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        await soon(log.lend(0, 1, least=LEAST))
        asked.clear()
        offset = 0
        # the first of all, and where nothing was cut off, or less than a header is there of it
        whole = (0, 39, 59)
        for most in (200_000, 20 * size, 20 * size + 60, 20 * size - 1):
            looks.clear()
            found = read_in(await soon(log.lend(offset, most, least=LEAST)))
            assert found == data[offset * size :][:most]
            assert len(looks) == (1 if offset in whole else 0), "at the file, before a thread reads it"
            offset += most // size
        assert len(asked) == 1
        assert read_in(await soon(log.read(offset, MIB))) == data[offset * size :]
        assert len(asked) == 1
        assert read_in(await soon(log.read(offset + 1, MIB))) == data[(offset + 1) * size :]
        assert len(asked) == 2
        await store.close()

    asyncio.run(main())


def test_who_goes_on_with_a_batch_that_is_too_large_gets_it_first_or_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        size = len(data) // BATCHES
        more = [batch.build(nth, os.urandom(400_000), timestamp=1) for nth in (BATCHES, BATCHES + 1)]
        for nth, each in enumerate(more):
            await store.write([Append(1, BATCHES + nth, BATCHES + nth + 1, 1, [each])], Durability.OS)
        assert read_in(await soon(log.lend(0, len(data) + 1000, least=LEAST)))[: len(data)] == data
        assert await soon(log.lend(BATCHES, 200_000, least=LEAST, whole_first=False)) == []
        assert read_in(await soon(log.lend(BATCHES, 200_000, least=LEAST))) == more[0]
        found = read_in(await soon(log.lend(BATCHES, len(more[0]) + size, least=LEAST, whole_first=False)))
        assert found == more[0] + more[1][:size]
        await store.close()

    asyncio.run(main())


def test_where_an_answer_ended_is_found_in_the_next_segment(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        log.configure(segment_bytes=1)
        more = batch.build(BATCHES, os.urandom(200_000), timestamp=1)
        await store.write([Append(1, BATCHES, BATCHES + 1, 1, [more])], Durability.OS)
        assert read_in(await soon(log.lend(BATCHES, MIB, least=LEAST))) == more
        await store.close()

    asyncio.run(main())


def test_where_an_answer_ended_offsets_may_be_left_out(tmp_path: Path) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        more = [batch.build(nth, os.urandom(200_000), timestamp=1) for nth in (BATCHES + 7, BATCHES + 20)]
        await store.write([Append(1, BATCHES + 7, BATCHES + 8, 1, [more[0]])], Durability.OS)
        await store.write([Append(1, BATCHES + 20, BATCHES + 21, 1, [more[1]])], Durability.OS)
        for offset, nth in ((BATCHES, 0), (BATCHES + 7, 0), (BATCHES + 8, 1), (BATCHES + 19, 1)):
            assert read_in(await soon(log.lend(offset, MIB, least=LEAST))) == b"".join(more[nth:])
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        for offset in (0, BATCHES, BATCHES + 7, BATCHES + 8):
            found = read_in(await soon(log.read(offset, 2 * MIB)))
            begin = data if not offset else b"".join(more[offset > BATCHES + 7 :])
            assert found
            assert begin.startswith(found), "up to the gap"
        await store.close()

    asyncio.run(main())


def test_ends_of_many_readers_are_remembered_and_not_all() -> None:
    ends = AnswerEnds()
    segment = Segment(0, 1000, 7, 1000, 0, 0, 0)
    for nth in range(100):
        ends.add(nth, 7, nth * 10, 61)
    ends.add(84, 7, 840, 0)
    ends.add(100, 7, 1000, 0)
    assert ends.place(segment, 99) == (990, 61)
    assert ends.place(segment, 90) == (900, 61)
    assert ends.place(segment, 84) == (840, 0), "it was told of again"
    assert ends.place(segment, 85) is None
    assert 85 not in ends
    assert ends.place(segment._replace(number=8), 99) is None
