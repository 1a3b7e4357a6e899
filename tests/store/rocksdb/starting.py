"""Tests that start a store in a folder of their own, once or again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from store import rocksdb
from store.rocksdb import RocksStore

Main = Callable[[Path], Coroutine[Any, Any, None]]


def in_a_loop(main: Main) -> Callable[[Path], None]:
    def test(folder: Path) -> None:
        asyncio.run(main(folder / "data"))

    test.__name__ = main.__name__
    test.__doc__ = main.__doc__
    return test


def segment_files(data: Path) -> list[Path]:
    return sorted((data / "segments").glob("*/*.seg"))


async def opened(data: Path, **options: Any) -> RocksStore:
    return await rocksdb.open(data, **options)
