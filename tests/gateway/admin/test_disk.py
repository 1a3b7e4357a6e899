"""The disk in a scrape."""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.admin import disk


def test_size_and_room_are_those_of_the_file_system(tmp_path: Path) -> None:
    found = [line.split(" ") for line in disk.lines(str(tmp_path)) if not line.startswith("#")]
    assert [name for name, _ in found] == list(disk.FAMILIES)
    size, available = (int(value) for _, value in found)
    assert size == shutil.disk_usage(tmp_path).total
    assert 0 < available <= size


def test_a_folder_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert list(disk.lines(str(tmp_path / "none"))) == []
