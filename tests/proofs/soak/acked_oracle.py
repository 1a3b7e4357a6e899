"""What must hold of messages that are acknowledged in the transactions that write what was made of them. Pure.

Each message has a number. It is acknowledged and its output is there, or neither; and it is never done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class AckedOracle:
    """`wrong` is told of each violation; `name`: of the subscription."""

    def __init__(self, name: str, wrong: Callable[[str], None]) -> None:
        self.name = name
        self._wrong = wrong
        self._published: set[int] = set()
        # number -> when it was told that the transaction is committed that acknowledged it
        self._acked: dict[int, int] = {}
        # nobody knows how a transaction ended that acknowledged these
        self._doubtful: set[int] = set()
        self._output: set[int] = set()
        self.seen = 0

    def published(self, number: int) -> None:
        self._published.add(number)

    def delivered(self, number: int, asked: int) -> None:
        """A consumer was given it, who asked at that time."""
        self.seen += 1
        acked = self._acked.get(number)
        if acked is not None and acked < asked:
            self._wrong(f"{self.name}: ack lost: message {number} came again after it was acknowledged")

    def ended(self, numbers: Iterable[int], committed: bool | None, now: int) -> None:
        """How a transaction ended that acknowledged these, as was told at that time; None: nobody knows."""
        for number in numbers:
            if committed:
                self._acked.setdefault(number, now)
            elif committed is None:
                self._doubtful.add(number)

    def output(self, number: int) -> None:
        """A reader of committed records was given what was made of it."""
        if number in self._output:
            self._wrong(f"{self.name}: ack twice: what was made of message {number} is there twice")
        self._output.add(number)

    @property
    def left(self) -> int:
        """How many were not acknowledged, as far as that is known."""
        return len(self._published - self._acked.keys() - self._doubtful)

    def finish(self) -> None:
        """Nothing came any more, and all output was read."""
        for number in sorted(self._published - self._output - self._doubtful):
            how = "acknowledged" if number in self._acked else "not delivered"
            self._wrong(
                f"{self.name}: ack without output: message {number} was {how}, and nothing is made of it"
            )
