"""The table of loads: every row can be run and reported."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from compat.bench import servers
from compat.bench.administration import ADMIN
from compat.bench.caller import Caller
from compat.bench.clients import ClientError
from compat.bench.compacting import COMPACTING
from compat.bench.console import CONSOLE
from compat.bench.growth import GROWTH
from compat.bench.loads import LOADS, Load, Metric, Turn
from compat.bench.runner import WITH_PULSAR
from compat.bench.secure import SECURE
from compat.bench.transactions import TRANSACTIONS


class Recorder(Turn):
    """A turn that records what would be started instead of starting it."""

    __slots__ = ("asked",)

    def __init__(self, quick: bool) -> None:
        super().__init__(server=None, quick=quick)  # type: ignore[arg-type]
        object.__setattr__(self, "asked", [])

    def started(self) -> None:
        self.asked.append(["start"])  # type: ignore[attr-defined]

    def generate(self, load: str, *options: str, seconds: float = 240) -> dict[str, float]:
        self.asked.append([load, *options])  # type: ignore[attr-defined]
        return {}


def test_names_are_unique_and_fit_the_command_line() -> None:
    names = [load.name for load in (*LOADS, *TRANSACTIONS, *COMPACTING, *SECURE, *ADMIN, *CONSOLE, *GROWTH)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


@pytest.mark.parametrize(
    "load",
    [*LOADS, *TRANSACTIONS, *COMPACTING, *SECURE, *ADMIN, *CONSOLE, *GROWTH],
    ids=lambda load: load.name,
)
def test_each_load_shows_something(load: Load) -> None:
    assert load.title
    assert load.metrics
    assert len({metric.figure for metric in load.metrics}) == len(load.metrics)
    for metric in load.metrics:
        assert metric.target is None or metric.target > 0


def test_the_loads_of_the_first_table_are_there() -> None:
    assert {load.name for load in LOADS} >= {
        *("produce-small", "produce-idempotent", "produce-depth-1", "fetch-small", "produce-large"),
        *("fetch-large", "end-to-end", "start", "idle-memory", "java-perf-tools"),
    }


@pytest.mark.parametrize(
    ("metric", "ratio", "met"),
    [
        (Metric("x", "req/s", "higher", 1.3), 1.3, True),
        (Metric("x", "req/s", "higher", 1.3), 1.29, False),
        (Metric("x", "ms", "lower", 0.7), 0.7, True),
        (Metric("x", "ms", "lower", 0.7), 0.71, False),
        (Metric("x", "ms", "lower"), 5.0, None),
    ],
)
def test_a_target_bounds_the_ratio_from_its_side(metric: Metric, ratio: float, met: bool | None) -> None:
    assert metric.met(ratio) is met


@pytest.mark.parametrize("quick", [True, False])
def test_both_servers_get_the_same_timed_load(quick: bool) -> None:
    produce = next(load for load in LOADS if load.name == "produce-idempotent")
    turn = Recorder(quick)
    produce.measure(turn)
    start, asked = turn.asked  # type: ignore[attr-defined]
    assert start == ["start"]
    assert asked[0] == "produce"
    assert "-idempotent" in asked
    duration = asked[asked.index("-duration") + 1]
    assert int(duration.removesuffix("s")) <= (3 if quick else 15)


def test_a_load_that_shows_what_the_server_can_do_waits_until_that_stands_still() -> None:
    def asked(name: str, quick: bool = False) -> list[list[str]]:
        turn = Recorder(quick)
        next(load for load in LOADS if load.name == name).measure(turn)
        return turn.asked  # type: ignore[attr-defined, no-any-return]

    for name in ("produce-small", "fetch-small", "fetch-large", "list-offsets"):
        (_, load) = asked(name)
        assert load[load.index("-settle") + 1] == "60s", name
        assert "-settle" not in asked(name, quick=True)[1]
    # by a given rate, whatever the server can do
    assert "-settle" not in asked("end-to-end")[1]
    assert "-settle" not in asked("produce-large")[1]
    # and before what is read but once
    _, warm, behind = asked("fetch-behind")
    assert "-settle" in warm
    assert "-once" in behind
    assert warm[warm.index("-topic") + 1] != behind[behind.index("-topic") + 1]


def test_durability_differs_only_where_the_row_says_so() -> None:
    tuned = {load.name for load in LOADS if load.kafka or load.magnetar}
    assert tuned == {"produce-fsync"}


@pytest.mark.parametrize("name", WITH_PULSAR)
def test_a_server_is_gone_after_its_turn_also_when_it_failed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "SCRATCH", tmp_path / "scratch")
    server = servers.make_server(name, LOADS[0])
    assert server.name == name
    assert [server.directory] == list((tmp_path / "scratch").iterdir())
    with pytest.raises(KeyError), servers.removed(server):
        raise KeyError
    assert not server.directory.exists()


@contextlib.contextmanager
def speaking(*answers: bytes) -> Iterator[str]:
    """A server that gives these answers, one behind the other, whatever it is asked; its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            for answer in answers:
                connection.recv(1 << 16)
                # in pieces, as a network brings them
                for at in range(0, len(answer), 7):
                    connection.sendall(answer[at : at + 7])

    with listening, ThreadPoolExecutor(1) as others:
        others.submit(serve)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_the_caller_of_the_admin_api_reads_bodies_of_both_kinds() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    none = b"HTTP/1.1 204 No Content\r\n\r\n"
    refused = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"
    with speaking(whole, chunked, none, whole, refused) as url:
        caller = Caller(url)
        assert [caller.call("GET", "x") for _ in range(4)] == [b"hello", b"abcde", b"", b"hello"]
        with pytest.raises(ClientError, match="404 b'no'"):
            caller.call("GET", "x")
        caller.close()
