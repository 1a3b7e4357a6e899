"""Topics that come, get a few records, and go. A name that comes again is a new topic, and empty."""

from __future__ import annotations

import threading

from kafka.record.memory_records import MemoryRecordsBuilder

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle
from tests.proofs.soak.wire import Refused, Wire

NAMES = 12


def batch() -> bytes:
    """Three records that nobody reads."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=10_000)
    for _ in range(3):
        builder.append(timestamp=1_700_000_000_000, key=None, value=b"side" * 50, headers=[])
    builder.close()
    return bytes(builder.buffer())


class Comings(Load):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        # held from a request to its answer, so that a check sees no topic half asked for
        self.lock = threading.Lock()
        # acknowledged: name -> partitions; and those of which nobody knows whether they are there
        self.there: dict[str, int] = {}
        self.unsure: dict[str, int] = {}
        # records that were acknowledged and sent into partition 0 of each
        self.acked: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self._batch = batch()

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with Wire(self.world.port) as wire:
                    while not stop.is_set():
                        with self.lock:
                            self._step(wire)
                        stop.wait(self.chance.random() * 0.04)
            except OSError:
                stop.wait(0.02)

    def _step(self, wire: Wire) -> None:
        if self.unsure:
            found, _ = wire.metadata()
            for name, partitions in self.unsure.items():
                if name in found:
                    self.there[name] = partitions
                else:
                    self.acked.pop(name, None)
                    self.sent.pop(name, None)
            self.unsure.clear()
        name = f"side-{self.chance.randrange(NAMES)}"
        if name not in self.there:
            partitions = self.chance.randrange(1, 5)
            self.unsure[name] = partitions
            self.acked[name] = self.sent[name] = 0
            self._ask(lambda: wire.create(name, partitions, {"internal.segment.bytes": "1000"}))
            del self.unsure[name]
            self.there[name] = partitions
        elif self.chance.random() < 0.6:
            self.sent[name] += 3
            self._ask(lambda: wire.produce((name, 0), self._batch))
            self.acked[name] += 3
        else:
            self.unsure[name] = self.there.pop(name)
            self._ask(lambda: wire.delete(name))
            del self.unsure[name], self.acked[name], self.sent[name]
        self.moved += 1

    def _ask(self, request: object) -> None:
        assert callable(request)
        try:
            request()
        except Refused as error:
            self.fail(f"was refused: {error}")
            raise OSError("the state is not known") from error

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        with self.lock:
            found, _ = wire.metadata()
            mine = {name: count for name, count in found.items() if name.startswith("side-")}
            oracle.topics(mine, self.there, self.unsure)
            places = [(name, 0) for name in self.there if name in mine]
            ends = wire.offsets(places, -1)
            for (name, _), end in ends.items():
                if not self.acked[name] <= end <= self.sent[name]:
                    oracle.wrong(
                        f"the topic {name} ends at {end}: {self.acked[name]} acknowledged, {self.sent[name]} sent"
                    )


def loads(world: World) -> list[Load]:
    return [Comings(world, "topics")]
