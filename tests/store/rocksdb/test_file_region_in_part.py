"""What is lent and of which the page cache has but a part: what was there is kept, and the rest alone is doubted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from store import rocksdb
from tests.store.making import soon
from tests.store.rocksdb.regions import (
    BATCHES,
    LEAST,
    MIB,
    NOWAIT,
    damage,
    lent,
    made,
    nothing_in_memory,
    read_in,
    stored,
)

pytestmark = NOWAIT

Read = tuple[int, int]


@contextmanager
def in_memory(monkeypatch: pytest.MonkeyPatch, size: int) -> Iterator[list[Read]]:
    """Of what is asked for, the page cache has the first `size` bytes; what (position, bytes) is waited for."""
    waited: list[Read] = []
    plain: Callable[..., int] = os.preadv

    def preadv(descriptor: int, buffers: list[Any], position: int, flags: int = 0) -> int:
        if flags:
            return plain(descriptor, [buffers[0][:size]], position, flags) if size else nothing_in_memory()
        waited.append((position, len(buffers[0])))
        return plain(descriptor, buffers, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", preadv)
        yield waited


def test_only_the_rest_is_read_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        size = len(data) // BATCHES
        log = store.log(1)
        for there, doubted in (
            (30 * size + 100, 70),
            (30 * size, 70),
            (30 * size - 1, 71),
            (1, 100),
            (0, 100),
        ):
            piece = await stored(log, 0, MIB)
            into = memoryview(bytearray(len(piece)))
            checked.clear()
            with in_memory(monkeypatch, there) as waited:
                assert not piece.read_into(into)
                assert not checked
                assert piece.read_into(into, wait=True)
            assert waited == [(there, len(data) - there)]
            assert into == data
            assert len(checked) == doubted
            piece.release()
            checked.clear()
            assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
            assert not checked, "all is known again"
        await store.close()

    asyncio.run(main())


def test_in_other_memory_all_is_read_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        piece = await stored(store.log(1), 0, MIB)
        checked.clear()
        with in_memory(monkeypatch, 500_000) as waited:
            assert not piece.read_into(memoryview(bytearray(len(piece))))
            into = memoryview(bytearray(len(piece)))
            assert piece.read_into(into, wait=True)
        assert waited == [(0, len(data))]
        assert into == data
        assert len(checked) == BATCHES
        piece.release()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "between"])
def test_what_another_missed_meanwhile_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int], when: str
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        log = store.log(1)
        piece, other = [await stored(log, 0, MIB) for _ in range(2)]
        into = memoryview(bytearray(len(piece)))
        checked.clear()

        def miss() -> None:
            with in_memory(monkeypatch, 0):
                assert not other.read_into(memoryview(bytearray(len(other))))

        if when == "before":
            miss()
        with in_memory(monkeypatch, 500_000):
            assert not piece.read_into(into)
        if when == "between":
            miss()
        assert piece.read_into(into, wait=True)
        assert into == data
        # what was read before the other missed is right, though it may be something else in the page cache by now
        assert (len(checked) == BATCHES) == (when == "before")
        checked.clear()
        assert read_in(await soon(log.lend(0, MIB, least=LEAST))) == data
        assert len(checked) == (BATCHES if when == "between" else 0)
        for each in (piece, other):
            each.release()
        await store.close()

    asyncio.run(main())


def test_what_was_not_known_before_is_checked_though_it_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        await store.close()
        store = await rocksdb.open(tmp_path / "data", tail_cache_bytes=0)
        piece = await stored(store.log(1), 0, MIB)
        into = memoryview(bytearray(len(piece)))
        checked.clear()
        with in_memory(monkeypatch, 500_000):
            assert not piece.read_into(into)
            assert piece.read_into(into, wait=True)
        assert into == data
        assert len(checked) == BATCHES
        piece.release()
        await store.close()

    asyncio.run(main())


def test_damage_in_the_rest_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store, _ = await made(tmp_path / "data")
        piece = await stored(store.log(1), 0, MIB)
        into = memoryview(bytearray(len(piece)))
        with in_memory(monkeypatch, 500_000):
            assert not piece.read_into(into)
            damage(tmp_path / "data", 600_000)
            assert not piece.read_into(into, wait=True)
        piece.release()
        await store.close()

    asyncio.run(main())


def test_who_goes_on_behind_a_miss_doubts_no_more_than_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked: list[int]
) -> None:
    async def main() -> None:
        store, data = await made(tmp_path / "data")
        size = len(data) // BATCHES
        log = store.log(1)
        piece = await stored(log, 0, 20 * size + size // 2)
        into = memoryview(bytearray(len(piece)))
        checked.clear()
        with in_memory(monkeypatch, 0):
            assert piece.read_into(into, wait=True)
        assert len(checked) == 20
        piece.release()
        checked.clear()
        (following,) = await soon(log.lend(20, 40 * size, least=LEAST))
        assert lent([following])
        assert read_in([following]) == data[20 * size : 60 * size]
        assert len(checked) == 1
        await store.close()

    asyncio.run(main())
