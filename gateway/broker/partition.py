"""One partition at work: it exists while somebody uses it, and is made again from the store after a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker import producers as dedup
from gateway.broker.bounding import bound
from gateway.broker.damage import fetch
from gateway.broker.errors import KafkaError
from gateway.broker.examining import examine, take, too_new
from gateway.broker.open_transactions import NEVER
from gateway.broker.participant import Gathered, Stage
from gateway.broker.preparing import Prepared, Rules
from gateway.broker.start_epoch import StartEpoch
from gateway.broker.topic_runtime import Home, TopicRuntime
from gateway.broker.transacting import ReadsCommitted, Transacting
from gateway.wire import produce
from gateway.wire.batch import TRANSACTIONAL, Header, patch, patch_log_append_time
from gateway.wire.errors import Error
from store.api import Append, Buffer, Corrupt, Durability, Log, Piece, Store, StoreError
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.bounding import PublishRate
    from gateway.broker.dispatching import Dispatching
    from gateway.broker.publishers import Publisher, Publishing
    from gateway.broker.quota_gate import Gate
    from gateway.broker.readable import Watcher
    from gateway.config.topic_configs import TopicConfig

    Bytes = Pending[list[Buffer]]


log = logging.getLogger("magnetar.broker")


class Partition(ReadsCommitted):
    """Appends join the commit of the loop turn; reads see what is committed.

    `next_offset` runs ahead of `high_watermark` by what is in the open turn or on its way to the disk. To the turn it
    is a `Participant`.
    """

    __slots__ = (
        "_base",
        "_batches",
        "_carried",
        "_first",
        "_home",
        "_max_timestamp",
        "_rows_only",
        "_sent",
        "_size",
        "_start_epoch",
        "asked_at",
        "asks_who",
        "bytes_in",
        "bytes_out",
        "dispatching",
        "gate",
        "high_watermark",
        "id",
        "idle_mark",
        "index",
        "leader_epoch",
        "log",
        "log_append_time",
        "max_message_bytes",
        "next_offset",
        "open",
        "plain",
        "prefix",
        "prefix_by_id",
        "producers",
        "publish_throttle",
        "publishers",
        "rules",
        "stale",
        "store",
        "terminated",
        "topic",
        "transacting",
        "watchers",
    )

    stage, prepares = Stage.RECORDS, False

    # whether it may take part in transactions
    transactional = True

    def __init__(
        self,
        home: Home,
        topic: TopicRuntime,
        index: int,
        store: Store,
        log: Log,
        producers: dedup.ProducerTable,
    ) -> None:
        """`log`, and `producers` as they are stored with it, are those of this partition."""
        self._home = home
        self.topic = topic
        self.index = index
        self.id = topic.topic.partitions[index]
        self.store = store
        self.log = log
        self.leader_epoch = store.leader_epoch(self.id)
        self.high_watermark = self.next_offset = log.end_offset
        self.producers = producers
        self.transacting = Transacting(self)
        self.open = self.transacting.open
        # what the open turn has for this partition: batches from which offset on, their bytes and largest timestamp
        self._batches: list[bytes] = []
        self._base = 0
        self._size = 0
        self._max_timestamp = -1
        # something disappears elsewhere because it is stored here: see `store.api.Append`
        self._carried = False
        # the open turn has something to say of producers, and no batches
        self._rows_only = False
        # commits on their way, the oldest first: where the log will end, and how many bytes it will have grown
        self._sent: list[tuple[int, int]] = []
        # who waits for the high watermark to move
        self.watchers: set[Watcher] = set()
        # True after a failed commit: nobody may append here any more; the next user gets a fresh one
        self.stale = False
        # counters since this runtime was made, and the offset it began with
        self.bytes_in = self.bytes_out = 0
        self._first = self.next_offset
        # how the answer to a batch of this partition begins
        self.prefix = produce.prefix(topic.name_utf8, index)
        self.prefix_by_id = produce.prefix_by_id(topic.topic_id, index)
        self._start_epoch = StartEpoch()
        # the counters' sum when somebody last looked whether this partition is idle
        self.idle_mark = -1
        # what its backlog quota lets in, if it has one
        self.gate: Gate | None = None
        # monotonic ms: when somebody who reads was last at its end
        self.asked_at = -1 << 40
        # connections that have published here
        self.publishers: dict[Publishing, Publisher] = {}
        # what its rates of publishing and dispatching are kept by, if it or its namespace has such
        self.publish_throttle: PublishRate | None = None
        self.dispatching: Dispatching | None = None
        self.configure(topic.config)

    def configure(self, config: TopicConfig) -> None:
        """Take over the topic's effective configuration."""
        self.log.configure(segment_bytes=config.segment_bytes, segment_ms=config.segment_ms)
        self.max_message_bytes = config.max_message_bytes
        self.log_append_time = config.log_append_time
        retries_of = self._home.retries_into(self.topic.name)
        self.rules = Rules(config, self._home.full_name(self.topic.name), retries_of)
        bound(self, self._home, config)
        # it takes no more messages
        self.terminated = self.index in self.topic.topic.terminated or self.index in self.topic.ending
        # False when batches must be looked at more closely, rewritten, counted or refused before they are stored
        self.plain = (
            self.rules.plain and self.gate is None and self.publish_throttle is None and not self.terminated
        )
        # True when it matters who sends them, or who sent them is to be told something
        self.asks_who = self.publish_throttle is not None or self.rules.deduplicates

    def terminate(self) -> None:
        """It takes no more messages."""
        self.terminated, self.plain = True, False

    def subscribed(self) -> None:
        """Somebody subscribes to it: whether what comes is delayed will be asked."""
        self._home.undelayed.begin(self.id, self.next_offset if not self._batches else self._base)

    @property
    def log_start(self) -> int:
        return self.log.start_offset

    @property
    def first_offset(self) -> int:
        """The first offset that a subscription without any rows has to do with."""
        return self.log.start_offset

    def start_epoch(self) -> int:
        """The leader epoch of the first batch of the log, or of the next one; -1 when a disk would have to be asked."""
        if self.log.start_offset >= self.high_watermark:
            return self.leader_epoch
        return self._start_epoch.of(self.log)

    @property
    def size(self) -> int:
        """Bytes stored."""
        return self.log.size

    @property
    def quiet(self) -> bool:
        """Whether nothing of it is in the open turn, or on its way to the disk."""
        return not (self._batches or self._rows_only or self._sent)

    @property
    def coming(self) -> int:
        """Bytes that are in the open turn, or on their way to the disk."""
        return self._size + sum([size for _, size in self._sent])

    def published(self) -> tuple[int, int]:
        """(records, bytes) that have come, counted from anywhere."""
        return self.high_watermark, self.bytes_in

    @property
    def messages_in(self) -> int:
        """Records appended since this runtime was made."""
        return self.next_offset - self._first

    @property
    def most_producers(self) -> int:
        """How many may publish here at a time; 0 is no limit."""
        # a consumer that cannot write a retry letter cannot settle its message
        return self.topic.config.max_producers if self.rules.retries_of is None else 0

    @property
    def topic_name(self) -> str:
        return self.topic.name

    @property
    def topic_id(self) -> bytes:
        return self.topic.topic_id

    @property
    def skips_damage(self) -> bool:
        """Whether readers are led past what is damaged."""
        return self.topic.config.skip_corrupt

    @property
    def durability(self) -> str:
        return self.topic.config.durability

    @step("batch.admitted", "batch.taken")
    def append(
        self,
        batch: Buffer,
        header: Header,
        now: int,
        prepared: Prepared | None = None,
        waited: bool = False,
        unmeasured: bool = False,
        client: str = "",
        implicit: bool = False,
    ) -> int:
        """Put an admitted batch into the group of this turn; its base offset is the answer.

        A duplicate of a remembered batch is not stored again: its offset is the answer, and it holds once the turn's
        group is committed, since groups succeed or fail in order. `now` in ms since 1970. `prepared` is what a thread
        made of the batch, if one did; `waited`: it is the first of those that waited for the backlog; `unmeasured`: it
        is let in though nobody knows how large that is. `client` is who sends messages that do not say that themselves.
        `implicit`: a batch of a transaction brings the partition into it (KIP-890: Produce from version 12 on).
        Where messages were left out (deduplication), the answer counts as if they lay before the others; -1: all were.
        Raises KafkaError with what Kafka answers in each case; HeldError when it has to wait for the backlog, and
        Unmeasured when nobody knows.
        """
        if self.stale:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        if len(batch) > self.max_message_bytes and self.rules.retries_of is None:
            raise KafkaError(
                Error.MESSAGE_TOO_LARGE,
                f"The batch has {len(batch)} bytes; max.message.bytes of this topic is {self.max_message_bytes}.",
            )
        transactional = header.attributes & TRANSACTIONAL
        if transactional:
            self.transacting.check(header)
        if not self._batches and self.log.refuses:
            # the store would refuse the whole turn, and others have a part in it
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, self.log.refuses)
        producer_id = header.producer_id
        if producer_id >= 0:
            verdict = self.producers.check(
                producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.count,
                bool(transactional),
                bool(transactional) and implicit,
            )
            if verdict != dedup.ACCEPT:
                if verdict >= 0:
                    self._home.metrics.produced_duplicates.value += 1
                    if self.gate is not None:
                        # it was stored after all
                        self.gate.came(header)
                    return verdict
                if self.gate is not None:
                    # its sequence number may follow those that wait
                    self.gate.queue_up(header, first=waited)
                raise KafkaError(*dedup.REFUSALS[verdict])
            if self.open.first != NEVER and not transactional:
                self.transacting.check_plain(producer_id)
        newest = now + self.topic.config.timestamp_after_max_ms
        if header.max_timestamp > newest and not self.log_append_time:
            raise too_new(bytes(batch), newest, self._home.decompression_limit)
        base_offset = told = self.next_offset
        max_timestamp = header.max_timestamp
        count = header.count
        if self.plain:
            if transactional:
                self.transacting.admit(self._home.transactions, header, implicit)
            stored = patch(batch, base_offset, self.leader_epoch)
        else:
            looked = examine(
                self, self._home, bytes(batch), header, now, prepared, waited, unmeasured, client
            )
            stored = looked.batch
            if not stored:
                self._pass_over(header, now)
                return -1
            count = looked.count
            told -= looked.ahead
            if transactional:
                self.transacting.admit(self._home.transactions, header, implicit)
            take(self, self._home, looked, header, base_offset, now)
            if self.log_append_time:
                stored, max_timestamp = (
                    patch_log_append_time(stored, base_offset, self.leader_epoch, now),
                    now,
                )
            else:
                stored = patch(stored, base_offset, self.leader_epoch)
        if producer_id >= 0:
            self.producers.take(
                producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.count,
                base_offset,
                now,
                now if self.log_append_time else -1,
            )
            if transactional:
                self.transacting.took(producer_id, base_offset)
        self._enqueue(stored, base_offset + count, max_timestamp)
        return told

    def _pass_over(self, header: Header, now: int) -> None:
        """All of a batch was taken before: its sequence number goes on in any case."""
        if header.producer_id < 0:
            return
        sequence = header.producer_id, header.producer_epoch, header.base_sequence, header.count
        self.producers.take(*sequence, max(self.next_offset - 1, 0), now)
        if not self._batches and not self._rows_only:
            self._rows_only = True
            self._home.turn.join(self)

    def append_time(self, header: Header, base_offset: int, now: int) -> int:
        """What a log with log-append time says in the answer to a batch just taken, or to a duplicate."""
        return self.producers.append_time(header.producer_id, base_offset) if header.producer_id >= 0 else now

    def append_carried(self, batch: bytes, count: int, max_timestamp: int) -> None:
        """Put a batch that the gateway itself has made into the open turn. Something disappears elsewhere because it is
        stored; limits that producers have to keep do not hold for it.
        """
        base_offset = self.next_offset
        self._enqueue(patch(batch, base_offset, self.leader_epoch), base_offset + count, max_timestamp)
        self._carried = True

    def end_transaction(
        self, producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, now: int
    ) -> bool:
        """Put the marker that ends a producer's transaction into the open turn, behind all that is there already.

        False, and nothing is done, when there is no record of it here. `epoch` is the marker's: that of the batches, or
        a higher one. `now` in ms since 1970. Raises KafkaError as `Transacting.check_end` does: who ends a transaction
        on several partitions asks that of all of them first, since what is in the turn cannot be taken back.
        """
        return self.transacting.end(producer_id, epoch, committed, coordinator_epoch, now)

    def _enqueue(self, batch: bytes, next_offset: int, max_timestamp: int) -> None:
        """Add a finished batch to the open turn."""
        turn = self._home.turn
        if not self._batches:
            self._base = self.next_offset
            self._max_timestamp = max_timestamp
            if not self._rows_only:
                turn.join(self)
        elif max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
        self._batches.append(batch)
        size = len(batch)
        self._size += size
        turn.bytes += size
        self.next_offset = next_offset

    def grown(self, appended: int) -> None:
        """That many bytes became readable (0: something else changed): wake whoever waits."""
        for watcher in list(self.watchers):
            try:
                watcher.wake(self, appended)
            except Exception:
                # One that breaks must not keep the others waiting.
                log.exception("a waiter failed", extra={"topic": self.topic.name, "partition": self.index})

    # -- the turn -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Batches were prepared when they were taken."""

    def writes(self, commit: Gathered) -> None:
        """One append for all that the turn brought, and what is remembered of its producers."""
        batches, base, end, size = self._batches, self._base, self.next_offset, self._size
        if not batches:
            # retired since, if nothing is to be said of producers
            if self._rows_only:
                self._rows_only = False
                commit.writes += self.producers.flush()
                self._sent.append((end, 0))
            return
        self._rows_only = False
        if self.producers.names and not self.rules.deduplicates:
            self.producers.names.forget()
        if self.open.first != NEVER:
            self._carried = self.transacting.carries(size) or self._carried
            commit.writes += self.transacting.take_writes()
        # Append(...) in 60 % of its time
        fields = (self.id, base, end, self._max_timestamp, batches, self.leader_epoch, self._carried)
        commit.writes.append(tuple.__new__(Append, fields))
        undelayed = self._home.undelayed
        if self.id in undelayed.noted:
            undelayed.came(self.id, batches, end)
        rows = self.producers.flush()
        if rows:
            commit.writes += rows
        if self.topic.config.durability == "fsync":
            commit.durability = Durability.FSYNC
        commit.batches += len(batches)
        commit.messages += end - base
        commit.size += size
        self._sent.append((end, size))
        self._batches, self._size, self._carried = [], 0, False

    def committed(self) -> Callable[[], None] | None:
        if not self._sent:
            return None
        self.high_watermark, appended = self._sent.pop(0)
        if self.open.first != NEVER:
            self.open.stored(self.high_watermark)
        self.bytes_in += appended
        self._home.traffic.moved.add(self.topic.topic_id)
        return partial(self.grown, appended) if self.watchers else None

    def failed(self, error: StoreError) -> None:
        self._sent.clear()
        # what producers that nobody knows then sent behind these must not come in before them: of such a one any
        # sequence number is good, and the first would be taken for a duplicate then
        for producer_id, epoch, sequence in self.producers.begun_from(self.high_watermark):
            self._home.refusals.note_sequence(self.topic_id, self.index, producer_id, epoch, sequence)
        self.retire()
        self.topic.forget(self)

    def dropped(self, error: StoreError) -> None:
        self.failed(error)

    def retire(self) -> None:
        """Nothing may be appended to this object any more: its commit failed, or the topic is gone."""
        self.let_go()
        self.stale = True
        self._batches, self._size, self._carried, self._rows_only = [], 0, False, False
        self.transacting.forget()
        self.changed()

    def let_go(self) -> None:
        """This object leaves memory: what it has counted stays with the node."""
        self._home.traffic.add(self.id, self.bytes_in, self.bytes_out)
        self._home.undelayed.leaves(self.id, self.next_offset)
        self.bytes_in = self.bytes_out = 0
        for publishing in self.publishers:
            publishing.forget(self)
        self.publishers.clear()

    def changed(self) -> None:
        """Something else than the high watermark moved: the log start, or this object's being in charge."""
        self._home.traffic.moved.add(self.topic.topic_id)
        self.grown(0)

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> Bytes:
        """For who looks and gives it to no client. See `Log.look`."""
        return self.log.look(offset, max_bytes)

    def fetch(
        self, offset: int, max_bytes: int, *, whole_first: bool, least: int | None
    ) -> Pending[list[Piece]]:
        """See `Readable`."""
        return fetch(self, offset, max_bytes, whole_first=whole_first, least=least)

    def news_for(self, connection: int) -> bool:
        """See `Readable`."""
        return False

    def spanned(self, offset: int) -> list[Piece]:
        """See `Readable`. There are no such offsets."""
        return []

    def at_end(self) -> None:
        """See `Readable`. More comes from producers."""
        self.asked_at = self._home.clock.monotonic_ms()

    def unreadable(self, error: StoreError) -> None:
        """See `Readable`."""
        if isinstance(error, Corrupt):
            self._home.damage.corrupt(self, error)
        else:
            self._home.damage.unreadable(self, error)
