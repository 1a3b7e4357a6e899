"""DeleteRecords: what was read, compared and committed by everybody goes, so that logs stay short."""

from __future__ import annotations

from collections import deque

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.wire import Refused, Wire


class Trims(Load):
    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._asked: dict[Place, int] = {}
        self._done: deque[tuple[Place, int]] = deque()

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with Wire(self.world.port) as wire:
                    while not stop.is_set():
                        self._trim(wire)
                        stop.wait(self.chance.random() * 0.2)
            except OSError:
                stop.wait(0.02)

    def _trim(self, wire: Wire) -> None:
        place = self.chance.choice(self.world.places())
        known = self._asked.get(place, 0)
        offset = known + int((self.world.may_trim.get(place, 0) - known) * self.chance.random())
        if offset <= known:
            return
        self._asked[place] = offset
        try:
            low = wire.delete_records(place, offset)
        except Refused as error:
            if error.code not in (5, 6):
                self.fail(f"was refused to delete the records of {place} below {offset}: {error}")
            return
        if low < offset:
            self.fail(f"asked for {place} to begin at {offset}, was told {low}")
        self._done.append((place, low))
        self.moved += 1

    def tell(self, oracle: Oracle) -> None:
        for _ in range(len(self._done)):
            place, low = self._done.popleft()
            log = oracle.log(place)
            log.start = max(log.start, low)

    def asked(self, oracle: Oracle) -> None:
        for place, offset in list(self._asked.items()):
            oracle.log(place).asked_start = offset


def loads(world: World) -> list[Load]:
    return [Trims(world, "trims")]
