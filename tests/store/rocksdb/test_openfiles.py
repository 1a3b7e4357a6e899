"""The files that appends have open: no more than so many, and it is the idle ones that are closed."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import cast

import pytest

from store.rocksdb.append import LogWriter
from store.rocksdb.files import Files
from store.rocksdb.openfiles import OpenFiles
from store.rocksdb.rows import LogRow


class Bench:
    """Logs by number, each with a file of its own once it is held."""

    def __init__(self, root: Path, limit: int) -> None:
        self.files = Files(root)
        self.open = OpenFiles(self.files, limit)
        self.logs: dict[int, LogWriter] = {}

    def hold(self, partition: int, *, touched: bool = False) -> LogWriter:
        """The log begins a new file."""
        log = self.logs.setdefault(partition, LogWriter(partition, LogRow(), None, {}))
        log.touched = touched
        log.recent = True
        descriptor, log.number = self.files.create(partition, 0, log.number + 1)
        self.open.hold(log, descriptor)
        return log

    @property
    def held(self) -> list[int]:
        return [partition for partition, log in self.logs.items() if log.descriptor >= 0]


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_beyond_the_limit_a_quarter_is_closed_those_first_that_were_idle_longest(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 8)
    for partition in range(8):
        bench.hold(partition)
    assert (len(bench.open), bench.held) == (8, list(range(8)))
    for partition in (1, 3):
        bench.logs[partition].recent = False
    before = [bench.logs[partition].descriptor for partition in (1, 3)]
    bench.hold(8, touched=True)
    # the two that were idle, and the first of the others
    assert bench.held == [2, 4, 5, 6, 7, 8]
    assert len(bench.open) == 6
    assert not any(map(is_open, before))
    bench.open.close()
    assert bench.held == []


def test_a_file_that_the_group_at_work_writes_to_is_never_closed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, 4)
    for partition in range(6):
        bench.hold(partition, touched=True)
    assert len(bench.open) == 6, "rather too many than one that is in use"
    for log in bench.logs.values():
        log.touched = False
    bench.hold(6)
    assert len(bench.open) == 3
    bench.open.close()


def test_a_group_that_writes_to_very_many_does_not_look_at_all_of_them_for_each(tmp_path: Path) -> None:
    looked = 0

    class Log:
        """What is asked of a log."""

        descriptor, recent = -1, True

        def __init__(self, partition: int) -> None:
            self.partition = partition

        @property
        def touched(self) -> bool:
            nonlocal looked
            looked += 1
            return True

    files = OpenFiles(Files(tmp_path), 100)
    for partition in range(2_000):
        files.hold(cast(LogWriter, Log(partition)), partition)
    assert looked < 100 * 2_000
    # the next group looks at once
    files.close_old()
    before = looked
    files.hold(cast(LogWriter, Log(2_000)), 2_000)
    assert looked > before


def test_a_file_that_its_log_has_left_stays_open_until_the_group_is_done(tmp_path: Path) -> None:
    """The group may still write to it, or sync it."""
    bench = Bench(tmp_path, 4)
    log = bench.hold(1)
    first = log.descriptor
    bench.hold(1)
    assert (log.descriptor != first, is_open(first), len(bench.open)) == (True, True, 1)
    bench.open.leave(log)
    second = bench.open.closing[-1]
    assert (log.descriptor, len(bench.open), is_open(second)) == (-1, 0, True)
    bench.open.close_old()
    assert not is_open(first)
    assert not is_open(second)
    # nothing is closed twice: the number may be another file's by then
    bench.open.close_old()
    bench.open.leave(log)
    bench.open.forget(log)
    assert bench.open.closing == []


class TestAttempt:
    """Opening a file when the system has none left."""

    def opening(self, bench: Bench, failures: int, number: int = errno.EMFILE) -> object:
        left = [failures]

        def opening() -> str:
            if left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number))
            return "opened"

        return bench.open.attempt(opening)

    def test_another_logs_file_makes_room(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, 8)
        bench.hold(1, touched=True)
        idle = bench.hold(2).descriptor
        assert self.opening(bench, 1) == "opened"
        assert (bench.held, is_open(idle)) == ([1], False)
        bench.open.close()

    @pytest.mark.parametrize(
        ("failures", "number", "touched"),
        [(2, errno.EMFILE, False), (1, errno.EMFILE, True), (1, errno.ENOENT, False)],
    )
    def test_it_is_refused_where_that_does_not_help_or_no_file_is_idle(
        self, tmp_path: Path, failures: int, number: int, touched: bool
    ) -> None:
        bench = Bench(tmp_path, 8)
        bench.hold(1, touched=touched)
        with pytest.raises(OSError, match=os.strerror(number)):
            self.opening(bench, failures, number)
        # one that can be in use, or did no harm, stays
        assert bench.held == ([] if number == errno.EMFILE and not touched else [1])
        bench.open.close()
