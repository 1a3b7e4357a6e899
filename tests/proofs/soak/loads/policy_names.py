"""Deduplication and terminated topics: what is sent again is there once, and what has ended takes nothing more.

The namespace has deduplication all the time, its topic says so too from time to time. Sequence ids are counted by the
producer, which has no producer id of Kafka's; it sends what was not answered again, and older messages besides.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.loads.policy_desk import make_namespace
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.share_wire import ShareWire, batch
from tests.proofs.soak.wire import Refused, Wire

NAMESPACE, TOPIC, PATH = "soak/names", "soak.names.log", "persistent/soak/names/log"
PARTITIONS = 2
ENDS = 6
"""Topics that end, by their names."""
REFUSED = 44
"""POLICY_VIOLATION."""


def _batch(name: str, sequences: list[int]) -> bytes:
    now = int(time.time() * 1000)
    return batch(
        [
            (
                now,
                None,
                b"%d" % sequence,
                [("pulsar-producer-name", name.encode()), ("pulsar-sequence-id", b"%d" % sequence)],
            )
            for sequence in sequences
        ]
    )


class Names(Load):
    """A named producer, one request at a time."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.lock = threading.Lock()
        # by partition: how many sequence ids were answered, and how many were sent
        self.acked = [0] * PARTITIONS
        self.sent = [0] * PARTITIONS
        # of a partition that was read: how far, and the last sequence id
        self._read = [0] * PARTITIONS

    def prepare(self) -> None:
        with self.world.admin().wait() as admin:
            make_namespace(admin, NAMESPACE)
            admin.ask("POST", f"namespaces/{NAMESPACE}/deduplication", True)
        with Wire(self.world.port) as wire:
            wire.create(TOPIC, PARTITIONS, {"internal.segment.bytes": "20000"})

    def run(self) -> None:
        stop = self.world.stop
        while not (stop.is_set() and self.acked == self.sent) and not self.world.abandoned:
            try:
                with Wire(self.world.port) as wire, self.world.admin() as admin:
                    while not (stop.is_set() and self.acked == self.sent):
                        with self.lock:
                            if self.chance.random() < 0.05:
                                self._say(admin)
                            self._send(wire)
                        stop.wait(self.chance.random() * 0.1)
            except OSError:
                time.sleep(0.02)

    def _say(self, admin: object) -> None:
        """What counts stays the same, whoever says it."""
        assert hasattr(admin, "ask")
        if self.chance.random() < 0.5:
            admin.ask("POST", f"{PATH}/deduplicationEnabled", True)
        else:
            admin.ask("DELETE", f"{PATH}/deduplicationEnabled")

    def _send(self, wire: Wire) -> None:
        chance = self.chance
        index = chance.randrange(PARTITIONS)
        acked = self.acked[index]
        if self.sent[index] == acked:
            if self.world.stop.is_set():
                return
            self.sent[index] += chance.choice((1, 1, 3))
        # what came before, to begin with, as a producer that begins again where it had saved its work
        again = chance.randrange(1, 4) if chance.random() < 0.3 else 0
        begin = max(acked - again, 0)
        try:
            wire.produce((TOPIC, index), _batch("ada", list(range(begin, self.sent[index]))))
        except Refused as error:
            self.fail(f"was refused: {error}")
            raise OSError("the state is not known") from error
        self.acked[index] = self.sent[index]
        self.moved += 1

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.lock, ShareWire(self.world.port) as reading:
            ends = wire.offsets([(TOPIC, index) for index in range(PARTITIONS)], -1)
            for index in range(PARTITIONS):
                end = ends.get((TOPIC, index), -1)
                if not self.acked[index] <= end <= self.sent[index]:
                    oracle.wrong(
                        f"{TOPIC}-{index} ends at {end}: {self.acked[index]} messages were acknowledged, "
                        f"{self.sent[index]} sent, each of them perhaps again"
                    )
                while self._read[index] < end:
                    for each in reading.fetch((TOPIC, index), self._read[index]):
                        oracle.seen["named messages read"] += 1
                        if int(each.value) != each.offset:
                            oracle.wrong(f"{TOPIC}-{index}@{each.offset} has sequence id {int(each.value)}")
                        self._read[index] = each.offset + 1


class Ends(Load):
    """Topics that are made, written to, ended while they are, looked at, and deleted."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.lock = threading.Lock()
        # of those that have ended: where
        self.ended: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1, f"soak-{name}")

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with self.lock, Wire(self.world.port) as wire:
                    self._step(wire)
            except OSError:
                stop.wait(0.02)
            stop.wait(self.chance.random() * 0.2)
        self._pool.shutdown()

    def _step(self, wire: Wire) -> None:
        name = f"soak.names.end-{self.chance.randrange(ENDS)}"
        try:
            if name in self.ended:
                del self.ended[name]
                wire.delete(name)
                return
            there, _ = wire.metadata()
            if name not in there:
                wire.create(name, 1, {})
            writing: Future[tuple[int, bool]] = self._pool.submit(self._write, name)
            try:
                with self.world.admin() as admin:
                    time.sleep(self.chance.random() * 0.02)
                    admin.ask("POST", f"persistent/soak/names/{name.split('.')[2]}/terminate/partitions")
                end = wire.offsets([(name, 0)], -1)[name, 0]
            finally:
                acked, refused = writing.result(60)
        except Refused as error:
            self.fail(f"was refused: {error}")
            raise OSError("the state is not known") from error
        if not refused:
            # the gateway died: it has ended, which is told to nobody else
            return
        if end != acked:
            self.fail(f"{name} ended at {end}, and {acked} messages were acknowledged")
        self.ended[name] = end
        self.moved += 1

    def _write(self, name: str) -> tuple[int, bool]:
        """Until it is refused: the end of the log as the answers tell it, and whether it was."""
        end = 0
        with Wire(self.world.port) as wire:
            one = batch([(int(time.time() * 1000), None, b"x", [])])
            while not self.world.abandoned:
                try:
                    end = wire.produce((name, 0), one) + 1
                except Refused as error:
                    if error.code == REFUSED:
                        return end or wire.offsets([(name, 0)], -1)[name, 0], True
                    raise
        return end, False

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.lock:
            ended = dict(self.ended)
            found = wire.offsets([(name, 0) for name in ended], -1)
            for name, end in ended.items():
                try:
                    wire.produce((name, 0), batch([(int(time.time() * 1000), None, b"late", [])]))
                    oracle.wrong(f"{name} has ended, and takes a message")
                    del self.ended[name]
                except Refused as error:
                    if error.code != REFUSED:
                        raise
                if found.get((name, 0)) != end:
                    oracle.wrong(f"{name} ended at {end}, and ends at {found.get((name, 0))}")
            oracle.seen["ended topics looked at"] += len(ended)


def loads(world: World) -> list[Load]:
    return [Names(world, "policy-names"), Ends(world, "policy-ends")]
