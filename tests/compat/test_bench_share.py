"""The share group loads: the table, what their clients print, and how anchors and bounds are judged and shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from compat.bench import report, share, share_clients
from compat.bench.clients import ClientError
from compat.bench.loads import Load, Metric, Turn
from compat.bench.results import Row
from compat.bench.runner import Outcome
from compat.bench.share import SHARE
from compat.bench.share_clients import share_window

ANCHORED = Metric("p99", "ms", "lower", 0.5, anchor=10.0)
BOUND = Metric("lost", "%", "lower", bound=0)


def outcome(*metrics: Metric, kafka: dict[str, float] | None = None, **figures: float) -> Outcome:
    made = Outcome(Load("x", "X", metrics, lambda turn: {}))
    made.add("Magnetar", figures)
    if kafka:
        made.add("Kafka", kafka)
    return made


def test_an_anchor_is_divided_by_instead_of_kafka() -> None:
    slow = outcome(ANCHORED, p99=6.0, kafka={"p99": 100.0})
    assert slow.ratio(ANCHORED) == pytest.approx(0.6)
    assert slow.met(ANCHORED) is False
    assert outcome(ANCHORED, p99=5.0).met(ANCHORED) is True


def test_a_bound_is_kept_by_the_figure_itself() -> None:
    assert outcome(BOUND, lost=0.0).met(BOUND) is True
    assert outcome(BOUND, lost=0.1).met(BOUND) is False
    assert Outcome(Load("x", "X", (BOUND,), lambda turn: {})).met(BOUND) is None


def test_both_a_target_and_a_bound_must_hold() -> None:
    both = Metric("rate", "msg/s", "higher", 4.0, anchor=100.0, bound=500)
    assert outcome(both, rate=450.0).met(both) is False
    assert outcome(both, rate=500.0).met(both) is True
    assert report.target(both) == "≥ 4x, ≥ 500"


def test_the_page_shows_anchors_in_a_column_and_says_what_they_are() -> None:
    rows = [Row(outcome(ANCHORED, BOUND, p99=5.0, lost=0.0, kafka={"p99": 8.0, "lost": 0.0}), "today", "abc")]
    share = report.Section([rows[0].outcome.load], report.SHARE_GROUPS, pulsar=True)
    lines = report.markdown([share], rows, {}).splitlines()
    head = next(i for i, line in enumerate(lines) if "Pulsar" in line and line.startswith("| load"))
    assert (
        lines[head + 2]
        == "| X | ms | 8.00 | 10 (anchor) | 5.00 | 0.500x of Pulsar | ≤ 0.5x | met | today, abc |"
    )
    assert lines[head + 3] == "|  | % | 0.000 |  | 0.000 |  | 0 | met |  |"
    assert any("not of this" in line for line in lines)
    assert "Share groups" not in report.markdown([share], [], {})


def progress(second: float, records: int, member: int) -> str:
    clock = f"2026-01-02 10:00:{second:06.3f}".replace(".", ":")
    return f"2026-01-02 09:00:00:000, {clock}, 1.0, 2.0, 3.0, {records}, 1000 for share consumer {member}\n"


def test_the_perf_tools_rate_begins_when_the_last_member_has_joined() -> None:
    lines = [
        "some warning\n",
        *(progress(second, 1000 * second, 1) for second in range(1, 11)),
        *(progress(second, 10 * (second - 5), 2) for second in range(5, 13)),
    ]
    found = share_window(lines, 2, warmup=1)
    # from 6 s to 10 s, the first member's last line: 4 x (1000 + 10)
    assert found == {"records": 4040.0, "seconds": 4.0, "records_per_second": 1010.0}


def test_counts_between_two_progress_lines_are_even() -> None:
    lines = [progress(0, 0, 1), progress(10, 1000, 1), progress(5, 7, 2), progress(20, 7, 2)]
    found = share_window(lines, 2, warmup=0)
    assert found == {"records": 500.0, "seconds": 5.0, "records_per_second": 100.0}


def test_no_rate_before_all_have_joined_and_warmed_up() -> None:
    lines = [progress(second, second, 1) for second in range(1, 9)]
    assert share_window(lines, 2, 0) is None
    assert share_window(lines, 1, 8) is None


def test_names_titles_and_figures() -> None:
    assert len({load.name for load in SHARE}) == len(SHARE)
    for load in SHARE:
        assert any(metric.target or metric.bound is not None for metric in load.metrics)
    assert share.needs_clients(["share-kill"])
    assert not share.needs_clients(["fetch-small"])


class Server:
    """Says where it is, and that it was started and killed."""

    bootstrap = "host:1"
    pid = 77

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda: self.said.append(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of the clients; each "gives" what every load wants."""
    found: list[list[str]] = []

    def run(command: Sequence[str], timeout: float) -> dict[str, float]:
        found.append([Path(command[0]).name, *command[1:]])
        others = {"seconds": 0.5, "join_seconds": 0.25}
        others |= {"last_ms.p50": 3.0, "last_ms.max": 4.0, "resident_mib": 5.0}
        return {"records_per_second": 100.0 if "key_shared" in " ".join(command) else 200.0, **others}

    monkeypatch.setattr(share_clients, "_figures", run)
    return found


def measure(name: str, quick: bool, directory: Path) -> tuple[dict[str, float], Server]:
    server = Server(directory)
    load = next(load for load in SHARE if load.name == name)
    return load.measure(Turn(server, quick)), server  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [load.name for load in SHARE if load.name != "share-java"])
