"""A transactional producer by hand: what was not answered is asked for again on a new connection, as clients do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from tests.proofs.soak.loads import Load, World
from tests.proofs.soak.oracle import Place
from tests.proofs.soak.transaction_wire import Entry, TransactionWire, transactional_batch
from tests.proofs.soak.wire import Refused

T = TypeVar("T")
TIMEOUT_MS = 60_000
ANSWER = 0.5
"""Seconds that an answer is waited for before the connection is given up."""


class Lost(Exception):
    """A batch is given up: nobody knows whether it will be there."""


class Hand(Load):
    """It works over the proxy. `_work` is one piece of work, done again and again."""

    def __init__(self, world: World, name: str, *, second: bool) -> None:
        """`second`: in KIP-890's words."""
        super().__init__(world, name)
        self.second = second
        self.who = -1, -1
        self._wire: TransactionWire | None = None
        # a batch is on its way on a connection that was given up
        self._lost = False
        self._sequences: dict[Place, int] = {}

    def run(self) -> None:
        while not self.over:
            try:
                if self.who[0] < 0:
                    self.become(self.wire.init(TIMEOUT_MS))
                self._work()
            except OSError:
                self._close()
                time.sleep(0.02)
            except Refused:
                # begin with a new producer
                self.who = -1, -1
                time.sleep(0.01)
        self._close()

    def _work(self) -> None:
        """Raises Refused, OSError: it begins anew."""
        raise NotImplementedError

    @property
    def over(self) -> bool:
        return self.world.stop.is_set() or self.world.abandoned

    @property
    def wire(self) -> TransactionWire:
        """A connection. Raises OSError."""
        if self._wire is None:
            self._wire = TransactionWire(self.world.proxy_port, self.name, second=self.second, timeout=ANSWER)
        return self._wire

    def _close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def become(self, who: tuple[int, int]) -> None:
        """It is told that this is its id and epoch."""
        if who != self.who:
            self.who, self._sequences = who, {}
        self._lost = False

    def sequence(self, place: Place) -> int:
        return self._sequences.get(place, 0)

    def again(self, ask: Callable[[], T]) -> T:
        """Until it is answered. Raises Refused; OSError when the run is over."""
        while True:
            try:
                return ask()
            except OSError:
                self._close()
                if self.world.abandoned:
                    raise
                time.sleep(0.02)

    def produce(self, place: Place, entries: Sequence[Entry]) -> int:
        """A batch of the open transaction; its first offset. Raises Lost, Refused."""
        sequence = self.sequence(place)
        data = transactional_batch(entries, self.who, sequence)
        while True:
            try:
                offset = self.wire.produce_in(place, data)
            except OSError:
                self._close()
                self._lost = True
                if self.over or self.chance.random() < 0.3:
                    raise Lost from None
                time.sleep(0.02)
            else:
                self._sequences[place] = sequence + len(entries)
                return offset

    def end(self, *, committed: bool) -> None:
        """The end of the open transaction, as it was told. Raises Refused, OSError: nobody knows."""
        who = self.again(lambda: self.wire.end(self.who, committed=committed))
        if self._lost and not self.second:
            # a batch of the epoch before may still come
            who = self.again(lambda: self.wire.init(TIMEOUT_MS, self.who))
        self.become(who)
