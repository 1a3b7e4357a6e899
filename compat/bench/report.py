"""The report: a table of medians and ratios, and the page docs/PERFORMANCE.md around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compat.bench.loads import BEFORE, Metric
from compat.bench.results import Row
from compat.bench.runner import SERVERS, WITH_BEFORE, Outcome, last_line, number

HEAD = ("load", "unit", "Kafka", "Magnetar", "ratio", "target", "")
WITH_PULSAR = ("load", "unit", "Kafka", "Pulsar", "Magnetar", "ratio", "target", "")


def table(outcomes: Sequence[Outcome], pulsar: bool = False) -> list[tuple[str, ...]]:
    """The rows of the table, one for each metric; a load's title stands in its first row only.

    With `pulsar` there is a column for its figures, and a ratio says what it divides by.
    """
    rows = []
    for outcome in outcomes:
        title = outcome.load.title
        for metric in outcome.load.metrics:
            beside = WITH_BEFORE if BEFORE in outcome.figures else SERVERS
            kafka, magnetar = (_figure(outcome, server, metric) for server in beside)
            rows.append(
                (
                    title,
                    metric.unit,
                    kafka,
                    *([_pulsar(outcome, metric)] if pulsar else []),
                    magnetar,
                    _ratio(outcome, metric),
                    target(metric),
                    verdict(outcome, metric),
                )
            )
            title = ""
    return rows


def target(metric: Metric) -> str:
    """The target as text, empty without one."""
    sign = "≥" if metric.better == "higher" else "≤"
    parts = [] if metric.target is None else [f"{sign} {metric.target:g}x"]
    parts += [] if metric.bound is None else [f"{sign} {metric.bound:,g}" if metric.bound else "0"]
    return ", ".join(parts)


def verdict(outcome: Outcome, metric: Metric) -> str:
    """Whether the target holds; empty where that cannot be said."""
    met = outcome.met(metric)
    return "" if met is None else "met" if met else "missed"


def _ratio(outcome: Outcome, metric: Metric) -> str:
    ratio = outcome.ratio(metric)
    if ratio is None:
        return ""
    return f"{number(ratio)}x of Pulsar" if outcome.rival(metric) == "Pulsar" else f"{number(ratio)}x"


def _pulsar(outcome: Outcome, metric: Metric) -> str:
    """What was measured by turns with the others, else the anchor, which says that it is one."""
    if outcome.values("Pulsar", metric) or outcome.errors.get("Pulsar"):
        return _figure(outcome, "Pulsar", metric)
    return "" if metric.anchor is None else f"{metric.anchor:,g} (anchor)"


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
    pulsar = _with_pulsar(outcomes)
    head: tuple[str, ...] = WITH_PULSAR if pulsar else HEAD
    if any(BEFORE in outcome.figures for outcome in outcomes):
        head = tuple(BEFORE if cell == "Kafka" else cell for cell in head)
    rows = [head, *table(outcomes, pulsar)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
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


SHARE_GROUPS = (
    "## Share groups",
    "",
    "Kafka 4.3 and Magnetar by turns as above, with the same clients: franz-go, the librdkafka of confluent-kafka's",
    "wheel called from C, and Kafka's own share perf tool. The topic is filled before; every rate is counted after all",
    "members have joined and 12 s of warm-up, over at least 10 s and 2,000,000 records (or as many as come in a",
    "minute); each record is acknowledged by itself, and one that came again after it was accepted fails the turn.",
    "",
    "The column *Pulsar* holds what Pulsar 4.2.4 standalone did by turns with the others, with its Java client: the",
    "configuration, the 2 GiB heap and the page cache's durability that it is shipped with, no functions worker; the",
    "client's defaults (batches of up to 1 ms, by key for Key_Shared; a receiver queue of 1,000 messages, acks grouped",
    "for 100 ms), with receipts for the acks that are killed. Its backlogs are shorter: 800,000 with Key_Shared,",
    "27,000,000 on Shared. A figure that says (anchor) was measured once on a machine of this kind and is not of this",
    "run: its ratio says less.",
    "",
)


def markdown(
    rows: Sequence[Row], growth: Sequence[Row], machine: Mapping[str, str], share: Sequence[Row] = ()
) -> str:
    """The whole page: the table of targets, share groups, and how cost grows."""
    lines = [
        "# Performance",
        "",
        "Apache Kafka and Magnetar on one machine under the same loads, by turns (A B A B …), each turn with a",
        "fresh server on an empty folder and no other server running. Figures are medians of the rounds, lowest and",
        "highest in brackets; the ratio is Magnetar ÷ Kafka. Absolute figures wander from run to run on a shared",
        "machine: only the ratio within one run counts, and a row is always of one run. Where a load shows what a",
        "server can do, it is warmed up for 12 s at least, and until five seconds bring as many answers as the five",
        "before, for a minute at most. How the loads are made: `compat/bench/README.md`. Where the time goes:",
        "[PROFILES.md](PROFILES.md).",
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
    if share:
        lines += [*SHARE_GROUPS, *_table(share)]
    if growth:
        lines += ["## How cost grows", "", "One round each.", "", *_table(growth)]
    return "\n".join(lines)


def _table(rows: Sequence[Row]) -> list[str]:
    pulsar = _with_pulsar([row.outcome for row in rows])
    head = (*(WITH_PULSAR if pulsar else HEAD), "measured")
    lines = [_row(head), _row(("---",) * len(head))]
    for row in rows:
        when = f"{row.when}, {row.commit}"
        for cells in table([row.outcome], pulsar):
            lines.append(_row((*cells, when)))
            when = ""
    lines.append("")
    failed = failures([row.outcome for row in rows])
    if failed:
        lines += ["What failed:", "", *(f"- {line}" for line in failed), ""]
    return lines


def _with_pulsar(outcomes: Sequence[Outcome]) -> bool:
    if any(BEFORE in outcome.figures for outcome in outcomes):
        return False
    return any(
        metric.anchor is not None or outcome.values("Pulsar", metric)
        for outcome in outcomes
        for metric in outcome.load.metrics
    )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
