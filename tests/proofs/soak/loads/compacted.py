"""A compacted topic: transactional writers, each with keys of its own, while passes are asked for all the time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque

from confluent_kafka import Message

from tests.proofs.soak.admin import Said
from tests.proofs.soak.compacted_oracle import CompactedOracle, Found
from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.books import READING, read_committed
from tests.proofs.soak.loads.by_hand import Hand, Lost
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.transaction_wire import Entry
from tests.proofs.soak.wire import Refused, Wire

TOPIC, WRITERS, KEYS = "shelves", 2, 15
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}


class Shelves:
    """What all know. Each writer has a partition."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wrong: deque[str] = deque()
        self.oracle = CompactedOracle(self.wrong.append)


class Writer(Hand):
    """One transaction after another."""

    def __init__(self, world: World, shelves: Shelves, number: int) -> None:
        super().__init__(world, f"writer-{number}", second=bool(number % 2))
        self.shelves, self.number = shelves, number
        self._next = 1

    def prepare(self) -> None:
        if not self.number:
            with Wire(self.world.port) as wire:
                wire.create(TOPIC, WRITERS, CONFIGS)

    def _work(self) -> None:
        """Raises Refused, OSError."""
        chance, shelves = self.chance, self.shelves
        place = TOPIC, self.number
        writes: list[tuple[str, int]] = []
        entries: list[Entry] = []
        with shelves.lock:
            for _ in range(chance.randint(1, 8)):
                key, tombstone = f"{self.number}-{chance.randrange(KEYS)}", chance.random() < 0.1
                writes.append((key, self._next))
                shelves.oracle.sending(key, self._next, tombstone=tombstone)
                value = None if tombstone else b"." * chance.randint(0, 500)
                entries.append((key.encode(), value, [("n", b"%d" % self._next)]))
                self._next += 1
        told: bool | None = None
        try:
            committed = chance.random() < 0.7
            try:
                self.again(lambda: self.wire.add(self.who, [place]))
                half = len(entries) // 2
                for some in (entries[:half], entries[half:]):
                    if some:
                        self.produce(place, some)
            except (Lost, Refused):
                committed = False
            self.end(committed=committed)
            told = committed
            self.moved += len(writes)
        finally:
            with shelves.lock:
                shelves.oracle.ended(writes, told)
        time.sleep(chance.random() * 0.01)

    # the check

    def tell(self, oracle: Oracle) -> None:
        while self.shelves.wrong:
            oracle.wrong(f"compacted topic: {self.shelves.wrong.popleft()}")

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        if self.number:
            return
        shelves = self.shelves
        with shelves.lock:
            must = shelves.oracle.must()
        found: dict[int, list[Found]] = defaultdict(list)

        def take(place: Place, message: Message) -> None:
            number = int(dict(message.headers() or [])["n"] or b"-1")
            found[place[1]].append(Found(message.offset() or 0, (message.key() or b"").decode(), number))

        positions = {(TOPIC, partition): 0 for partition in range(WRITERS)}
        if left := read_committed(self.world, positions, take):
            self.fail(f"{sorted(left)} were not read to their ends in {READING} s")
        with shelves.lock:
            for partition in range(WRITERS):
                shelves.oracle.read(partition, found[partition])
            shelves.oracle.check(must)
        self.tell(oracle)
        oracle.seen["records compacted away"] = shelves.oracle.removed


class Sweeper(Load):
    """Asks for a pass, again and again."""

    def run(self) -> None:
        while not (self.world.stop.is_set() or self.world.abandoned):
            try:
                with self.world.admin() as admin:
                    admin.ask("PUT", f"persistent/public/default/{TOPIC}/compaction")
                self.moved += 1
            except (OSError, Said):
                # it is down, or a pass is under way
                pass
            time.sleep(self.chance.random())


def loads(world: World) -> list[Load]:
    shelves = Shelves()
    return [*(Writer(world, shelves, number) for number in range(WRITERS)), Sweeper(world, "sweeper")]
