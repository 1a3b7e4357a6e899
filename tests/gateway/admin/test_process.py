"""The process in a scrape."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gateway.admin import process


def samples() -> dict[str, float]:
    """Value by name with labels; each family has its head right above it."""
    found: dict[str, float] = {}
    named = ""
    for line in "\n".join(process.lines("0.1.0", 1_500, 4_000)).split("\n"):
        if line.startswith("# HELP "):
            named = line.split(" ")[2]
            assert named not in "\n".join(found), "a family comes once"
        elif line.startswith("# TYPE "):
            assert line.split(" ")[2] == named
        else:
            name, value = line.rsplit(" ", 1)
            assert re.split(r"\{", name)[0] == named
            found[name] = float(value)
    return found


def test_times_are_in_seconds_and_come_from_the_clock_that_is_passed_in() -> None:
    found = samples()
    assert found["process_start_time_seconds"] == 1.5
    assert found["magnetar_uptime_seconds"] == 2.5
    assert found["process_cpu_seconds_total"] > 0


def test_open_files_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others in this process open and close some meanwhile: what the system lists is what counts."""
    lists: list[list[str]] = []

    def listing(path: Path) -> list[str]:
        lists.append(listdir(path))
        return lists[-1]

    listdir = os.listdir
    monkeypatch.setattr("gateway.admin.process.os.listdir", listing)
    with open(os.devnull) as file:
        assert samples()["process_open_fds"] == len(lists[0])
        assert str(file.fileno()) in lists[0]


def test_memory_is_that_of_this_process() -> None:
    before = samples()
    # a page at least for each name that this test imported
    assert 1 << 20 < before["process_resident_memory_bytes"] < before["process_virtual_memory_bytes"]
    assert before["process_max_fds"] >= before["process_open_fds"]
    assert "process_max_resident_memory_bytes" not in before


def test_the_version_stands_in_labels() -> None:
    (build,) = [name for name in samples() if name.startswith("magnetar_build_info")]
    assert re.fullmatch(r'magnetar_build_info\{version="0\.1\.0",python="3\.\d+\.\d+"\}', build)


def test_a_system_without_proc_tells_the_most_memory_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    found = samples()
    assert not {"process_resident_memory_bytes", "process_open_fds"} & found.keys()
    assert found["process_max_resident_memory_bytes"] > 1 << 20
    assert found["magnetar_uptime_seconds"] == 2.5
