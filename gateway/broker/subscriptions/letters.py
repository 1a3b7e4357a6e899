"""Burials: dead letters are appended to their topic and settled in their subscription by one commit. So are retry
letters that the server writes, since a consumer of a lane said so: `letter_kinds.py` has what differs.

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
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading, all_loaded
from gateway.broker.new_topics import as_base, check_name
from gateway.broker.participant import Gathered, Stage
from gateway.broker.policies import makes_subscriptions
from gateway.broker.subscriptions.collecting import BYTES, Collected, Collector, Impossible
from gateway.broker.subscriptions.letter_kinds import DEAD, LetterKind, Losing, Retry
from gateway.promise import Promise
from gateway.wire import letters
from gateway.wire.batch import patch
from gateway.wire.errors import Error
from semantics.group_names import bare, shown
from semantics.subscriptions.states import Dying, Reason
from store.api import Append, Outcome, StoreError, Write
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


AGAIN_S = 0.02
"""Until what could not be done at present is tried again, in seconds."""


class Later(Exception):
    """The dead letter topic is being made by somebody else, or by a commit of its own."""

    def __init__(self, made: Promise[None] | None = None) -> None:
        """`made` is told when it is there."""
        super().__init__()
        self.made = made


class Burial:
    """What one turn found dying of a cursor, until all of it is buried or put off."""

    __slots__ = (
        "_begun",
        "_counts",
        "_joined",
        "_letters",
        "_sent",
        "at",
        "cursor",
        "dying",
        "kind",
        "store",
    )

    stage, prepares = Stage.CURSORS, True

    def __init__(
        self, letters: Letters, at: Losing, cursor: Cursor, dying: Sequence[Dying], kind: LetterKind
    ) -> None:
        self._letters = letters
        self.at = at
        self.store = at.store
        self.cursor = cursor
        self.kind = kind
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
        self.kind.stored(self._letters.node.metrics, self._sent.pop(0))

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
        burial = Burial(self, at, cursor, dying, DEAD)
        burial.join()
        return burial

    def resend(self, at: Losing, ranges: Sequence[tuple[int, int]], delay_ms: int) -> None:
        """Put records that a cursor has in BACKOFF on the retry letter topic, to be delivered after so long, in the
        turn that is open. Where a disk has to be asked it comes later, unless they have woken by then: then they are
        delivered again as after a nack.
        """
        cursor = at.cursor
        assert cursor is not None
        waiting = [Dying(first, last, 0, Reason.REJECTED) for first, last in ranges]
        Burial(self, at, cursor, waiting, Retry(self.node.catalog, at.subscription, delay_ms)).join()

    def begin(self, burial: Burial) -> None:
        """Go as far as there is nothing to wait for; a task does the rest."""
        try:
            rest = drive(self._run(burial))
        except BaseException:
            # the turn fails; the next one tries again
            burial.kind.over(burial.at)
            raise
        if rest is None:
            burial.kind.over(burial.at)
            return
        task = self.node.loop.create_task(self._go_on(burial, rest))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _go_on(self, burial: Burial, rest: Awaitable[None]) -> None:
        at = burial.at
        try:
            await rest
        except Exception:
            log.exception("letters of group %s", at.subscription.group)
            # what they were is in the store
            at.discard()
        finally:
            burial.kind.over(at)
        if at.cursor is not None and not at.gone:
            # there may be more
            at.touch()

    def _run(self, burial: Burial) -> Asking[None]:
        at, cursor, dying, kind = burial.at, burial.cursor, burial.dying, burial.kind
        while dying:
            by_base: dict[str, Collected] = {}
            size = 0
            while dying and size < BYTES:
                try:
                    size += yield from self._collector.collect(at, dying, by_base, kind)
                except Impossible as error:
                    first, last, _, _ = dying.pop(0)
                    self._put_off(burial, [(first, last)], str(error))
                if at.cursor is not cursor or at.gone:
                    return
            for base, collected in by_base.items():
                while True:
                    try:
                        made = self._append(burial, base, collected)
                    except Impossible as error:
                        self._put_off(burial, collected.ranges, str(error))
                    except Later as later:
                        yield later.made or asyncio.sleep(AGAIN_S)
                        if at.cursor is not cursor or at.gone:
                            return
                        continue
                    except Loading as loading:
                        yield all_loaded((loading,))
                        if at.cursor is not cursor or at.gone:
                            return
                        continue
                    else:
                        kind.sent(at)
                        if made is not None:
                            # What comes next needs the topic.
                            yield made
                            if at.cursor is not cursor or at.gone:
                                return
                    break

    # -- where to -------------------------------------------------------------------------------------------------

    def _put_off(self, burial: Burial, ranges: Sequence[tuple[int, int]], reason: str) -> None:
        burial.kind.put_off(self.node, burial.at, burial.cursor, ranges, reason)
        burial.at.touch()

    @step("letter.before", "letter.after")
    def _append(self, burial: Burial, base: str, collected: Collected) -> Promise[None] | None:
        """Both sides of the fact, into the open turn. A promise when a topic is made for it: told with the commit.

        Raises Impossible, Later; Loading.
        """
        node, at, cursor, kind = self.node, burial.at, burial.cursor, burial.kind
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
            kind.settle(cursor, collected.ranges)
            at.touch()
            return None
        self._check_home(at)
        name = kind.topic(node.catalog, at.subscription, base)
        found = node.catalog.get(name)
        made: Promise[None] | None = None
        if found is None:
            made = self._make(burial, name, collected)
        else:
            target = self._target(at, found)
            batch, newest = letters.build(collected.letters, node.clock.wall_ms())
            target.append_carried(batch, len(collected.letters), newest)
        kind.settle(cursor, collected.ranges)
        at.touch()
        burial.count(collected.letters)
        return made

    def _check_home(self, at: Losing) -> None:
        """Nothing is written on behalf of a group where it may have no subscription. Raises Impossible."""
        group, topic = at.subscription.group, at.subscription.topic
        if not self.node.catalog.namespaces.may_subscribe(group, topic):
            raise Impossible(f"group {shown(group)} is not of the namespace of '{topic}'")

    def _target(self, at: Losing, topic: Topic) -> Partition:
        try:
            target = self.node.in_use.partition(topic, at.index % len(topic.partitions))
        except Loading:
            raise
        except KafkaError as error:
            raise Impossible(f"topic '{topic.name}' cannot be written: {error}") from error
        if target.log.refuses:
            raise Impossible(f"topic '{topic.name}' cannot be written: {target.log.refuses}")
        if target.terminated:
            raise Impossible(f"topic '{topic.name}' is terminated")
        if target.stale:
            raise Later
        if target.store is not at.store:
            raise Impossible(f"topic '{topic.name}' is not kept in the same store")
        return target

    @step("letter.topic", "letter.made")
    def _make(self, burial: Burial, name: str, collected: Collected) -> Promise[None]:
        """The topic, its first letters, and whoever is to read it from its beginning. Raises Impossible, Later."""
        node, at, kind = self.node, burial.at, burial.kind
        runtime = node.in_use.topic_by_id(at.subscription.topic_id)
        count = len(runtime.partitions) if runtime is not None else 1
        partitioned = runtime is None or runtime.topic.partitioned
        made = Promise[None]()

        def reading(topic: Topic) -> list[Write]:
            reader = kind.reader(at.subscription)
            if reader is None:
                return []
            group = node.catalog.namespaces.group_of(topic.name, bare(reader))
            return self._writes_new(group, topic, [0] * count)[1]

        def writes(topic: Topic) -> list[Write]:
            batch, newest = letters.build(collected.letters, node.clock.wall_ms())
            partition = topic.partitions[at.index % count]
            epoch = at.store.leader_epoch(partition)
            return [
                _first_carried(partition, epoch, batch, len(collected.letters), newest),
                *reading(topic),
            ]

        def done(outcome: Outcome) -> None:
            if outcome is None:
                log.info("%s topic made", kind.called, extra={"topic": name, "partitions": count})
            # when it was not stored, the cursor is read again and gives them once more
            made.tell(None)

        reader = kind.reader(at.subscription) if kind is DEAD else None
        if reader is not None and not makes_subscriptions(node, node.catalog, name):
            raise Impossible(
                f"topic '{name}' would be made with the subscription {reader}, and none is made there for who does not "
                "ask (auto-subscription-creation): make both"
            )

        def done_alone(outcome: Outcome) -> None:
            if outcome is None:
                done(None)
            else:
                node.loop.call_later(AGAIN_S, made.tell, None)

        try:
            check_name(name)
            if runtime is not None and runtime.topic.transient:
                # it is made by a commit of another store: the letters come when it is there
                configs = as_base(runtime.topic)
                node.topics.create_with(name, count, configs, reading, done_alone, partitioned=partitioned)
                raise Later(made)
            if at.store is not node.durable:
                raise Impossible(f"topic '{name}' would not be kept in the same store")
            node.topics.create_with(name, count, {}, writes, done, partitioned=partitioned)
        except KafkaError as error:
            if error.code == Error.TOPIC_ALREADY_EXISTS:
                raise Later from None
            raise Impossible(f"topic '{name}' cannot be made: {error}") from error
        return made


def _first_carried(partition: int, leader_epoch: int, batch: bytes, count: int, max_timestamp: int) -> Append:
    """What `Partition.append_carried` comes to, for a topic that is made in the same commit."""
    return Append(partition, 0, count, max_timestamp, [patch(batch, 0, leader_epoch)], leader_epoch, True)
