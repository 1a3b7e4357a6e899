"""What was looked at lately, of whoever has names: it need not be looked at again. Pure; whoever asks says the time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Lately(Generic[T]):
    """For `seconds`; of `most` names at most, those that were looked at last."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        # the one that was looked at last comes last
        self._looked: dict[T, float] = {}

    def had(self, name: T, now: float) -> bool:
        """Whether it was looked at, and not long before `now`."""
        return name in self._looked and now - self._looked[name] < self._seconds

    def note(self, name: T, now: float) -> None:
        """It is looked at now."""
        self._looked.pop(name, None)
        self._looked[name] = now
        if len(self._looked) > self._most:
            del self._looked[next(iter(self._looked))]
