"""Topics made, grown, changed and deleted: each is one commit, then the change shows everywhere at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gateway.broker import aborted_transactions
from gateway.broker.catalog import MOST_LANES, Topic
from gateway.broker.changing import until_told
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.new_topics import NewTopics, check_configs, check_name, check_transient, is_transient
from gateway.config.topic_table import PERSISTENCE
from gateway.wire.errors import Error
from semantics.names import AUDIT
from semantics.policies import MOST_PARTITIONS
from store.api import Outcome, StoreError, Trim, Write
from store.steps import step
from store.transient import FIRST_TRANSIENT

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, QueueOf
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.transient import Transients

    Follows = Callable[[Topic], tuple[list[Write], Callable[[], None]]]
    """What is to be written with the making or the deletion of a topic, and to be called when that is durable. Nothing
    is appended to one that is deleted any more. Raises KafkaError.
    """

log = logging.getLogger("magnetar.topics")


_KEPT_BACK = f"'{AUDIT}' is where the gateway keeps what was changed by whom: it is as it is."


class Topics:
    """The verbs; `Catalog` keeps the rows."""

    def __init__(
        self,
        node: Node,
        catalog: Catalog,
        in_use: InUse,
        end_turn: Callable[[], None],
        changed: Callable[[str, Topic | None], None],
        transients: Transients,
    ) -> None:
        """`end_turn` sends what the open turn has collected. `changed` is called when a change is durable: it shows."""
        self._node = node
        self._catalog = catalog
        self._in_use = in_use
        self._end_turn = end_turn
        self._changed = changed
        self.new = NewTopics(node, catalog, transients)
        self.tied: list[Callable[[Topic], Iterable[str]]] = []
        """who knows names of topics that go with a topic"""
        self.waited_for: list[Callable[[str], Awaitable[None]]] = []
        """whom a topic of some name has to wait for, before it is made"""
        self.followed_by: list[Follows] = []
        """who has something that goes with a topic"""
        self.come_with: list[Follows] = []
        """who has something that is made with a topic of `create`, whose row is not there yet"""
        # a lock for each topic that is being changed, and how many hold it or wait for it
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @step("create.before")
    async def create(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        *,
        partitioned: bool = True,
        internal: bool = False,
        properties: dict[str, str] | None = None,
        terminated: Sequence[int] = (),
    ) -> Topic:
        """`partitions` -1 takes num.partitions; with `partitioned` False a single one makes a plain topic.

        Raises KafkaError.
        """
        check_name(name)
        if name == AUDIT and not internal:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, _KEPT_BACK)
        for each in self.waited_for:
            await each(name)
        partitions = self.new.check(name, partitions, configs)
        topic = self._new(name, partitions, configs, internal, partitioned or partitions > 1)
        topic.properties = properties or {}
        topic.terminated = list(terminated)
        with self.new.taken(topic):
            theirs = [each(topic) for each in self.come_with]
            more = [write for writes, _ in theirs for write in writes]
            await self._write(
                [*self._catalog.writes_create(topic), *more], name, topic, [made for _, made in theirs]
            )
        return topic

    def would_be(self, name: str, partitions: int, configs: dict[str, str], *, partitioned: bool) -> Topic:
        """What `create` would make: a topic that is not there, with no id and no numbers of its own. Raises KafkaError
        for what that would refuse as things are.
        """
        if name == AUDIT:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, _KEPT_BACK)
        count = self.new.check(name, partitions, configs)
        number = FIRST_TRANSIENT if is_transient(configs) else 0
        now = self._node.clock.wall_ms()
        return Topic(name, bytes(16), [number] * count, now, configs, partitioned=partitioned)

    def _new(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        internal: bool = False,
        partitioned: bool = True,
    ) -> Topic:
        return Topic(
            name=name,
            topic_id=uuid.uuid4().bytes,
            partitions=self._catalog.allocate(partitions, transient=is_transient(configs)),
            created_at=self._node.clock.wall_ms(),
            configs=configs,
            internal=internal,
            partitioned=partitioned,
        )

    def create_with(
        self,
        name: str,
        partitions: int,
        configs: dict[str, str],
        more: Callable[[Topic], list[Write]],
        done: Callable[[Outcome], None],
        *,
        partitioned: bool = True,
        queue: QueueOf | None = None,
    ) -> None:
        """Make a topic in the open turn, together with what `more` says of it: one fact. Raises KafkaError.

        `queue`: it is a queue topic. `done` is called with the outcome of the commit, when the topic shows.
        """
        partitions = self.new.check(name, partitions, configs)
        topic = self._new(name, partitions, configs, partitioned=partitioned)
        if queue is not None:
            # patterns of consumers are to pass over it
            topic = msgspec.structs.replace(topic, queue=queue, internal=True)
        writes = [*self._catalog.writes_create(topic), *more(topic)]
        self.new.take(topic)
        self._catalog.coming.add(name)

        changes = self._catalog.begin(writes)

        def ended(outcome: Outcome) -> None:
            self.new.free(topic)
            self._catalog.coming.discard(name)
            try:
                if outcome is None:
                    self._changed(name, topic)
            finally:
                self._catalog.end(changes)
                done(outcome)

        self._node.commit(writes, ended)

    def check_delete(self) -> None:
        """Whether topics may be deleted at all. Raises KafkaError TOPIC_DELETION_DISABLED."""
        if not self._node.settings.flag("delete.topic.enable"):
            raise KafkaError(Error.TOPIC_DELETION_DISABLED, "delete.topic.enable is false.")

    @step("delete.before")
    async def delete(
        self, name: str, *also: Follows, only_if: Callable[[Topic], bool] = lambda topic: True
    ) -> bool:
        """The topic, its records, and the offsets that groups have committed in it; `also` what else is to go with it.

        `only_if` is asked when nobody else can change the topic any more, and nothing happens between its answer and
        the commit. Whether the topic was deleted. Raises KafkaError, and what `only_if` raises.
        """
        self.check_delete()
        async with self.changing(name), contextlib.AsyncExitStack() as held:
            topic = self.changeable(name)
            await self._hold_tied(topic, held)
            runtime = self._in_use.topic(name.encode())
            assert runtime is not None
            # What is in the open turn is committed first; from here on nothing is appended behind the drop.
            self._end_turn()
            if not only_if(topic):
                return False
            runtime.deleting = True
            for partition in runtime.partitions:
                if partition is not None:
                    partition.retire()
            try:
                followers = [each(topic) for each in (*self.followed_by, *also)]
                theirs = [write for writes, _ in followers for write in writes]
                gone = [each for _, each in followers]
                await self._write([*self._catalog.writes_delete(topic), *theirs], name, None, after=gone)
            except KafkaError:
                runtime.deleting = False
                runtime.partitions[:] = [None] * len(runtime.partitions)
                raise
            log.info("topic deleted", extra={"topic": name, "partitions": len(topic.partitions)})
            return True

    async def _hold_tied(self, topic: Topic, held: contextlib.AsyncExitStack) -> None:
        """Nobody else changes the topics that go with this one from now on."""
        names: set[str] = set()
        # each wait may bring others
        while more := {name for each in self.tied for name in each(topic)} - names:
            for name in sorted(more):
                await held.enter_async_context(self.changing(name))
            names |= more

    async def grow(self, name: str, count: int, *, validate_only: bool = False) -> None:
        """Raises KafkaError."""
        async with self.changing(name):
            await self._grow(name, count, validate_only)

    async def _grow(self, name: str, count: int, validate_only: bool) -> None:
        topic = self.changeable(name)
        have = len(topic.partitions)
        if count == have:
            raise KafkaError(Error.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
        if count < have:
            raise KafkaError(
                Error.INVALID_PARTITIONS,
                f"The topic {name} currently has {have} partition(s); {count} would not be an increase.",
            )
        if count > MOST_PARTITIONS:
            raise KafkaError(Error.INVALID_PARTITIONS, f"A topic has at most {MOST_PARTITIONS} partitions.")
        if topic.queue is not None and count > MOST_LANES:
            raise KafkaError(Error.INVALID_PARTITIONS, f"A queue topic has at most {MOST_LANES} lanes.")
        if len(topic.terminated) == have:
            raise KafkaError(
                Error.INVALID_PARTITIONS,
                f"Topic '{name}' is terminated: it takes no more messages, and so it gets no more partitions.",
            )
        other = self._catalog.partition_topic(name)
        if other is not None:
            raise KafkaError(
                Error.INVALID_PARTITIONS,
                f"Topic '{name}' cannot grow beside '{other}', which would be taken for one of its partitions.",
            )
        self.new.check_more(name, count - have)
        if validate_only:
            return
        added = self._catalog.allocate(count - have, transient=topic.transient)
        # a plain topic is none any more
        grown = msgspec.structs.replace(topic, partitions=[*topic.partitions, *added], partitioned=True)
        with self.new.growing(name, len(added)):
            await self._write(self._catalog.writes_update(grown, grown=True), name, grown)

    async def configure(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]], *, validate_only: bool = False
    ) -> None:
        """Change the explicitly set configs. Raises KafkaError."""
        async with self.changing(name):
            topic = self.changeable(name)
            configs = change(topic.configs)
            check_configs(configs)
            if is_transient(configs) != topic.transient:
                raise KafkaError(
                    Error.INVALID_CONFIG,
                    f"{PERSISTENCE} of a topic stays as it was made. Make another topic.",
                )
            check_transient(configs, topic.configs)
            if topic.queue is not None and not configs.items() <= topic.configs.items():
                raise KafkaError(
                    Error.INVALID_CONFIG,
                    f"'{name}' is a queue topic, which keeps no records: it goes by the configs of subscription "
                    f"{topic.queue.subscription}. Set them with kafka-configs.sh --entity-type groups --entity-name "
                    f"{topic.queue.subscription}, or magnetar-admin topics update-subscription-properties.",
                )
            if validate_only or configs == topic.configs:
                return
            changed = msgspec.structs.replace(topic, configs=configs)
            await self._write(self._catalog.writes_update(changed), name, changed)

    async def keep(self, name: str, change: Callable[[Topic], Topic]) -> None:
        """Change what is only kept with a topic: its properties. Raises KafkaError, and what `change` raises."""
        async with self.changing(name):
            before = self.changeable(name)
            topic = change(before)
            if topic == before:
                return
            await self._write(self._catalog.writes_update(topic), name, topic)

    async def terminate(self, name: str, indexes: Iterable[int]) -> None:
        """Those partitions take no more messages from now on; what they have stays readable. Raises KafkaError."""
        async with self.changing(name):
            topic = self.changeable(name)
            terminated = sorted({*topic.terminated, *indexes})
            if terminated == topic.terminated:
                return
            runtime = self._in_use.topic(name.encode())
            assert runtime is not None
            # what is in the open turn is committed first; from here on nothing comes behind it
            self._end_turn()
            # also of a partition that somebody loads, or that gets other configs, before it is stored
            runtime.ending = frozenset(terminated)
            for index in terminated:
                partition = runtime.partitions[index]
                if partition is not None:
                    partition.terminate()
            changed = msgspec.structs.replace(topic, terminated=terminated)
            try:
                await self._write(self._catalog.writes_update(changed), name, changed)
            except KafkaError:
                runtime.ending = frozenset()
                self._in_use.topic_changed(name, topic)
                raise
            finally:
                runtime.ending = frozenset()
            log.info("topic terminated", extra={"topic": name, "partitions": terminated})

    @step("trim.asked", "trim.done")
    async def delete_records(self, partition: Partition, offset: int) -> int:
        """Move the log start to `offset` (-1: to the high watermark). Returns the new log start. Raises KafkaError."""
        if partition.topic.name == AUDIT and partition.topic.topic.internal:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, _KEPT_BACK)
        if offset == -1:
            offset = partition.high_watermark
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(
                Error.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} is not between 0 and the high watermark {partition.high_watermark}.",
            )
        if partition.stale:
            # The topic is being deleted: a trim behind the drop would spoil the group of everybody else.
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        if offset > partition.log_start:
            try:
                gone = aborted_transactions.below(self._node.store, partition.id, offset)
                await self._node.write([Trim(partition.id, offset), *gone], then=partition.changed)
            except StoreError as error:
                raise from_store(error) from error
        return partition.log_start

    def get(self, name: str) -> Topic:
        """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._catalog.get(name)
        if topic is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name[:300]}'.")
        return topic

    def changeable(self, name: str) -> Topic:
        """One that has a row. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""
        topic = self.get(name)
        if name == AUDIT and topic.internal:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, _KEPT_BACK)
        if self._catalog.is_view(topic):
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"'{name}' shows what the gateway keeps of groups and transactions: it is as it is.",
            )
        return topic

    @contextlib.asynccontextmanager
    async def changing(self, name: str) -> AsyncIterator[None]:
        """One change of a topic at a time: each reads the row that the one before it wrote."""
        lock, users = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            _, users = self._locks.pop(name)
            if users > 1:
                self._locks[name] = lock, users - 1

    @step("catalog.before", "catalog.after")
    async def _write(
        self,
        writes: list[Write],
        name: str,
        topic: Topic | None,
        before: Iterable[Callable[[], None]] = (),
        after: Iterable[Callable[[], None]] = (),
    ) -> None:
        """Commit a change of the catalog. It shows at once, also when nobody waits any more: nobody may meet a topic
        whose logs are gone. These are called `before` and `after` that.
        """
        changes = self._catalog.begin(writes)
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            try:
                if outcome is None:
                    for each in before:
                        each()
                    self._changed(name, topic)
                    for each in after:
                        each()
            finally:
                self._catalog.end(changes)
                # it is stored whatever they did, and whoever waits holds a lock
                told.set_result(outcome)

        try:
            self._node.commit(writes, done)
        except BaseException:
            self._catalog.end(changes)
            raise
        outcome = await until_told(told)
        if outcome is not None:
            raise from_store(outcome)
