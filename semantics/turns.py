"""Turns that go round by owner: who has much to do waits for others that have little, and not they for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """What waits. An owner that had its turn goes behind all others that wait; its own come in their order."""

    __slots__ = ("_by",)

    def __init__(self) -> None:
        # the owner whose turn it is comes first; each has something
        self._by: dict[Hashable, deque[T]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by.values()))

    def add(self, owner: Hashable, item: T) -> None:
        """One more, behind those of the same owner."""
        self._by.setdefault(owner, deque()).append(item)

    def remove(self, owner: Hashable, item: T) -> None:
        """It waits no more; nothing where it does not wait."""
        waiting = self._by.get(owner)
        if waiting is not None and item in waiting:
            waiting.remove(item)
            if not waiting:
                del self._by[owner]

    def next(self) -> T | None:
        """Whose turn it is: it waits no more. None where nobody does."""
        if not self._by:
            return None
        owner = next(iter(self._by))
        waiting = self._by.pop(owner)
        item = waiting.popleft()
        if waiting:
            self._by[owner] = waiting
        return item
