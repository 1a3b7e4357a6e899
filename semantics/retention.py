"""Which part of a log retention deletes, and what subscriptions keep of it.

A log is deleted from its beginning, a segment at a time, as in Kafka: while the oldest segment is older than the limit
by age, or the log without it still reaches the limit by size. Pulsar's rules come on top, for logs that are subscribed
to:

- Age counts from when a record could first be delivered, when it was sent or when it is due, the later of both.
  What every subscription has settled counts from sending: readers and consumer groups see a record at once.
- What a subscription holds DELAYED, in BACKOFF, ACQUIRED or DYING is never taken, neither by age nor by size.
- Records that are AVAILABLE, or were never read, are deleted by a limit that was set as Kafka's: then it is a time to
  live, or a quota, as well. The default limit by age, and Pulsar's own limits, delete only what is settled.

The delays of records that no dispatcher has read are only in their headers. So `decide` may ask the caller until when
the records of a segment are delayed. It asks only about a segment that would be deleted otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

DELAYED = "DELAYED"
OPEN = "OPEN"
"""Not settled, and held since the limit is not one for such."""


class Segment(Protocol):
    """Offsets [base, next), bytes, times in ms since 1970; -1 where no record has a timestamp."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def created_at(self) -> int: ...
    @property
    def active(self) -> bool: ...


class Policy(NamedTuple):
    """What is kept: ms and bytes, -1 for no limit."""

    ms: int
    size: int
    expires: bool = True
    """Somebody has set `ms` as Kafka does, so that it is a time to live of open records, too."""
    evicts: bool = True
    """`size` goes for open records, too, as in Kafka; else they stay, as Pulsar's retention has it."""


class Place(NamedTuple):
    """Where a subscription stands in a log."""

    name: str
    start: int
    """Its first open record."""
    known: int
    """From here on nothing was looked at."""
    held: int | None = None
    """The first record that must be kept, as far as the search went; None if there is none."""
    state: str = ""
    """Of that record: DELAYED, BACKOFF, ACQUIRED, DYING."""


class Latest(NamedTuple):
    """When the last of a segment's delays ends, in ms since 1970."""

    due: int
    complete: bool
    """False: there may be later ones."""


class Look(NamedTuple):
    """A question: how long are records of this segment delayed? The search may end with the first delay that ends at
    `enough` (ms since 1970) or later.
    """

    segment: Segment
    enough: int


class Hold(NamedTuple):
    """Why a part of the log is kept beyond the policy."""

    name: str
    offset: int
    state: str


class Verdict(NamedTuple):
    point: int
    """Everything below may go; -1 for nothing."""
    policy: int
    """What would go if there were no subscriptions."""
    kept: int
    """Bytes between the two."""
    look: Look | None
    """To be answered first."""
    holds: Sequence[Hold]
    """By offset."""


def decide(
    segments: Sequence[Segment],
    policy: Policy,
    end: int,
    now: int,
    places: Sequence[Place] = (),
    latest: Callable[[Segment], Latest | None] = lambda segment: None,
) -> Verdict:
    """What goes of a log that ends at `end`, at `now` (ms since 1970). `latest` says what is known of delays."""
    none = 1 << 63
    first_open = min([each.start for each in places], default=none)
    first_held = min([each.held for each in places if each.held is not None], default=none)
    first_unknown = min([each.known for each in places], default=none)
    total = sum([segment.size for segment in segments])
    point = wanted = -1
    kept = 0
    look: Look | None = None
    blocked = unset = False
    # the end of the segment in which something that was not looked at is delayed
    delayed = -1
    for segment in segments:
        if segment.next_offset <= segment.base_offset and segment.active:
            break
        sent = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_at
        too_old = policy.ms >= 0 and now - sent > policy.ms
        too_big = policy.size >= 0 and total - segment.size >= policy.size
        if not (too_old or too_big):
            break
        total -= segment.size
        after = min(segment.next_offset, end)
        by_size = too_big and policy.evicts
        if not by_size and not (too_old and policy.expires) and first_open < after:
            blocked = unset = True
        elif first_held < after:
            blocked = True
        elif first_open < after and not blocked:
            enough = now + 1 if by_size else now - policy.ms
            found = latest(segment)
            if found is None or not (found.complete or found.due >= enough):
                look = Look(segment, enough)
                blocked = True
            elif found.due > now and first_unknown < after:
                blocked = True
                delayed = after
            elif not by_size and found.due >= enough:
                # it was due not long ago
                if not too_big:
                    break
                blocked = unset = True
        wanted = after
        if blocked:
            kept += segment.size
        else:
            point = after
    return Verdict(point, wanted, kept, look, _holds(places, wanted, unset, delayed) if blocked else ())


def _holds(places: Sequence[Place], wanted: int, unset: bool, delayed: int) -> list[Hold]:
    found: list[Hold] = []
    for each in places:
        if each.held is not None and each.held < wanted:
            found.append(Hold(each.name, each.held, each.state))
        elif unset and each.start < wanted:
            found.append(Hold(each.name, each.start, OPEN))
        elif each.known < delayed:
            found.append(Hold(each.name, each.known, DELAYED))
    found.sort(key=lambda hold: hold.offset)
    return found
