"""Turns: who runs when, and what becomes of failures."""

from __future__ import annotations

from typing import Any

import pytest

from compat.bench import report, runner
from compat.bench.clients import ClientError, parse_consumer, parse_producer
from compat.bench.generator import GeneratorError, figures, flatten
from compat.bench.loads import Load, Metric, Turn
from compat.bench.runner import Outcome, number

RATE = Metric("rate", "req/s", "higher", 1.0)


class FakeServer:
    """A server that only knows its name and whether it is in use."""

    alive: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name

        assert not FakeServer.alive, "two servers at a time"
        FakeServer.alive.append(name)

    def kill(self) -> None:
        """What Ctrl-C does."""

    def close(self) -> None:
        FakeServer.alive.remove(self.name)


@pytest.fixture(autouse=True)
def _no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "settle_disk", lambda: None)


def make(name: str, load: Load) -> Any:
    return FakeServer(name)


def test_turns_alternate_and_medians_are_taken() -> None:
    order = []
    given = iter([10.0, 30.0, 12.0, 10.0, 11.0, 20.0])

    def measure(turn: Turn) -> dict[str, float]:
        order.append(turn.server.name)
        return {"rate": next(given), "other": 1.0}

    (outcome,) = runner.run([Load("x", "X", (RATE,), measure)], 3, False, make=make)
    assert order == ["Kafka", "Magnetar"] * 3
    assert outcome.values("Kafka", RATE) == [10.0, 12.0, 11.0]
    assert outcome.median("Kafka", RATE) == 11.0
    assert outcome.median("Magnetar", RATE) == 20.0
    assert outcome.ratio(RATE) == pytest.approx(20 / 11)


def test_another_checkout_is_measured_by_turns_and_no_target_is_judged() -> None:
    order = []

    def measure(turn: Turn) -> dict[str, float]:
        order.append(turn.server.name)
        return {"rate": 20.0 if turn.server.name == "Magnetar" else 10.0}

    loads = [
        Load("x", "X", (Metric("rate", "req/s", "higher", 3.0, anchor=5.0),), measure, servers=("Magnetar",))
    ]
    (outcome,) = runner.run(loads, 2, False, runner.WITH_BEFORE, make=make)
    assert order == ["Before", "Magnetar"] * 2
    assert outcome.ratio(loads[0].metrics[0]) == 2.0
    assert outcome.met(loads[0].metrics[0]) is None
    head, _, row = report.plain([outcome]).splitlines()
    assert head.split()[:5] == ["load", "unit", "Before", "Magnetar", "ratio"]
    assert "2.00x" in row
    assert "Pulsar" not in head + row


def test_a_failed_turn_is_kept_and_the_others_go_on() -> None:
    calls = 0

    def measure(turn: Turn) -> dict[str, float]:
        nonlocal calls
        calls += 1
        if turn.server.name == "Magnetar":
            raise GeneratorError("wrong offset")
        return {"rate": 1.0}

    said: list[str] = []
    outcomes = runner.run([Load("x", "X", (RATE,), measure)] * 2, 2, True, progress=said.append, make=make)
    assert calls == 8
    assert FakeServer.alive == []
    for outcome in outcomes:
        assert outcome.errors == {"Magnetar": ["wrong offset"] * 2}
        assert outcome.ratio(RATE) is None
        assert outcome.median("Kafka", RATE) == 1.0
    assert any("[8/8" in line for line in said)
    assert any("FAILED: wrong offset" in line for line in said)


def test_a_missing_figure_is_an_error() -> None:
    outcome = Outcome(Load("x", "X", (RATE,), lambda turn: {}))
    outcome.add("Kafka", {"other": 1.0})
    assert outcome.errors == {"Kafka": ["no figure rate"]}


def test_one_server_alone() -> None:
    load = Load("x", "X", (RATE,), lambda turn: {"rate": 2.0})
    (outcome,) = runner.run([load], 1, True, servers=("Magnetar",), make=make)
    assert outcome.median("Magnetar", RATE) == 2.0
    assert outcome.median("Kafka", RATE) is None


def test_a_load_may_be_for_one_server_and_for_fewer_rounds() -> None:
    asked = []
    load = Load("x", "X", (RATE,), lambda turn: {"rate": 2.0}, rounds=1, servers=("Magnetar",))

    def make_and_note(name: str, load: Load) -> Any:
        asked.append(name)
        return FakeServer(name)

    through: list[Outcome] = []
    outcomes = runner.run([load, load], 3, True, make=make_and_note, finished=through.append)
    assert asked == ["Magnetar", "Magnetar"]
    assert through == outcomes
    assert outcomes[0].errors == {}


def test_generator_figures_are_flat_numbers() -> None:
    output = '{"load": "fetch", "verified": true, "errors": 0, "series": [1], "latency_ms": {"p50": 1.5}}'
    assert figures(output, "", 0) == {"errors": 0.0, "latency_ms.p50": 1.5}
    assert flatten({"a": {"b": {"c": 2}}}) == {"a.b.c": 2.0}


@pytest.mark.parametrize(
    ("output", "complaint", "message"),
    [
        ('{"error_kinds": {"Fetch: error 3": 7}}', "", "Fetch: error 3"),
        ("", "loadgen: connect: refused\n", "refused"),
        ("", "", "exit code 1"),
    ],
)
def test_a_failed_generator_says_why(output: str, complaint: str, message: str) -> None:
    with pytest.raises(GeneratorError, match=message):
        figures(output, complaint, 1)


def test_perf_tools_output() -> None:
    produced = (
        "49131 records sent, 9826.2 records/sec (9.37 MB/sec), 7.5 ms avg latency, 300.0 ms max latency.\n"
        "100000 records sent, 41000.5 records/sec (39.10 MB/sec), 2.93 ms avg latency, 3 ms 50th.\n"
    )
    assert parse_producer(produced, 100000) == 41000.5
    with pytest.raises(ClientError):
        parse_producer(produced, 100001)
    consumed = (
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
        "2026-01-01 00:00:00:000, 2026-01-01 00:00:04:000, 95.3, 23.8, 100000, 25000.0, 3100, 900, 105.9, 111111.1\n"
    )
    assert parse_consumer(consumed, 100000) == 111111.1
    with pytest.raises(ClientError):
        parse_consumer(consumed, 100001)
    with pytest.raises(ClientError):
        parse_consumer("WARN no such thing", 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (46313.6, "46,314"),
        (212.0, "212"),
        (44.64, "44.6"),
        (4.521, "4.52"),
        (0.2154, "0.215"),
        (0.0, "0.000"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text
