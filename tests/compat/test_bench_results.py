"""Rows kept between runs."""

from __future__ import annotations

from pathlib import Path

from compat.bench import results
from compat.bench.loads import Load, Metric
from compat.bench.results import Row
from compat.bench.runner import Outcome

RATE = Metric("rate", "req/s", "higher", 1.0)


def outcome(name: str, rate: float) -> Outcome:
    made = Outcome(Load(name, name.upper(), (RATE,), lambda turn: {}))
    made.add("Kafka", {"rate": 1.0})
    made.add("Magnetar", {"rate": rate})
    return made


def test_a_row_comes_back_and_is_replaced_by_a_newer_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    first, second = outcome("a", 2.0), outcome("b", 3.0)
    first.errors["Kafka"] = ["one turn"]
    results.save(Row(first, "monday", "abc"), path)
    results.save(Row(second, "monday", "abc"), path)
    results.save(Row(outcome("b", 4.0), "tuesday", "def"), path)
    rows = results.load([second.load, first.load], path)
    assert [(row.outcome.load.name, row.when, row.commit) for row in rows] == [
        ("b", "tuesday", "def"),
        ("a", "monday", "abc"),
    ]
    assert [row.outcome.ratio(RATE) for row in rows] == [4.0, 2.0]
    assert rows[1].outcome.errors == {"Kafka": ["one turn"]}


def test_nothing_is_kept_at_first(tmp_path: Path) -> None:
    assert results.load([outcome("a", 1.0).load], tmp_path / "none.json") == []
