"""The words of the machine: what can be true of one offset, and what is said about ranges of them.

Every known offset has one byte in the planes of its chunk. The codes below DELAYED are what polls and acknowledgements
live on; the dying ones carry their reason in the code, so that no map by record is needed for it.
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Sequence
from typing import NamedTuple

AVAILABLE = 0
ACQUIRED = 1
DONE = 2
"""final: acknowledged, buried, dropped, expired, or nothing was there"""
DELAYED = 3
BACKOFF = 4
DYING = 5
"""to be dead-lettered: 5 + the reason's number"""
BURYING = 8
"""dying and in the hands of who buries it, or waiting to be tried again: 8 + the reason's number. Durable as DYING."""
UNREAD = 255
"""the dispatcher has not looked at it"""


LEGAL = frozenset(
    {
        (UNREAD, AVAILABLE),
        (UNREAD, DELAYED),
        (UNREAD, DONE),
        (UNREAD, DYING),
        (DELAYED, AVAILABLE),
        (BACKOFF, AVAILABLE),
        (AVAILABLE, ACQUIRED),
        (ACQUIRED, AVAILABLE),
        (ACQUIRED, ACQUIRED),
        (ACQUIRED, BACKOFF),
        (ACQUIRED, DYING),
        (DYING, DYING),
        # whatever is open may be trimmed, expired or skipped
        *((state, DONE) for state in (AVAILABLE, ACQUIRED, DELAYED, BACKOFF, DYING)),
    }
)
"""Which state may follow which: the table of cursor.py. DYING stands for every reason, and for BURYING. Only a seek
makes an offset UNREAD again, and then nothing that was known of any offset holds. Whoever writes a state asks BEFORE.
"""


class Reason(enum.StrEnum):
    """Why a message goes to the dead letter topic."""

    MAX_DELIVERIES = "MAX_DELIVERIES"
    REJECTED = "REJECTED"
    CORRUPT = "CORRUPT"


REASONS = tuple(Reason)
"""A reason's number is its place."""

NUMBER = {reason: number for number, reason in enumerate(REASONS)}


class Ending(enum.StrEnum):
    """How a consumer's session ends."""

    LEFT = "left"
    """it said so: one delivery more of what it holds, unless the subscription's leave_counts is off"""
    CRASHED = "crashed"
    """it was lost: one delivery more of what it holds"""
    STOPPED = "stopped"
    """not its doing: the gateway stops, or has no room for it"""


NAMES = {AVAILABLE: "AVAILABLE", ACQUIRED: "ACQUIRED", DELAYED: "DELAYED", BACKOFF: "BACKOFF"} | {
    code + number: "DYING" for code in (DYING, BURYING) for number in range(len(REASONS))
}
"""What a state of an open record is called."""


def legal(was: int, to: int) -> bool:
    """Whether the table has a line for it. What was fed just now is AVAILABLE for a moment, whatever becomes of it.
    What is DYING stays so for the same reason.
    """
    if DYING <= was < UNREAD and DYING <= to < UNREAD:
        return abs(was - to) == BURYING - DYING
    was, to = (DYING if DYING <= code < UNREAD else code for code in (was, to))
    return (was, to) in LEGAL or (was == AVAILABLE and (UNREAD, to) in LEGAL)


CODES = (*range(BURYING + len(REASONS)), UNREAD)

BEFORE = {to: bytes(was for was in CODES if was != to and legal(was, to)) for to in CODES if to != UNREAD}
"""State -> those that may become it, as the table says. None becomes what it is: to write that would count it twice."""


def no_line(was: int, to: int) -> str:
    """What is said when a state is written that may not follow."""
    before, after = (NAMES.get(code, {DONE: "DONE", UNREAD: "UNREAD"}.get(code)) for code in (was, to))
    return f"{before} ({was}) to {after} ({to}): the table of cursor.py has no such line"


def check(states: bytes | bytearray, to: int) -> bool:
    """AssertionError if one of these states may not become `to`. True, so that `assert check(...)` asks only where
    assertions are on. 1,024 of them take half a microsecond; one by itself is asked for as `assert was in BEFORE[to]`.
    """
    wrong = states.translate(None, BEFORE[to])
    if wrong:
        raise AssertionError(no_line(wrong[0], to))
    return True


class Refusal(enum.StrEnum):
    """Why an acknowledgement was not taken. The names are Kafka's errors."""

    INVALID_RECORD_STATE = "INVALID_RECORD_STATE"
    INVALID_REQUEST = "INVALID_REQUEST"


class Batch(NamedTuple):
    """What the dispatcher learns of one stored batch, offsets [first, next)."""

    first: int
    next: int
    slots: array[int] | None = None
    """'H', one an offset; Key_Shared needs them"""
    delayed: Sequence[tuple[int, int]] = ()
    """(offset, due in wall ms), ascending, only those not yet due"""
    dead: Sequence[tuple[int, int, Reason]] = ()
    """(first, last, reason), ascending: to be dead-lettered without a delivery"""
    skip: bool = False
    """nothing to deliver (a control batch, an aborted one)"""


class Acquired(NamedTuple):
    """Records first to last are the consumer's now; each was delivered `count` times before and that was noted."""

    first: int
    last: int
    count: int  # type: ignore[assignment]


class Dying(NamedTuple):
    """Records first to last are to be buried, after `count` deliveries."""

    first: int
    last: int
    count: int  # type: ignore[assignment]
    reason: Reason


class DueFrom(NamedTuple):
    """Where the DUE rows go on that are not in memory: scan from this key (inclusive), at most `limit` rows."""

    key: bytes
    limit: int


class Draining(NamedTuple):
    """A slot that still has records in the hands of somebody who no longer owns it."""

    slot: int
    holder: str
    owner: str | None
    since: int
    """monotonic ms"""
    in_hand: int


class Deep(NamedTuple):
    """A slot with so many waiting records that most of them do not count in the look-ahead."""

    slot: int
    owner: str | None
    waiting: int


class Piece(NamedTuple):
    """What is known of some offsets that follow each other."""

    first: int
    states: bytes
    """a code an offset"""
    slots: array[int] | None
    """Key_Shared: the slots of the first of them, of those that were read"""


class Ordering(NamedTuple):
    """Key_Shared: for what of its slot a record has to wait."""

    in_hand: bool
    """whatever is in hand"""
    failed: bool
    """an earlier one that is in BACKOFF or DYING"""
    draining: bool
    """what somebody has in hand who does not own the slot any more"""


class RecordState(NamedTuple):
    """Why a record arrives or does not."""

    offset: int
    state: str
    """UNREAD AVAILABLE BLOCKED ACQUIRED DONE DELAYED BACKOFF DYING"""
    count: int = 0  # type: ignore[assignment]
    """deliveries that ended without an acknowledgement"""
    consumer: str | None = None
    """who holds it, or holds what it waits for"""
    deadline: int | None = None
    """monotonic ms: when the lock runs out"""
    due: int | None = None
    """wall ms; None for a waiting record whose due time is in the rows only"""
    slot: int | None = None
    owner: str | None = None
    """whose slot it is"""
    reason: str | None = None
    """what it waits for, or why it is dead, in words"""
