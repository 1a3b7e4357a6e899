"""The mark: how far RocksDB had come, as the next process finds it, however this one ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from store.rocksdb import last_mark
from store.rocksdb.last_mark import LastMark, Marked

BOOT = "0b9b9a5e-6b4d-4c4a-8a52-0f8b7a4d7f11"


def test_a_mark_is_read_while_its_process_still_writes_and_after_it(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    made = LastMark(path, BOOT, 7, 100)
    assert last_mark.read(path) == Marked(BOOT, 7, 100, 100)
    made.store(105, False)
    assert last_mark.read(path) == Marked(BOOT, 7, 105, 100), "committed, and not synced"
    made.store(110, True)
    made.store(120, False)
    assert last_mark.read(path) == Marked(BOOT, 7, 120, 110)
    made.close()
    assert last_mark.read(path) == Marked(BOOT, 7, 120, 110)


def test_a_new_run_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    old = LastMark(path, BOOT, 1, 10)
    new = LastMark(path, "", 2, 20)
    # the file that it writes to has no name any more
    old.store(1000, True)
    assert last_mark.read(path) == Marked("", 2, 20, 20)
    assert [each.name for each in tmp_path.iterdir()] == ["mark"]
    old.close()
    new.close()


@pytest.mark.parametrize("left", [b"", b"MAGNETAR", b"MAGNETAR" + bytes(4087), b"SOMETHING" + bytes(4087)])
def test_what_is_no_mark_is_none(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "mark"
    assert last_mark.read(path) is None
    path.write_bytes(left)
    assert last_mark.read(path) is None


def test_a_half_made_file_of_a_start_that_crashed_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    (tmp_path / "mark.new").write_bytes(b"x" * 10_000)
    LastMark(path, BOOT, 3, 4).close()
    assert last_mark.read(path) == Marked(BOOT, 3, 4, 4)
    assert path.stat().st_size == 4096
