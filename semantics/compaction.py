"""Which part of a log may be compacted, and when that is due. Kafka's rules; what subscriptions hold is Pulsar's.

A compacted log has the last record of each key. What was compacted is its *clean* part, what came since its *dirty*
one. A pass looks through the dirty part for the last offset of each key, and then writes the log anew up to there,
without what has a later record. It never comes to

- the segment that takes appends;
- what is not decided: from the first record of the oldest open transaction on;
- segments with a record younger than `min.compaction.lag.ms`;
- what a subscription has open: it gets every message, and not just the last of a key. But a message waits no longer
  than its own `max.compaction.lag.ms` for that: see `_newest`.

A pass is due when the dirty part is more than `min.cleanable.dirty.ratio` of what it would look at, when it has as many
bytes as Pulsar's `compactionThreshold`, or when it has waited for `max.compaction.lag.ms`. That closes the segment
which takes appends, too.

A record without a value, a tombstone, stays until a pass has covered it `delete.retention.ms` ago: who reads from the
beginning within that time sees that the key is gone. So does the marker of a transaction. What passes have covered, and
when, is remembered for that (`Done.passes`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple, Protocol

from semantics.retention import Segment

NEVER = (1 << 63) - 1
"""`max.compaction.lag.ms` that says no limit."""

MARKERS_MS = 60_000
"""Markers, and what readers are told of aborted transactions, stay for so long at least: a read that is under way may
have records of such a transaction in hand, and ask about it then.
"""

PASSES = 32
"""Passes that are remembered within `delete.retention.ms`. If there are more, tombstones stay a little longer."""

_SPAN = (1 << 31) - 1
_HEAD = struct.Struct(">BQ")
_PASS = struct.Struct(">Qq")
_VERSION = 1


class Policy(NamedTuple):
    """Kafka's configs, and Pulsar's threshold; ms and bytes."""

    min_lag_ms: int = 0
    max_lag_ms: int = NEVER
    dirty_ratio: float = 0.5
    delete_retention_ms: int = 86_400_000
    threshold: int = 0
    """0 is none."""


class Done(NamedTuple):
    """What became of a log so far."""

    clean_to: int = 0
    """Below it the log is clean."""
    passes: tuple[tuple[int, int], ...] = ()
    """(offset below which a pass covered everything, when in ms since 1970), ascending."""


class Verdict(NamedTuple):
    """What a pass would do now."""

    first_dirty: int
    end: int
    """It ends there; not above `first_dirty` when there is nothing to do."""
    clean: int
    dirty: int
    """Bytes in the two parts, as far as a pass may come."""
    due: bool
    roll: bool
    """The segment that takes appends is to be closed first. That may be all there is to do."""
    late_to: int = 0
    """Below it messages have waited for so long that subscriptions hold nothing."""


def decide(
    segments: Sequence[Segment],
    policy: Policy,
    done: Done,
    now: int,
    *,
    start: int,
    stable: int,
    held: int | None = None,
    asked: bool = False,
) -> Verdict:
    """At `now` (ms since 1970), of a log that begins with the offset `start`. All below `stable` is decided; `held` is
    the first record that a subscription has open. `asked`: somebody wants a pass now, and whatever has come until now
    in it, however little it is.
    """
    first_dirty = max(done.clean_to, start)
    new = [each for each in segments if each.next_offset > first_dirty]
    late = bool(new) and _is_late(new[0], policy, now)
    late_to = _late_to(new, policy, now)
    roll = overdue = False
    end = min([stable, *[each.next_offset for each in segments[-1:]]])
    for each in new:
        if each.active and each.size and (asked or _is_late(each, policy, now)):
            roll, overdue = True, _is_late(each, policy, now)
        elif each.active:
            end = min(end, each.base_offset)
        if policy.min_lag_ms > 0 and not asked and each.max_timestamp > now - policy.min_lag_ms:
            end = min(end, each.base_offset)
    if held is not None and max(held, late_to) < end:
        end = max(held, late_to)
        # not for each message that is settled: the others wait no longer than that of a whole segment has
        late = late_to > first_dirty
    clean = sum([_size(each, start, min(first_dirty, end)) for each in segments])
    dirty = sum([_size(each, first_dirty, end) for each in new])
    due = dirty > 0 and (
        asked
        or late
        or (policy.threshold > 0 and dirty >= policy.threshold)
        or dirty > policy.dirty_ratio * (clean + dirty)
    )
    # one that is closed for its age is so also when it is held: else it never has an age at which nobody holds it
    return Verdict(first_dirty, end, clean, dirty, due, roll and (due or overdue), late_to)


def _is_late(segment: Segment, policy: Policy, now: int) -> bool:
    """Whether what came into a segment has waited for too long."""
    return policy.max_lag_ms < NEVER and now - segment.created_at > policy.max_lag_ms


def _late_to(segments: Sequence[Segment], policy: Policy, now: int) -> int:
    """The end of the last of these, from the first one on, of which even the newest record has waited for too long."""
    end = 0
    if policy.max_lag_ms < NEVER:
        for each, behind in zip_longest(segments, segments[1:]):
            if now - _newest(each, behind) <= policy.max_lag_ms:
                break
            end = each.next_offset
    return end


def _newest(segment: Segment, behind: Segment | None) -> int:
    """No record of a segment came later, in ms since 1970: all were there when the one `behind` it was begun. Of the
    last one only their own timestamps say it.
    """
    if behind is not None:
        return behind.created_at
    return max(segment.max_timestamp, segment.created_at)


def _size(segment: Segment, first: int, end: int) -> int:
    """About how many bytes of a segment lie in [first, end)."""
    first, end = max(first, segment.base_offset), min(end, segment.next_offset)
    whole = segment.next_offset - segment.base_offset
    if end <= first:
        return 0
    return segment.size if end - first == whole else max(1, segment.size * (end - first) // whole)


class Sized(Protocol):
    """A segment that is to be written anew."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...


