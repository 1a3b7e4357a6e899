"""What somebody wants done to dead letters, what a look at them finds, and when a replay stops by itself.

How long a look may be trusted is for all acts the same: `plans.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from semantics.console.broken_json import where_broken
from semantics.console.letter_filter import DeadLetter, LetterFilter, LetterId
from semantics.console.plans import Selection

MOST_REPLAYS = 3
"""Letters that were replayed so often and died again are left out, unless somebody says otherwise."""
MOST_KEYS = 100_000
"""Keys that are told apart."""

STOP_LEAST = 10
"""Letters that died again before a replay stops for it."""


@dataclass(slots=True)
class Wanted:
    """What somebody asks for."""

    what: str
    """replay or discard"""
    filter: LetterFilter
    to: str = "subscription"
    rate: int = 100
    max_replays: int = MOST_REPLAYS
    edits: dict[LetterId, Edit] = field(default_factory=dict)
    renewed: frozenset[str] = frozenset()
    """headers that a letter loses, or has anew, when it is sent again"""
    target: str = ""
    """what the catalog calls the topic that they go to, "" while nobody has looked"""
    target_id: bytes | None = None
    """its id, where it is not the RETRY topic, which may still have to be made: another of its name is not meant"""

    def takes(self, letter: DeadLetter) -> bool:
        """Whether it may be taken, of a letter that is meant."""
        if self.what == "discard":
            return True
        readable = not letter.whole or self.edit_of(letter) is not None
        return readable and letter.replays < self.max_replays

    def edit_of(self, letter: DeadLetter) -> Edit | None:
        """What is to be other about a letter when it is sent; None where that is nothing."""
        edit = self.edits.get((letter.partition, letter.offset))
        if edit is None or self.what == "discard":
            return None
        kept = [each for each in letter.headers if each[0] not in self.renewed]
        return edit if edit.changes(letter.value, kept) else None


@dataclass(frozen=True, slots=True)
class Edit:
    """What is other about a letter when it is sent again. `value` None with `has_value`: a null value. Of `headers` a
    None takes the header away."""

    has_value: bool
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def changes(self, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> bool:
        """Whether a letter with these is another with the edit; in which order headers stand is no matter."""
        if self.has_value and self.value != value:
            return True
        return any(
            [each for other, each in headers if other == name] != ([text] if text is not None else [])
            for name, text in self.headers
        )

    def apply(self, headers: list[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
        """The headers with the edit: those that it names stand last."""
        named = {name for name, _ in self.headers}
        return [each for each in headers if each[0] not in named] + [
            each for each in self.headers if each[1] is not None
        ]


@dataclass(slots=True)
class Tally:
    """What a look at the letters found."""

    # those that are open and meant, also if they are left out
    chosen: Selection = field(default_factory=Selection)
    letters: int = 0
    edited: int = 0
    left_out: int = 0
    looked: int = 0
    # by key the latest place that a letter came from, None where nobody knows it
    keys: dict[bytes, tuple[int, int] | None] = field(default_factory=dict)
    unkeyed: int = 0
    at_least: bool = False
    # where an edit made of JSON what is none, by letter
    broken: dict[LetterId, str] = field(default_factory=dict)

    def add(self, wanted: Wanted, letter: DeadLetter, origin: tuple[int, int] | None) -> None:
        """A letter that is open and meant, behind those before; `origin`: partition and offset in the base topic."""
        self.chosen.add(letter.partition, letter.offset, letter.offset)
        if not wanted.takes(letter):
            self.left_out += 1
            return
        self.letters += 1
        edit = wanted.edit_of(letter)
        if edit is not None:
            self.edited += 1
            if edit.has_value and (where := where_broken(letter.value, edit.value)):
                self.broken[letter.partition, letter.offset] = where
        if letter.key is None:
            self.unkeyed += 1
        elif letter.key in self.keys:
            before = self.keys[letter.key]
            if origin is not None and (before is None or before < origin):
                self.keys[letter.key] = origin
        elif len(self.keys) < MOST_KEYS:
            self.keys[letter.key] = origin
        else:
            self.at_least = True


def dies_again(replayed: int, died: int) -> bool:
    """Whether a replay is to stop: more than 10 % of what it sent died again. A few say nothing."""
    return died >= STOP_LEAST and died * 10 > replayed
