"""Series of consumer groups: how far each is behind and how old that is, from the sums that are kept anyway.

A point costs a copy of two numbers. Followed are those that had most to read when there was room: MOST of them, some
15 KB each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from semantics.console.ranking import Order
from semantics.console.series import Series
from semantics.console.standing import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from semantics.console.ranking import Ranking
    from semantics.console.standing import Standing

MOST = 300
"""Groups on topics that are followed."""
LOOKED = 1_000
"""Of all subscriptions those with most open, among which new ones are looked for."""

_NOTHING = math.nan


class GroupSeries:
    """Of the consumer groups of a node."""

    def __init__(self, ranking: Ranking, is_queue: Callable[[str, str], bool]) -> None:
        """`is_queue`: whether a group on a topic is a share group, of which others keep series."""
        self._ranking = ranking
        self._is_queue = is_queue
        self._followed: dict[tuple[str, str], Series] = {}
        self._slot = -1

    def of(self, topic: str, group: str) -> Series | None:
        """None of one that is not followed."""
        return self._followed.get((topic, group))

    def sample(self, slot: int, wall: int) -> None:
        """Note how they stand, once in a slot. `wall` is ms since 1970."""
        if slot == self._slot:
            return
        self._slot = slot
        for name in list(self._followed):
            one = self._ranking.get(*name)
            if one is None:
                del self._followed[name]
            else:
                self._put(name, one, slot, wall)
        if len(self._followed) >= MOST:
            return
        for (_, topic, group), one in self._ranking.behind(Order.OPEN, None, LOOKED):
            name = topic, group
            if name in self._followed or self._is_queue(topic, group):
                continue
            self._followed[name] = Series()
            self._put(name, one, slot, wall)
            if len(self._followed) >= MOST:
                return

    def _put(self, name: tuple[str, str], one: Standing, slot: int, wall: int) -> None:
        age = 0.0 if one.oldest == NEVER else max(wall - one.oldest, 0) / 1000
        self._followed[name].put(slot, [_NOTHING, _NOTHING, float(one.open), age])
