"""Offsets committed one by one, each answer noted: a group stores the last one acknowledged, or one sent since."""

from __future__ import annotations

import time

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Oracle, Place
from tests.proofs.soak.wire import Refused, Wire


class Committer(Load):
    def __init__(self, world: World, name: str, places: list[Place]) -> None:
        super().__init__(world, name)
        self.places = places
        self.sent = self.acked = 0
        self._refusals = 0

    def run(self) -> None:
        stop = self.world.stop
        while not stop.is_set():
            try:
                with Wire(self.world.port) as wire:
                    while not stop.is_set():
                        self._commit(wire)
                        time.sleep(self.chance.random() * 0.01)
            except OSError:
                stop.wait(0.02)

    def _commit(self, wire: Wire) -> None:
        number = self.sent + 1
        self.sent = number
        try:
            wire.commit(self.name, dict.fromkeys(self.places, number))
        except Refused as error:
            # a commit that did not happen may be tried again; one that never happens is no answer
            self._refusals += 1
            if error.code not in (14, 15, 16) or self._refusals > 100:
                self.fail(f"a commit was refused: {error}")
            return
        self._refusals = 0
        self.acked = number
        self.moved += 1

    def verify(self, oracle: Oracle, wire: Wire) -> None:
        acked = self.acked
        found = wire.committed(self.name)
        sent = self.sent
        for place in self.places:
            oracle.committed(self.name, place, found.get(place, -1), acked or -1, sent)
        if len(set(found.values())) > 1:
            oracle.wrong(f"group {self.name} has {found}, which were committed together")


def loads(world: World) -> list[Load]:
    return [
        Committer(world, "committer-0", [("orders", 0), ("orders", 1), ("steady", 0)]),
        Committer(world, "committer-1", [("steady", 1)]),
    ]
