"""A day of virtual records through Kafka Streams with exactly_once_v2, killed ten times: the sums are exact.

`make streams`. Two applications with two instances each: Kafka's own word count example, as it is published, and the
day's sales (Day.java). While the day is produced, instances and the gateway are killed with SIGKILL; every other
instance comes back without the folder of its state, so that it must restore it from a changelog. A reader of committed
records follows the outputs all the time, and another one reads them at the end: both must have been given exactly what
follows from the records that went in. Ends with 1 where something else is found.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from compat.peers.magnetar import MagnetarPeer
from compat.spark.feed import Feed
from compat.stopping import stoppable
from compat.tools import MissingToolError
from tests.proofs.streams import day
from tests.proofs.streams.application import DAY, WORD_COUNT, ApplicationError, Instance, Program
from tests.proofs.streams.reading import Reader

PARTITIONS = 4
INPUTS = ("sales", "payments", "shops", "streams-plaintext-input")
OUTPUTS_OF = {"day": ("regions", "paid"), "word count": ("streams-wordcount-output",)}
"""Which outputs tell how far it is."""
OUTPUTS_OF["gateway"] = OUTPUTS_OF["day"] + OUTPUTS_OF["word count"]
KINDS = tuple(OUTPUTS_OF)
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "2000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
PATIENCE = 120.0
"""Seconds within which something must come out."""
WORK_SECONDS = 1.0
"""For about so long an application works on a part of the day: two transactions of each task."""
CLOSING_MS = 50 * 60_000
"""So long after the day comes what closes its windows; more than an hour ahead of the clock is refused."""


class WrongError(Exception):
    """What was promised is not so."""


class Proof:
    """One gateway, four instances, one day."""

    def __init__(self, gateway: MagnetarPeer, folder: Path, seed: int, sales: int) -> None:
        self.gateway = gateway
        self.dice = random.Random(seed)
        self.began = time.monotonic()
        self.failed: list[KafkaError] = []
        begin = int(time.time() * 1000) - 24 * day.HOUR_MS
        self.end = begin + 24 * day.HOUR_MS
        self.lines = day.lines(seed, sales, begin)
        feed = Feed(gateway.bootstrap)
        for topic in (*INPUTS, *day.OUTPUTS):
            feed.create(topic, PARTITIONS)
        self.producer = Producer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "delivery.timeout.ms": int(PATIENCE * 1000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self.send(day.table(begin))
        self.places = [(topic, number) for topic in day.OUTPUTS for number in range(PARTITIONS)]
        self.reader = Reader(gateway.bootstrap, self.places)
        program = Program(folder)
        self.instances = {
            kind: [Instance(program, main, gateway.bootstrap, folder / f"{kind} {n}") for n in (1, 2)]
            for kind, main in (("day", DAY), ("word count", WORD_COUNT))
        }
        self.kept = True
        self.given: Counter[str] = Counter()
        """Records that were produced, by their topic."""

    @property
    def everybody(self) -> list[Instance]:
        return [each for pair in self.instances.values() for each in pair]

    def start(self) -> None:
        for each in self.everybody:
            each.start()

    def send(self, lines: Sequence[day.Line]) -> None:
        """Produce, each with its time; the key says the partition."""
        for line in lines:
            self.producer.produce(
                line.topic, line.value, line.key or None, timestamp=line.time, on_delivery=self._sent
            )
            if len(self.producer) > 50_000:
                self.producer.poll(0.1)
            self.producer.poll(0)
        self._flush()

    def _flush(self) -> None:
        self.producer.flush(PATIENCE)
        if self.failed:
            raise WrongError(f"a record was not stored: {self.failed[0]}")

    def _sent(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(error)

    def close_windows(self) -> None:
        for line, partition in day.closing(self.end + CLOSING_MS, PARTITIONS):
            self.producer.produce(
                line.topic, line.value, line.key, partition, timestamp=line.time, on_delivery=self._sent
            )
        self._flush()

    def count(self, topic: str) -> int:
        """Records of an output that the reader was given."""
        return self.reader.counts.get(topic, 0)

    def due(self, outputs: Sequence[str]) -> int:
        """How many records of these outputs come of what was produced."""
        found = {
            "regions": self.given["sales"],
            "paid": self.given["payments"],
            "streams-wordcount-output": 2 * self.given["streams-plaintext-input"],
        }
        return sum(found[topic] for topic in outputs)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Read on until then."""
        came, last = -1, time.monotonic()
        while not condition():
            self.reader.read(0.1)
            for each in self.everybody:
                each.check()
            if (now := sum(self.reader.counts.values())) != came:
                came, last = now, time.monotonic()
            if time.monotonic() - last > PATIENCE:
                raise WrongError(
                    f"nothing came out for {PATIENCE:.0f} s, before {what}; so far {self.reader.counts}"
                )

    def give(self, lines: Sequence[day.Line]) -> None:
        """Produce so much of the day."""
        self.given.update(line.topic for line in lines)
        self.send(lines)

    def round(self, kind: str, lines: Sequence[day.Line]) -> str:
        """Some of the day, and one kill in it: when all before is worked on, and while this is."""
        watched = OUTPUTS_OF[kind]
        self.until("the next hours", lambda: sum(map(self.count, watched)) >= self.due(watched))
        self.give(lines)
        # not when a result is seen: that is just after a commit, and little is open then
        time.sleep(self.dice.random() * WORK_SECONDS)
        if kind == "gateway":
            self.gateway.kill()
            time.sleep(self.dice.random())
            self.gateway.start()
            return kind
        victim = self.dice.choice(self.instances[kind])
        victim.kill()
        self.kept = not self.kept
        if not self.kept:
            victim.forget()
        time.sleep(self.dice.random())
        victim.start()
        return f"{victim.name}, {'with' if self.kept else 'without'} its state"

    def run(self, kinds: Sequence[str]) -> None:
        """All of it. Raises WrongError, ApplicationError."""
        # the first hours are quiet: everybody has something to work on when the first kill comes
        size = -(-len(self.lines) // (len(kinds) + 1))
        self.start()
        self.give(self.lines[:size])
        for number, kind in enumerate(kinds, 1):
            said = self.round(kind, self.lines[number * size : (number + 1) * size])
            clock = 24 * min((number + 1) * size, len(self.lines)) // len(self.lines)
            counts = sum(self.reader.counts.values())
            passed = time.monotonic() - self.began
            print(
                f"{number:3} killed: {said:28} {clock:2} h of the day, {counts:8,} results  {passed:5.0f} s",
                flush=True,
            )
        should = day.expected(self.lines)
        enough = {topic: sum(map(len, keys.values())) for topic, keys in should.items()}
        enough["regions"] = len(self.lines) // 3
        quarters = enough.pop("quarters")
        self.until("all results", lambda: all(self.count(topic) >= n for topic, n in enough.items()))
        self.close_windows()
        self.until("the last windows", lambda: self.count("quarters") >= quarters)
        self.compare(should)

    def compare(self, should: dict[str, dict[str, list[str]]]) -> None:
        """Hold both readers against what should be. Raises WrongError."""
        for each in self.everybody:
            each.check()
            each.kill()
        later, everything = (
            Reader(self.gateway.bootstrap, self.places),
            Reader(self.gateway.bootstrap, self.places, committed=False),
        )
        later.read_all(PATIENCE)
        everything.read_all(PATIENCE)
        for name, reader in (("who read all the time", self.reader), ("who reads at the end", later)):
            for topic in day.OUTPUTS:
                if (found := day.wrong(topic, reader.seen.get(topic, {}), should[topic])) is not None:
                    raise WrongError(f"{name} was given something else: {found}")
        aborted = sum(everything.counts.values()) - sum(later.counts.values())
        log = self.gateway.log()
        if bad := [line for line in log.splitlines() if " ERROR " in line or line.startswith("Traceback")]:
            raise WrongError(f"the gateway had errors: {bad[0]}")
        passes = sum(" compacted " in line for line in log.splitlines())
        if not aborted or not passes:
            raise WrongError(
                f"{aborted} results were aborted, and {passes} changelogs compacted: nothing is proven so. More --sales"
            )
        print(
            f"{len(self.lines):,} records of a day, {sum(later.counts.values()):,} results, all exact; {aborted:,} "
            f"more were written in transactions that kills ended, and read by nobody; {passes} passes of compaction",
            flush=True,
        )


def kinds(kills: int, dice: random.Random) -> list[str]:
    """What is killed, in turn: each kind about as often."""
    found = [KINDS[n % len(KINDS)] for n in range(kills)]
    dice.shuffle(found)
    return found


@stoppable(at_once=True)
def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.streams", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--kills", type=int, default=10, help="[default: %(default)s]")
    parser.add_argument("--sales", type=int, default=30_000, help="in the day [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    print(f"--seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="magnetar-streams-") as name:
        folder = Path(name)
        proof = None
        try:
            with MagnetarPeer(directory=folder / "gateway", settings=SETTINGS) as gateway:
                proof = Proof(gateway, folder, seed, options.sales)
                try:
                    proof.run(kinds(options.kills, random.Random(seed)))
                finally:
                    for each in proof.everybody:
                        each.kill()
            if (done := gateway.verify()).returncode:
                raise WrongError(f"the store is damaged:\n{done.stdout}{done.stderr}")
        except (WrongError, ApplicationError, MissingToolError, TimeoutError) as error:
            print(f"WRONG, with --seed {seed}: {error}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
