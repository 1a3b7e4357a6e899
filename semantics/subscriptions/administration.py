"""What is done to records from outside: trim, expiry, skip, seek, a new configuration."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from semantics.subscriptions.chunks import DELIVERABLE_RUN, HELD_RUN, NOT_DONE_RUN, NOT_SETTLED_RUN
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.records import Records
from semantics.subscriptions.states import ACQUIRED, DELAYED, DONE, DYING, NAMES


class Administration:
    """What administrators, retention and the trimming of logs may do to the records that it is given."""

    __slots__ = ("_records",)

    def __init__(self, records: Records) -> None:
        self._records = records

    def trimmed(self, log_start: int) -> None:
        """Everything below is gone from the log, or expired: DONE whatever it was."""
        records = self._records
        window = records.window
        if log_start <= window.start:
            return
        waiting = records.waiting
        window.trim(log_start)
        if records.waiting < waiting:
            records.idle_due = True
        records.leases.recount(window, log_start)
        records.read = max(records.read, window.start)
        if records.keyed is not None:
            records.keyed.read = records.read
            records.keyed.rebuild()
        records.changed = True

    def expire(self, before: int) -> int:
        """Retention deletes what lies below. Returns how many records of it were open; offsets that were not read
        count one each.
        """
        records = self._records
        end = max(before, records.window.known)
        was = records.backlog(end)
        self.trimmed(before)
        taken = was - records.backlog(end)
        records.totals["expired"] += taken
        return taken

    def expire_open(self, first: int, end: int, keep: Sequence[int] = (), *, delayed: bool = False) -> int:
        """Their time to live is over: what of [first, end) is AVAILABLE, in BACKOFF or was never read is settled, but
        for the offsets in `keep`, ascending, of which all were read. Returns how many there were. What is in hand or
        dying stays as it is, and so does what is DELAYED, unless `delayed` says otherwise. What lies below `first` was
        read.
        """
        records = self._records
        window = records.window
        n, known = window.n, window.known
        if first <= window.start and not (keep or n[ACQUIRED] or (n[DELAYED] and not delayed) or n[DYING]):
            return self.expire(end) if end > window.start else 0
        log_end = max(end, known)
        was, waiting = records.backlog(log_end), records.waiting
        # chunks of which all is settled leave the window
        expiring = NOT_SETTLED_RUN if delayed else DELIVERABLE_RUN
        for chunk, at, stop in list(window.runs(first, end, expiring)):
            for begin, last in _without(chunk.base + at, chunk.base + stop, keep):
                window.settle(chunk, begin - chunk.base, last - chunk.base)
        if end > known:
            window.nothing(known, end)
            if records.read == known:
                records.read = end
        taken = was - records.backlog(log_end)
        if not taken:
            return 0
        if records.waiting < waiting:
            records.idle_due = True
        records.totals["expired"] += taken
        records.changed = True
        records.advance()
        records.read = max(records.read, window.start)
        if records.keyed is not None:
            records.keyed.read = records.read
            records.keyed.rebuild()
        return taken

    def first_held(self, end: int) -> tuple[int, str] | None:
        """The first offset below `end` that is ACQUIRED, DELAYED, in BACKOFF or DYING, and which; None for none."""
        window = self._records.window
        if not any(window.n[ACQUIRED:]):
            return None
        for chunk, at, _ in window.runs(window.start, end, HELD_RUN):
            return chunk.base + at, NAMES[chunk.state[at]]
        return None

    def settled(self, most: int) -> list[tuple[int, int]]:
        """Ranges [first, end) that are DONE behind the first record that is not: the first `most` of them."""
        window, found = self._records.window, list[tuple[int, int]]()
        done = window.start
        for chunk, at, stop in window.runs(window.start, window.known, NOT_DONE_RUN):
            if len(found) == most:
                return found
            if done < chunk.base + at:
                found.append((done, chunk.base + at))
            done = chunk.base + stop
        if done < window.known and len(found) < most:
            found.append((done, window.known))
        return found

    def skip(self, count: int, end: int) -> int:
        """Settle the first `count` open records before `end`; offsets that were not read count one each. Returns how
        many were settled.
        """
        if count <= 0:
            return 0
        before = self._records.backlog(end)
        self.trimmed(min(self.nth_open(count) + 1, end))
        return before - self._records.backlog(end)

    def reconfigure(self, config: SubscriptionConfig) -> None:
        """Other limits from now on; deadlines and due times that were set stay. ValueError: a new type while held."""
        records = self._records
        before = records.config
        if before.type != config.type:
            if records.window.n[ACQUIRED]:
                raise ValueError("The type of a subscription changes only while nobody holds records of it.")
            records.config = config
            records.dispatch()
            return
        records.config = config
        if _rules(before) != _rules(config):
            records.hand_over()

    def nth_open(self, number: int) -> int:
        """The offset of the n-th record that is not settled, from 1; every offset that was not read counts as one."""
        window, left = self._records.window, number
        for chunk, at, stop in window.pieces(window.start, window.known):
            there = stop - at - chunk.state.count(DONE, at, stop)
            if there < left:
                left -= there
                continue
            while True:
                left -= chunk.state[at] != DONE
                if not left:
                    return chunk.base + at
                at += 1
        return window.known + left - 1


def _without(first: int, end: int, keep: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[first, end) without some offsets, ascending: the ranges that are left."""
    for offset in keep[bisect_left(keep, first) : bisect_left(keep, end)]:
        if first < offset:
            yield first, offset
        first = offset + 1
    if first < end:
        yield first, end


def _rules(config: SubscriptionConfig) -> tuple[bool, bool, bool]:
    """What says which dispatcher of Key_Shared there is."""
    return config.strict, config.allow_out_of_order, config.one_of_a_key