def test_each_load_starts_its_server_and_calls_its_client(
    name: str, asked: list[list[str]], tmp_path: Path
) -> None:
    _, server = measure(name, True, tmp_path)
    assert server.said[0] == "start"
    assert asked
    assert all("host:1" in command for command in asked)


def test_windows_hold_ten_seconds_and_two_million_records(asked: list[list[str]], tmp_path: Path) -> None:
    measure("share-franz-go", False, tmp_path)
    (command,) = asked
    given = dict(zip(command[2::2], command[3::2], strict=True))
    assert given["-duration"] == "10s"
    assert given["-at-least"] == "2000000"


def test_key_shared_is_shown_beside_shared(asked: list[list[str]], tmp_path: Path) -> None:
    figures, _ = measure("key-shared", True, tmp_path)
    assert figures == {"key_shared": 100.0, "shared": 200.0, "share_of_shared": 0.5}
    assert ["-ordered" in command for command in asked] == [True, False]


def test_what_comes_beside_a_hot_key_is_compared_with_the_turns_before_and_after_it(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of the same others alone, then by turns beside a hot key and alone
    rates = iter([100.0, 150.0, 200.0, 100.0, 400.0, 300.0, 200.0, 1.0])

    def run(command: Sequence[str], timeout: float) -> dict[str, float]:
        asked.append(list(command))
        return {"records_per_second": next(rates), "seconds": 0.5, "join_seconds": 0.25}

    monkeypatch.setattr(share_clients, "_figures", run)
    figures, _ = measure("key-shared-hot", True, tmp_path)
    assert figures == {
        "alone": 200.0,
        "beside_50": 1.0,
        "beside_10": pytest.approx(1 / 3),
        "beside_2": 1.0,
        "burst_seconds": 0.75,
    }
    given = [dict(pairwise(command)) for command in asked]
    assert [each.get("-hot", each.get("-burst")) for each in given] == [
        *(None, "0.5", None, "0.1", None, "0.02", None, "60000"),
    ]
    # as many others each time
    assert [each["-records"] for each in given] == [
        *("60000", "120000", "60000", "66666", "60000", "61224", "60000", "62000"),
    ]
    assert len({each["-topic"] for each in given}) == len(given)


def test_a_stuck_message_is_compared_with_the_turns_before_and_after_it(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter([100.0, 90.0, 80.0, 50.0, 120.0])

    def run(command: Sequence[str], timeout: float) -> dict[str, float]:
        asked.append([Path(command[0]).name, *command[1:]])
        return {"records_per_second": next(rates) if asked[-1][0] == "group_rdkafka" else 0.0}

    monkeypatch.setattr(share_clients, "_figures", run)
    figures, _ = measure("queue-stuck", False, tmp_path)
    assert figures == {"alone": 100.0, "beside_nacked": 1.0, "beside_held": 0.5}
    readers = [command for command in asked if command[0] == "group_rdkafka"]
    # a topic that is empty before the window ends fails the turn
    assert [each[12:] for each in readers] == [[], ["nack", "key-1"], [], ["hold", "key-1"], []]
    assert {each[7] for each in readers} == {"8000000"}
    assert len({each[4] for each in readers}) == len(readers)


def test_quick_turns_may_read_everything(asked: list[list[str]], tmp_path: Path) -> None:
    measure("queue-shared", True, tmp_path)
    assert [each[7] for each in asked if each[0] == "group_rdkafka"] == ["0", "0"]


@pytest.mark.parametrize("name", ["queue-kill", "queue-memory"])
def test_lanes_of_both_types_are_measured(name: str, asked: list[list[str]], tmp_path: Path) -> None:
    figures, _ = measure(name, True, tmp_path)
    assert set(figures) == {metric.figure for load in SHARE if load.name == name for metric in load.metrics}
    types = [next(word for word in command if word.startswith("pulsar.")) for command in asked]
    assert types == ["pulsar.subscription.type=shared", "pulsar.subscription.type=key_shared"]
    assert all("-lanes" in command for command in asked)


def test_the_killed_server_is_started_again_over_its_data(asked: list[list[str]], tmp_path: Path) -> None:
    _, server = measure("share-kill", True, tmp_path)
    assert server.said == ["start", "kill", "start"]
    assert [command[1] for command in asked] == ["confirm", "again"]
    assert asked[0][-1] == "77"


def test_a_client_that_fails_says_why(tmp_path: Path) -> None:
    script = tmp_path / "client"
    script.write_text(f"#!{sys.executable}\nimport sys; sys.exit('record 7 came twice')\n")
    os.chmod(script, 0o755)
    with pytest.raises(ClientError, match="record 7 came twice"):
        share_clients._figures([str(script)], 10)


def test_confluent_kafkas_wheel_holds_the_library() -> None:
    assert share_clients.librdkafka_library().name.startswith("librdkafka")


@pytest.mark.integration
def test_the_programs_compile_and_are_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("go") is None or shutil.which("cc") is None:
        pytest.skip("no Go or no C compiler here: the share group clients are not compiled")
    share_clients.build()
    done = subprocess.run(
        ["go", "vet", "./..."],
        cwd=share_clients.FRANZ_SOURCE,
        env=share_clients.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert subprocess.run([share_clients.FRANZ, "nothing"], capture_output=True).returncode == 2
    hot = subprocess.run([share_clients.FRANZ, "fill", "-hot", "0.5"], capture_output=True, text=True)
    assert (hot.returncode, "needs -keys" in hot.stderr) == (1, True)
    for program in (share_clients.RDKAFKA, share_clients.GROUP):
        refused = subprocess.run([program], capture_output=True, text=True)
        assert (refused.returncode, "eleven arguments" in refused.stderr) == (1, True)
