"""A queue topic at work: the lanes of one subscription, and the cursors that they are given records of.

Lanes and cursors say one thing together, so they are loaded together and thrown away together: when a commit fails, or
a cursor is read again for whatever reason, the whole queue is read again by whoever asks next. What a lane holds is
said by its own rows; a cursor that was loaded is told of it before it deals anything. A queue that is only to be read
anew, since its topics have changed, is `retire`d: what the open turn has of it is right, and is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from gateway.broker.errors import KafkaError
from gateway.broker.queues import commits, rows
from gateway.broker.queues.lane import LaneAtWork, name_of
from gateway.broker.queues.source import Source
from gateway.config.group_table import ALL, REDELIVERED
from gateway.wire.errors import Error
from semantics.lanes.lane import LaneError, by_source, columns, parts
from semantics.lanes.lanes import Failed, Lanes
from semantics.lanes.runs import RunError
from store.api import StoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gateway.broker.catalog import Topic
    from gateway.broker.queues.building import Builder
    from gateway.broker.queues.news import News
    from gateway.broker.queues.queue_port import Says
    from gateway.broker.queues.source import Ranges
    from gateway.broker.subscriptions.node import Delivering
    from gateway.config.group_configs import GroupConfig
    from semantics.lanes.lane import Piece
    from semantics.lanes.runs import Run
    from store.api import Store

log = logging.getLogger("magnetar.queues")

K = TypeVar("K")

_MANY = 64
"""deliveries of which something is said at once, from which on it is said by columns"""
KEPT_BYTES = 64 * 1024 * 1024
"""of memory for runs, over all lanes: where there are more, what is settled is forgotten"""
KEPT_ROWS = 500_000
"""of runs, over all lanes: who loads the queue reads each"""


class Queue:
    """See the module."""

    def __init__(
        self,
        node: Delivering,
        topic: Topic,
        store: Store,
        builder: Builder,
        sources: Iterable[Source],
        *,
        config: Callable[[], GroupConfig],
    ) -> None:
        """Of lanes and cursors that are loaded. `config`: the subscription's as it is by now. Raises KafkaError."""
        self.node = node
        self.topic = topic
        self.name = topic.name
        self.builder = builder
        # True when what it stores must outlive a power cut
        self.fsync = False
        self._config = config
        # those at work of the group, in the order in which they came: one list for all, with this one in it
        self.company = [self]
        # True when another object stands for it by now, or none
        self.gone = False
        # True when it says what is not stored, and never will be
        self.lost = False
        # while consumers are to hear that there are more lanes
        self.news: News | None = None
        # the catalog's, when its sources were looked at last
        self.version = -1
        # by the store's id of the partition; who was served last comes last
        self.sources: dict[int, Source] = {source.id: source for source in sources}
        self.look_at_durability()
        self._tasks: set[asyncio.Task[None]] = set()
        try:
            read = [rows.read(store, partition) for partition in topic.partitions]
        except (StoreError, LaneError, RunError) as error:
            raise KafkaError(
                Error.KAFKA_STORAGE_ERROR, f"Lanes of {topic.name} cannot be read: {error}"
            ) from error
        self.at = [
            LaneAtWork(self, index, topic.partitions[index], lane, begins, store)
            for index, (lane, begins) in enumerate(read)
        ]
        its = config().subscription
        self.lanes = Lanes(
            [lane for lane, _ in read],
            its.delivery_limit,
            shared=its.type != "key_shared",
            reads=lambda number: self.at[number].read,
        )
        # the cursors are told what the lanes hold
        self._close_lost(Source.hold)
        self._renew_dealt()

    def _close_lost(self, held_of: Callable[[Source, str, Ranges], list[tuple[int, int]]]) -> None:
        """What is not the lanes' any more is closed; `held_of` a source says what of their open deliveries they hold.
        Raises KafkaError.
        """
        for at in self.at:
            lane, name = at.lane, at.consumer
            opened = [
                piece
                for begin, end in list(lane.open_ranges(lane.open, lane.end))
                for piece in lane.pieces(begin, end)
            ]
            ranges = by_source(opened)
            held: dict[int, list[tuple[int, int]]] = {}
            for source in self.sources.values():
                held[source.id] = held_of(source, name, ranges.get(source.id, ()))
            for piece in opened:
                for begin, end, there in parts(piece, held.get(piece.run.source, [])):
                    if not there:
                        lane.close(begin, end)
                        at.touch()

    def _renew_dealt(self) -> None:
        """What was given under another type of the subscription is given anew: an earlier and a later record of a key
        may be on two lanes.
        """
        for at in self.at:
            lane = at.lane
            if lane.shared == self.lanes.shared:
                continue
            lane.shared = self.lanes.shared
            if lane.opened:
                ended = lane.end_all()
                self._give_back([(at.index, piece) for piece in (*ended.served, *ended.returned)])
                at.touch()

    def keep(self) -> None:
        """Forget what was settled for as long as the configs say, or earlier when it is very much."""
        now, retention_ms = self.node.clock.monotonic_ms(), self._config().queue_retention_ms
        for each in self.at:
            each.keep(now, retention_ms, KEPT_BYTES // len(self.at), KEPT_ROWS // len(self.at))

    def says(self, run: Run, source: Source) -> bool:
        """Whether deliveries of a run bear headers that say what they are."""
        which = self._config().queue_headers
        if which == REDELIVERED:
            return run.failed > 0 or source.at.retries
        return which == ALL

    # -- the cursors ------------------------------------------------------------------------------------------------

    def in_turn(self) -> Iterator[Source]:
        """The sources, whoever has waited longest first."""
        return iter(list(self.sources.values()))

    def add(self, sources: Sequence[Source]) -> None:
        """Lanes are given records of these, too: cursors that are loaded. None of them is being given anything. Raises
        KafkaError.
        """
        for source in sources:
            for each in self.at:
                source.hold(each.consumer, ())
            self.sources[source.id] = source
        self.look_at_durability()
        for each in self.at:
            for source in sources:
                if source.may_serve(each.consumer):
                    each.give()
                    break
                # nobody looks at the others again for that
                source.at.parked.add(each)

    def look_at_durability(self) -> None:
        """Its topics' configs may be others now: it outlives what any of them does."""
        self.fsync = any(source.at.partition.durability == "fsync" for source in self.sources.values())

    def had_its_turn(self, source: Source) -> None:
        """It was the turn of this one."""
        self.sources[source.id] = self.sources.pop(source.id)

    def run(self, work: Awaitable[None]) -> None:
        """Go on with work that waits for a disk."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ready(self) -> None:
        """All cursors can be had: what is begun now is done to all of them. Raises KafkaError."""
        for each in self.sources.values():
            each.at.ready()
        self.lanes.limit = self._config().subscription.delivery_limit

    # -- what consumers say -----------------------------------------------------------------------------------------

    def commit(
        self, index: int, offset: int, metadata: str | None, *, member: bool, saying: Says | None = None
    ) -> None:
        """See `commits.commit`. Raises MarksError, KafkaError."""
        commits.commit(self, index, offset, metadata, member=member, saying=saying)

    def came_back(self, partition: int, ranges: Ranges) -> None:
        """See `commits.came_back`."""
        commits.came_back(self, partition, ranges)

    # -- who has which lane -----------------------------------------------------------------------------------------

    def assigned(self, lanes: Mapping[str, Iterable[int]]) -> None:
        """These members have these lanes now, and nobody has the others."""
        self.moved({number: member for member, those in lanes.items() for number in those}, whole=True)

    def moved(self, lanes: Mapping[int, str | None], *, whole: bool) -> None:
        """These lanes have these owners now. `whole`: and nobody has the others, which stay as they are else."""
        owners: list[str | None] = [None] * len(self.at) if whole else list(self.lanes.owners)
        for number, member in lanes.items():
            if 0 <= number < len(owners):
                owners[number] = member
        for at, before, owner in zip(self.at, self.lanes.owners, owners, strict=True):
            if owner != before:
                # what another was sent is not in the hands of this one
                at.lane.served.clear()
                if before is not None:
                    at.lane.let_go()
            if owner is not None:
                # who waits on one that is nobody's may be its last consumer, which is gone
                at.taken_over()
        self.lanes.owners = owners
        # who waited for the suspects on another lane of its member may not have it any more
        self.give_all()

    def give_all(self) -> None:
        """There may be room on any lane, of any queue topic of the group: one may have waited for another."""
        for queue in list(self.company):
            for each in queue.at:
                each.give()

    def join(self, company: list[Queue]) -> None:
        """It is at work beside these, of the same group."""
        company.append(self)
        self.company = company
        lanes = [queue.lanes for queue in company]
        for queue in company:
            queue.lanes.company = lanes

    def stuck(self) -> list[tuple[str, int]]:
        """(member, lane) of those that have had deliveries for longer than they may without settling one."""
        timeout_ms = self._config().stuck_ms
        if not timeout_ms:
            return []
        now = self.node.clock.monotonic_ms()
        found = {
            owner: at.index
            for at, owner in zip(self.at, self.lanes.owners, strict=True)
            if owner is not None and at.stuck(now, timeout_ms)
        }
        return list(found.items())

    def crashed(self, member: str, *, alone: bool | None = None) -> None:
        """A member is lost. `alone`: see `Lanes.crash`. Raises KafkaError when a cursor cannot be had."""
        self.ready()
        numbers = self.lanes.of(member)
        crash = self.lanes.crash(member, self._failures, alone=alone)
        self._fail(crash.failed)
        self._give_back(crash.returned)
        for number in numbers:
            self.at[number].quit()
            self.at[number].touch()
        self.give_all()

    def left(self, member: str, *, alone: bool | None = None) -> None:
        """A member has said that it goes: what is open stays, and the first of it counts a delivery, if leaves count.
        `alone`: see `Lanes.crash`. Raises KafkaError.
        """
        self.ready()
        numbers = self.lanes.of(member)
        for number in numbers:
            self.at[number].quit()
        if not self._config().subscription.leave_counts:
            self.lanes.release(member)
            self.give_all()
            return
        leave = self.lanes.leave(member, self._failures, alone=alone)
        for number, piece, most in leave.failed:
            source = self.sources.get(piece.run.source)
            if source is not None and source.count(name_of(number), piece.ranges(), most):
                at = self.at[number]
                at.lane.close(piece.begin, piece.end)
                at.touch()
        if leave.returned:
            self._give_back(leave.returned)
            for number in numbers:
                self.at[number].touch()
        # a suspect may have died of it, for which others waited
        self.give_all()

    def _give_back(self, returned: Sequence[tuple[int, Piece]]) -> None:
        if self.many([piece for _, piece in returned]):
            for number, pieces in _by_first(returned).items():
                for its, offsets in self.columns_of(pieces):
                    its.give_back_many(name_of(number), offsets)
            return
        for number, piece in returned:
            if (source := self.sources.get(piece.run.source)) is not None:
                source.give_back(name_of(number), piece.ranges())

    def _fail(self, failed: Sequence[Failed]) -> None:
        if self.many([piece for _, piece, _ in failed]):
            for (number, most), pieces in _by_first([(each[::2], each.piece) for each in failed]).items():
                for its, offsets in self.columns_of(pieces):
                    its.crash_many(name_of(number), offsets, most)
            return
        for number, piece, most in failed:
            if (source := self.sources.get(piece.run.source)) is not None:
                source.crash(name_of(number), piece.ranges(), most)

    def many(self, pieces: Iterable[Piece]) -> bool:
        """Whether what is said of these is said by columns: they are many, and not many in a row."""
        return not self.lanes.shared and sum([piece.number for piece in pieces]) >= _MANY

    def columns_of(self, pieces: Iterable[Piece]) -> Iterator[tuple[Source, NDArray[np.int64]]]:
        for source_id, offsets in columns(pieces).items():
            if (source := self.sources.get(source_id)) is not None:
                yield source, offsets

    def _failures(self, source_id: int, offset: int) -> int:
        source = self.sources.get(source_id)
        return source.failures(offset) if source is not None else 0

    # -- the end ----------------------------------------------------------------------------------------------------

    @property
    def being_written(self) -> bool:
        """Whether something of its lanes is on its way to the store."""
        return any(each.being_written for each in self.at)

    def throw_away(self, why: str) -> None:
        """What is in memory is not what is stored: it is read again by whoever asks next."""
        if self.lost:
            return
        self.lost = True
        for each in self.at:
            each.take_back_given()
        self.retire(why)

    def retire(self, why: str) -> None:
        """It is read again by whoever asks next, when what the open turn has of it is stored."""
        if self.gone:
            return
        self.gone = True
        log.info("%s is read again from the store: %s", self.name, why)
        self.close()

    def follow(self, before: Queue) -> None:
        """It stands in the place of one that this process had: what its consumers were sent is known. Lanes that it has
        more are nobody's yet.
        """
        self.lanes.follow(before.lanes)
        for at, was in zip(self.at, before.at, strict=False):
            at.follow(was)

    def cursor_lost(self) -> None:
        """A cursor was thrown away, with what it knew of the lanes. What they say is stored all the same: of the other
        cursors the other half of it is, and what this one has not stored is delivered again.
        """
        self.retire("a cursor was thrown away")

    def cursors_moved(self) -> None:
        """An administrator has skipped records, or begun anew elsewhere: what lanes do not hold any more is closed, and
        whoever works on it finds that its commit says nothing.
        """
        if self.gone:
            return
        if any(each.giving for each in self.at):
            # what they are about to have was acquired before
            self.retire("cursors were moved while lanes were given more")
            return
        try:
            self._close_lost(Source.held)
        except KafkaError as error:
            self.retire(f"cursors were moved while one could not be had: {error}")
            return
        self.give_all()

    def retyping(self) -> None:
        """Its subscription is about to have another type: nobody reads until it is read again with that."""
        self.retire("the type of its subscription is being changed")

    def let_go(self) -> None:
        """It is deleted: the lanes are consumers of nothing any more."""
        for source in self.sources.values():
            for each in self.at:
                source.let_go(each.consumer)

    def close(self) -> None:
        """Nobody uses it any more."""
        self.gone = True
        if self in self.company:
            self.company.remove(self)
            lanes = [queue.lanes for queue in self.company]
            for queue in self.company:
                queue.lanes.company = lanes
            self.company = [self]
            self.lanes.company = [self.lanes]
        for task in self._tasks:
            task.cancel()
        for each in self.at:
            each.close()


def _by_first(pairs: Iterable[tuple[K, Piece]]) -> dict[K, list[Piece]]:
    found: dict[K, list[Piece]] = {}
    for key, piece in pairs:
        found.setdefault(key, []).append(piece)
    return found
