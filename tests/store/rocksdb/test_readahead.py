"""Steps of a walk are answered as reads are, wherever the bytes come from; and of all logs little is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import batch, rocksdb
from store.api import Append, Buffer, Corrupt, DropLog, Durability, Trim
from store.rocksdb.driver import RocksStore
from store.rocksdb.integrity import Trust
from store.rocksdb.readahead import BYTES, SMALL, Readahead, ReadaheadWindow
from store.rocksdb.segments import Request
from tests.store.making import soon


def made(base: int, records: int, size: int) -> bytes:
    return batch.build(base, os.urandom(size), records=records, timestamp=1)


def joined(buffers: Sequence[object]) -> bytes:
    return b"".join(bytes(each) for each in buffers)  # type: ignore[call-overload]


def written(batches: Sequence[tuple[int, int, int]]) -> list[tuple[int, bytes]]:
    """(next offset, bytes) of batches of (gap before it, records, bytes)."""
    found: list[tuple[int, bytes]] = []
    end = 0
    for gap, records, size in batches:
        found.append((end + gap + records, made(end + gap, records, size)))
        end += gap + records
    return found


async def filled(folder: Path, batches: Sequence[tuple[int, bytes]]) -> RocksStore:
    """One log, and nothing of it in the tail cache."""
    store = await rocksdb.open(folder, tail_cache_bytes=0)
    for end, data in batches:
        base = int.from_bytes(data[:8], "big")
        await store.write([Append(1, base, end, 1, [data], store.epoch)], Durability.OS)
    return store


def expected(batches: Sequence[tuple[int, bytes]], offset: int, size: int, whole_first: bool) -> bytes:
    left = [data for end, data in batches if end > offset]
    if not left:
        # all of it was trimmed
        return b""
    if len(left[0]) > size:
        return left[0] if whole_first else b""
    return b"".join(left)[:size]


BATCHES = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 5]), st.integers(1, 5), st.sampled_from([1, 200, 3000, 9000])),
    min_size=1,
    max_size=30,
)
STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 300, 4000, SMALL, SMALL + 1]), st.booleans()),
    max_size=60,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(batches=BATCHES.map(written), steps=STEPS, trim=st.integers(0, 20))
def test_steps_are_answered_as_reads_are(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[int, bytes]],
    steps: list[tuple[int, int, bool]],
    trim: int,
) -> None:
    async def main() -> None:
        store = await filled(tmp_path_factory.mktemp("data"), batches)
        log = store.log(1)
        offset = 0
        for turn, (forward, size, whole_first) in enumerate(steps):
            if turn == 10 and trim <= log.end_offset:
                await store.write([Trim(1, trim)], Durability.OS)
            offset = max(offset + forward, log.start_offset)
            if offset >= log.end_offset:
                offset = log.start_offset
            found = joined(await soon(log.read(offset, size, whole_first=whole_first)))
            assert found == expected(batches, offset, size, whole_first)
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 2500, SMALL])
@pytest.mark.parametrize("whole_first", [False, True])
def test_where_a_window_ends_nothing_is_missing(tmp_path: Path, size: int, whole_first: bool) -> None:
    async def main() -> None:
        batches = written([(0, 1, 1000)] * 200)
        store = await filled(tmp_path / "data", batches)
        log = store.log(1)
        for offset in range(200):
            found = joined(await soon(log.read(offset, size, whole_first=whole_first)))
            assert found == expected(batches, offset, size, whole_first)
        await store.close()

    asyncio.run(main())


def test_a_walk_needs_a_read_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = await filled(tmp_path / "data", written([(0, 1, 1000)] * 200))
        log = store.log(1)
        asked: list[int] = []
        cached = log._reader.cached

        def asking(request: Request, trust: Trust) -> Buffer | None:
            asked.append(request.size)
            return cached(request, trust)

        monkeypatch.setattr(log._reader, "cached", asking)
        for offset in range(200):
            (found,) = await soon(log.read(offset, 1))
            assert bytes(found[:8]) == offset.to_bytes(8, "big")
        assert len(asked) < 20
        asked.clear()
        for offset in range(190, 0, -10):
            await soon(log.read(offset, 1))
        assert max(asked) < BYTES // 2, "who does not walk is not read for"
        await store.close()

    asyncio.run(main())


def test_damage_is_met_where_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        store = await filled(tmp_path / "data", written([(0, 1, 1000)] * 30))
        await store.close()
        (segment,) = (tmp_path / "data").rglob("*.seg")
        size = len(made(0, 1, 1000))
        with segment.open("r+b") as file:
            file.seek(20 * size + 500)
            file.write(b"damage")
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        log = store.log(1)
        for offset in range(20):
            (found,) = await soon(log.read(offset, 1))
            assert bytes(found[:8]) == offset.to_bytes(8, "big")
        with pytest.raises(Corrupt) as damage:
            await soon(log.read(20, 1))
        assert damage.value.next_offset == 21
        (found,) = await soon(log.read(21, 1))
        assert bytes(found[:8]) == (21).to_bytes(8, "big")
        await store.close()

    asyncio.run(main())


def test_a_log_that_goes_takes_its_window_along(tmp_path: Path) -> None:
    async def main() -> None:
        store = await filled(tmp_path / "data", written([(0, 1, 100)] * 10))
        log = store.log(1)
        for offset in range(10):
            await soon(log.read(offset, 1))
        windows = log._reader.readahead
        assert len(windows) == 1
        await store.write([DropLog(1)], Durability.OS)
        async with asyncio.timeout(10):
            while len(windows):
                await asyncio.sleep(0)
        await store.close()

    asyncio.run(main())


def test_the_windows_of_many_logs_are_bounded_and_the_least_used_go() -> None:
    windows = Readahead()
    data = made(0, 1, 100) + made(1, 1, 100)
    for partition in range(1000):
        windows.keep(partition, ReadaheadWindow(data, 0))
        windows.walks(partition, 0)
        assert windows.read(0, 0, 1, True), "it is read all the while"
    assert len(windows) <= 4 * 1024 * 1024 // BYTES
    assert windows.read(1, 0, 1, True) is None
    assert windows.read(999, 1, 1, True)
