"""Burials: dead letters are appended to their topic and settled in their subscription by one commit.

The records are read again, put into one batch with the count of their deliveries and the reason in their headers, and
appended to partition p mod n of the dead letter topic, in the turn in which the cursor notes that they are done. A
crash finds both or neither, and a commit that fails takes both back. So both must be in one store. A topic that is
missing is made in the same commit, with as many partitions as the one the records are from. Limits of size and time
that producers have to keep do not hold for dead letters.

A `Burial` takes part in the turn that found something dying: it prepares by reading the records and appending the
letters, so that the partition they go to joins the turn, too. Where it has to wait for a disk, it goes on in a later
one.

Where a dead letter cannot be stored, the record stays open: it is not delivered, its count stays, and it is tried again
after a while that doubles; the reason is shown.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, all_loaded
from gateway.broker.message_ids import id_at
from gateway.broker.participant import Gathered, Stage
from gateway.broker.partition import first_carried
from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.scanning import AT_ONCE
from gateway.broker.subscriptions.stored import Stored, walk
from gateway.broker.topics import check_name
from gateway.promise import Promise
from gateway.wire import delivery, letters, properties
from gateway.wire.batch import BatchError
from gateway.wire.errors import Error
from semantics.message_id import MessageId
from semantics.subscriptions.states import Dying
from store.api import Corrupt, Outcome, StoreError, Write
from store.pending import Asking, drive
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from semantics.subscriptions.cursor import Cursor

log = logging.getLogger("magnetar.subscriptions")

_BYTES = 1024 * 1024
"""Records that are buried in one go; a larger one goes alone."""

_OVERHEAD = 400
"""What a letter takes beside its key and its value, on the whole."""

FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


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


class Burial:
    """What one turn found dying of a cursor, until all of it is buried or put off."""

    __slots__ = ("_begun", "_counts", "_joined", "_letters", "_sent", "at", "cursor", "dying", "store")

    stage, prepares = Stage.CURSORS, True

    def __init__(
        self, letters: Letters, at: SubscriptionPartition, cursor: Cursor, dying: Sequence[Dying]
    ) -> None:
        self._letters = letters
        self.at = at
        self.store = at.store
        self.cursor = cursor
        # what is left to be buried
        self.dying = list(dying)
        self._begun = self._joined = False
        # letters in the open turn, and in commits on their way, by reason
        self._counts: Counter[str] = Counter()
        self._sent: list[Counter[str]] = []

    def count(self, made: Sequence[letters.Letter]) -> None:
        """These letters are in the open turn."""
        self.join()
        self._counts.update([each.reason for each in made])

    def join(self) -> None:
        """Take part in the open turn."""
        if not self._joined:
            self._joined = True
            self._letters.node.turn.join(self)

    # -- the turn -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        if not self._begun:
            self._begun = True
            self._letters.begin(self)

    def writes(self, commit: Gathered) -> None:
        """Nothing of its own: the letters are written by their partition, the ends of the records by the cursor."""
        self._sent.append(self._counts)
        self._counts, self._joined = Counter(), False

    def committed(self) -> None:
        metric = self._letters.node.metrics.dead_letters
        for reason, count in self._sent.pop(0).items():
            metric.labels(reason).value += count

    def failed(self, error: StoreError) -> None:
        """The cursor is thrown away with the letters' partition: what is dying is found again."""
        del self._sent[0]

    def dropped(self, error: StoreError) -> None:
        self._counts, self._joined = Counter(), False


