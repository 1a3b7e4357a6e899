"""Two logs that were written before this start, and what becomes of their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store import batch, rocksdb
from store.api import Append, Durability
from store.rocksdb import RocksStore

SIZES = (100, 300, 700, 2000, 30_000)
BATCHES = 400
RECORDS = 3


def batches_of(partition: int) -> list[bytes]:
    made = []
    for nth in range(BATCHES):
        payload = os.urandom(SIZES[nth * 7 % len(SIZES)])
        made.append(batch.build(nth * RECORDS, payload, timestamp=1000 + nth, records=RECORDS))
    return made


async def stored(data: Path, **options: Any) -> tuple[RocksStore, dict[int, list[bytes]]]:
    """Two logs, each in one segment and a bit, written by a process that is gone."""
    store = await rocksdb.open(data)
    made = {partition: batches_of(partition) for partition in (1, 2)}
    for partition, own in made.items():
        # some appends bring one batch, some many
        for begin in range(0, BATCHES, 10):
            for part in [[each] for each in own[begin : begin + 5]] + [own[begin + 5 : begin + 10]]:
                base, end = batch.base_offset(part[0]), batch.next_offset(part[-1])
                newest = batch.max_timestamp(part[-1])
                await store.write([Append(partition, base, end, newest, part)], Durability.OS)
    await store.close()
    return await rocksdb.open(data, **options), made


def file_of(data: Path, partition: int) -> Path:
    (path,) = (data / "segments").glob(f"*/{partition:08x}-*.seg")
    return path


def place(own: list[bytes], nth: int) -> int:
    return sum(map(len, own[:nth]))


def change(path: Path, position: int, new: Callable[[bytes], bytes], size: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        old = file.read(size)
        file.seek(position)
        file.write(new(old))


def flip(path: Path, position: int, mask: int = 0x10) -> None:
    change(path, position, lambda old: bytes([old[0] ^ mask]), 1)
