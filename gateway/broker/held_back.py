"""Batches that wait until a backlog has become smaller: in the order in which they came, partition by partition.

Each is tried again every POLL_MS, after the backlogs were measured: acknowledgements, evictions, a policy that was
changed, a subscription that was deleted, all of that is seen by the same look.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.quota")

POLL_MS = 50

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
        self._items: dict[Item, None] = {}
        self._waiting: Counter[Place] = Counter()
        self._task: asyncio.Task[None] | None = None

    def waited_for(self, place: Place) -> bool:
        """Whether batches wait for a partition: those that come later wait behind them."""
        return bool(self._waiting) and place in self._waiting

    @property
    def count(self) -> int:
        """Requests that wait."""
        return len(self._items)

    def add(self, item: Item) -> None:
        """From now on it is tried again."""
        if not self._items:
            self._soon()
        self._items[item] = None
        self._waiting.update(item.places)

    def over(self, item: Item, places: Sequence[Place]) -> None:
        """It waits no longer for these; when that was all, it is forgotten."""
        for place in places:
            self._waiting[place] -= 1
            if self._waiting[place] <= 0:
                del self._waiting[place]
        if not item.places:
            self._items.pop(item, None)

    def _soon(self) -> None:
        self._node.call_at(self._node.clock.monotonic_ms() + POLL_MS, self._begin)

    def _begin(self) -> None:
        if self._task is None and self._items:
            self._task = asyncio.ensure_future(self._look())
            self._task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("those who wait for a backlog were not looked at", exc_info=error)
        if self._items:
            self._soon()

    async def _look(self) -> None:
        now = self._node.clock.monotonic_ms()
        for item in list(self._items):
            if now >= item.deadline:
                item.give_up()
        for place in list(self._waiting):
            await self._measure(place)
        blocked: set[Place] = set()
        for item in list(self._items):
            for place in list(item.places):
                if place not in blocked and not item.go_on(place):
                    blocked.add(place)