class Letters:
    """The burials of all subscriptions."""

    AT_ONCE = 2000
    """Ranges that a turn takes from one cursor."""

    def __init__(self, registry: Subscriptions) -> None:
        self._registry = registry
        self.node = registry.node
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def bury(self, at: SubscriptionPartition, dying: Sequence[Dying]) -> Burial:
        """Bury what a cursor gave as dying, in the turn that is ending, or when a disk has answered."""
        cursor = at.cursor
        assert cursor is not None
        burial = Burial(self, at, cursor, dying)
        burial.join()
        return burial

    def begin(self, burial: Burial) -> None:
        """Go as far as there is nothing to wait for; a task does the rest."""
        try:
            rest = drive(self._run(burial.at, burial.cursor, burial.dying))
        except BaseException:
            # the turn fails; the next one tries again
            burial.at.burial_over()
            raise
        if rest is None:
            burial.at.burial_over()
            return
        task = self.node.loop.create_task(self._go_on(burial, rest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go_on(self, burial: Burial, rest: Awaitable[None]) -> None:
        at = burial.at
        try:
            await rest
        except Exception:
            log.exception("dead letters of group %s", at.subscription.group)
            # what they were is in the store
            at.discard()
        finally:
            at.burial_over()
        if at.cursor is not None and not at.gone:
            # there may be more
            at.touch()

    def _run(self, at: SubscriptionPartition, cursor: Cursor, dying: list[Dying]) -> Asking[None]:
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
                    except Loading as loading:
                        yield all_loaded((loading,))
                        if at.cursor is not cursor or at.gone:
                            return
                        continue
                    else:
                        at.letters_stored()
                        if made is not None:
                            # What comes next needs the topic.
                            yield made
                            if at.cursor is not cursor or at.gone:
                                return
                    break

    # -- reading --------------------------------------------------------------------------------------------------

    def _collect(
        self, at: SubscriptionPartition, dying: list[Dying], by_base: dict[str, Collected]
    ) -> Asking[int]:
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
            lost = by_base.setdefault(_base(at, None, self.node), Collected())
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
                    nothing = by_base.setdefault(_base(at, None, self.node), Collected())
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
    ) -> Asking[int]:
        """Letters for those records of a batch: how many bytes."""
        raw = batch.raw()
        ranges = [each[:2] for each in parts]
        # the id of a retry letter is not that of the message which it repeats
        origin = None if at.retries else self._origin(at, batch.base)
        try:
            found = yield from self._opened(batch, ranges)
        except delivery.Unreadable:
            base = _base(at, None, self.node)
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
            base = fixed or _base(at, each.headers, self.node)
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
            by_base.setdefault(_base(at, None, self.node), Collected()).ranges += missing
        return size

    def _opened(self, batch: Stored, ranges: Sequence[tuple[int, int]]) -> Asking[list[delivery.Found]]:
        """Some records of a batch; a thread unfolds one that would keep the loop for long. Raises Unreadable."""
        raw, limit = batch.raw(), self.node.decompression_limit
        if limit > AT_ONCE:
            try:
                return delivery.records_at(raw, ranges, AT_ONCE)
            except delivery.TooLarge:
                run = self.node.loop.run_in_executor
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
        node = self.node
        node.metrics.dead_letters_refused.value += 1
        failed = at.letters_put_off()
        wait = min(FIRST_RETRY_MS << min(failed, 16), LAST_RETRY_MS)
        if not failed:
            log.error(
                "dead letters of group %s on topic %s, partition %d are put off: %s; they stay open and are tried "
                "again.",
                at.subscription.group,
                at.subscription.topic,
                at.index,
                reason,
            )
        cursor.not_buried(ranges, reason, node.clock.wall_ms() + wait)
        at.touch()

    @step("letter.before", "letter.after")
    def _append(
        self, at: SubscriptionPartition, cursor: Cursor, base: str, collected: Collected
    ) -> Promise[None] | None:
        """Both sides of the fact, into the open turn. A promise when a topic is made for it: told with the commit.

        Raises Impossible, Later; Loading.
        """
        node = self.node
        subscription = at.subscription
        before = at.cursor
        try:
            at.ready()
        except KafkaError:
            raise Later from None
        if at.cursor is not before:
            # it was read again from the store, and gives them once more
            raise Later
        if not collected.letters:
            # nothing of it can be read, and nobody wants to wait for it
            cursor.buried(collected.ranges)
            at.touch()
            return None
        config = subscription.config
        name = config.dead_letters_of(subscription.group, base)
        if config.dead_letter_topic is None and letter_names.is_dead_letters(
            node.catalog, subscription.topic
        ):
            raise Impossible(
                f"'{subscription.topic}' holds dead letters itself, and they have none unless "
                "pulsar.dead.letter.topic says where"
            )
        if name in (base, subscription.topic, config.retries_of(subscription.group, base)):
            raise Impossible(f"'{name}' cannot hold dead letters: the group would be given them again")
        found = node.catalog.get(name)
        made: Promise[None] | None = None
        if found is None:
            made = self._make(at, name, collected)
        else:
            target = self._target(at, found)
            batch, newest = letters.build(collected.letters, node.clock.wall_ms())
            target.append_carried(batch, len(collected.letters), newest)
        cursor.buried(collected.ranges)
        at.touch()
        assert at.burial is not None
        at.burial.count(collected.letters)
        return made

    def _target(self, at: SubscriptionPartition, topic: Topic) -> Partition:
        try:
            target = self.node.in_use.partition(topic, at.index % len(topic.partitions))
        except Loading:
            raise
        except KafkaError as error:
            raise Impossible(f"topic '{topic.name}' cannot be written: {error}") from error
        if target.log.refuses:
            raise Impossible(f"topic '{topic.name}' cannot be written: {target.log.refuses}")
        if target.stale:
            raise Later
        if target.store is not at.store:
            raise Impossible(f"topic '{topic.name}' is not kept in the same store")
        return target

    @step("letter.topic", "letter.made")
    def _make(self, at: SubscriptionPartition, name: str, collected: Collected) -> Promise[None]:
        """The dead letter topic, its first letters, and its initial subscription."""
        node = self.node
        runtime = node.in_use.topic_by_id(at.subscription.topic_id)
        count = len(runtime.partitions) if runtime is not None else 1
        partitioned = runtime is None or runtime.topic.partitioned
        made = Promise[None]()

        def writes(topic: Topic) -> list[Write]:
            batch, newest = letters.build(collected.letters, node.clock.wall_ms())
            partition = topic.partitions[at.index % count]
            epoch = at.store.leader_epoch(partition)
            more: list[Write] = [first_carried(partition, epoch, batch, len(collected.letters), newest)]
            initial = at.subscription.config.dead_letter_subscription
            if initial is not None:
                _, rows = self._registry.writes_new(initial, topic, [0] * count)
                more += rows
            return more

        def done(outcome: Outcome) -> None:
            if outcome is None:
                log.info("dead letter topic made", extra={"topic": name, "partitions": count})
            # when it was not stored, the cursor is read again and gives them once more
            made.tell(None)

        try:
            check_name(name)
            if at.store is not node.store:
                raise Impossible(f"topic '{name}' would not be kept in the same store")
            node.topics.create_with(name, count, {}, writes, done, partitioned=partitioned)
        except KafkaError as error:
            if error.code == Error.TOPIC_ALREADY_EXISTS:
                raise Later from None
            raise Impossible(f"topic '{name}' cannot be made: {error}") from error
        return made


def _base(at: SubscriptionPartition, headers: properties.HeaderList | None, node: Delivering) -> str:
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
                if said is not None and node.catalog.get(said) is not None:
                    return said
    return base
