"""The door to RocksDB: what it asks of RocksDB after a failure, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict

from store.api import DiskFull, Family, StoreError
from store.rocksdb.database import SETTLE_SECONDS, Database


class FullDisk:
    """A family whose memtable cannot be written."""

    def __init__(self) -> None:
        self.full = True
        self.asked = 0

    def flush(self, wait: bool) -> None:
        self.asked += 1
        if self.full:
            raise Exception("IO error: No space left on device: While appending to file")


def test_rocksdb_is_left_alone_for_a_while_after_it_could_not_settle(folder: Path) -> None:
    time = 100.0
    database = Database(folder / "db", now=lambda: time)
    family = FullDisk()
    families: Any = {"only": family}
    kept, database._families = database._families, families
    for _ in range(3):
        with pytest.raises(DiskFull, match="no space is left"):
            database.settle()
    assert family.asked == 1, "RocksDB resumes by itself, and not while it is asked to flush"

    family.full = False
    with pytest.raises(DiskFull):
        database.settle()
    time += SETTLE_SECONDS
    database.settle()
    database.settle()
    assert family.asked == 3, "it settled, and once it did there is nothing to wait for"
    database._families = kept
    database.close()


def test_what_must_be_free_to_go_on_after_a_full_disk_is_little(folder: Path) -> None:
    """RocksDB wants as much as the largest memtable had at the opening: its log of options says what was set then."""
    database = Database(folder / "db")
    database.write(_row(database))
    database.close()
    sizes = [
        {
            int(line.split("=")[1])
            for line in path.read_text().splitlines()
            if line.strip().startswith("write_buffer_size=")
        }
        for path in sorted((folder / "db").glob("OPTIONS-*"))
    ]
    opened, then = sizes
    assert max(opened) == 16 << 20
    assert max(then) == 64 << 20


def test_a_folder_from_before_a_family_was_added_opens_and_gets_it(folder: Path) -> None:
    before = [str(family) for family in Family if family is not Family.SUBSCRIPTION]
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    (folder / "db").mkdir(parents=True)
    old = Rdict(
        str(folder / "db"), options, column_families={name: Options(raw_mode=True) for name in before}
    )
    old.get_column_family("meta").put(b"k", b"v")
    old.close()

    database = Database(folder / "db")
    assert database.get(Family.META, b"k") == b"v"
    batch = database.batch()
    batch.put(b"s", b"new", database.handles[Family.SUBSCRIPTION])
    database.write(batch)
    database.close()

    again = Database(folder / "db")
    assert again.get(Family.SUBSCRIPTION, b"s") == b"new"
    again.close()


def _row(database: Database) -> Any:
    batch = database.batch()
    batch.put(b"k", b"v", database.handles[Family.META])
    return batch


def test_who_reads_once_it_is_closed_is_told_so(folder: Path) -> None:
    """In a stop under load there is somebody: it has to be an error that readers of a store know."""
    database = Database(folder / "db")
    database.close()
    reads: tuple[Callable[[], object], ...] = (
        lambda: database.get(Family.TXN, b"x"),
        lambda: database.at_or_before(Family.LEDGER, b"x"),
        lambda: list(database.scan(Family.TXN)),
    )
    for read in reads:
        with pytest.raises(StoreError, match="is closed"):
            read()
