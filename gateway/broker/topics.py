"""Topics made, grown, changed and deleted: each is one commit, then the change shows everywhere at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.catalog import MOST_LANES, Topic
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.namespaces import prefix_of
from gateway.broker.policies import check_topics
from gateway.config import topic_configs
from gateway.config.topic_table import PERSISTENCE
from gateway.wire.errors import Error
from semantics import names
from semantics.policies import MOST_PARTITIONS
from store.api import Outcome, StoreError, Trim, Write
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, QueueOf
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.transient import Transients
    from semantics.names import Namespace

    Follows = Callable[[Topic], tuple[list[Write], Callable[[], None]]]
    """What is to be written with the making or the deletion of a topic, and to be called when that is durable. Nothing
    is appended to one that is deleted any more. Raises KafkaError.
    """

log = logging.getLogger("magnetar.topics")

CLUSTER_METADATA = "__cluster_metadata"
"""A name that nobody may take: tools take a topic of it for KRaft's log."""


def check_name(name: str) -> None:
    """Kafka's rule for topic names. Raises KafkaError INVALID_TOPIC_EXCEPTION."""
    if names.is_local(name):
        return
    if len(name) > names.MAX_KAFKA_NAME:
        raise KafkaError(
            Error.INVALID_TOPIC_EXCEPTION,
            f"A topic's name has at most {names.MAX_KAFKA_NAME} characters; this one has {len(name)}.",
        )
    raise KafkaError(
        Error.INVALID_TOPIC_EXCEPTION,
        f"'{name}' is no legal topic name: use 1 to {names.MAX_KAFKA_NAME} of the characters a-z, A-Z, 0-9, '.', '_' "
        "and '-', and not '.' or '..'.",
    )


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
        self._transients = transients
        self._node = node
        self._catalog = catalog
        self._in_use = in_use
        self._end_turn = end_turn
        self._changed = changed
        self.tied: list[Callable[[Topic], Iterable[str]]] = []
        """who knows names of topics that go with a topic"""
        self.waited_for: list[Callable[[str], Awaitable[None]]] = []
        """whom a topic of some name has to wait for, before it is made"""
        self.followed_by: list[Follows] = []
        """who has something that goes with a topic"""
        self.come_with: list[Follows] = []
        """who has something that is made with a topic of `create`, whose row is not there yet"""
        # names whose creation is on its way to the disk, by what they are without dots
        self._creating: dict[str, str] = {}
        # of those that are called like partitions, what they would be partitions of
        self._creating_under: Counter[str] = Counter()
        # partitions that are on their way to the disk
        self._coming: Counter[Namespace] = Counter()
        # a lock for each topic that is being changed, and how many hold it or wait for it
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def check_create(self, name: str, partitions: int, configs: dict[str, str]) -> int:
        """What `create` would refuse, refused; else the number of partitions. Raises KafkaError."""
        check_name(name)
        if name == CLUSTER_METADATA:
            raise KafkaError(Error.INVALID_REQUEST, f"Topic '{name}' is Kafka's own log of its cluster.")
        other = self._creating.get(self._catalog.plain(name))
        there = self._catalog.get(name)
        if there is not None and there.transient != is_transient(configs):
            raise KafkaError(
                Error.TOPIC_ALREADY_EXISTS,
                f"There is {self._catalog.full(name)} already, and Kafka's clients call both '{name}'.",
            )
        if other == name or there is not None:
            raise KafkaError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = other or self._catalog.collision(name)
        if other is not None:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topics: {other} (they differ only in '.' and '_').",
            )
        self._check_partition_names(name)
        namespace = self._check_namespace(name)
        if partitions == -1:
            partitions = self._node.settings.integer("num.partitions")
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise KafkaError(
                Error.INVALID_PARTITIONS,
                f"Number of partitions must be between 1 and {MOST_PARTITIONS}; {partitions} was asked for.",
            )
        check_configs(configs)
        check_transient(configs)
        if is_transient(configs) and not self._transients.served:
            raise KafkaError(
                Error.INVALID_CONFIG,
                "This gateway serves no non-persistent topics: non.persistent.max.bytes is 0.",
            )
        self._check_room(namespace, partitions)
        return partitions

    def _check_room(self, namespace: Namespace, more: int) -> None:
        """Whether a namespace may have so many more partitions. Raises KafkaError POLICY_VIOLATION."""
        check_topics(self._node, self._catalog, namespace, self._coming[namespace], more)

    def _check_partition_names(self, name: str) -> None:
        """To Pulsar orders-partition-3 is a partition of orders: no topic beside it may be called so. Raises KafkaError
        INVALID_TOPIC_EXCEPTION.
        """
        named = names.partition_named(name)
        if named is not None:
            parent, index = named
            if (
                self._catalog.get(parent) is not None
                or self._creating.get(self._catalog.plain(parent)) == parent
            ):
                raise KafkaError(
                    Error.INVALID_TOPIC_EXCEPTION,
                    f"'{name}' is the name of partition {index} of topic '{parent}', and no topic of its own: use "
                    f"'{parent}', where Kafka's clients choose the partition by its number.",
                )
        other = self._catalog.partition_topic(name)
        if other is not None or self._creating_under[name]:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' cannot be made beside '{other or name + names.PARTITION + 'N'}', which would be taken "
                "for one of its partitions.",
            )

    def _check_namespace(self, name: str) -> Namespace:
        """The namespace that the name says. Raises KafkaError INVALID_TOPIC_EXCEPTION where it takes no topics."""
        there = self._catalog.namespaces
        for coming in there.coming:
            if name.startswith(prefix_of(coming)):
                raise KafkaError(
                    Error.INVALID_TOPIC_EXCEPTION,
                    f"Namespace {coming} is being made, and '{name}' would be one of its topics: try again.",
                )
        if (begun := there.begun_by(name)) is not None:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION, f"'{name}' begins like a topic of {begun}, and can be none."
            )
        full = there.full(name)
        row = there.get(full.namespace)
        if row is None or row.deleted or full.namespace in there.going:
            raise KafkaError(
                Error.INVALID_TOPIC_EXCEPTION,
                f"Namespace {full.namespace} is being deleted: it takes no new topics.",
            )
        try:
            # as a client whose home that namespace is calls it
            names.kafka_name(full, full.namespace, there.exists)
        except names.NamingError as error:
            raise KafkaError(Error.INVALID_TOPIC_EXCEPTION, str(error)) from None
        return full.namespace

    def creating_named(self, prefix: str) -> str | None:
        """A topic whose name begins so and that is on its way to the disk, None where there is none."""
        return next((name for name in self._creating.values() if name.startswith(prefix)), None)

    @contextlib.contextmanager
    def _taken(self, topic: Topic) -> Iterator[None]:
        """The name is somebody's while its topic is on its way to the disk."""
        self._take(topic)
        try:
            yield
        finally:
            self._free(topic)

    def _take(self, topic: Topic) -> None:
        name = topic.name
        self._creating[self._catalog.plain(name)] = name
        self._comes(name, len(topic.partitions))
        named = names.partition_named(name)
        if named is not None:
            self._creating_under[named[0]] += 1

    def _free(self, topic: Topic) -> None:
        name = topic.name
        del self._creating[self._catalog.plain(name)]
        self._comes(name, -len(topic.partitions))
        named = names.partition_named(name)
        if named is not None:
            self._creating_under -= Counter([named[0]])

    def _comes(self, name: str, partitions: int) -> None:
        """So many are on their way to the disk, or no longer."""
        self._coming[self._catalog.namespaces.full(name).namespace] += partitions
        self._coming += Counter()

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
    ) -> Topic:
        """`partitions` -1 takes num.partitions; with `partitioned` False a single one makes a plain topic.

        Raises KafkaError.
        """
        check_name(name)
        for each in self.waited_for:
            await each(name)
        partitions = self.check_create(name, partitions, configs)
        topic = self._new(name, partitions, configs, internal, partitioned or partitions > 1)
        topic.properties = properties or {}
        with self._taken(topic):
            theirs = [each(topic) for each in self.come_with]
            more = [write for writes, _ in theirs for write in writes]
            await self._write(
                [*self._catalog.writes_create(topic), *more], name, topic, [made for _, made in theirs]
            )
        notice(topic)
        return topic

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
        partitions = self.check_create(name, partitions, configs)
        topic = self._new(name, partitions, configs, partitioned=partitioned)
        if queue is not None:
            # patterns of consumers are to pass over it
            topic = msgspec.structs.replace(topic, queue=queue, internal=True)
        writes = [*self._catalog.writes_create(topic), *more(topic)]
        self._take(topic)
        self._catalog.coming.add(name)

        changes = self._catalog.begin(writes)

        def ended(outcome: Outcome) -> None:
            self._free(topic)
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
            topic = self.get(name)
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
        topic = self.get(name)
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
        namespace = self._catalog.namespaces.full(name).namespace
        self._check_room(namespace, count - have)
        if validate_only:
            return
        added = self._catalog.allocate(count - have, transient=topic.transient)
        # a plain topic is none any more
        grown = msgspec.structs.replace(topic, partitions=[*topic.partitions, *added], partitioned=True)
        self._comes(name, len(added))
        try:
            await self._write(self._catalog.writes_update(grown, grown=True), name, grown)
        finally:
            self._comes(name, -len(added))

    async def configure(
        self, name: str, change: Callable[[dict[str, str]], dict[str, str]], *, validate_only: bool = False
    ) -> None:
        """Change the explicitly set configs. Raises KafkaError."""
        async with self.changing(name):
            topic = self.get(name)
            configs = change(topic.configs)
            check_configs(configs)
            if is_transient(configs) != topic.transient:
                raise KafkaError(
                    Error.INVALID_CONFIG,
                    f"{PERSISTENCE} of a topic stays as it was made. Make another topic.",
                )
            check_transient(configs)
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
            notice(changed)

    async def keep(self, name: str, change: Callable[[Topic], Topic]) -> None:
        """Change what is only kept with a topic: its properties, its permissions. Raises KafkaError, and what `change`
        raises.
        """
        async with self.changing(name):
            before = self.get(name)
            topic = change(before)
            if topic == before:
                return
            writes = self._catalog.writes_update(topic)
            if bool(topic.permissions) != bool(before.permissions):
                writes.append(self._catalog.write_granted(topic))
            await self._write(writes, name, topic)

    async def terminate(self, name: str, indexes: Iterable[int]) -> None:
        """Those partitions take no more messages from now on; what they have stays readable. Raises KafkaError."""
        async with self.changing(name):
            topic = self.get(name)
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
                await self._node.write([Trim(partition.id, offset)], then=partition.changed)
            except StoreError as error:
                raise from_store(error) from error
        return partition.log_start

    def get(self, name: str) -> Topic:
        """Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._catalog.get(name)
        if topic is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name[:300]}'.")
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


async def until_told(told: asyncio.Future[Outcome]) -> Outcome:
    """The outcome of a commit. Who is cancelled meanwhile is so when it is told: until then what is being changed is
    nobody else's.
    """
    cancelled: asyncio.CancelledError | None = None
    while not told.done():
        try:
            await asyncio.shield(told)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return told.result()


def notice(topic: Topic) -> None:
    """Say in the log what a topic's configuration does not do yet."""
    policies = [each.strip() for each in topic.configs.get("cleanup.policy", "").split(",")]
    # with delete beside it the topic is trimmed by time and size as it says
    if "compact" in policies and "delete" not in policies:
        log.warning(
            "kept without compaction: cleanup.policy=compact is not served yet", extra={"topic": topic.name}
        )


def is_transient(configs: dict[str, str]) -> bool:
    """Whether a topic with these configs is in memory only."""
    return configs.get(PERSISTENCE) == names.NON_PERSISTENT


def as_base(topic: Topic) -> dict[str, str]:
    """The configs of a topic that is made for the letters of this one: both are in the same store."""
    return {PERSISTENCE: names.NON_PERSISTENT} if topic.transient else {}


def check_transient(configs: dict[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG for what a non-persistent topic cannot do."""
    if is_transient(configs) and configs.get("durability") == "fsync":
        raise KafkaError(
            Error.INVALID_CONFIG,
            "durability=fsync is for what is stored, and the messages of a non-persistent topic are in memory only.",
        )


def check_configs(configs: dict[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG with the reason and the nearest right spelling."""
    for name, value in configs.items():
        problem = topic_configs.validate(name, value)
        if problem is not None:
            raise KafkaError(Error.INVALID_CONFIG, problem)
