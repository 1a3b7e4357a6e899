"""Burials: dead letters are appended to their topic and settled in their subscription by one commit.

The records are read again, put into one batch with the count of their deliveries and the reason in their headers, and
appended to partition p mod n of the dead letter topic, in the turn in which the cursor notes that they are done. A
crash finds both or neither, and a commit that fails takes both back. A topic that is missing is made in the same
commit, with as many partitions as the one the records are from. Limits of size and time that producers have to keep do
not hold for dead letters.

Where a dead letter cannot be stored, the record stays open: it is not delivered, its count stays, and it is tried again
after a while that doubles; the reason is shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from gateway.broker.errors import KafkaError
from gateway.broker.message_ids import id_at
from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.scanning import AT_ONCE
from gateway.broker.subscriptions.stored import Stored, walk
from gateway.broker.topics import check_name
from gateway.wire import delivery, letters, properties
from gateway.wire.batch import BatchError, patch
from gateway.wire.errors import Error
from semantics.message_id import MessageId
from semantics.subscriptions.states import Dying
from store.api import Append, Corrupt, Outcome, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from semantics.subscriptions.cursor import Cursor

log = logging.getLogger("magnetar.subscriptions")

_BYTES = 1024 * 1024
"""Records that are buried in one go; a larger one goes alone."""

_OVERHEAD = 400
"""What a letter takes beside its key and its value, on the whole."""

FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000

Steps = Generator[Awaitable[Any], Any, None]


class Impossible(Exception):
    """Why a dead letter cannot be stored, for a person."""


class Later(Exception):
    """The dead letter topic is being made by somebody else."""


class Collected:
    """Letters for one topic, and the ranges they settle."""

    __slots__ = ("letters", "ranges", "size")

    def __init__(self) -> None:
        self.letters: list[letters.Letter] = []
        self.ranges: list[tuple[int, int]] = []
        self.size = 0


class Letters:
    """The burials of all subscriptions."""

    AT_ONCE = 2000
    """Ranges that a turn takes from one cursor."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def bury(self, at: SubscriptionPartition, dying: Sequence[Dying]) -> None:
        """Bury what a cursor gave as dying: now, or when a disk has answered."""
        cursor = at.cursor
        assert cursor is not None
        at.burying = True
        steps = self._run(at, cursor, list(dying))
        try:
            waits = steps.send(None)
        except StopIteration:
            at.burying = False
            return
        task = self._broker.loop.create_task(self._go_on(at, steps, waits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go_on(self, at: SubscriptionPartition, steps: Steps, waits: Awaitable[Any]) -> None:
        try:
            while True:
                try:
                    data = await waits
                except (StoreError, IndexError, delivery.Unreadable) as error:
                    waits = steps.throw(error)
                else:
                    waits = steps.send(data)
        except StopIteration:
            pass
        except Exception:
            log.exception("dead letters of group %s", at.subscription.group)
            # what they were is in the store
            at.discard()
        finally:
            at.burying = False
        if at.cursor is not None and not at.gone:
            # there may be more
            at.touch()

    def _run(self, at: SubscriptionPartition, cursor: Cursor, dying: list[Dying]) -> Steps:
        while dying:
            by_base: dict[str, Collected] = {}
            size = 0
            while dying and size < _BYTES:
                try:
                    size += yield from self._collect(at, dying, by_base)
                except Impossible as error:
                    first, last, _, _ = dying.pop(0)
                    self._put_off(at, cursor, [(first, last)], str(error))
                if at.cursor is not cursor or at.gone:
                    return
            for base, collected in by_base.items():
                while True:
                    try:
                        made = self._append(at, cursor, base, collected)
                    except Impossible as error:
                        self._put_off(at, cursor, collected.ranges, str(error))
                    except Later:
                        yield asyncio.sleep(0.02)
                        if at.cursor is not cursor or at.gone:
                            return
                        continue
                    else:
                        at.letters_failed = 0
                        if made is not None:
                            # What comes next needs the topic.
                            yield made
                            if at.cursor is not cursor or at.gone:
                                return
                    break

    # -- reading --------------------------------------------------------------------------------------------------

    def _collect(
        self, at: SubscriptionPartition, dying: list[Dying], by_base: dict[str, Collected]
    ) -> Generator[Awaitable[Any], Any, int]:
        """Read what is first among the dying, and take it from them: how many bytes. Raises Impossible."""
        first, last, count, reason = dying[0]
        partition = at.partition
        start = partition.log_start
        if last < start:
            dying.pop(0)
            return 0
        first = max(first, start)
        try:
            data = partition.log.read(first, _BYTES // 4)
            if not isinstance(data, list):
                data = yield data
        except Corrupt as error:
            problem = at.corrupt(error)
            if problem is not None:
                raise Impossible(f"it cannot be read: {error}") from error
            # by the topic's policy it is passed over
            end = min(error.next_offset, last + 1)
            lost = by_base.setdefault(_base(at, None, self._broker), Collected())
            lost.ranges.append((first, end - 1))
            self._shorten(dying, end)
            return 0
        except StoreError as error:
            raise Impossible(f"it cannot be read: {error}") from error
        except IndexError:
            raise Impossible("it is no longer there") from None
        stored = walk(data, first)
        if not stored:
            raise Impossible("it cannot be read")
        size = 0
        for batch in stored:
            # of this batch, all that is dying
            parts: list[Dying] = []
            while dying and dying[0].first < batch.next:
                first, last, count, reason = dying[0]
                if first < batch.base:
                    # no record is there
                    nothing = by_base.setdefault(_base(at, None, self._broker), Collected())
                    nothing.ranges.append((first, min(last, batch.base - 1)))
                    self._shorten(dying, batch.base)
                    continue
                parts.append(Dying(first, min(last, batch.next - 1), count, reason))
                self._shorten(dying, batch.next)
            if parts:
                size += yield from self._take(at, batch, parts, by_base)
            if not dying or size >= _BYTES:
                break
        return size

    @staticmethod
    def _shorten(dying: list[Dying], end: int) -> None:
        """The first of the dying is dealt with up to `end`."""
        first, last, count, reason = dying[0]
        if last < end:
            dying.pop(0)
        else:
            dying[0] = Dying(max(first, end), last, count, reason)

    def _take(
        self, at: SubscriptionPartition, batch: Stored, parts: Sequence[Dying], by_base: dict[str, Collected]
    ) -> Generator[Awaitable[Any], Any, int]:
        """Letters for those records of a batch: how many bytes."""
        raw = batch.raw()
        ranges = [each[:2] for each in parts]
        # the id of a retry letter is not that of the message which it repeats
        origin = None if at.retries else self._origin(at, batch.base)
        try:
            found = yield from self._opened(batch, ranges)
        except delivery.Unreadable:
            base = _base(at, None, self._broker)
            collected = by_base.setdefault(base, Collected())
            collected.ranges += ranges
            try:
                letter = letters.unreadable_letter(
                    self._source(at, base), raw, parts[0].count, parts[0].reason, origin and str(origin)
                )
            except BatchError as error:
                raise Impossible(f"it is no batch: {error}") from error
            collected.letters.append(letter)
            collected.size += len(raw)
            return len(raw)
        size = index = 0
        fixed = None if at.retries else at.subscription.topic
        for each in found:
            while parts[index].last < each.offset:
                index += 1
            base = fixed or _base(at, each.headers, self._broker)
            collected = by_base.setdefault(base, Collected())
            message_id = origin._replace(batch_index=each.offset - batch.base) if origin else None
            letter = letters.letter(
                self._source(at, base),
                each,
                parts[index].count,
                parts[index].reason,
                message_id and str(message_id),
            )
            collected.letters.append(letter)
            collected.ranges.append((each.offset, each.offset))
            size += len(each.value or b"") + len(each.key or b"") + _OVERHEAD
        there = {each.offset for each in found}
        missing = [(n, n) for first, last in ranges for n in range(first, last + 1) if n not in there]
        if missing:
            by_base.setdefault(_base(at, None, self._broker), Collected()).ranges += missing
        return size

    def _opened(
        self, batch: Stored, ranges: Sequence[tuple[int, int]]
    ) -> Generator[Awaitable[Any], Any, list[delivery.Found]]:
        """Some records of a batch; a thread unfolds one that would keep the loop for long. Raises Unreadable."""
        raw, limit = batch.raw(), self._broker.decompression_limit
        if limit > AT_ONCE:
            try:
                return delivery.records_at(raw, ranges, AT_ONCE)
            except delivery.TooLarge:
                run = self._broker.loop.run_in_executor
                found: list[delivery.Found] = yield run(None, delivery.records_at, bytes(raw), ranges, limit)
                return found
        return delivery.records_at(raw, ranges, limit)

    def _origin(self, at: SubscriptionPartition, offset: int) -> MessageId | None:
        """The message id of the first record of a batch."""
        try:
            return id_at(at.partition, offset)._replace(batch_index=0)
        except (StoreError, LookupError):
            return None

    def _source(self, at: SubscriptionPartition, base: str) -> letters.Source:
        subscription = at.subscription
        return letters.Source(subscription.topic, at.index, subscription.group, letter_names.full_name(base))

    # -- where to -------------------------------------------------------------------------------------------------

    def _put_off(
        self, at: SubscriptionPartition, cursor: Cursor, ranges: Sequence[tuple[int, int]], reason: str
    ) -> None:
        broker = self._broker
        broker.metrics.dead_letters_refused.value += 1
        wait = min(FIRST_RETRY_MS << min(at.letters_failed, 16), LAST_RETRY_MS)
        if not at.letters_failed:
            log.error(
                "dead letters of group %s on topic %s, partition %d are put off: %s; they stay open and are tried "
                "again.",
                at.subscription.group,
                at.subscription.topic,
                at.index,
                reason,
            )
        at.letters_failed += 1
        cursor.not_buried(ranges, reason, broker.clock.wall_ms() + wait)
        at.touch()

    def _append(
        self, at: SubscriptionPartition, cursor: Cursor, base: str, collected: Collected
    ) -> asyncio.Future[None] | None:
        """Both sides of the fact, into the open turn. A future when a topic is made for it: it ends with the commit.

        Raises Impossible, Later.
        """
        broker = self._broker
        subscription = at.subscription
        if not collected.letters:
            # nothing of it can be read, and nobody wants to wait for it
            cursor.buried(collected.ranges)
            at.touch()
            return None
        config = subscription.config
        name = config.dead_letters_of(subscription.group, base)
        if config.dead_letter_topic is None and letter_names.is_dead_letters(
            broker.catalog, subscription.topic
        ):
            raise Impossible(
                f"'{subscription.topic}' holds dead letters itself, and they have none unless "
                "pulsar.dead.letter.topic says where"
            )
        if name in (base, subscription.topic, config.retries_of(subscription.group, base)):
            raise Impossible(f"'{name}' cannot hold dead letters: the group would be given them again")
        found = broker.catalog.get(name)
        made: asyncio.Future[None] | None = None
        if found is None:
            made = self._make(at, name, collected)
        else:
            target = self._target(found, at.index % len(found.partitions))
            now = broker.clock.wall_ms()
            batch, newest = letters.build(collected.letters, now)
            header_count = len(collected.letters)
            target.append_carried(batch, header_count, newest)
        cursor.buried(collected.ranges)
        at.touch()
        for each in collected.letters:
            broker.metrics.dead_letters.labels(each.reason).value += 1
        return made

    def _target(self, topic: Topic, index: int) -> Partition:
        try:
            target = self._broker.partition(topic, index)
        except KafkaError as error:
            raise Impossible(f"topic '{topic.name}' cannot be written: {error}") from error
        if target.log.refuses:
            raise Impossible(f"topic '{topic.name}' cannot be written: {target.log.refuses}")
        if target.stale:
            raise Later
        return target

    def _make(self, at: SubscriptionPartition, name: str, collected: Collected) -> asyncio.Future[None]:
        """The dead letter topic, its first letters, and its initial subscription."""
        broker = self._broker
        runtime = broker.topic_by_id(at.subscription.topic_id)
        count = len(runtime.partitions) if runtime is not None else 1
        partitioned = runtime is None or runtime.topic.partitioned
        future: asyncio.Future[None] = broker.loop.create_future()

        def writes(topic: Topic) -> list[Write]:
            batch, newest = letters.build(collected.letters, broker.clock.wall_ms())
            epoch = broker.store.epoch
            append = Append(
                topic.partitions[at.index % count],
                0,
                len(collected.letters),
                newest,
                [patch(batch, 0, epoch)],
                epoch,
                True,
            )
            more: list[Write] = [append]
            initial = at.subscription.config.dead_letter_subscription
            if initial is not None:
                _, rows = broker.subscriptions.writes_new(initial, topic, [0] * count)
                more += rows
            return more

        def done(outcome: Outcome) -> None:
            if outcome is None:
                log.info("dead letter topic made", extra={"topic": name, "partitions": count})
            if not future.done():
                future.set_result(None)

        try:
            check_name(name)
            broker.topics.create_with(name, count, {}, writes, done, partitioned=partitioned)
        except KafkaError as error:
            if error.code == Error.TOPIC_ALREADY_EXISTS:
                raise Later from None
            raise Impossible(f"topic '{name}' cannot be made: {error}") from error
        return future


def _base(at: SubscriptionPartition, headers: properties.HeaderList | None, broker: Broker) -> str:
    """The topic whose dead letters these are: of retries, the one that the records came from."""
    subscription = at.subscription
    base = subscription.base
    if base is None:
        return subscription.topic
    if base == subscription.topic:
        # a RETRY topic with a name of its own: its records say whose they are
        for name, value in headers or ():
            if name == properties.REAL_TOPIC and value is not None:
                said = letter_names.kafka_name(value.decode("utf-8", "replace"))
                if said is not None and broker.catalog.get(said) is not None:
                    return said
    return base
