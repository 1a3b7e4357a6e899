"""The report: a table of medians and ratios, and the page docs/PERFORMANCE.md around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compat.bench.loads import BEFORE, Load, Metric
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


TRANSACTIONS = (
    "## Transactions",
    "",
    "One producer, one transaction after another: begun, its records acknowledged, committed; counted for 8 s after",
    "12 s of warm-up. A reader of committed records then finds all of them, and no other. Kafka's own settings:",
    "one broker, one replica, `transaction.state.log.*` set to one. librdkafka waits a millisecond before it registers",
    "a partition with a transaction, whatever the server is (its debug log, `eos`, says so).",
    "",
)

COMPACTION = (
    "## Compaction",
    "",
    "A topic of which all is new is compacted, one partition, while another topic is written to. Kafka's cleaner is a",
    "thread of the broker, Magnetar's a process at the lowest priority: on a busy machine it takes what others leave.",
    "",
)

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

QUEUE_TOPICS = (
    "## Queue topics",
    "",
    "Classic consumers of ordinary groups on a queue topic. Kafka has none, so Magnetar's figures stand",
    "beside each other (plain consumption of the base topic, a share group) and beside Pulsar's, as",
    "above. Targets without an x are of the figure itself.",
    "",
)

ADMINISTRATION = (
    "## The admin API",
    "",
    "One caller on one keep-alive connection, which asks and waits, in Python: its own time is in each figure, the",
    "same against both servers. A server that does nothing but answer is asked 15,800 times a second by it on a quiet",
    "machine: 45 of 63 µs a call are the two cores waking each other. Calls are counted for 8 s after 15 s of warm-up.",
    "Messages that go at once: the others are Kafka's and Pulsar's Java producers; their times meanwhile are of the",
    "second before and the second after.",
    "",
)

SECURITY = (
    "## TLS, logins and rights",
    "",
    "Both servers over TLS 1.3 (P-256, AES) with a login by SCRAM-SHA-256; the client is Go's TLS on the other core.",
    "What rights cost is of Magnetar beside itself, in plain text: with 10,000 rows of ACLs and quotas, and without.",
    "",
)

CONSOLE = (
    "## The console",
    "",
    "    make bench ARGS=--console",
    "",
    "Magnetar alone. Each tab is a connection that loads one of the pages again every five seconds. The producer",
    "is loadgen's `end-to-end`: alone, beside the tabs, alone, and so on, eight times beside them, 12 s each. Its",
    "percentiles are of all its messages beside the tabs, and of all without: by the scheduler of two cores the p99 of",
    "one window is 0.4 ms or 4, with tabs or without.",
    "One topic has 50 partitions and a Key_Shared subscription with 1,000 open messages on each; nobody consumes. A",
    "client that asks for the versions of APIs every 2 ms waits for what holds the event loop, and for the machine's",
    "cores, which producer, tabs and gateway share: it bounds the longest stretch of the loop from above. `--topics`,",
    "`--subscriptions`, `--messages` and `--tabs` change the sizes.",
    "",
)

GROWTH = ("## How cost grows", "", "One round each.", "")


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page: its loads in their order, what stands above them, whether Pulsar has a column."""

    loads: Sequence[Load]
    above: Sequence[str] = ()
    pulsar: bool = False


def markdown(
    sections: Sequence[Section], rows: Sequence[Row], machine: Mapping[str, str], before: str = ""
) -> str:
    """The whole page. A load without a row keeps the lines that it has on the page `before`, if it has any."""
    kept, failed = with_cpu(kept_lines(before), _cpu(before), machine.get("CPU", "")), kept_failures(before)
    tables = [(section, _table(section, rows, kept, failed)) for section in sections]
    return "\n".join(
        [
            "# Performance",
            "",
            "Apache Kafka and Magnetar on one machine under the same loads, by turns (A B A B …), each turn with",
            "a fresh server on an empty folder and no other server running. Figures are medians of the rounds,",
            "lowest and highest in brackets; the ratio is Magnetar ÷ Kafka. Absolute figures wander from run to",
            "run on a shared machine: only the ratio within one run counts, and a row is always of one run. How",
            "the loads are made: `compat/bench/README.md`. Where the time goes: [PROFILES.md](PROFILES.md).",
            "",
            "This page is written by the command; do not edit it. A row that is not measured again stays as it",
            "was, with its date and commit. The machine is that of the newest row; a row of another CPU names it.",
            "",
            "    make bench",
            "",
            "| | |",
            "|---|---|",
            *(f"| {label} | {text} |" for label, text in machine.items()),
            "",
            *(line for section, table in tables if table for line in (*section.above, *table)),
        ]
    )


def kept_lines(page: str) -> dict[str, list[str]]:
    """The lines of each load of a page, by its title as it stands there."""
    kept: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in page.splitlines():
        if not line.startswith("| "):
            lines = None
            continue
        title = line[2:].split(" | ", 1)[0]
        if title in {"load", "---"}:
            lines = []
        elif title and lines is not None:
            lines = kept[title] = [line]
        elif lines is not None:
            lines.append(line)
    return kept


def _cpu(page: str) -> str:
    """What a page says of its machine."""
    return next((line[8:-2] for line in page.splitlines() if line.startswith("| CPU | ")), "")


def with_cpu(kept: Mapping[str, Sequence[str]], old: str, new: str) -> dict[str, list[str]]:
    """Lines of rows that stay on a page whose machine was `old` and is `new`: those that named no CPU name theirs."""
    if not old or old == new:
        return {title: list(lines) for title, lines in kept.items()}
    found: dict[str, list[str]] = {}
    for title, (first, *rest) in kept.items():
        *cells, when = first.removesuffix(" |").split(" | ")
        # date and commit, and then the CPU
        mark = f"; {old}" if "; " not in when and when else ""
        found[title] = [" | ".join([*cells, when + mark]) + " |", *rest]
    return found


def kept_failures(page: str) -> dict[str, list[str]]:
    """What the page says of turns that failed, by the load's name."""
    kept: dict[str, list[str]] = {}
    for line in page.splitlines():
        if line.startswith("- ") and " failed: " in line:
            kept.setdefault(line[2:].split(", ", 1)[0], []).append(line[2:])
    return kept


def _table(
    section: Section,
    rows: Sequence[Row],
    kept: Mapping[str, Sequence[str]],
    failed_before: Mapping[str, list[str]],
) -> list[str]:
    """The section's table, empty if none of its loads was ever measured."""
    measured = {row.outcome.load.name: row for row in rows}
    head = (*(WITH_PULSAR if section.pulsar else HEAD), "measured")
    lines: list[str] = []
    failed: list[str] = []
    for load in section.loads:
        row = measured.get(load.name)
        if row is None:
            lines += kept.get(_cell(load.title), ())
            failed += failed_before.get(load.name, ())
            continue
        when = f"{row.when}, {row.commit}"
        for cells in table([row.outcome], section.pulsar):
            lines.append(_row((*cells, when)))
            when = ""
        failed += failures([row.outcome])
    if not lines:
        return []
    if failed:
        failed = ["What failed:", "", *(f"- {line}" for line in failed), ""]
    return [_row(head), _row(("---",) * len(head)), *lines, "", *failed]


def _with_pulsar(outcomes: Sequence[Outcome]) -> bool:
    if any(BEFORE in outcome.figures for outcome in outcomes):
        return False
    return any(
        metric.anchor is not None or outcome.values("Pulsar", metric)
        for outcome in outcomes
        for metric in outcome.load.metrics
    )


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
