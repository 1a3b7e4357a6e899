"""A lane at work: what a fetch reads of it, and what it is given when a fetch has come to its end.

Who asks at the end is given more: that is how the next records are dealt. What was given shows when it is stored, and
then whoever waits is woken. A lane that got nothing is parked on the cursors until one of them has something for it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.participant import Gathered, Stage
from gateway.broker.queues import rows
from gateway.broker.queues.source import AGAIN_MS
from gateway.broker.readable import Decided
from gateway.promise import Promise
from gateway.wire.batch import empty_batch
from semantics.lanes.lane import Piece as Deliveries
from semantics.lanes.lane import by_source
from semantics.lanes.marks import Mark, Verb
from semantics.taken import number_of
from store.api import Corrupt, Durability, Outcome, Piece, Store, StoreError
from store.pending import Asking, Pending, drive

if TYPE_CHECKING:
    from gateway.broker.queues.queue_port import Dealing
    from gateway.broker.queues.source import Source
    from gateway.broker.readable import Readable, Watcher
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.lanes.lane import Lane
    from semantics.lanes.runs import Run

log = logging.getLogger("magnetar.queues")

MOST_BYTES = 1024 * 1024
"""What is given at once has about so many bytes: as much as most clients take of a partition in one answer."""
READ_MS = 30_000
"""For how long a lane counts as read after the last fetch that asked for more. Not all clients have sessions, in which
they wait always, and between two fetches they work.
"""
_MOST_VOIDS = 2_000
"""Ranges that were taken back: a lane's row, which each commit writes, has 16 bytes of each."""


