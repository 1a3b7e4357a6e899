"""Auto-split hash range: one region a consumer.

Who comes takes the lower half of the largest region (the first of several); who goes leaves its region to the one on
its right, the last to the one on its left. So a change concerns one other consumer only, and regions differ in size.

Source: Pulsar's concepts, "Auto-split Hash Range"; its last figure shows C1 and C4 the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semantics.subscriptions.hashing import SLOTS
from semantics.subscriptions.selectors.selector import Range, Regions, SelectorError, pack


class AutoSplit(Regions):
    """Pulsar's HashRangeAutoSplitStickyKeyConsumerSelector."""

    __slots__ = ("_members",)

    mode = "auto_split"

    def __init__(self) -> None:
        super().__init__()
        # in the order they came
        self._members: dict[str, None] = {}

    def add(self, consumer: str, ranges: Sequence[Range] | None = None) -> None:
        """Raises SelectorError for ranges, which sticky takes, and when every slot has its own consumer."""
        if ranges is not None:
            raise SelectorError("The mode auto_split shares the slots out itself; only sticky takes ranges.")
        if consumer in self._members:
            return
        if not self._members:
            self._owners[0] = consumer
        else:
            sizes = [end - start for start, end in zip([0, *self._ends], self._ends, strict=False)]
            largest = max(sizes)
            if largest == 1:
                raise SelectorError(f"All {SLOTS:,} slots are taken, one by each consumer.")
            place = sizes.index(largest)
            self._ends.insert(place, self._ends[place] - largest // 2)
            self._owners.insert(place, consumer)
        self._members[consumer] = None

    def remove(self, consumer: str) -> None:
        if consumer not in self._members:
            return
        del self._members[consumer]
        place = self._owners.index(consumer)
        if not self._members:
            self._owners[0] = None
        elif place == len(self._owners) - 1:
            del self._owners[place], self._ends[place - 1]
        else:
            del self._owners[place], self._ends[place]

    def members(self) -> list[str]:
        return list(self._members)

    def dump(self) -> bytes:
        return pack(self.mode, members=self.members(), ends=self._ends, owners=self._owners)

    @classmethod
    def load(cls, fields: dict[str, Any]) -> AutoSplit:
        selector = cls()
        ends, owners = list(fields["ends"]), list(fields["owners"])
        members = dict.fromkeys(fields["members"])
        if (
            sorted(owners) != sorted(members or [None])
            or len(ends) != len(owners)
            or [0, *ends] != sorted({0, *ends})
            or ends[-1] != SLOTS
        ):
            raise ValueError("These are no regions of an auto-split.")
        selector._ends, selector._owners, selector._members = ends, owners, members
        return selector
