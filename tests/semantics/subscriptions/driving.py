"""A cursor with its rows and a clock, for tests: what the broker does around it, without any of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow, RowKind
from semantics.subscriptions.states import Batch, Refusal

GAP, ACCEPT, RELEASE, REJECT, RENEW = (bytes([kind]) for kind in range(5))
WALL = 1_700_000_000_000


class Owners:
    """Slots by hand."""

    def __init__(self, *ranges: tuple[int, int, str]) -> None:
        self._ranges = ranges

    def ranges(self) -> Iterable[tuple[int, int, str]]:
        return self._ranges


def all_of(name: str) -> Owners:
    return Owners((0, 65_536, name))


def left_over(keyed: Any) -> dict[str, Any]:
    """What a Key_Shared dispatcher still says of slots: nothing, when nothing is open."""
    names = ("_holder", "_marks", "_more", "_blocked", "_parked", "_deep", "_since")
    return {name: getattr(keyed, name) for name in names if getattr(keyed, name, None)}


class Driver:
    """`now` and `wall` go on together; consumers a and b are attached."""

    def __init__(self, start: int = 0, **config: Any) -> None:
        self.config = SubscriptionConfig(**{"receiver_queue": 1_000_000, **config})
        self.cursor = Cursor.fresh(self.config, start)
        self.rows: dict[tuple[RowKind, bytes], bytes] = {}
        self.now = 0
        self.attach("a", "b")

    @property
    def wall(self) -> int:
        return WALL + self.now

    def attach(self, *names: str) -> None:
        for name in names:
            self.cursor.attach(name, self.now)

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.cursor.tick(self.now, self.wall)

    def feed(self, count: int, slots: Sequence[int] | None = None, **more: Any) -> None:
        first = self.cursor.read
        if self.config.type == "key_shared" and slots is None:
            slots = [0] * count
        plane = array("H", slots) if slots is not None else None
        self.cursor.feed([Batch(first, first + count, plane, **more)], self.now, self.wall)

    def poll(self, name: str = "a", limit: int = 10_000) -> list[int]:
        """The offsets it gets."""
        return [
            at
            for first, last, _ in self.cursor.poll(name, limit, self.now, self.wall)
            for at in range(first, last + 1)
        ]

    def say(self, types: bytes, *offsets: int, by: str = "a") -> Refusal | None:
        """Acknowledge each of these by itself."""
        return self.cursor.acknowledge(by, [(at, at, types) for at in sorted(offsets)], self.now, self.wall)

    def acknowledge(self, *batches: tuple[int, int, bytes], by: str = "a") -> Refusal | None:
        return self.cursor.acknowledge(by, list(batches), self.now, self.wall)

    def state(self, *offsets: int) -> list[str]:
        return [self.cursor.look(at).state for at in offsets]

    def count(self, *offsets: int) -> list[int]:
        return [self.cursor.look(at).count for at in offsets]

    def commit(self) -> list[CursorRow]:
        """Take the writes in, as the store does."""
        written = self.cursor.writes()
        for kind, key, value in written:
            if value is not None:
                self.rows[kind, key] = value
            elif key:
                self.rows.pop((kind, key), None)
            else:
                self.rows = {place: kept for place, kept in self.rows.items() if place[0] is not kind}
        return written

    def stored(self, *kinds: RowKind) -> list[CursorRow]:
        """The rows, in the order of their keys."""
        return [
            CursorRow(kind, key, value)
            for (kind, key), value in sorted(self.rows.items())
            if not kinds or kind in kinds
        ]

    def restart(self, log_start: int = 0, log_end: int = 2**62) -> None:
        """Die and come back: what was not committed is lost, the consumers are gone. The due rows stay behind."""
        kept = self.stored(RowKind.CURSOR, RowKind.ACK, RowKind.COUNT)
        self.cursor = Cursor.load(self.config, kept, log_start, log_end, self.wall)
        self.attach("a", "b")

    def load_due(self, rows_at_once: int = 1_000_000) -> int:
        """Answer `needs_due` until it has enough, as a scan does. How many scans it took."""
        scans = 0
        while (wanted := self.cursor.needs_due) is not None:
            self.commit()
            scans += 1
            found = [row for row in self.stored(RowKind.DUE) if row.key >= wanted.key]
            most = min(wanted.limit, rows_at_once)
            self.cursor.due_loaded(found[:most], complete=len(found) <= most)
        return scans

    def crash(self, **more: Any) -> None:
        """Commit, die, come back, load what is due."""
        self.commit()
        self.restart(**more)
        self.load_due()


LOW, HIGH = 10, 60_000
"""a's slot and b's"""


def evenly(names: list[str]) -> Owners:
    edges = [65_536 * place // max(len(names), 1) for place in range(len(names) + 1)]
    return Owners(*((*edge, name) for edge, name in zip(pairwise(edges), names, strict=True)))


HALVES = Owners((0, 32_768, "a"), (32_768, 65_536, "b"))


def keyed(slots: list[int], owners: Owners = HALVES, **config: Any) -> Driver:
    driver = Driver(type="key_shared", **config)
    driver.cursor.reassign(owners, 0)
    driver.feed(len(slots), slots)
    return driver
