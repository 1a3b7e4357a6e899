"""How long records of a segment are delayed, where retention would take it and a subscription is not done with it.

From where on nothing is delayed may be known (`undelayed`). Before that nobody has looked at what a dispatcher has not
come to. So headers are looked through, a slice at a time, in a thread where bytes must be unfolded or parsed; as far as
is needed to know that the segment stays, and on from there the next time. What was found is remembered by segment, as
two offsets and a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from gateway.broker.subscriptions.stored import Stored, walk
from gateway.broker.undelayed import NEVER
from gateway.wire import delivery
from gateway.wire.searching import holds
from semantics.retention import Latest
from store.api import Buffer, Corrupt
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.clock import Clock
    from gateway.wire.delays import Delays
    from semantics.retention import Look, Segment

SLICE = 1024 * 1024
"""Bytes that are read in one go."""
PART = 5_000
"""Records that a thread looks at in one go."""

_CODEC, _CONTROL = 0x07, 0x20


class Readable(Protocol):
    """A log."""

    def look(self, offset: int, max_bytes: int, /) -> Pending[list[Buffer]]: ...


class _Known:
    """Of the offsets [begin, reached) the last delay, as `reading` has it, ends at `due`."""

    __slots__ = ("begin", "due", "reached", "reading")

    def __init__(self, begin: int, reading: tuple[int, bool]) -> None:
        self.begin = self.reached = begin
        # (the longest delay, whether they are retry letters)
        self.reading = reading
        self.due = 0


class DelaysAhead:
    """What is known of segments, by partition and base offset."""

    def __init__(
        self,
        logs: Callable[[int], Readable],
        clock: Clock,
        unfolds_to: int,
        undelayed: Callable[[int], int],
    ) -> None:
        """`logs` finds the log of a partition, `undelayed` from which offset on nothing of it is delayed. A batch may
        unfold to so many bytes.
        """
        self._undelayed = undelayed
        self._logs = logs
        self._clock = clock
        self._unfolds_to = unfolds_to
        self._known: dict[int, dict[int, _Known]] = {}
        # bytes looked through, for tests and people
        self.bytes = 0

    def latest(
        self, partition: int, segment: Segment, begin: int, longest: int, retry: bool
    ) -> Latest | None:
        """What is known of the delays in a segment from the offset `begin` on; None for nothing. For the others see
        `look`.
        """
        begin, undelayed = max(begin, segment.base_offset), self._from(partition, retry)
        if undelayed <= begin:
            return Latest(0, True)
        known = self._known.get(partition, {}).get(segment.base_offset)
        if known is None or known.begin > begin or known.reading != (longest, retry):
            return None
        return Latest(known.due, known.reached >= min(segment.next_offset, undelayed))

    async def look(self, partition: int, look: Look, begin: int, longest: int, retry: bool) -> None:
        """Find out, from `begin` on. `longest` is the longest delay in ms; `retry`: it is a retry letter topic. Raises
        StoreError, IndexError when the log has moved.
        """
        segment = look.segment
        begin = max(begin, segment.base_offset)
        segments = self._known.setdefault(partition, {})
        known = segments.get(segment.base_offset)
        if known is None or known.begin > begin or known.reading != (longest, retry):
            known = segments[segment.base_offset] = _Known(begin, (longest, retry))
        log = self._logs(partition)
        while (
            known.reached < min(segment.next_offset, self._from(partition, retry)) and known.due < look.enough
        ):
            try:
                data = log.look(known.reached, SLICE)
                if not isinstance(data, list):
                    data = await data
            except Corrupt as error:
                # nobody will be delivered it
                known.reached = error.next_offset
                continue
            stored = [each for each in walk(data, known.reached) if each.base < segment.next_offset]
            if not stored:
                known.reached = segment.next_offset
                break
            self.bytes += sum([each.size for each in stored])
            async for found in self._delays(stored, retry, longest):
                known.due = max(known.due, max(found.dues, default=0))
            await asyncio.sleep(0)
            known.reached = stored[-1].next

    def _from(self, partition: int, retry: bool) -> int:
        """From where on nothing is delayed. What is noted says nothing of the delays that retry letters have."""
        return self._undelayed(partition) if not retry else NEVER

    async def due_since(self, stored: Sequence[Stored], since: int, longest: int, retry: bool) -> list[int]:
        """The records of these batches, ascending, that are due at `since` (ms since 1970) or later."""
        offsets: list[int] = []
        async for found in self._delays(stored, retry, longest):
            offsets += [offset for offset, due in found if due >= since]
        return offsets

    async def _delays(self, stored: Sequence[Stored], retry: bool, longest: int) -> AsyncIterator[Delays]:
        """The delays of batches, a part at a time: others have their turn between the parts of what unfolds to very
        much.
        """
        telling = _telling(stored, retry)
        run = asyncio.get_running_loop().run_in_executor
        while telling:
            part, records = 0, 0
            while part < len(telling) and records < PART:
                records += telling[part].count
                part += 1
            wall = self._clock.wall_ms()
            for found in await run(None, _found, telling[:part], retry, self._unfolds_to):
                yield found.at_most(longest, wall)
            del telling[:part]

    def forget(self, partition: int, before: int) -> None:
        """The log of a partition begins at `before`."""
        segments = self._known.get(partition)
        if segments is not None:
            for base in [base for base in segments if base < before]:
                del segments[base]
            if not segments:
                del self._known[partition]

    def keep(self, partitions: set[int]) -> None:
        """Forget all other partitions."""
        for partition in self._known.keys() - partitions:
            del self._known[partition]


def _telling(stored: Sequence[Stored], retry: bool) -> list[Stored]:
    """The batches that must be opened to know that they have no delays."""
    found: list[Stored] = []
    for buffer, together in groupby(stored, key=attrgetter("buffer")):
        batches = list(together)
        # one search for all that lie in a buffer: few buffers have the mark at all
        if retry or _mentions(buffer, batches[0], batches[-1]):
            found += [each for each in batches if retry or _folded(each) or _mentions(buffer, each, each)]
        else:
            found += [each for each in batches if _folded(each)]
    return [each for each in found if each.count and not each.attributes & _CONTROL]


def _folded(batch: Stored) -> bool:
    """Whether it is compressed: nothing can be found in it."""
    return bool(batch.attributes & _CODEC)


def _mentions(buffer: Buffer, first: Stored, last: Stored) -> bool:
    return holds(buffer, delivery.DELAY_MARK, first.position, last.position + last.size)


def _found(batches: list[Stored], retry: bool, limit: int) -> list[Delays]:
    """The delays of these batches. In a thread."""
    found: list[Delays] = []
    for batch in batches:
        try:
            found.append(delivery.scan(bytes(batch.raw()), retry=retry, limit=limit).delayed)
        except delivery.Unreadable:
            # it is buried whole, and at once
            continue
    return found
