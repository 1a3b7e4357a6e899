"""What must hold of policies that come and go while the gateway is killed. Pure: it is fed, and answers violations.

`Sayings` is what was said of policies, whole or not at all. `Till` is a share subscription whose messages expire and
are evicted.

A message that is evicted for its size while a member has it in hand is counted; that the member accepts it afterwards
is answered as if it were its own. So such messages may be counted as both.

What a crash allows: a message that was settled in a turn whose commit was not over when the process died is open
again, and so is its count gone: both or neither. So the oracle takes nothing for settled but what was seen before
something was answered that the gateway stored later (`settled`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LATE_MS = 500
"""A look at what is old goes by what counted when it began, and may take so long."""

Entry = tuple[str, str]
"""Of what, and which policy of it."""


class Sayings:
    """Policies, each with its value, or None where nothing is said."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self.said: dict[Entry, Any] = {}
        self.asked: dict[Entry, Any] | None = None
        """a change that was sent, and of which nobody knows what became"""

    def ask(self, change: Mapping[Entry, Any]) -> None:
        """A change is sent."""
        self.asked = dict(change)

    def answered(self) -> None:
        """And it was answered that it is done."""
        assert self.asked is not None
        self.said |= self.asked
        self.asked = None

    def found(self, found: Mapping[Entry, Any]) -> None:
        """All that the gateway says: of what was asked either all is there or nothing of it."""
        asked, self.asked = self.asked or {}, None
        wanted = dict(self.said)
        if asked and all(found.get(entry) == value for entry, value in asked.items()):
            wanted |= asked
        self.said = wanted
        for entry in wanted.keys() | found.keys():
            if found.get(entry) != wanted.get(entry):
                doubt = f"; {asked[entry]!r} was asked for, as a part of {asked!r}" if entry in asked else ""
                self._wrong(
                    f"policy {entry[1]} of {entry[0]} is {found.get(entry)!r}, and was {wanted.get(entry)!r}{doubt}"
                )
                self.said[entry] = found.get(entry)


class Window(NamedTuple):
    """While it may have counted, messages of that age may go; 0: of any age."""

    age_ms: int
    begin_ms: int
    """ms since 1970, before it was asked for"""
    end_ms: int
    """after something else was answered to count in its place"""


@dataclass(slots=True)
class Message:
    sent_ms: int
    accepted: bool = False
    """a member was told that it is acknowledged"""
    accepted_ns: int = 0
    """since when that is known, monotonic"""
    doubtful: bool = False
    """a member has said so, and was not answered"""


@dataclass(slots=True)
class Part:
    """One partition, by offset."""

    messages: dict[int, Message] = field(default_factory=dict)
    accepted: int = 0
    """messages that were, and did not expire as well"""
    both: int = 0
    """messages that were, and may have been gone before"""
    below: int = 0
    """all below is settled, and stays so"""
    below_ns: int = 0
    """since when that is known, monotonic"""
    expired: int = 0
    """of what was counted so many are stored"""


class Till:
    """One share subscription. A message is accepted once or expires once, and never comes after that."""

    def __init__(self, wrong: Callable[[str], None]) -> None:
        self._wrong = wrong
        self.parts: dict[int, Part] = {}
        self.windows: list[Window] = []
        self.seen: Counter[str] = Counter()

    def part(self, index: int) -> Part:
        return self.parts.setdefault(index, Part())

    def stored(self, index: int, offset: int, sent_ms: int) -> None:
        """A producer or a reader was told that a message is at an offset."""
        self.part(index).messages.setdefault(offset, Message(sent_ms))

    def delivered(self, index: int, offset: int, sent_ms: int, asked_ns: int) -> None:
        """A member was given a message that it asked for at that monotonic time."""
        self.seen["policy deliveries"] += 1
        self.stored(index, offset, sent_ms)
        part = self.part(index)
        message = part.messages[offset]
        if message.accepted and asked_ns > message.accepted_ns:
            self._wrong(f"{index}@{offset} was acknowledged, and came again")
        if offset < part.below and asked_ns > part.below_ns:
            self._wrong(f"{index}@{offset} was settled, since all below {part.below} was, and came again")

    def says(self, index: int, offset: int) -> None:
        """A member is about to accept a message."""
        self.part(index).messages[offset].doubtful = True

    def accepted(self, index: int, offset: int, answered_ns: int, *, gone: bool = False) -> None:
        """And was told that it is acknowledged, at that monotonic time. It may have been `gone` by then: evicted in its
        hands, or expired when its lock had run out.
        """
        part = self.part(index)
        message = part.messages[offset]
        if not message.accepted:
            message.accepted, message.accepted_ns = True, answered_ns
            if gone:
                part.both += 1
            else:
                part.accepted += 1

    def settled(self, index: int, below: int, expired: int, accepted: int, end: int, known_ns: int) -> None:
        """What a subscription said of itself, and what something that was stored later proves to be stored: all
        `below` is settled, so many are counted as `expired`. `accepted` before it was asked, `end` of the log after.
        """
        self.seen["policy positions"] += 1
        part = self.part(index)
        if below < part.below:
            self._wrong(f"all below {index}@{part.below} was settled, and now below {below}")
        if expired < part.expired:
            self._wrong(f"{index} had {part.expired} expired messages, and has {expired}")
        if expired + accepted > end:
            self._wrong(
                f"{index} has {expired} expired messages, {accepted} that were acknowledged, and {end} in all: some "
                f"are counted twice"
            )
        if below > part.below:
            part.below, part.below_ns = below, known_ns
        part.expired = max(part.expired, expired)

    def finish(self, index: int, end: int, expired: int) -> None:
        """Nothing is open any more. Every message was accepted, or could expire; each that expired counts once."""
        part = self.part(index)
        messages = part.messages
        if missing := [offset for offset in range(end) if offset not in messages]:
            self._wrong(f"{index} ends at {end}, and nobody knows what is at {missing[:5]}")
            return
        gone = [offset for offset in range(end) if not messages[offset].accepted]
        doubtful = sum(messages[offset].doubtful for offset in gone)
        least, most = len(gone) - doubtful, len(gone) + part.both
        if not least <= expired <= most:
            self._wrong(f"{index} has {expired} expired messages; {least} to {most} of {end} can be")
        self.seen["policy expired"] += expired
        for offset in gone:
            message = messages[offset]
            if not message.doubtful and not self._could_go(message.sent_ms):
                self._wrong(f"{index}@{offset} was settled, by nobody, and no policy let it go: it is lost")

    def _could_go(self, sent_ms: int) -> bool:
        return any(
            sent_ms + window.age_ms <= window.end_ms + LATE_MS and sent_ms <= window.end_ms + LATE_MS
            for window in self.windows
        )
