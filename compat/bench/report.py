"""The report: a table of medians and ratios, and the page docs/PERFORMANCE.md around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compat.bench.loads import Metric
from compat.bench.results import Row
from compat.bench.runner import SERVERS, Outcome, last_line, number

HEAD = ("load", "unit", "Kafka", "Magnetar", "ratio", "target", "")


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The rows of the table, one for each metric; a load's title stands in its first row only."""
    rows = []
    for outcome in outcomes:
        title = outcome.load.title
        for metric in outcome.load.metrics:
            ratio = outcome.ratio(metric)
            rows.append(
                (
                    title,
                    metric.unit,
                    *(_figure(outcome, server, metric) for server in SERVERS),
                    "" if ratio is None else f"{number(ratio)}x",
                    target(metric),
                    verdict(metric, ratio),
                )
            )
            title = ""
    return rows


def target(metric: Metric) -> str:
    """The target as text, empty without one."""
    if metric.target is None:
        return ""
    return f"{'≥' if metric.better == 'higher' else '≤'} {metric.target:g}x"


def verdict(metric: Metric, ratio: float | None) -> str:
    """Whether the target holds; empty where that cannot be said."""
    met = None if ratio is None else metric.met(ratio)
    return "" if met is None else "met" if met else "missed"


def _figure(outcome: Outcome, server: str, metric: Metric) -> str:
    values = outcome.values(server, metric)
    median = outcome.median(server, metric)
    if median is None:
        return "failed" if outcome.errors.get(server) else "—"
    if len(values) == 1:
        return number(median)
    return f"{number(median)} ({number(min(values))}–{number(max(values))})"


def plain(outcomes: Sequence[Outcome]) -> str:
    """The table for a terminal."""
    rows = [HEAD, *table(outcomes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    failed = failures(outcomes)
    return "\n".join([*lines, "", *failed] if failed else lines)


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """What went wrong, one line for each server and load."""
    found = []
    for outcome in outcomes:
        for server, errors in outcome.errors.items():
            turns = "1 turn" if len(errors) == 1 else f"{len(errors)} turns"
            found.append(f"{outcome.load.name}, {server}: {turns} failed: {last_line(errors[0])}")
    return found


def markdown(rows: Sequence[Row], growth: Sequence[Row], machine: Mapping[str, str]) -> str:
    """The whole page: the table of targets, and how cost grows."""
    lines = [
        "# Performance",
        "",
        "Apache Kafka and Magnetar on one machine under the same loads, by turns (A B A B …), each turn with a",
        "fresh server on an empty folder and no other server running. Figures are medians of the rounds, lowest and",
        "highest in brackets; the ratio is Magnetar ÷ Kafka. Absolute figures wander from run to run on a shared",
        "machine: only the ratio within one run counts, and a row is always of one run. How the loads are made:",
        "`compat/bench/README.md`. Where the time goes: [PROFILES.md](PROFILES.md).",
        "",
        "This page is written by the command; do not edit it.",
        "",
        "    make bench",
        "",
        "| | |",
        "|---|---|",
        *(f"| {label} | {text} |" for label, text in machine.items()),
        "",
        *_table(rows),
    ]
    if growth:
        lines += ["## How cost grows", "", "One round each.", "", *_table(growth)]
    return "\n".join(lines)


def _table(rows: Sequence[Row]) -> list[str]:
    head = (*HEAD, "measured")
    lines = [_row(head), _row(("---",) * len(head))]
    for row in rows:
        when = f"{row.when}, {row.commit}"
        for cells in table([row.outcome]):
            lines.append(_row((*cells, when)))
            when = ""
    lines.append("")
    failed = failures([row.outcome for row in rows])
    if failed:
        lines += ["What failed:", "", *(f"- {line}" for line in failed), ""]
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
