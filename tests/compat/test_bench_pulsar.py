"""Pulsar's turns: who gets them, what its client is asked for, and how they stand beside the anchors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat.bench import __main__ as command
from compat.bench import generator, pulsar, report, results, runner, servers, share_clients
from compat.bench.clients import ClientError
from compat.bench.loads import Load, Metric, Turn
from compat.bench.runner import Outcome
from compat.bench.share import SHARE
from compat.peers import pulsar as pulsar_peer
from compat.peers.pulsar.jars import client_classpath

ANCHORED = Metric("p99", "ms", "lower", 0.5, anchor=10.0)
PLAIN = Metric("rate", "msg/s", "higher", 1.0)


def outcome(load: Load, **figures: dict[str, list[float]]) -> Outcome:
    made = Outcome(load)
    made.figures = figures
    return made


def test_what_was_measured_goes_before_the_anchor() -> None:
    load = Load("x", "X", (ANCHORED,), lambda turn: {})
    measured = outcome(
        load, Kafka={"p99": [1.0]}, Pulsar={"p99": [20.0, 30.0, 25.0]}, Magnetar={"p99": [10.0]}
    )
    assert measured.ratio(ANCHORED) == pytest.approx(0.4)
    assert measured.met(ANCHORED) is True
    (row,) = report.table([measured], pulsar=True)
    assert row[2:6] == ("1.00", "25.0 (20.0–30.0)", "10.0", "0.400x of Pulsar")
    (row,) = report.table([outcome(load, Magnetar={"p99": [10.0]})], pulsar=True)
    assert row[3:6] == ("10 (anchor)", "10.0", "1.00x of Pulsar")


def test_a_turn_of_pulsars_that_failed_is_not_hidden_by_the_anchor() -> None:
    failed = outcome(Load("x", "X", (ANCHORED,), lambda turn: {}), Magnetar={"p99": [10.0]})
    failed.errors["Pulsar"] = ["gone"]
    assert report.table([failed], pulsar=True)[0][3] == "failed"
    assert report.failures([failed]) == ["x, Pulsar: 1 turn failed: gone"]


def test_the_target_of_a_row_of_kafkas_is_still_kafka() -> None:
    figures = {"Pulsar": {"rate": [50.0]}, "Magnetar": {"rate": [200.0]}}
    both = outcome(Load("x", "X", (PLAIN,), lambda turn: {}), Kafka={"rate": [100.0]}, **figures)
    assert both.ratio(PLAIN) == 2.0
    assert report.table([both], pulsar=True)[0][5] == "2.00x"
    # where Kafka has no such thing there is only Pulsar
    alone = outcome(Load("x", "X", (PLAIN,), lambda turn: {}, servers=("Magnetar",)), **figures)
    assert report.table([alone], pulsar=True)[0][5] == "4.00x of Pulsar"


def test_pulsar_gets_the_loads_that_it_has_with_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "settle_disk", lambda: None)
    turns = []

    def measure(who: str) -> Callable[[Turn], dict[str, float]]:
        def one(turn: Turn) -> dict[str, float]:
            turns.append((who, turn.server.name))
            return {"rate": 1.0}

        return one

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            pass

    def make(name: str, load: Load) -> Any:
        return Fake(name)

    loads = [
        Load("a", "A", (PLAIN,), measure("kafka's"), servers=("Magnetar",), pulsar=measure("pulsar's")),
        Load("b", "B", (PLAIN,), measure("kafka's")),
    ]
    runner.run(loads, 1, True, servers=runner.WITH_PULSAR, make=make)
    assert turns == [
        ("pulsar's", "Pulsar"),
        ("kafka's", "Magnetar"),
        ("kafka's", "Kafka"),
        ("kafka's", "Magnetar"),
    ]


@pytest.mark.parametrize(
    ("arguments", "who", "kept"),
    [
        ([], runner.SERVERS, True),
        (["--pulsar"], runner.WITH_PULSAR, True),
        (["--server", "Pulsar"], ("Pulsar",), False),
    ],
)
def test_the_option_adds_pulsars_turns(
    arguments: list[str], who: tuple[str, ...], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    fetched: list[str] = []
    saved: list[Any] = []

    def run(
        loads: Any, rounds: int, quick: bool, chosen: Any, progress: Any, make: Any, finished: Any
    ) -> list[Outcome]:
        asked.append(chosen)
        finished(Outcome(loads[0]))
        return []

    monkeypatch.setattr(sys, "argv", ["bench", "--only", "share-kill", *arguments])
    monkeypatch.setattr(generator, "build", lambda: None)
    monkeypatch.setattr(share_clients, "build", lambda: None)
    monkeypatch.setattr(pulsar, "build", lambda: fetched.append("client"))
    monkeypatch.setattr(pulsar_peer, "ensure_jars", lambda: fetched.append("server"))
    monkeypatch.setattr(command, "ensure_jars", lambda: None)
    monkeypatch.setattr(command, "write_page", lambda output, say: 0)
    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(results, "save", saved.append)
    assert command.main() == 0
    assert asked == [who]
    assert fetched == (["server", "client"] if "Pulsar" in who else [])
    assert bool(saved) is kept


class Peer:
    """Says what was done with it."""

    service_url, admin_url, pid = "pulsar://host:1", "http://host:2", 77
    said: list[str] = []

    def __init__(self, scratch: Path, settings: object) -> None:
        self.directory = scratch
        Peer.said = []

    def __getattr__(self, name: str) -> Any:
        return lambda: Peer.said.append(name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The loads of the client with their flags; each gives a rate."""
    found: list[list[str]] = []

    def client(load: str, where: Sequence[str], options: Sequence[str]) -> dict[str, float]:
        found.append([load, *where, *options])
        return {"records_per_second": 100.0 if "-ordered" in options else 400.0}

    for module in (pulsar, servers):
        monkeypatch.setattr(module, "PulsarPeer", Peer)
    monkeypatch.setattr(pulsar, "client", client)
    monkeypatch.setattr(servers, "SCRATCH", tmp_path)
    return found


