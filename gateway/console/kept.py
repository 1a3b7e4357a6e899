"""What the console remembers between two pages of one browser: edits that are looked at before they are done, and what
was done, to tell it on the next page.

It is in memory only, of a bounded size, and for who it was kept for: a name that somebody else gave away finds nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST = 256
"""Of all browsers."""
MOST_OF_ONE = 20
"""Of one browser: who keeps many makes room of its own."""
SECONDS = 3600.0
"""So long something is kept."""


class Draft(NamedTuple):
    """Another value of a dead letter, as somebody typed it."""

    # what it is of: the subscription on its topic
    of: tuple[str, ...]
    letter: str
    # in base64
    value: str


@dataclass(slots=True)
class Note:
    """What was done, in words."""

    text: str
    told: bool = False


class _Entry(NamedTuple, Generic[T]):
    owner: str
    until: float
    what: T


class Kept(Generic[T]):
    """Things of one kind, by names that nobody guesses. `monotonic` tells seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # the oldest first
        self._entries: dict[str, _Entry[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, owner: str, what: T) -> str:
        """Its name. What is too old goes, and the oldest where there is too much."""
        now = self._monotonic()
        for name, each in list(self._entries.items()):
            if each.until > now:
                break
            del self._entries[name]
        own = [name for name, each in self._entries.items() if each.owner == owner]
        if len(own) >= MOST_OF_ONE:
            del self._entries[own[0]]
        elif len(self._entries) >= MOST:
            del self._entries[next(iter(self._entries))]
        name = secrets.token_urlsafe(12)
        self._entries[name] = _Entry(owner, now + SECONDS, what)
        return name

    def find(self, owner: str, name: str) -> T | None:
        """What was kept under this name for this owner; None where there is nothing (any more)."""
        found = self._entries.get(name)
        if found is None or found.owner != owner or found.until <= self._monotonic():
            return None
        return found.what

    def drop(self, name: str) -> None:
        """It is of no more use."""
        self._entries.pop(name, None)


def told(notes: Kept[Note], owner: str, name: str, *, anew: bool) -> str:
    """The words of a note, told once: "" when its page is loaded again, or where there is none. `anew`: the page that
    tells it is made anew by itself, and goes on telling it.
    """
    note = notes.find(owner, name)
    if note is None:
        return ""
    if note.told and not anew:
        notes.drop(name)
        return ""
    note.told = True
    return note.text
