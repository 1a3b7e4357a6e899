"""The day itself: who is started, killed and started again, and when; what comes out of it."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compat.day.book import Book
from compat.day.ledger import Findings, check, rate
from compat.day.members import CRASHES, LEAVE_SECONDS, SLOW_MS, Part, Process, prepare
from compat.day.orders import KEYS, RATE, Feeder
from compat.day.picture import Story, draw
from compat.demo import say, typed
from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed

TOPIC, GROUP = "orders", "billing"
QUEUE, LETTERS = f"{TOPIC}-{GROUP}-QUEUE", f"{TOPIC}-{GROUP}-DLQ"
PARTITIONS, LANES = 4, 16
CONFIGS = ("-p", "pulsar.max.redeliver.count=3", "-p", "pulsar.nack.delay.ms=2500")
CRASH, POISON, GATEWAY, RETURN, CLOSING = 6.0, 11.0, 15.0, 21.0, 27.0
"""Seconds from the first order: a member is killed, a record is poisonous, the gateway is killed, the member comes
back, the last order."""
AWAY = 1.0
"""For how long nobody starts the gateway again."""
JOIN_SECONDS, DRAIN_SECONDS = 20.0, 30.0
TOLD_SECONDS = 2.0


class DayError(Exception):
    """The day cannot go on; the message is one sentence."""


@dataclass
class Outcome:
    """What is told at the end."""

    findings: Findings
    picture: str
    lines: list[str]


class Day:
    """One run. What it starts is on the stack and ends with it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="magnetar-day-")))
        self.book = Book(LANES)
        self.members: dict[int, Process] = {}
        self.outages: list[tuple[float, float]] = []

    def run(self) -> Outcome:
        """All of it."""
        self.cast = prepare(say)
        self.open()
        self.join()
        self.work()
        self.leave()
        return self.judge()

    def open(self) -> None:
        """The gateway, the topic, its queue topic."""
        self.gateway = self.stack.enter_context(
            MagnetarPeer(directory=self.folder, settings={"group.min.session.timeout.ms": 1000})
        )
        # not kept: it would complain while the gateway is away
        Feed(self.gateway.bootstrap).create(TOPIC, PARTITIONS)
        created = ["topics", "create-subscription", TOPIC, "-s", GROUP, "--type", "key_shared"]
        created += ["--lanes", str(LANES), *CONFIGS]
        typed("magnetar-admin " + " ".join(created))
        self.gateway.admin(*created)
        say(
            f"{TOPIC} has {PARTITIONS} partitions, and {QUEUE} {LANES} lanes. Eight members are started: "
            f"{', '.join(map(_told, self.cast))}."
        )

    def join(self) -> None:
        """All members, until each has lanes."""
        self.start = time.time_ns() // 1000
        for part in self.cast:
            self.enter(part)
        self.wait(
            lambda: (
                Counter(self.book.holders) == {part.number: LANES // len(self.cast) for part in self.cast}
            ),
            JOIN_SECONDS,
            "each member has its lanes",
        )

    def enter(self, part: Part) -> None:
        member = Process(
            part,
            self.gateway.bootstrap,
            GROUP,
            QUEUE,
            self.folder / f"{part.name}.log",
            self.start,
            self.book.write,
        )
        self.members[part.number] = member
        self.stack.callback(member.kill)

    def work(self) -> None:
        """The day's plot."""
        self.feeder = Feeder(self.gateway.bootstrap, TOPIC)
        self.stack.callback(self.feeder.abandon)
        self.began = self.now
        say(
            f"From here on {RATE:,} orders a second of {KEYS} keys. Who has lanes 0 to {LANES - 1} (- is nobody):"
        )
        print()
        self.feeder.start()
        crashing = self.cast[CRASHES - 1]
        plot: list[tuple[float, str, Callable[[], None]]] = [
            (CRASH, f"member {crashing.number} is killed", self.crash),
            (POISON, "an order that nobody can work on", self.spoil),
            (GATEWAY, "the gateway is killed", self.outage),
            (RETURN, f"member {crashing.number} comes back", lambda: self.enter(crashing)),
            (CLOSING, "that was the last order", self.feeder.stop),
        ]
        for at, what, act in plot:
            self.pass_time(self.began + at)
            print(f"  {self.now - self.began:4.0f} s  {what}", flush=True)
            act()
        self.closed = self.now
        if self.feeder.failed:
            raise DayError(f"an order was not stored: {self.feeder.failed}.")
        # the poison is never done
        self.wait(lambda: self.book.done == self.feeder.count - 1, DRAIN_SECONDS, "all orders are done")

    def crash(self) -> None:
        """SIGKILL, in the middle of its work."""
        deadline = self.now + 1.0
        while self.book.in_hand(CRASHES) < 2 and self.now < deadline:
            time.sleep(0.0005)
        self.members[CRASHES].kill()

    def spoil(self) -> None:
        """Of a key on a lane of a member in Go, whose client is the hardest to seek with."""
        holders = self.book.holders
        lanes = [
            lane for lane in range(LANES) if holders[lane] and self.cast[holders[lane] - 1].language == "Go"
        ]
        key = self.book.key_on(lanes) or self.book.key_on(range(LANES))
        if key is None:
            raise DayError("nothing was delivered so far.")
        self.feeder.spoil(key)

    def outage(self) -> None:
        """SIGKILL, and a start over the same data."""
        begin = self.now
        self.gateway.kill()
        self.pass_time(begin + AWAY)
        self.gateway.start()
        self.outages.append((begin, self.now))

    def leave(self) -> None:
        """All members, in order."""
        self.end = self.now
        for member in self.members.values():
            member.leave()
        for member in self.members.values():
            if not member.gone():
                raise DayError(f"{member.part.name} had not left after {LEAVE_SECONDS:.0f} s.")

    def judge(self) -> Outcome:
        """Hold all that was said against what should be."""
        feed = Feed(self.gateway.bootstrap)
        letters = dead_letters(feed)
        poison = [self.feeder.poison] if self.feeder.poison else []
        events = [event for event in self.book.events if event.at <= self.end]
        findings = check(events, self.feeder.sent, letters, poison)
        committed = feed.committed(GROUP)
        ends = {(TOPIC, partition): end for partition, (_, end) in feed.ends(TOPIC).items()}
        unsettled = sum(end - committed.get(place, 0) for place, end in ends.items())
        seconds = max(event.at for event in events) - self.began
        story = Story(
            cast=self.cast,
            lanes=LANES,
            events=events,
            began=self.began,
            closed=self.closed,
            end=self.end,
            outages=self.outages,
            letters=letters,
        )
        best = max(rate(events, 1.0))
        lines = [
            f"{self.feeder.count:,} orders in {seconds:.1f} s: {self.feeder.count / seconds:,.0f} a second, "
            f"{best:,.0f} in the best one",
        ]
        return Outcome(findings, draw(story), lines + told(findings, unsettled, self.began))

    @property
    def now(self) -> float:
        """Seconds since the first member was started."""
        return (time.time_ns() // 1000 - self.start) / 1e6

    def pass_time(self, until: float) -> None:
        """Tell who has what until it is so late."""
        while (left := until - self.now) > 0:
            self.look()
            time.sleep(min(left, 0.1))

    def wait(self, condition: Callable[[], bool], patience: float, what: str) -> None:
        deadline = self.now + patience
        while not condition():
            if self.now > deadline:
                raise DayError(f"{patience:.0f} s were not enough until {what}.\n{self.logs()}")
            self.look()
            time.sleep(0.05)

    _told = 0.0

    def look(self) -> None:
        """That everybody lives; and a line now and then."""
        for number, member in self.members.items():
            if member.code not in (None, -9):
                raise DayError(f"member {number} ended with {member.code}.\n{self.logs()}")
        if hasattr(self, "began") and self.now - self._told >= TOLD_SECONDS:
            self._told = self.now
            strip = "".join(str(member or "-") for member in self.book.holders)
            print(
                f"  {self.now - self.began:4.0f} s  {strip}  {self.feeder.count:>7,} orders, {self.book.done:>7,} done",
                flush=True,
            )

    def logs(self) -> str:
        """The end of what members wrote to standard error."""
        found = [
            (path.stem, path.read_text(errors="replace").strip()[-400:]) for path in self.folder.glob("*.log")
        ]
        return "\n".join(f"{name}: {text}" for name, text in sorted(found) if text and name[0].isdigit())


def dead_letters(feed: Feed) -> list[tuple[str, int]]:
    """What lies in the dead letter topic: keys, and numbers of them."""
    return [
        ((record.key or b"").decode(), int((record.value or b"-1").split()[0]))
        for records in feed.records(LETTERS).values()
        for record in records
    ]


def _told(part: Part) -> str:
    return f"{part.number} in {part.language}" + (
        f" (slow: {SLOW_MS} ms for each order)" if part.slow else ""
    )


def told(findings: Findings, unsettled: int, began: float) -> list[str]:
    """The findings in lines; times from `began` on."""
    times = ", ".join(f"{_times(number)}: {count:,}" for number, count in sorted(findings.deliveries.items()))
    lines = [
        f"order violations: {len(findings.out_of_order)} (looked for in each key, over all members)",
        f"acknowledged, and delivered again: {len(findings.acknowledged_again)}",
        f"lost: {len(findings.lost)}; not settled: {unsettled}",
        f"delivered {times}",
    ]
    for (key, number), deaths in sorted(findings.deaths.items()):
        by = ", ".join(f"to member {took.member} at {took.at - began:.1f} s" for took in deaths)
        lines.append(f"dead letter: number {number} of {key}, delivered {_times(len(deaths))}, {by}")
    if findings.wrong_letters:
        lines.append(f"dead letters that should not be, or are missing: {findings.wrong_letters}")
    return lines


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