def measure(name: str, quick: bool) -> dict[str, float]:
    load = next(load for load in SHARE if load.name == name)
    assert load.pulsar is not None
    with servers.removed(servers.make_server("Pulsar", load)) as server:
        return load.pulsar(Turn(server, quick))


@pytest.mark.parametrize("name", [load.name for load in SHARE if load.pulsar])
def test_each_load_starts_pulsar_and_calls_its_client(name: str, asked: list[list[str]]) -> None:
    measure(name, True)
    assert Peer.said[0] == "start"
    assert Peer.said[-1] == "close"
    assert all(one[1:5] == ["-broker", "pulsar://host:1", "-admin", "http://host:2"] for one in asked), asked
    assert asked


def test_windows_are_those_of_the_other_servers(asked: list[list[str]]) -> None:
    measure("share-franz-go", False)
    given = dict(zip(asked[0][1::2], asked[0][2::2], strict=True))
    assert (given["-warmup"], given["-duration"], given["-at-least"]) == ("12", "10", "2000000")


def test_key_shared_is_shown_beside_shared(asked: list[list[str]]) -> None:
    assert measure("key-shared", True) == {"key_shared": 100.0, "shared": 400.0, "share_of_shared": 0.25}
    assert ["-ordered" in one for one in asked] == [True, False]


def test_figures_that_pulsar_has_not_are_not_asked_of_it(asked: list[list[str]]) -> None:
    load = next(load for load in SHARE if load.name == "queue-key-shared")
    both = Outcome(load)
    both.add("Pulsar", measure("queue-key-shared", True))
    both.add("Magnetar", {"lanes": 500.0, "members": 400.0, "of_members": 1.25})
    assert not both.errors
    assert [both.ratio(metric) for metric in load.metrics] == [5.0, None, None]
    assert [both.met(metric) for metric in load.metrics] == [True, None, False]
    both.add("Magnetar", {"lanes": 1.0})
    assert set(both.errors) == {"Magnetar"}


def test_the_killed_server_is_started_again_over_its_data(asked: list[list[str]]) -> None:
    measure("share-kill", True)
    assert Peer.said == ["start", "kill", "start", "close"]
    assert [one[0] for one in asked] == ["confirm", "again"]
    assert asked[0][-2:] == ["-pid", "77"]
    assert asked[0][asked[0].index("-file") + 1] == asked[1][asked[1].index("-file") + 1]


def test_a_client_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'PulsarLoad: 7 messages did not come' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(pulsar, "find_java", lambda: str(program))
    monkeypatch.setattr(pulsar, "classpath", lambda: "jars/*")
    with pytest.raises(ClientError, match="7 messages did not come"):
        pulsar.client("backlog", (), ())


@pytest.mark.integration
def test_the_client_compiles_and_teaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the broker's jars, three times as many, are fetched by who measures it
    monkeypatch.setattr(pulsar, "classpath", client_classpath)
    monkeypatch.setattr(pulsar, "CLASSES", tmp_path / "pulsarload")
    pulsar.build()
    with pytest.raises(ClientError, match=r"(?s)usage: PulsarLoad.*dead letter"):
        pulsar.client("nothing", (), ())
    with pytest.raises(ClientError, match=r"unknown: \[recrods\]"):
        pulsar.client("backlog", (), ("-recrods", "1"))
