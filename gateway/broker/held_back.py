"""Batches that wait until a backlog has become smaller: in the order in which they came, partition by partition.

The first of each partition is tried again every POLL_MS, after its backlog was measured: acknowledgements, evictions, a
policy that was changed, a subscription that was deleted, all of that is seen by the same look. Where looks take long,
since many partitions are waited for, they come less often: a tenth of the time at most goes into them.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.quota")

POLL_MS = 50

SPARE = 64
"""Deadlines of requests that are over, from which on they are cleared away, where those are more than half of all."""

Place = tuple[bytes, int]
"""A topic's id and a partition of it."""


class Item(Protocol):
    """A request of which some batches wait."""

    deadline: int
    """monotonic ms: then it waits no longer"""

    @property
    def places(self) -> Sequence[Place]:
        """What it still waits for."""
        ...

    def go_on(self, place: Place) -> bool:
        """Try its batch once more, as the first that waits for that place. Whether it waits no longer."""
        ...

    def give_up(self) -> None:
        """It waits no longer: whoever sent it is told to try again."""
        ...


class HeldBack:
    """All that wait."""

    def __init__(self, node: Node, measure: Callable[[Place], Awaitable[None]]) -> None:
        self._node = node
        self._measure = measure
        # by place those that wait for it, in order
        self._queues: dict[Place, dict[Item, None]] = {}
        # all of them by numbers, which ascend as they come, and back
        self._waiting: dict[int, Item] = {}
        self._numbers: dict[Item, int] = {}
        self._next_number = count()
        # (deadline, number), also of those that are over: of these nothing else may stay in memory
        self._deadlines: list[tuple[int, int]] = []
        self._task: asyncio.Task[None] | None = None
        # whether a look is to come, and after how long
        self._timed = False
        self._pause = POLL_MS

    @property
    def count(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def waited_for(self, place: Place) -> bool:
        """Whether batches wait for a partition: those that come later wait behind them."""
        return place in self._queues

    def waiting(self, place: Place) -> int:
        """How many requests wait for a partition."""
        return len(self._queues.get(place, ()))

    def add(self, item: Item) -> None:
        """From now on it is tried again."""
        number = self._numbers[item] = next(self._next_number)
        self._waiting[number] = item
        for place in item.places:
            self._queues.setdefault(place, {})[item] = None
        heapq.heappush(self._deadlines, (item.deadline, number))
        self._soon()

    def over(self, item: Item, places: Sequence[Place]) -> None:
        """It waits no longer for these; when that was all, it is forgotten."""
        for place in places:
            queue = self._queues[place]
            del queue[item]
            if not queue:
                del self._queues[place]
        if not item.places:
            del self._waiting[self._numbers.pop(item)]
            if len(self._deadlines) > 2 * self.count + SPARE:
                self._deadlines = [each for each in self._deadlines if each[1] in self._waiting]
                heapq.heapify(self._deadlines)

    def _soon(self) -> None:
        if not self._timed and self._task is None:
            self._timed = True
            self._node.call_at(self._node.clock.monotonic_ms() + self._pause, self._begin)

    def _begin(self) -> None:
        self._timed = False
        if self._task is None and self.count:
            self._task = asyncio.ensure_future(self._look())
            self._task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("those who wait for a backlog were not looked at", exc_info=error)
        if self.count:
            self._soon()

    async def _look(self) -> None:
        clock = self._node.clock
        begun = clock.monotonic_ms()
        while self._deadlines and self._deadlines[0][0] <= begun:
            item = self._waiting.get(heapq.heappop(self._deadlines)[1])
            if item is not None:
                item.give_up()
        for place in list(self._queues):
            # what is measured is known for some milliseconds
            await self._measure(place)
            for each in list(self._queues.get(place, ())):
                if place in each.places and not each.go_on(place):
                    break
        self._pause = max(POLL_MS, 9 * (clock.monotonic_ms() - begun))
