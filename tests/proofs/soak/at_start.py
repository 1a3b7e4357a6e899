"""A start that finds another database than was left: what a gateway that breaks a promise is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from store import rocksdb
from store.rocksdb.database import Database


def at_start(change: Callable[[Database, Any], None]) -> None:
    """`change` gets it and a batch."""
    opened = rocksdb.open

    def changed(where: Path, **given: Any) -> Database:
        database = Database(where, **given)
        batch = database.batch()
        change(database, batch)
        database.write(batch)
        return database

    async def open_changed(path: Path, **given: Any) -> rocksdb.RocksStore:
        return await opened(path, database=changed, **given)

    rocksdb.open = open_changed
