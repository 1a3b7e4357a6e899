from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from store.api import Delete, DeleteRange, Put
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from store.rocksdb.mark import Marked

Clip = Callable[[int, int], Iterable[Put | Delete | DeleteRange]]


class Recovered(NamedTuple):
    notices: list[str]
    read_only: str


def recover(
    path: Path,
    database: Database,
    files: Files,
    marked: Marked | None,
    boot: str,
    *,
    clean: bool,
    now: int,
    clip: Clip | None,
) -> Recovered:
    return Recovered([], "")