def groups(segments: Sequence[Sized], segment_bytes: int) -> list[tuple[int, int]]:
    """Which become one: (from, to below) each, as numbers of them. Together they have no more than a segment may."""
    found: list[tuple[int, int]] = []
    first = size = 0
    for number, each in enumerate(segments):
        span = each.next_offset - segments[first].base_offset
        if number > first and (size + each.size > segment_bytes or span > _SPAN):
            found.append((first, number))
            first, size = number, 0
        size += each.size
    if segments:
        found.append((first, len(segments)))
    return found


def horizon(done: Done, retention_ms: int, now: int) -> int:
    """Below this offset all was covered by a pass so long ago: tombstones may go."""
    return max([end for end, at in done.passes if now - at >= retention_ms], default=0)


def after(done: Done, end: int, now: int, retention_ms: int) -> Done:
    """What is to be remembered when a pass up to `end` is over."""
    kept = max(retention_ms, MARKERS_MS)
    old = [each for each in done.passes if now - each[1] >= kept]
    young = [each for each in done.passes if now - each[1] < kept]
    passes = [*old[-1:], *young]
    # one that comes soon after the last counts with the next: tombstones stay longer, never shorter
    if not young or now - young[-1][1] >= kept // PASSES:
        passes.append((end, now))
    return Done(max(done.clean_to, end), tuple(passes))


def encode(done: Done) -> bytes:
    """For a row."""
    return _HEAD.pack(_VERSION, done.clean_to) + b"".join([_PASS.pack(*each) for each in done.passes])


def decode(row: bytes | None, end: int) -> Done:
    """What a row says, of a log that ends at `end`: it may have become shorter. A row of another form says nothing."""
    if not row or row[0] != _VERSION or (len(row) - _HEAD.size) % _PASS.size:
        return Done()
    _, clean_to = _HEAD.unpack_from(row)
    passes = [(min(at, end), when) for at, when in _PASS.iter_unpack(row[_HEAD.size :])]
    return Done(min(clean_to, end), tuple(passes))
