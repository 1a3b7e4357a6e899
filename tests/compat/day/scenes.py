"""What a member may have said, briefly."""

from __future__ import annotations

from compat.day.events import Acked, Event, Held, Killed, Took


def took(
    at: float,
    number: int,
    *,
    key: str = "ada",
    member: int = 1,
    lane: int = 0,
    offset: int | None = None,
    lasted: float = 0.1,
    failed: int = 0,
    nacked: bool = False,
) -> Event:
    """A delivery; its offset is the number unless it is given."""
    where = number if offset is None else offset
    return Took(at, at + lasted, member, lane, where, key, number, failed, nacked)


def acked(at: float, offset: int, *, member: int = 1, lane: int = 0) -> Event:
    return Acked(at, member, lane, offset)


def held(at: float, member: int, *lanes: int) -> Event:
    return Held(at, member, frozenset(lanes))


def killed(at: float, member: int) -> Event:
    return Killed(at, member)
