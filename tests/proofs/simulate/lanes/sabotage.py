"""Lanes that break one promise each. The simulation must find out every one of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from gateway.broker.queues.lane import LaneAtWork
from gateway.broker.transacted_acks import TransactedAcks
from semantics.lanes.lane import Ended, Lane, Settled
from semantics.lanes.lanes import Crash, Lanes
from semantics.lanes.marks import Marks
from semantics.lanes.runs import Run
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.rows import CursorRow

Patch = tuple[type[Any], str, Any]

_commit, _end_all = Lane.commit, Lane.end_all
_crash, _touch = Lanes.crash, LaneAtWork.touch
_lane_load, _cursor_load = Lane.load, Cursor.load


def _one_too_many(self: Lane, offset: int, marks: Marks, now: int, *, member: bool = True) -> Settled:
    return _commit(self, min(offset + 1, self.end), marks, now, member=member)


def _names_ignored(self: Lane, offset: int, marks: Marks, now: int, *, member: bool = True) -> Settled:
    return _commit(self, offset, Marks(), now, member=member)


def _forgets_open(self: Lane) -> Ended:
    served, returned = _end_all(self)
    return Ended(served, returned[1:])


def _shows_early(self: LaneAtWork) -> None:
    _touch(self)
    self.high_watermark = self.lane.end


def _neighbours_die(self: Lanes, member: str, failed_now: Callable[[int, int], int]) -> Crash:
    crash = _crash(self, member, failed_now)
    return crash._replace(failed=[each._replace(most=None) for each in crash.failed])


def _forgets_sent(self: Lane, begin: int, end: int) -> bool:
    return False


def _offsets_again(cls: type[Lane], state: bytes, runs: Iterable[Run]) -> Lane:
    lane = _lane_load(state, runs)
    if not lane.opened and lane.end > lane.start:
        lane.open = lane.end = lane.end - 1
    return lane


def _counts_gone(
    cls: type[Cursor],
    config: SubscriptionConfig,
    found: Iterable[CursorRow],
    log_start: int,
    log_end: int,
    wall: int,
) -> Cursor:
    cursor = _cursor_load(config, found, log_start, log_end, wall)
    for chunk in cursor._records.window.chunks.values():
        for first, end, failed in list(chunk.count_runs(0, len(chunk.state))):
            if failed:
                chunk.set_count(first, end, 0)
    return cursor


def _trustees_forgotten(self: TransactedAcks, *place: object) -> list[tuple[str, list[tuple[int, int]]]]:
    return []


def _passes_over(self: Lane, begin: int, end: int) -> bool:
    return True


SABOTAGES: dict[str, tuple[str, Patch]] = {
    "acks-one-too-many": ("lanes-late", (Lane, "commit", _one_too_many)),
    "names-ignored": ("lanes-keyed", (Lane, "commit", _names_ignored)),
    "forgets-open": ("lanes-deaths", (Lane, "end_all", _forgets_open)),
    "shows-early": ("lanes-kills", (LaneAtWork, "touch", _shows_early)),
    "neighbours-die": ("lanes-poisons", (Lanes, "crash", _neighbours_die)),
    "forgets-sent": ("lanes-cold", (Lane, "shown", _forgets_sent)),
    "offsets-again": ("lanes-kills", (Lane, "load", classmethod(_offsets_again))),
    "passes-over": ("lanes-taken-back", (Lane, "whole", _passes_over)),
    "trustees-forgotten": ("lanes-transacted-shared", (TransactedAcks, "held_at", _trustees_forgotten)),
    "counts-gone": ("lanes-kills", (Cursor, "load", classmethod(_counts_gone))),
}
"""Name -> a scenario in which it shows, and what is put in the place of what."""


@contextlib.contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """While this lasts, the lanes of this process are broken."""
    _, (owner, attribute, instead) = SABOTAGES[name]
    with mock.patch.object(owner, attribute, instead):
        yield
