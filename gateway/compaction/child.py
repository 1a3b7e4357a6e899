"""The process that compacts one log: `python -m gateway.compaction.child`, with messages on stdin and stdout.

It reads segments and fills files that it is given. It never opens the store, and nothing of what it does counts before
the gateway has swapped it in: it may be killed at any time. When the gateway is gone it ends at once. It runs at the
lowest priority, and its memory is the map of keys, a batch and some buffers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue
from typing import BinaryIO, TypeVar

import msgspec

from gateway.compaction import messages
from gateway.compaction.messages import Emptied, Failed, Finished, FromChild, Given, Need, Work, Written
from gateway.compaction.passes import Aborted, Cleaning, Survey
from semantics.compaction import groups
from store import batch
from store.rewriting import Damaged, Numbered, SegmentWriter, Source, batches

T = TypeVar("T")

_NICE = 19


class Pace:
    """Not more than so many bytes in a second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._began = time.monotonic()
        self._bytes = 0

    def spend(self, size: int) -> None:
        if self._rate <= 0:
            return
        self._bytes += size
        ahead = self._bytes / self._rate - (time.monotonic() - self._began)
        if ahead > 0.01:
            time.sleep(ahead)


class Pass:
    """One pass over a log."""

    def __init__(self, work: Work, give: SimpleQueue[Given], out: BinaryIO) -> None:
        self._work = work
        self._give = give
        self._out = out
        self._pace = Pace(work.bytes_per_second)
        self._sources = [each.source for each in work.segments]
        self._aborted = [Aborted(*each) for each in messages.unpack_aborted(work.aborted)]
        self.read = 0

    def run(self) -> Finished:
        """Raises Damaged, OSError."""
        work = self._work
        survey = Survey(work.end, work.memory, self._aborted, work.limit, first_dirty=work.first_dirty)
        self._survey(survey)
        cleaning = Cleaning(
            survey.latest,
            survey.end,
            tombstones_to=min(work.tombstones_to, survey.end),
            markers_to=min(work.markers_to, survey.end),
            aborted=self._aborted,
            limit=work.limit,
        )
        sources = [each for each in self._sources if each.base_offset < survey.end]
        for first, last in groups(sources, work.segment_bytes):
            self._write(sources[first:last], cleaning, work.ends and last == len(self._sources))
        return Finished(survey.end, self.read, len(survey.latest))

    def _survey(self, survey: Survey) -> None:
        for source in self._sources:
            if source.next_offset <= self._work.first_dirty:
                continue
            for each in self._read([source]):
                if not survey.add(each.data):
                    return

    def _read(self, sources: list[Source]) -> Iterator[Numbered]:
        for source in sources:
            for each in batches(source):
                size = len(each.data)
                self.read += size
                self._pace.spend(size)
                yield each

    def _write(self, sources: list[Source], cleaning: Cleaning, ends: bool) -> None:
        """What stays of some segments, as one. `ends`: the last batch does in any case."""
        writer: SegmentWriter | None = None
        changed = len(sources) > 1
        with contextlib.ExitStack() as closing:
            for each, last in _with_last(self._read(sources)):
                kept = cleaning.clean(each.data, last=last and ends)
                changed = changed or kept is not each.data
                if kept is None:
                    continue
                if writer is None:
                    self._tell(Need(batch.base_offset(kept)))
                    writer = SegmentWriter(self._give.get().place, sources[0].created_at)
                    closing.callback(writer.close)
                writer.add(kept, each.ledger, each.entry)
                self._pace.spend(len(kept))
            new = writer.finish() if writer is not None else None
        old = [(each.base_offset, each.number) for each in sources]
        self._tell(Emptied(old) if new is None else Written(old, *new[1:], same=not changed))

    def _tell(self, message: FromChild) -> None:
        self._out.write(messages.framed(message))
        self._out.flush()


def _with_last(items: Iterator[T]) -> Iterator[tuple[T, bool]]:
    """Each, and whether it is the last."""
    before = next(items, None)
    if before is None:
        return
    for each in items:
        yield before, False
        before = each
    yield before, True


def _listen(stream: BinaryIO, works: SimpleQueue[Work], given: SimpleQueue[Given]) -> None:
    """In a thread: hand on what comes. When nothing comes any more, nobody wants what is done here."""
    while (data := messages.read(stream)) is not None:
        try:
            message = messages.to_child.decode(data)
        except msgspec.DecodeError as error:
            print(f"What came makes no sense: {error}", file=sys.stderr, flush=True)
            os._exit(2)
        if isinstance(message, Work):
            works.put(message)
        else:
            given.put(message)
    os._exit(1)


def main() -> None:
    """Do the work that is sent, and end."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    # millions of keys and numbers, and no cycles among them
    gc.disable()
    works: SimpleQueue[Work] = SimpleQueue()
    given: SimpleQueue[Given] = SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, works, given), daemon=True).start()
    out = sys.stdout.buffer
    answer: FromChild
    try:
        answer = Pass(works.get(), given, out).run()
    except Damaged as error:
        answer = Failed(str(error))
    except OSError as error:
        answer = Failed(f"{error.filename or 'a segment'}: {error.strerror}")
    except MemoryError:
        answer = Failed(
            "There is not enough memory for the map of keys: lower log.cleaner.dedupe.buffer.size."
        )
    out.write(messages.framed(answer))
    out.flush()
    # the thread waits in a read that nothing ends
    os._exit(0)


if __name__ == "__main__":
    main()
