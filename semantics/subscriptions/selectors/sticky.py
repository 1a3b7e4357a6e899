"""Sticky: every consumer brings its own ranges.

They may not overlap. Slots that nobody covers wait until somebody does.

Source: Pulsar's concepts, "Sticky".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.selectors.selector import Range, Regions, SelectorError, pack


class Sticky(Regions):
    """Pulsar's HashRangeExclusiveStickyKeyConsumerSelector."""

    __slots__ = ("_members",)

    mode = "sticky"

    def __init__(self) -> None:
        super().__init__()
        # in the order they came, with their ranges
        self._members: dict[str, list[Range]] = {}

    def add(self, consumer: str, ranges: Sequence[Range] | None = None) -> None:
        """A consumer that is in already changes its ranges. Raises SelectorError: none given, or they overlap."""
        if not ranges:
            raise SelectorError(f"The mode sticky needs the ranges of {consumer!r}; it has brought none.")
        taken = [
            (start, end, other)
            for other, held in self._members.items()
            if other != consumer
            for start, end in held
        ]
        for start, end in ranges:
            if not 0 <= start < end <= SLOTS:
                raise SelectorError(f"[{start}, {end}) of {consumer!r} is no range within [0, {SLOTS}).")
            for first, last, other in taken:
                if start < last and first < end:
                    raise SelectorError(
                        f"[{start}, {end}) of {consumer!r} overlaps [{first}, {last}) of {other!r}."
                    )
            taken.append((start, end, consumer))
        self._members[consumer] = [(start, end) for start, end in ranges]
        self._cover(sorted(taken))

    def remove(self, consumer: str) -> None:
        if self._members.pop(consumer, None) is not None:
            self._cover(
                sorted((start, end, owner) for owner, held in self._members.items() for start, end in held)
            )

    def members(self) -> list[str]:
        return list(self._members)

    def dump(self) -> bytes:
        return pack(self.mode, members=self._members)

    @classmethod
    def load(cls, fields: dict[str, Any]) -> Sticky:
        selector = cls()
        for consumer, ranges in fields["members"].items():
            selector.add(consumer, [(int(start), int(end)) for start, end in ranges])
        return selector