class LaneAtWork(Decided):
    """Offers itself to fetches as a partition does (`Readable`); to the turn it is a `Participant`."""

    stage, prepares = Stage.CURSORS, False
    dispatching = None
    """See `Readable`. What lanes are given is counted where it comes from."""

    def __init__(
        self, queue: Dealing, index: int, partition: int, lane: Lane, begins: list[int], store: Store
    ) -> None:
        """`partition`: the store's id of it; `begins`: where its rows of runs begin."""
        self.queue = queue
        self.index = index
        self.id = partition
        self.lane = lane
        self.store = store
        self.consumer = name_of(index)
        self.leader_epoch = store.leader_epoch(partition)
        self.high_watermark = lane.end
        self.bytes_out = 0
        self.watchers: set[Watcher] = set()
        # monotonic ms: when something of it was settled, or the first of what somebody has was sent
        self.moved_at = queue.node.clock.monotonic_ms()
        # from where to where the last fetch found that nothing can be read
        self._barren = -1, -1
        # True when somebody has read all there is and was given nothing since
        self._asked = False
        # monotonic ms: when that was
        self._asked_at = -READ_MS
        # True from when its consumer has gone until somebody has it, or asks
        self._quit = False
        # True while a disk is asked for what it is to be given
        self._giving = False
        # True when it was to be given more while a disk was asked
        self._again = False
        self._touched = False
        # fetches that wait for a disk, or until it is stored what they send
        self.reading = 0
        # how often deliveries that nobody had been sent were taken back beside these
        self.taken_back = 0
        # what the open turn has of it
        self._given: list[Run] = []
        # where the first and the last row of runs begin that are not needed any more
        self._gone: tuple[int, int] | None = None
        # (monotonic ms, the first open offset then)
        self._marks: deque[tuple[int, int]] = deque()
        # lane offsets at which its rows of runs begin
        self._begins = begins
        # commits on their way, the oldest first: where the lane will end
        self._sent: list[int] = []

    # -- as something to read ---------------------------------------------------------------------------------------

    @property
    def stale(self) -> bool:
        """See `Readable`."""
        return self.queue.gone

    @property
    def log_start(self) -> int:
        """See `Readable`."""
        return self.lane.start

    @property
    def size(self) -> int:
        """A lane stores no records. What its open deliveries may have in the logs of their sources."""
        return self.lane.opened * 512

    def news_for(self, connection: int) -> bool:
        """See `Readable`."""
        news = self.queue.news
        return news is not None and news.tell(connection, self.index, self.queue.node.clock.monotonic_ms())

    def fetch(
        self, offset: int, max_bytes: int, *, whole_first: bool, least: int | None
    ) -> Pending[list[Piece]]:
        """See `Readable`. Nothing is lent."""
        return drive(self._reading(offset, max_bytes, whole_first))

    def _reading(self, offset: int, max_bytes: int, whole_first: bool) -> Asking[list[Piece]]:
        self.reading += 1
        try:
            while True:
                found = yield from self._read(offset, max_bytes, whole_first)
                if found is not None:
                    return found
        finally:
            self.reading -= 1

    def _read(self, offset: int, max_bytes: int, whole_first: bool) -> Asking[list[Piece] | None]:
        """What is found; None when some of it was taken back while a disk was asked."""
        queue, lane = self.queue, self.lane
        taken_back = self.taken_back
        found: list[Piece] = []
        size, reached, ended = 0, offset, False
        for piece in lane.readable(offset, self.high_watermark):
            source = queue.sources.get(piece.run.source)
            if source is None:
                # the partition is not there any more
                reached = piece.end
                continue
            partition = source.at.partition
            if partition.stale:
                try:
                    source.at.ready()
                except KafkaError as error:
                    raise StoreError(str(error)) from error
                partition = source.at.partition
            if piece.run.first < partition.log_start:
                self._lost(piece, partition.log_start)
            try:
                made, length, behind = yield from queue.builder.build(
                    partition,
                    piece,
                    self.leader_epoch,
                    max_bytes - size,
                    source.at.reader.record_bytes,
                    whole_first=whole_first and not found,
                    whole=lane.whole,
                    with_headers=queue.says(piece.run, source),
                    sharing=source.sharing(self.consumer),
                    unreadable=partial(self._unreadable, source, piece),
                )
            except Corrupt:
                if not found:
                    raise
                # what lies before comes
                break
            found += made
            size += length
            reached = behind
            if behind < piece.end or size >= max_bytes:
                break
        else:
            # what is void at the end is no piece
            ended = True
        if self.being_written and not lane.whole(offset, reached):
            # Whoever reads goes on behind what is void: that it is may not be news of this process alone. Else it is
            # open again behind a crash, and the next commit acknowledges what nobody was sent.
            yield from self._written()
        if self.stale:
            # while a disk was asked; the lane that takes its place would not know that somebody was sent this
            raise IndexError("the lane is read again")
        if self.taken_back != taken_back:
            return None
        if reached > offset:
            if lane.shown(offset, reached):
                # that somebody was sent what was given ahead is stored before it is
                self.touch()
                yield from self._written()
            if next(lane.sent_and_open(), None) is None:
                self.moved_at = queue.node.clock.monotonic_ms()
            lane.serve(offset, reached)
        if not found and ended:
            # nothing of the rest can be read: whoever reads here goes on behind it
            self._barren = offset, reached
            self.at_end()
        return found

    def _written(self) -> Asking[None]:
        """Until it is stored as it is now. Raises IndexError when it is read again instead."""
        told: Promise[Outcome] = Promise()
        self.queue.node.turn.write((), told.tell, Durability.OS)
        if (yield told) is not None or self.stale:
            raise IndexError("the lane is read again")

    def spanned(self, offset: int) -> list[Piece]:
        """See `Readable`: an empty batch, as compaction leaves it."""
        if self._barren != (offset, self.high_watermark):
            return []
        return [empty_batch(offset, self.high_watermark - 1, self.leader_epoch)]

    def _lost(self, piece: Deliveries, start: int) -> None:
        """What was trimmed is not open any more: nobody can be sent it."""
        lane, begin = self.lane, piece.begin
        end = begin + bisect_left(piece.run.offsets(begin, piece.end), start)
        if end > lane.open and next(lane.open_ranges(begin, end), None) is not None and not self.stale:
            lane.close(begin, end)
            self.touch()

    def _unreadable(self, source: Source, piece: Deliveries, begin: int, end: int) -> None:
        """Nobody can open the batch of these deliveries: they are dead letters, and not open any more. Raises
        StoreError when a cursor cannot be had.
        """
        lane = self.lane
        if self.stale:
            return
        for first, stop in list(lane.open_ranges(begin, end)):
            offsets = piece.run.ranges(first, stop)
            try:
                source.mark(self.consumer, offsets, Mark(first, stop - 1, Verb.DEAD))
            except KafkaError as error:
                raise StoreError(str(error)) from error
            lane.close(first, stop)
            self.touch()

    def unreadable(self, error: StoreError) -> None:
        """See `Readable`."""
        log.error(
            "a lane cannot be read: %s",
            error,
            extra={"topic": self.queue.name, "partition": self.index, "corrupt": isinstance(error, Corrupt)},
        )

    def stuck(self, now: int, timeout_ms: int) -> bool:
        """Whether somebody has had deliveries for so long and settled none of them."""
        return now - self.moved_at >= timeout_ms and self.lane.in_hand > 0

    # -- what it is given -------------------------------------------------------------------------------------------

    def at_end(self) -> None:
        """Somebody has read all there is, and wants more."""
        self._asked, self._quit = True, False
        self._asked_at = self.queue.node.clock.monotonic_ms()
        self.give()

    def quit(self) -> None:
        """Its consumer is gone, and does not want what it has asked for. Its session may be there still, and may be
        that of the next: it does not ask again for what it waits for.
        """
        self._quit, self._asked_at = True, -READ_MS

    def taken_over(self) -> None:
        """Whose lane it is has been said anew."""
        self._quit = False

    @property
    def left_alone(self) -> bool:
        """Whether its consumer has gone, and nobody has it yet."""
        return self._quit

    @property
    def read(self) -> bool:
        """Whether somebody reads it now: has asked, or is about to be sent what is open."""
        now = self.queue.node.clock.monotonic_ms()
        reads = bool(self.watchers) or now - self._asked_at < READ_MS
        return reads and not self._quit and (self._asked or self.lane.opened > 0)

    def ahead(self) -> Awaitable[None] | None:
        """Somebody asks where it ends, and will read up to there: Spark, or a tool. Give it what there is, as far as
        there is room, and wait until that is stored; None when there is nothing to wait for.
        """
        given, rest = self._further()
        # what is on its way to the store may be given already, or make room
        under_way = self._touched or self.lane.end > self.high_watermark
        return self._stored(rest) if given or (under_way and not self.queue.gone) else None

    def _further(self) -> tuple[bool, Awaitable[None] | None]:
        """Whether it was given more, or is being given; and what is left to do of that."""
        if self._giving or self.queue.gone or self._touched:
            return False, None
        room = self.queue.lanes.room(self.index)
        if not room:
            return False, None
        end = self.lane.end
        self._giving = True
        rest = self._driven(self._take(room, ahead=True))
        return rest is not None or self.lane.end > end, rest

    async def _stored(self, rest: Awaitable[None] | None) -> None:
        # no more than some bytes at a time, so that others have their turns
        more = True
        while more:
            if rest is not None:
                await self._finish(rest)
            if self.queue.gone:
                return
            told: Promise[Outcome] = Promise()
            self.queue.node.turn.write((), told.tell, Durability.OS)
            if await told is not None:
                return
            more, rest = self._further()

    def wake(self, at: SubscriptionPartition) -> None:
        """There may be something for it. It is not parked there any more."""
        self.give()

    def give(self) -> None:
        """If somebody has asked, and there is room, let it have what there is."""
        if self._giving:
            # what is there now was perhaps not when it looked
            self._again = True
            return
        if not self._asked or self._quit or self.queue.gone or not self.watchers:
            return
        room = self.queue.lanes.room(self.index)
        if not room:
            # a commit makes some
            return
        self._giving = True
        rest = self._driven(self._take(room))
        if rest is not None:
            self.queue.run(self._finish(rest))

    def _driven(self, work: Asking[None]) -> Awaitable[None] | None:
        """As far as it need not wait; the rest, during which nothing else is given."""
        self._again = False
        try:
            rest = drive(work)
        except BaseException:
            self._giving = False
            raise
        if isinstance(rest, Awaitable):
            return rest
        self._giving = False
        return None

    async def _finish(self, rest: Awaitable[None]) -> None:
        try:
            await rest
        finally:
            self._giving = False
        if self._again:
            self.give()

    def _take(self, room: int, ahead: bool = False) -> Asking[None]:
        queue = self.queue
        found: list[tuple[int, Sequence[tuple[int, int, int]]]] = []
        left, size, failed = room, 0, False
        now = queue.node.clock.monotonic_ms()
        for source in queue.in_turn():
            if left <= 0 or size >= MOST_BYTES // 2:
                break
            if source.again_at > now:
                failed = True
                continue
            try:
                if not source.may_serve(self.consumer):
                    continue
                acquired = yield from source.take(
                    self.consumer, left, MOST_BYTES - size, queue.builder.just_read
                )
            except KafkaError as error:
                # the others go on
                log.info("%s is given nothing of partition %d for now: %s", queue.name, source.id, error)
                queue.node.call_at(source.put_off(now), queue.give_all)
                failed = True
                continue
            source.wait_ms = AGAIN_MS
            if queue.gone:
                return
            if acquired:
                given = number_of(acquired)
                left -= given
                size += int(given * source.at.reader.record_bytes)
                found.append((source.id, acquired))
                self._given += self.lane.give(source.id, acquired, ahead)
                queue.had_its_turn(source)
        if (found or not failed) and queue.lanes.polled(self.index, found):
            # others have waited for the suspects
            queue.node.loop.call_soon(queue.give_all)
        if found:
            self._asked = False
            self.touch()
        elif self._asked:
            for source in queue.sources.values():
                source.at.parked.add(self)

    # -- the turn ---------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Something of it is to be stored."""
        if not self._touched:
            self._touched = True
            self.queue.node.turn.join(self)

    def keep(self, now: int, retention_ms: int, most_bytes: int, most_rows: int) -> None:
        """To be called from time to time: what was settled for so long is forgotten, or earlier when there is more.
        Who asks often forgets exactly.
        """
        marks = self._marks
        while marks and marks[0][0] <= now - retention_ms:
            _, before = marks.popleft()
            self.trim(before)
        if self.lane.open > self.lane.start and (not marks or marks[-1][1] != self.lane.open):
            marks.append((now, self.lane.open))
        before = self.lane.crowded(most_bytes, _MOST_VOIDS)
        if len(self._begins) > most_rows:
            before = max(before, self._begins[-most_rows])
        if before > self.lane.start:
            self.trim(before)

    def trim(self, before: int) -> None:
        """Forget what lies below, as far as it is closed."""
        begins, lane = self._begins, self.lane
        start = lane.start
        lane.trim(before)
        keep = max(bisect_right(begins, lane.start) - 1, 0)
        if keep:
            self._gone = self._gone[0] if self._gone else begins[0], begins[keep - 1]
        del begins[:keep]
        if lane.start > start:
            self.touch()

    @property
    def giving(self) -> bool:
        """Whether a disk is asked for what it is to be given."""
        return self._giving

    @property
    def being_written(self) -> bool:
        """Whether something of it is in the open turn, or on its way to the store."""
        return self._touched or bool(self._sent)

    def prepare(self) -> None:
        """It is as it is."""

    def writes(self, commit: Gathered) -> None:
        self._touched = False
        self._sent.append(self.lane.end)
        if self.queue.lost:
            return
        if self._given:
            commit.writes.append(rows.writes_runs(self.id, self._given))
            self._begins.append(self._given[0].at)
            self._given = []
        if self._gone is not None:
            commit.writes.append(rows.writes_gone(self.id, *self._gone))
            self._gone = None
        commit.writes.append(rows.writes_state(self.id, self.lane))
        if self.queue.fsync:
            commit.durability = Durability.FSYNC

    def committed(self) -> Callable[[], None] | None:
        end = self._sent.pop(0)
        if end > self.high_watermark:
            self.high_watermark = end
            return partial(self._grown, MOST_BYTES)
        return None

    def failed(self, error: StoreError) -> None:
        self._sent.pop(0)
        self.queue.throw_away(f"what a lane was given could not be stored: {error}")

    def dropped(self, error: StoreError) -> None:
        self._touched = False
        self.queue.throw_away(f"what a lane was given could not be stored: {error}")

    def _grown(self, appended: int) -> None:
        readable: Readable = self
        for watcher in list(self.watchers):
            try:
                watcher.wake(readable, appended)
            except Exception:
                log.exception("a waiter failed", extra={"topic": self.queue.name, "partition": self.index})

    def take_back_given(self) -> None:
        """What the open turn was to store of what it was given is not stored: it has not been given. Else a cursor that
        lives on would take it for what the rows say of an earlier delivery.
        """
        for source_id, ranges in by_source(Deliveries(run, run.at, run.end) for run in self._given).items():
            if (source := self.queue.sources.get(source_id)) is not None:
                source.give_back(self.consumer, ranges)
        self._given = []

    def follow(self, before: LaneAtWork) -> None:
        """It stands in the place of this one: what its consumer was sent is known."""
        self.lane.follow(before.lane, stored=not before.queue.lost)
        self.moved_at = before.moved_at

    def close(self) -> None:
        """Nobody is to read this object any more."""
        for source in self.queue.sources.values():
            source.at.parked.discard(self)
        # in a turn of their own: cursors may not all know yet why it is closed
        self.queue.node.loop.call_soon(self._grown, 0)


def name_of(index: int) -> str:
    """What a lane is called as a consumer of cursors."""
    return f"lane {index}"
