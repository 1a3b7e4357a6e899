"""Runs loads by turns and keeps what came out.

Turns go A B A B …: each with a fresh server on an empty folder and nothing else running. Two servers side by
side would share the cores, the page cache and the disk's write-back, and the one that is not measured has timers and a
garbage collector of its own; so only one exists at a time, and the disk is settled between turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compat.bench.clients import ClientError
from compat.bench.generator import GeneratorError
from compat.bench.loads import BEFORE, Load, Metric, Turn
from compat.bench.servers import make_server, removed, settle_disk
from compat.peers.maven import JarsError
from compat.peers.process import Peer, PeerError

SERVERS = ("Kafka", "Magnetar")
WITH_PULSAR = ("Kafka", "Pulsar", "Magnetar")
WITH_BEFORE = (BEFORE, "Magnetar")


@dataclass(slots=True)
class Outcome:
    """What the turns of one load gave: figures by server and metric, one for each round that worked."""

    load: Load
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)

    def add(self, server: str, figures: dict[str, float]) -> None:
        """Keep the shown figures of a turn; one that the load did not give is an error of the load."""
        for metric in self.load.metrics:
            if metric.own and server == "Pulsar":
                continue
            if metric.figure not in figures:
                self.errors.setdefault(server, []).append(f"no figure {metric.figure}")
                continue
            self.figures.setdefault(server, {}).setdefault(metric.figure, []).append(figures[metric.figure])

    def values(self, server: str, metric: Metric) -> list[float]:
        """The rounds' figures."""
        return self.figures.get(server, {}).get(metric.figure, [])

    def median(self, server: str, metric: Metric) -> float | None:
        """The median of the rounds; None if none worked."""
        values = self.values(server, metric)
        return statistics.median(values) if values else None

    def rival(self, metric: Metric) -> str:
        """Whose figure Magnetar's is divided by: its own of before, if that was asked for; Pulsar's where there is an
        anchor or no Kafka; else Kafka's.
        """
        if BEFORE in self.figures:
            return BEFORE
        return "Kafka" if metric.anchor is None and "Kafka" in self.load.servers else "Pulsar"

    def ratio(self, metric: Metric) -> float | None:
        """Magnetar's median ÷ the rival's, or ÷ the anchor; None if either is missing (or the divisor is zero)."""
        other, magnetar = self.median(self.rival(metric), metric), self.median("Magnetar", metric)
        if other is None and self.rival(metric) != BEFORE:
            other = metric.anchor
        if other is None or magnetar is None or other == 0:
            return None
        return magnetar / other

    def met(self, metric: Metric) -> bool | None:
        """Whether the metric's target and its bound hold; None where that cannot be said."""
        if BEFORE in self.figures:
            return None
        ratio, magnetar = self.ratio(metric), self.median("Magnetar", metric)
        said = [
            None if ratio is None else metric.met(ratio),
            None if magnetar is None else metric.within(magnetar),
        ]
        known = [each for each in said if each is not None]
        return all(known) if known else None


def run(
    loads: Sequence[Load],
    rounds: int,
    quick: bool,
    servers: Sequence[str] = SERVERS,
    progress: Callable[[str], None] | None = None,
    make: Callable[[str, Load], Peer] = make_server,
    finished: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Every load, `rounds` times by turns. A turn that fails is kept as an error; the others go on.

    `finished` is told of each load whose turns are through.
    """
    say = progress or (lambda line: None)
    outcomes = []
    plan = [
        (load, min(rounds, load.rounds or rounds), [name for name in servers if load.measure_of(name)])
        for load in loads
    ]
    total = sum(count * len(names) for _, count, names in plan)
    done = 0
    begin = time.monotonic()
    for load, count, names in plan:
        outcome = Outcome(load)
        outcomes.append(outcome)
        for number in range(1, count + 1):
            for name in names:
                left = (
                    f", {(time.monotonic() - begin) / done * (total - done) / 60:.0f} min left"
                    if done
                    else ""
                )
                say(f"[{done + 1}/{total}{left}] {load.name}, round {number}, {name} …")
                try:
                    outcome.add(name, _turn(load, name, quick, make))
                    say(f" {_brief(outcome, name)}\n")
                except (GeneratorError, ClientError, PeerError, JarsError) as error:
                    outcome.errors.setdefault(name, []).append(str(error))
                    say(f" FAILED: {last_line(error)}\n")
                done += 1
        if finished is not None:
            finished(outcome)
    return outcomes


def _turn(load: Load, name: str, quick: bool, make: Callable[[str, Load], Peer]) -> dict[str, float]:
    measure = load.measure_of(name)
    assert measure is not None
    settle_disk()
    with removed(make(name, load)) as server:
        return measure(Turn(server, quick))


def _brief(outcome: Outcome, server: str) -> str:
    shown = []
    for metric in outcome.load.metrics:
        values = outcome.values(server, metric)
        if values:
            shown.append(f"{number(values[-1])} {metric.unit}")
    return ", ".join(shown)


def last_line(error: Exception | str) -> str:
    """The line of a message that says most: a log's or a traceback's last one."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else "failed"


def number(value: float) -> str:
    """A figure with three significant digits or more: 46,314; 212; 4.52; 0.215."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def to_stderr(line: str) -> None:
    """The progress line of the command."""
    sys.stderr.write(line)
    sys.stderr.flush()
