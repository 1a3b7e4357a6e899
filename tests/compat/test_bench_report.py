"""The report: what stands in the table and on the page."""

from __future__ import annotations

import pytest

from compat.bench import report
from compat.bench.loads import Load, Metric
from compat.bench.results import Row
from compat.bench.runner import Outcome

RATE = Metric("rate", "req/s", "higher", 1.3)
TAIL = Metric("p99", "p99 ms", "lower")


@pytest.fixture
def outcome() -> Outcome:
    outcome = Outcome(Load("produce", "Produce | small", (RATE, TAIL), lambda turn: {}))
    for kafka, magnetar in ((40000.0, 60000.0), (44000.0, 50000.0), (42000.0, 63000.0)):
        outcome.add("Kafka", {"rate": kafka, "p99": 5.0})
        outcome.add("Magnetar", {"rate": magnetar, "p99": 2.5})
    return outcome


def test_rows_hold_medians_ranges_and_ratios(outcome: Outcome) -> None:
    first, second = report.table([outcome])
    assert first == (
        "Produce | small",
        "req/s",
        "42,000 (40,000–44,000)",
        "60,000 (50,000–63,000)",
        "1.43x",
        "≥ 1.3x",
        "met",
    )
    assert second == ("", "p99 ms", "5.00 (5.00–5.00)", "2.50 (2.50–2.50)", "0.500x", "", "")


def test_a_missed_target_says_so(outcome: Outcome) -> None:
    slow = Outcome(Load("x", "X", (RATE,), lambda turn: {}))
    slow.add("Kafka", {"rate": 100.0})
    slow.add("Magnetar", {"rate": 120.0})
    (row,) = report.table([slow])
    assert row[4:] == ("1.20x", "≥ 1.3x", "missed")
    assert row[2:4] == ("100", "120")


def test_a_failure_is_never_a_figure(outcome: Outcome) -> None:
    failed = Outcome(Load("y", "Y", (RATE,), lambda turn: {}))
    failed.add("Kafka", {"rate": 100.0})
    failed.errors["Magnetar"] = ["Traceback:\nwrong offset", "wrong offset"]
    (row,) = report.table([failed])
    assert row[3:] == ("failed", "", "≥ 1.3x", "")
    assert report.failures([failed]) == ["y, Magnetar: 2 turns failed: wrong offset"]
    assert "wrong offset" in report.plain([failed])


def test_the_page_is_a_table_with_its_machine(outcome: Outcome) -> None:
    rows = [Row(outcome, "2026-01-02 03:04 UTC", "abc1234")]
    loads = [outcome.load]
    sections = [report.Section(loads), report.Section(loads, report.GROWTH)]
    page = report.markdown(sections, rows, {"CPU": "some | CPU"})
    lines = page.splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("| load")]
    assert len(heads) == 2
    for head in heads:
        for line in lines[head : head + 4]:
            assert line.replace("\\|", "").count("|") == len(report.HEAD) + 2
        assert "2026-01-02 03:04 UTC, abc1234" in lines[head + 2]
        assert "2026" not in lines[head + 3]
    assert "| CPU | some | CPU |" in lines
    assert "How cost grows" not in report.markdown(sections[:1], rows, {})
    assert page.endswith("\n")


def test_a_load_that_is_not_measured_again_keeps_its_lines(outcome: Outcome) -> None:
    other = Outcome(Load("other", "Other", (RATE,), lambda turn: {}))
    other.add("Kafka", {"rate": 1.0})
    other.add("Magnetar", {"rate": 2.0})
    sections = [report.Section([other.load, outcome.load])]
    first = report.markdown(sections, [Row(outcome, "monday", "abc"), Row(other, "monday", "abc")], {})
    assert report.markdown(sections, [], {}, first) == first
    outcome.figures["Magnetar"].clear()
    outcome.add("Magnetar", {"rate": 84000.0, "p99": 1.0})
    again = report.markdown(sections, [Row(outcome, "tuesday", "def")], {}, first).splitlines()
    changed = [(a, b) for a, b in zip(first.splitlines(), again, strict=True) if a != b]
    assert [new for _, new in changed if "84,000" in new and "tuesday, def" in new] == [changed[0][1]]
    assert len(changed) == 2
    gone = report.markdown([report.Section([outcome.load])], [], {}, first)
    assert "Other" not in gone


def test_a_row_of_another_machine_names_it(outcome: Outcome) -> None:
    other = Outcome(Load("other", "Other", (RATE,), lambda turn: {}), {"Kafka": {"rate": [1.0]}})
    sections = [report.Section([outcome.load, other.load])]
    rows = [Row(outcome, "monday", "abc"), Row(other, "monday", "abc")]
    first = report.markdown(sections, rows, {"CPU": "old"})
    second = report.markdown(sections, [Row(outcome, "tuesday", "def")], {"CPU": "new"}, first)
    lines = {line[2:7]: line for line in second.splitlines() if line.startswith("| ")}
    assert lines["CPU |"] == "| CPU | new |"
    assert lines["Other"].endswith(" | monday, abc; old |")
    assert lines[outcome.load.title[:5]].endswith(" | tuesday, def |")
    # the name stays, once, whatever machine comes next
    for cpu in ("new", "old", "third"):
        assert " | monday, abc; old |" in report.markdown(sections, [], {"CPU": cpu}, second)


def test_what_failed_stays_until_it_is_measured_again(outcome: Outcome) -> None:
    broken = Outcome(Load("broken", "Broken", (RATE,), lambda turn: {}))
    broken.add("Kafka", {"rate": 1.0})
    broken.errors["Magnetar"] = ["no answer"]
    sections = [report.Section([broken.load, outcome.load])]
    first = report.markdown(sections, [Row(outcome, "monday", "abc"), Row(broken, "monday", "abc")], {})
    told = "- broken, Magnetar: 1 turn failed: no answer"
    assert told in first
    assert told in report.markdown(sections, [Row(outcome, "tuesday", "def")], {}, first)
    broken.errors.clear()
    broken.add("Magnetar", {"rate": 2.0})
    assert told not in report.markdown(sections, [Row(broken, "tuesday", "def")], {}, first)


def test_columns_line_up_in_a_terminal(outcome: Outcome) -> None:
    head, rule, *rows = report.plain([outcome]).splitlines()
    column = head.index("Kafka")
    assert rule[column] == "-"
    assert rows[0][column:].startswith("42,000")
