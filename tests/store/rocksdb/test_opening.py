"""Folders that cannot be opened: what is said of each, and that nothing stays locked."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from store.api import (
    DiskFull,
    Durability,
    Family,
    Locked,
    Put,
    Refused,
    StoreError,
    Unknown,
)
from store.rocksdb.database import Database, plain
from tests.store.rocksdb.starting import in_a_loop, opened


@in_a_loop
async def test_a_second_owner_is_told_in_plain_words(data: Path) -> None:
    store = await opened(data)
    with pytest.raises(Locked, match="in use by another process"):
        await opened(data)
    code = f"import asyncio, pathlib, store.rocksdb as r; asyncio.run(r.open(pathlib.Path({str(data)!r})))"
    other = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert "Locked: The data folder" in other.stderr
    await store.close()


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    file = folder / "file"
    file.touch()
    with pytest.raises(StoreError, match="is a file"):
        asyncio.run(opened(file))
    with pytest.raises(StoreError):
        asyncio.run(opened(file / "below"))
    if os.geteuid() != 0:
        (folder / "bare").mkdir(mode=0o500)
        with pytest.raises(Refused, match="read-only"):
            asyncio.run(opened(folder / "bare"))


def test_a_read_only_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with pytest.raises(Refused, match="the folder is read-only or belongs to another user"):
        asyncio.run(opened(folder / "data"))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_told_with_what_to_do(number: int) -> None:
    for error in (OSError(number, os.strerror(number)), Exception(f"IO error: {os.strerror(number)}: x")):
        assert "raise the limit with ulimit -n" in str(plain(error, "open the data folder d"))


@in_a_loop
async def test_no_space_for_what_a_start_writes(data: Path) -> None:
    """The caller can tell it from other troubles, and the folder is let go of."""

    class Full(Database):
        def write(self, batch: Any, *, wait: bool = True) -> bool:
            raise Unknown("the database cannot be written") from OSError(errno.ENOSPC, "full")

    with pytest.raises(DiskFull, match="no space is left") as caught:
        await opened(data, database=Full)
    # at once, while somebody still holds the error and with it the frames of the failure
    await (await opened(data)).close()
    assert caught.value.__traceback__ is not None


@in_a_loop
async def test_a_database_that_cannot_make_tables_is_closed_all_the_same(data: Path) -> None:
    class Stuck:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def close(self) -> None:
            raise OSError(errno.ENOSPC, "full")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    store = await opened(data)
    await store.write([Put(Family.GROUP, b"g", b"x")], Durability.OS)
    store._database._db = Stuck(store._database._db)
    await store.close()
    again = await opened(data)
    assert again.get(Family.GROUP, b"g") == b"x"
    await again.close()


@in_a_loop
async def test_a_folder_of_a_newer_version(data: Path) -> None:
    store = await opened(data)
    await store.write([Put(Family.META, b"store.format", b"99")], Durability.OS)
    await store.close()
    with pytest.raises(StoreError, match="newer Magnetar"):
        await opened(data)
