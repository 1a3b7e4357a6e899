"""Burials: dead letters are appended to their topic and settled in their subscription by one commit.

The records are read again (`collecting.py`), put into one batch with the count of their deliveries and the reason in
their headers, and appended to partition p mod n of the dead letter topic, in the turn in which the cursor notes that
they are done. A crash finds both or neither, and a commit that fails takes both back. So both must be in one store. A
topic that is missing is made in the same commit, with as many partitions as the one the records are from. Limits of
size and time that producers have to keep do not hold for dead letters.

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
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, all_loaded
from gateway.broker.participant import Gathered, Stage
from gateway.broker.partition import first_carried
from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.collecting import BYTES, Collected, Collector, Impossible
from gateway.broker.subscriptions.ports import Place
from gateway.broker.topics import check_name
from gateway.promise import Promise
from gateway.wire import letters
from gateway.wire.errors import Error
from semantics.subscriptions.states import Dying
from store.api import Outcome, StoreError, Write
from store.pending import drive
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from semantics.subscriptions.cursor import Cursor
    from store.pending import Asking

log = logging.getLogger("magnetar.subscriptions")

FIRST_RETRY_MS = 1000
LAST_RETRY_MS = 60_000


class Later(Exception):
    """The dead letter topic is being made by somebody else."""


class Losing(Place, Protocol):
    """The cursor whose records die."""

    @property
    def gone(self) -> bool:
        """Whether the subscription was deleted."""
        ...

    @property
    def burial(self) -> Burial | None: ...

    def discard(self) -> None:
        """The cursor says what is not stored: throw it away."""
        ...

    def burial_over(self) -> None:
        """All that one turn found dying is seen to."""
        ...

    def letters_stored(self) -> None:
        """Dead letters are on their way into their topic again."""
        ...

    def letters_put_off(self) -> int:
        """Some could not be stored: how often in a row that had happened before."""
        ...


class Burial:
    """What one turn found dying of a cursor, until all of it is buried or put off."""

    __slots__ = ("_begun", "_counts", "_joined", "_letters", "_sent", "at", "cursor", "dying", "store")

    stage, prepares = Stage.CURSORS, True

    def __init__(self, letters: Letters, at: Losing, cursor: Cursor, dying: Sequence[Dying]) -> None:
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

    def __init__(
        self,
        node: Delivering,
        writes_new: Callable[[str, Topic, Sequence[int]], tuple[SubscriptionRow, list[Write]]],
    ) -> None:
        """`writes_new`: what makes a subscription of a group on a topic that begins at these offsets."""
        self.node = node
        self._writes_new = writes_new
        self._collector = Collector(node)
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def bury(self, at: Losing, dying: Sequence[Dying]) -> Burial:
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

    def _run(self, at: Losing, cursor: Cursor, dying: list[Dying]) -> Asking[None]:
        while dying:
            by_base: dict[str, Collected] = {}
            size = 0
            while dying and size < BYTES:
                try:
                    size += yield from self._collector.collect(at, dying, by_base)
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

    # -- where to -------------------------------------------------------------------------------------------------

    def _put_off(self, at: Losing, cursor: Cursor, ranges: Sequence[tuple[int, int]], reason: str) -> None:
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
    def _append(self, at: Losing, cursor: Cursor, base: str, collected: Collected) -> Promise[None] | None:
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

    def _target(self, at: Losing, topic: Topic) -> Partition:
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
    def _make(self, at: Losing, name: str, collected: Collected) -> Promise[None]:
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
                _, initially = self._writes_new(initial, topic, [0] * count)
                more += initially
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
