"""A subscription at work on one partition: a cursor, the log it reads, the consumers it serves and who waits.

The cursor decides; here is what it needs of the world. What it has changed is written once a turn: everything that
changes it calls `touch`. If the turn's commit fails, the cursor is thrown away with whatever it promised, and made
again from the store; the consumers stay. See `reading.py` for a fetch, `sharers.py` for how much of the partition one
consumer is dealt, `parked.py` for who waits, `letters.py` for burials.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, cast

from gateway.broker.errors import KafkaError
from gateway.broker.loading import check_loaded
from gateway.broker.participant import Gathered, Stage
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.active import Active
from gateway.broker.subscriptions.consumers import Consumer, count_acks, unsaid
from gateway.broker.subscriptions.counted import Happened, happened, tell
from gateway.broker.subscriptions.pacing import Pacing
from gateway.broker.subscriptions.parked import Parked
from gateway.broker.subscriptions.reading import Delivery, Reader
from gateway.broker.subscriptions.sharers import UNBOUNDED, Sharers
from gateway.broker.subscriptions.timers import NEVER
from gateway.wire.errors import Error
from semantics.subscriptions.acknowledging import RENEW, wrong
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import Ending, Refusal
from store.api import Corrupt, Durability, Fenced, Store, StoreError, of_partition
from store.pending import Pending
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.readable import Readable
    from gateway.broker.subscriptions.letters import Burial
    from gateway.broker.subscriptions.ports import Subscribed, Watching
    from gateway.broker.subscriptions.tools import Tools
    from gateway.wire.share import PlainAcks

log = logging.getLogger("magnetar.subscriptions")

_REFUSALS = {
    Refusal.INVALID_RECORD_STATE: Error.INVALID_RECORD_STATE,
    Refusal.INVALID_REQUEST: Error.INVALID_REQUEST,
}


class SubscriptionPartition:
    """See the module. Everything may raise KafkaError when the partition is gone or cannot be read."""

    __slots__ = (
        "_counted",
        "_idle",
        "_letters_failed",
        "_more_dying",
        "_sent",
        "_sharers",
        "_tools",
        "_touched",
        "active",
        "burial",
        "consumers",
        "cursor",
        "due_at",
        "gone",
        "id",
        "index",
        "node",
        "pacing",
        "parked",
        "partition",
        "prefix",
        "reader",
        "store",
        "subscription",
        "watching",
    )

    stage, prepares = Stage.CURSORS, True

    def __init__(self, subscription: Subscribed, index: int, tools: Tools) -> None:
        """Raises KafkaError when the topic has no such partition."""
        self.subscription = subscription
        self._tools = tools
        node = self.node = tools.node
        self.index = index
        self.partition: Partition = self._find_partition()
        # the store's id of it
        self.id = self.partition.id
        self.store: Store = self.partition.store
        self.prefix = rows.prefix(subscription.id, self.id)
        self.cursor: Cursor | None = None
        self.consumers: dict[str, Consumer] = {}
        self.parked: Parked[SubscriptionPartition] = Parked(self, node.loop)
        self.pacing = Pacing(self, subscription.config.dispatch_rate)
        self.reader = Reader(self, tools.scanner, tools.turns)
        self._sharers = Sharers(
            subscription.group, subscription.topic, self.consumers, node.share_sessions, tools.members_on
        )
        self.active = Active(
            subscription, index, self.consumers, node.catalog.plain_name, tools.several_plain
        )
        # of the timers
        self.due_at = NEVER
        # True when the subscription was deleted
        self.gone = False
        # while dead letters are being read, or their topic is being made
        self.burial: Burial | None = None
        # how often in a row they could not be stored
        self._letters_failed = 0
        self._idle = False
        # what of the cursor's totals the metrics know
        self._counted = Happened()
        # the last turn did not take all of them
        self._more_dying = False
        self._touched = False
        # None: nobody watches
        self.watching: Watching | None = tools.watched.get(subscription.id)
        # the cursors that wrote into commits on their way, the oldest first
        self._sent: list[Cursor | None] = []

    @property
    def key_shared(self) -> bool:
        return self.subscription.selector is not None

    @property
    def retries(self) -> bool:
        """Whether this is the subscription's RETRY topic."""
        return self.subscription.base is not None

    @property
    def read_committed(self) -> bool:
        """Whether its consumers are given only what is committed."""
        return self.subscription.config.read_committed

    @property
    def readable_to(self) -> int:
        """Up to where its consumers are given records: what transactions that are open hide is not read."""
        return self.partition.last_stable_offset if self.read_committed else self.partition.high_watermark

    @property
    def burying(self) -> bool:
        """Whether what was dying is not yet buried or put off."""
        return self.burial is not None

    # -- the cursor -----------------------------------------------------------------------------------------------

    def ready(self) -> Cursor:
        """The cursor, made from the store if need be, over a partition that is in charge."""
        if self.partition.stale or self.gone:
            self._renew()
        cursor = self.cursor
        if cursor is not None:
            return cursor
        if any(wrote is not None for wrote in self._sent):
            # the rows are not yet what the cursor before it has said; clients come again at once
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER, "The subscription is being written.")
        return self._load()

    def movable(self) -> Cursor:
        """The same, where it is known what transactions have of it."""
        cursor = self.ready()
        self._tools.entrusted(self.subscription.id, self.id)
        return cursor

    def moved(self) -> None:
        """Records were moved from outside, which was `movable`: what trustees hold no more is of no transaction."""
        if self.cursor is not None:
            self._tools.withdraw(self.subscription.id, self.id, self.cursor.holds)
        self.touch()

    def _find_partition(self) -> Partition:
        if self.subscription.gone:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The subscription was deleted.")
        node = self.node
        runtime = node.in_use.topic_by_id(self.subscription.topic_id)
        if runtime is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_ID)
        partition = node.in_use.partition_of(runtime, self.index)
        if partition.stale:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        partition.watchers.add(self)
        return partition

    def _renew(self) -> None:
        if self.gone:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The subscription was deleted.")
        self.partition.watchers.discard(self)
        self.partition = self._find_partition()
        # what could not be written for the one before
        self.touch()

    def _load(self) -> Cursor:
        node, partition = self.node, self.partition
        config = self.subscription.config.subscription
        clock = node.clock
        now, wall = clock.monotonic_ms(), clock.wall_ms()
        start, end = partition.first_offset, partition.high_watermark
        store = self.store
        check_loaded(store, of_partition(self.id))
        entrusted = self._tools.entrusted(self.subscription.id, self.id)
        try:
            stored = list(rows.of_cursor(store, self.prefix))
            if stored:
                cursor = Cursor.load(config, stored, start, end, wall)
            else:
                # it begins where its log does, or was added to the topic later
                cursor = Cursor.fresh(config, start)
            self._load_due(cursor)
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        self.cursor = cursor
        cursor.totals.update(self._tools.counted.of(self.subscription.id, self.id))
        self._counted = happened(cursor.totals)
        if partition.log_start > cursor.start:
            # messages of a non-persistent topic have left memory meanwhile
            cursor.expire(partition.log_start)
        for consumer in self.consumers:
            cursor.attach(consumer, now)
        for trustee, ranges in entrusted:
            cursor.entrusted_again(trustee, ranges, now)
        if self.subscription.selector is not None:
            cursor.reassign(self.subscription.selector, now)
        # what was dying when the gateway stopped, or the log's start that has moved since
        self.touch()
        return cursor

    def _load_due(self, cursor: Cursor) -> None:
        """Give the cursor the next of its due times. Only while nothing of it is on its way to the store."""
        needs = cursor.needs_due
        if needs is not None:
            check_loaded(self.store, of_partition(self.id))
            found = rows.due(self.store, self.prefix, needs.key, needs.limit)
            changed = cursor.due_loaded(found, len(found) < needs.limit)
            if changed or cursor.needs_due is not None:
                # rows that were mended; or more of it when others had their turn
                self.touch()

    def discard(self) -> None:
        """The cursor says what is not stored: throw it away. What it has counted stays with the registry."""
        cursor = self.cursor
        if cursor is not None:
            # What retention took is stored with the cursor's row, or happens again.
            now = happened(cursor.totals)._replace(expired=self._counted.expired)
            tell(self.node.metrics, self._counted, now)
            self._tools.counted.keep(self.subscription.id, self.id, cursor.totals)
        self.cursor = None
        self._tools.timers.disarm(self)
        if cursor is not None:
            self.subscription.cursor_lost()

    def retype(self) -> None:
        """The subscription is of another type now: its cursor is made again."""
        if self.cursor is not None:
            # what it has to say is the last of the old type
            self.node.turn.end()
            self.discard()

    def release(self) -> bool:
        """Let go of the cursor when nobody has used it since the last call; whether it is gone."""
        # What could not be buried is tried again at its time, which only a cursor in memory knows.
        dying = self.cursor is not None and self.cursor.dying_records
        if self.consumers or self.parked or self._touched or self._sent or self.burying or dying:
            self._idle = False
        elif self.cursor is not None and not self.partition.stale and self.cursor.say_awake():
            # rows are what is told of it from now on; of a partition that is not in charge none are written
            self.touch()
        elif self._idle:
            self.close()
            # Whoever still has this object must find the one that takes its place: two would not know of each other.
            self.gone = True
            return True
        else:
            self._idle = True
        return False

    def end(self) -> None:
        """The subscription was deleted: whoever waits here finds that out."""
        self.gone = True
        self.close()
        self.parked.wake_all()

    def close(self) -> None:
        """Nobody uses it any more."""
        self.pacing.close()
        self.discard()
        self.partition.watchers.discard(self)

    # -- consumers ------------------------------------------------------------------------------------------------

    def attach(self, consumer: str, client_id: str = "") -> None:
        """A consumer may fetch and acknowledge from now on. One that is there already stays as it is."""
        if consumer in self.consumers:
            return
        if self._tools.retyping(self.subscription.group):
            # clients come again at once
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER, "The subscription's type is being changed.")
        cursor = self.ready()
        now = self.node.clock.monotonic_ms()
        cursor.attach(consumer, now)
        self.consumers[consumer] = Consumer(now)
        self._sharers.changed()
        self.subscription.joined(consumer, client_id)
        self.active.changed()

    def detach(self, consumer: str, ending: Ending) -> None:
        """A consumer's session ended. What it holds goes back; see Ending for whether that counts as a delivery."""
        if self.consumers.pop(consumer, None) is None:
            return
        self._sharers.changed()
        self.active.changed()
        cursor = self.cursor
        if cursor is not None:
            clock = self.node.clock
            now, wall = clock.monotonic_ms(), clock.wall_ms()
            self.reader.give_up(consumer, cursor, now)
            cursor.detach(consumer, Ending.STOPPED if self._tools.stopping() else ending, now, wall)
            self.touch()
        self.subscription.left(consumer)

    def give_back(self, consumer: str, ranges: Sequence[tuple[int, int]]) -> None:
        """Acquired by the consumer, and not sent: as if it had never been taken."""
        if self.cursor is not None and consumer in self.consumers:
            self.cursor.give_back(consumer, ranges, self.node.clock.monotonic_ms())
            self.parked.serve_soon()

    def withhold(self, consumer: str, since: int) -> None:
        """The answer with what the consumer has acquired since then waits: its locks begin with `sent`."""
        if self.cursor is not None:
            self.cursor.withhold(consumer, since)

    def sent(self, consumer: str) -> None:
        """The answer leaves, or never will: what was withheld is locked from now on, if it is still held."""
        if self.cursor is not None:
            now = self.node.clock.monotonic_ms()
            self.cursor.sent(consumer, now)
            self._lock_begins(now)

    def in_doubt(self, consumer: str) -> None:
        """The consumer's connection was lost behind an answer: what it was given last may never have come."""
        if self.cursor is not None:
            self.cursor.in_doubt(consumer, self.node.clock.monotonic_ms())
            self._arm()

    @property
    def unsaved(self) -> bool:
        """Whether the cursor says something that is not stored yet."""
        return self._touched or bool(self._sent)

    def holds(self, consumer: str) -> bool:
        """Whether a consumer has records of this partition in hand."""
        return self.cursor is not None and bool(self.cursor.holding().get(consumer))

    def fetch(self, consumer: str, limit: int, max_bytes: int, most: int = UNBOUNDED) -> Pending[Delivery]:
        """Up to `limit` records and about `max_bytes` for a consumer, acquired; the first batch comes whole.

        More than `limit` to the end of a batch, up to `most` (KIP-1206: none more in the mode record_limit). An
        awaitable when a disk must be asked; cancel it when the connection is gone.
        """
        found = self.reader.fetch(consumer, limit, max_bytes, max(most, limit))
        return found if self.watching is None else self._watched(self.watching, consumer, found)

    def _watched(self, watching: Watching, consumer: str, found: Pending[Delivery]) -> Pending[Delivery]:
        if type(found) is Delivery:
            watching.delivered(self, consumer, found.acquired)
            return found

        async def later() -> Delivery:
            delivery = found if type(found) is Delivery else await cast("Awaitable[Delivery]", found)
            watching.delivered(self, consumer, delivery.acquired)
            return delivery

        return later()

    @step("ack.before", "ack.taken")
    def acknowledge(self, consumer: str, acks: Sequence[tuple[int, int, bytes]], most: int = RENEW) -> Error:
        """Take a consumer's verdicts on records, all or none: (first, last, types), with one type for all or one for
        each: 0 gap, 1 accept, 2 release, 3 reject, 4 renew, and none above `most`.

        What is answered holds once the turn is committed: `Turn.await_commit`.
        """
        cursor = self.ready()
        clock = self.node.clock
        its = self.consumers.get(consumer)
        if its is not None and its.said is not None and wrong(acks, most) is None:
            acks = unsaid(cursor, consumer, its, acks)
            if not acks:
                return Error.NONE
        refusal = cursor.acknowledge(consumer, acks, clock.monotonic_ms(), clock.wall_ms(), most)
        if refusal is not None:
            return _REFUSALS[refusal]
        if not self._touched:
            self.touch()
        count_acks(self.node.metrics, its, acks)
        if self.watching is not None:
            self.watching.acknowledged(self, consumer, acks)
        return Error.NONE

    @step("ack.before", "ack.taken")
    def accept(self, consumer: str, acks: PlainAcks) -> bool:
        """`acknowledge` for many of Key_Shared that are all accepted. False: nothing was done, ask `acknowledge`."""
        its = self.consumers.get(consumer)
        if not self.key_shared or (its is not None and its.said is not None):
            return False
        firsts, lasts = acks.columns()
        if not self.ready().accept(consumer, firsts, lasts):
            return False
        self.touch()
        if self.watching is not None:
            taken = zip(firsts.tolist(), lasts.tolist(), strict=True)
            self.watching.acknowledged(self, consumer, [(first, last, b"\1") for first, last in taken])
        accepted = int((lasts - firsts).sum()) + len(firsts)
        self.node.metrics.share_acks.value += accepted
        if its is not None:
            its.acked += accepted
        return True

    def fair_share(self, consumer: str, now: int) -> int:
        """How many records a consumer is to be given at most, so that those who share with it can have some in hand,
        and of Shared have as many: see `sharers.py`.
        """
        if self.subscription.config.failover:
            return UNBOUNDED
        return self._sharers.share(consumer, self.ready(), self.readable_to, now, evenly=not self.key_shared)

    @property
    def asks_disk(self) -> bool:
        """Whether a fetch waits for a disk."""
        return self.reader.waits

    def stands_by(self, consumer: str) -> bool:
        """Failover: whether another consumer is active, or one before this has records in hand."""
        if not self.subscription.config.failover:
            return False
        active = self.active
        return active.consumer(self.partition.topic.topic) != consumer or active.others_hold(
            consumer, self.ready()
        )

    def may_serve(self, consumer: str) -> bool:
        """Whether there may be something for a consumer, as far as the cursor knows that is there."""
        cursor = self.cursor
        if cursor is None or not cursor.can_serve(consumer, self.readable_to) or self.stands_by(consumer):
            return False
        return not self.pacing.shut

    @step(after="share.acquired")
    def delivered(self, consumer: str, records: int, size: int, now: int) -> None:
        """A fetch is about to be answered with that many records."""
        self._tools.counted.changed.add(self.subscription.place)
        counts = self.consumers[consumer]
        counts.delivered += records
        counts.sent_bytes += size
        counts.delivered_at = now
        self.pacing.spend(records, size)
        self.partition.bytes_out += size
        metrics = self.node.metrics
        metrics.deliveries.value += records
        metrics.fetch_bytes.value += size
        self._lock_begins(now)

    def _lock_begins(self, now: int) -> None:
        """Nothing else has changed: the cursor need not be asked when an earlier tick stands."""
        if now + self.subscription.config.subscription.lock_ms < self.due_at:
            self._arm()

    # -- waiting --------------------------------------------------------------------------------------------------

    def wake(self, partition: Readable, appended: int) -> None:
        """The partition's log grew by that many bytes, or 0: its start moved, or it is not in charge any more."""
        if partition is not self.partition:
            partition.watchers.discard(self)
            return
        if appended:
            self.parked.serve()
            return
        cursor = self.cursor
        if not partition.stale:
            if cursor is not None and partition.log_start > cursor.start:
                if partition.topic.topic.transient:
                    cursor.expire(partition.log_start)
                else:
                    cursor.trimmed(partition.log_start)
                self.touch()
            return
        # Thrown away or deleted: whoever waits is told, or finds the one that took its place.
        self.parked.wake_all()

    # -- time -----------------------------------------------------------------------------------------------------

    @step("cursor.tick", "cursor.ticked")
    def tick(self) -> None:
        """Locks that ran out, due times."""
        cursor = self.cursor
        if cursor is None or self.gone:
            return
        clock = self.node.clock
        cursor.tick(clock.monotonic_ms(), clock.wall_ms())
        if self.partition.stale:
            return
        self.touch()
        if self.watching is not None:
            self.watching.ticked(self)
        self.parked.serve()

    def next_due(self) -> int:
        cursor = self.cursor
        if cursor is None or self.gone:
            return NEVER
        clock = self.node.clock
        now, wall = clock.monotonic_ms(), clock.wall_ms()
        lock, due = cursor.next_due(now, wall)
        at = lock if lock is not None else NEVER
        return min(at, now + due - wall) if due is not None else at

    def _arm(self) -> None:
        self._tools.timers.arm(self, self.next_due())

    # -- the turn -------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """The cursor has changed: what it wants written joins the open turn."""
        if not self._touched:
            self._touched = True
            self.node.turn.join(self)

    def prepare(self) -> None:
        """What is dying is buried in this turn."""
        cursor = self.cursor
        if cursor is None or self.gone or self.burial is not None or self.partition.stale:
            return
        letters = self._tools.letters
        dying = cursor.dying(letters.AT_ONCE)
        if dying:
            self._more_dying = sum([each.last - each.first + 1 for each in dying]) >= letters.AT_ONCE
            if self.subscription.config.subscription.dead_letters:
                self.burial = letters.bury(self, dying)
            else:
                # switched off since they died
                cursor.buried([each[:2] for each in dying], dropped=True)

    @step("cursor.before", "cursor.after")
    def writes(self, commit: Gathered) -> None:
        self._touched = False
        cursor = self.cursor
        self._sent.append(cursor)
        if self.partition.topic.config.durability == "fsync":
            commit.durability = Durability.FSYNC
        if cursor is None or self.gone or self.partition.stale:
            # A topic that is being deleted must get no rows any more; after a failure `_renew` goes on.
            return
        self._arm()
        self._tools.counted.changed.add(self.subscription.place)
        now = happened(cursor.totals)
        if now != self._counted:
            tell(self.node.metrics, self._counted, now)
            self._counted = now
        commit.writes += rows.writes_of(self.prefix, cursor.writes())
        if self.watching is not None:
            self.watching.changed(self)

    def committed(self) -> Callable[[], None] | None:
        del self._sent[0]
        cursor = self.cursor
        if self._more_dying or self.parked or (cursor is not None and cursor.needs_due is not None):
            return self._go_on
        return None

    def _go_on(self) -> None:
        """What follows from a commit, when it was told."""
        cursor = self.cursor
        if self._more_dying:
            self._more_dying = False
            self.touch()
        if cursor is not None and cursor.needs_due is not None and not self._sent and not self._touched:
            try:
                self._load_due(cursor)
                self._arm()
            except (KafkaError, StoreError) as error:
                log.error("due times of group %s cannot be read: %s", self.subscription.group, error)
        self.parked.serve()

    def failed(self, error: StoreError) -> None:
        wrote = self._sent.pop(0)
        if isinstance(error, Fenced):
            # it may be this partition that another has, and its log is then read again, too
            self.partition.retire()
            self.partition.topic.forget(self.partition)
        if self.cursor is wrote:
            self.discard()
        self.parked.serve_soon()

    def dropped(self, error: StoreError) -> None:
        self._touched = False
        self.discard()
        self.parked.serve_soon()

    def resend(self, ranges: Sequence[tuple[int, int]], delay_ms: int) -> None:
        """These wait in BACKOFF, and go to the retry letter topic."""
        self._tools.letters.resend(self, ranges, delay_ms)

    def burial_over(self) -> None:
        """All that one turn found dying is seen to."""
        self.burial = None

    def letters_stored(self) -> None:
        """Dead letters are on their way into their topic again."""
        self._letters_failed = 0

    def letters_put_off(self) -> int:
        """Some could not be stored: how often in a row that had happened before."""
        self._letters_failed += 1
        return self._letters_failed - 1

    # -- reads that failed ----------------------------------------------------------------------------------------

    def corrupt(self, error: Corrupt) -> KafkaError | None:
        """A read came to damaged batches: what to answer, or None where the topic's policy is to skip them."""
        partition = self.partition
        partition.unreadable(error)
        if partition.topic.config.skip_corrupt:
            return None
        return KafkaError(Error.CORRUPT_MESSAGE, str(error))

    def unreadable(self, error: StoreError) -> KafkaError:
        self.partition.unreadable(error)
        return KafkaError(Error.KAFKA_STORAGE_ERROR, str(error))
