"""Queue topics over a pattern: which topics they are over, and how a topic comes to them.

A pattern is over topics of one namespace, and its queue topic lies there: so the subscriptions of one name have at most
one in each namespace. A topic that matches has the durable subscription of that name, whose row names the queue topic.
Those of the topics that are there are one commit with the queue topic. A topic that comes later has its subscription in
the commit that makes it, and is read from its first record on: so nothing has to be looked for after a crash, and no
record is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.broker.catalog import QueueOf, Topic
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.namespaces import prefix_of
from gateway.broker.queues import making
from gateway.broker.subscriptions import letter_names, rows
from gateway.config import subscription_configs
from gateway.config.group_table import OffsetReset
from gateway.wire.errors import Error
from semantics import patterns
from semantics.group_names import bare
from semantics.names import DEFAULT
from semantics.patterns import Pattern, PatternError
from store.api import Durability, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.queues.lane_groups import LaneGroups
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.subscription import Subscription
    from gateway.config.group_configs import GroupConfig
    from semantics.names import Namespace

log = logging.getLogger("magnetar.queues")

CONFIG = "pulsar.queue.pattern"
"""Names the pattern in CreateTopics."""
_PAGE = 500
"""Topics that are looked at before the loop may do something else."""


class ShareGroups(Protocol):
    """Those that subscriptions have which no lanes serve."""

    def giving_way(self, group_id: str, /) -> AbstractAsyncContextManager[None]:
        """Nobody joins one of that id meanwhile, and none is left at the end. Raises KafkaError."""
        ...


class Patterned:
    """One queue topic over a pattern."""

    __slots__ = ("bases", "lanes", "making", "name", "of", "pattern")

    def __init__(self, name: str, of: QueueOf, pattern: Pattern | None, lanes: int) -> None:
        """`pattern` None: it cannot be read, and no topic comes."""
        self.name = name
        self.of = of
        self.pattern = pattern
        # as many as it begins with, until the catalog says it
        self.lanes = lanes
        # while it is being made: done when it is there, or refused
        self.making: asyncio.Future[None] | None = None
        # ids of the topics whose subscriptions it serves, in the order in which they came
        self.bases: dict[bytes, None] = {}


class PatternedQueues:
    """All of this node. They are few, so they are in memory."""

    def __init__(
        self,
        node: Delivering,
        known: Subscriptions,
        groups: Callable[[], LaneGroups],
        share_groups: Callable[[], ShareGroups],
    ) -> None:
        """Raises StoreError."""
        self._node = node
        self._known = known
        self._groups = groups
        self._share_groups = share_groups
        # by name of the queue topic; also those that are being made
        self._over: dict[str, Patterned] = {}
        self._tasks: set[asyncio.Task[Topic]] = set()
        for topic in node.catalog.over_patterns():
            self._found(topic)

    def _found(self, topic: Topic) -> None:
        """One that the store has."""
        of = topic.queue
        assert of is not None
        pattern: Pattern | None = None
        try:
            pattern = Pattern(of.pattern)
        except PatternError as error:
            # written by a gateway that knows more: it serves what it has
            log.error("no topic comes to %s: %s", topic.name, error)
        over = self._over[topic.name] = Patterned(topic.name, of, pattern, len(topic.partitions))
        for row in rows.of_group(self._node.store, of.subscription):
            if row.queue == topic.name:
                over.bases[row.topic_id] = None

    # -- which topics -----------------------------------------------------------------------------------------------

    def pattern_of(self, text: str, home: Namespace = DEFAULT) -> Pattern:
        """What a user has written whose namespace is `home`. Raises KafkaError INVALID_CONFIG."""
        try:
            return patterns.as_kafkas(text, home, self._node.catalog.namespaces.dotted)
        except PatternError as error:
            raise KafkaError(Error.INVALID_CONFIG, str(error)) from None

    def serving(self, topic: Topic, group: str) -> Topic | None:
        """The queue topic over a pattern that serves a group's subscription on a topic, None where none does."""
        if not self._over:
            return None
        catalog = self._node.catalog
        namespace = catalog.namespaces.full(topic.name).namespace
        over = self._over.get(letter_names.queue_over(namespace, group))
        if over is None or topic.topic_id not in over.bases:
            return None
        return letter_names.over_pattern(catalog, namespace, group)

    def bases(self, queue: Topic) -> list[bytes]:
        """Ids of the topics that a queue topic over a pattern is over."""
        over = self._over.get(queue.name)
        return list(over.bases) if over is not None else []

    def concerns(self, queue: Topic, name: str) -> bool:
        """Whether a topic of this name may be one of those, or may hold the retries of one."""
        over = self._over.get(queue.name)
        if over is None:
            return False
        return (
            name.endswith(f"-{bare(over.of.subscription)}{letter_names.RETRY}")
            or name == self._config(over).retry_letter_topic
            or over.pattern is None
            or over.pattern.matches(self._node.catalog.namespaces.full(name))
        )

    def _config(self, over: Patterned) -> GroupConfig:
        return self._node.group_configs.overridden(over.of.subscription, over.of.overrides)

    def _takes(self, over: Patterned, topic: Topic) -> bool:
        """Whether a topic is one of those that it is to be over. Raises KafkaError, StoreError."""
        if topic.internal or topic.queue is not None or topic.transient or over.pattern is None:
            return False
        if not over.pattern.matches(self._node.catalog.namespaces.full(topic.name)):
            return False
        if letter_names.base_of(self._node.catalog, topic.name) is not None:
            return False
        if self._known.configs.retries_into(topic.name) is not None:
            return False
        # letters of its own, though they are called otherwise: it would be given its dead letters again
        its = self._config(over)
        return topic.name not in (its.dead_letter_topic, its.retry_letter_topic)

    # -- topics that come and go ------------------------------------------------------------------------------------

    async def made(self, name: str) -> None:
        """Wait for queue topics that are being made and may be over a topic of this name, or be refused."""
        full = self._node.catalog.namespaces.full(name)
        while making := next(
            (
                over.making
                for over in self._over.values()
                if over.making is not None and over.pattern is not None and over.pattern.matches(full)
            ),
            None,
        ):
            await asyncio.shield(making)

    def come(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """What is made with a topic: see `Topics.come_with`. Raises KafkaError."""
        writes: list[Write] = []
        after: list[Callable[[], None]] = []
        for over in self._over.values():
            try:
                if self._going(over) or not self._takes(over, topic):
                    continue
                writes += self._new(over, topic, [0] * len(topic.partitions))
            except StoreError as error:
                raise from_store(error) from error
            after.append(partial(self._came, over, topic))

        def done() -> None:
            for each in after:
                each()

        return writes, done

    def _going(self, over: Patterned) -> bool:
        """Whether it is being deleted."""
        runtime = self._node.in_use.topic(over.name.encode())
        return runtime is not None and runtime.deleting

    def _new(self, over: Patterned, topic: Topic, starts: list[int]) -> list[Write]:
        """What makes the subscription on a topic, served by the lanes."""
        there = self._node.catalog.get(over.name)
        lanes = len(there.partitions) if there is not None else over.lanes
        of = over.of
        try:
            selector = making.slots_of_lanes(self._config(over), lanes)
        except KafkaError as error:
            # ranges are others by now; those lanes that have some get them when they are there
            log.warning("%s: %s", over.name, error)
            selector = b""
        _, writes = self._known.new.writes(
            of.subscription, topic, starts, of.overrides, queue=over.name, selector=selector
        )
        return writes

    def _came(self, over: Patterned, topic: Topic) -> None:
        """The subscription on a topic is durable."""
        over.bases[topic.topic_id] = None
        self._known.configs.apply_to_retries(over.of.subscription, topic.name)
        log.info("subscription made", extra={"group": over.of.subscription, "topic": topic.name})

    def went(self, topic: Topic) -> None:
        """A topic is deleted, or its subscription is served by others: durably."""
        for over in self._over.values():
            over.bases.pop(topic.topic_id, None)

    # -- made -------------------------------------------------------------------------------------------------------

    async def make(
        self,
        subscription: str,
        pattern: Pattern,
        lanes: int,
        said: Mapping[str, str],
        reset: str | None = None,
    ) -> Topic:
        """The queue topic over a pattern, for the subscriptions of this name. `said`: configs of those that are made.
        These begin where the group's configs say, or at the `earliest` or `latest` record; those that are there stay
        where they are. Raises KafkaError.
        """
        # it goes on when whoever asked is gone: what it holds would be open to others too early
        task = self._node.loop.create_task(self._make(subscription, pattern, lanes, said, reset))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def check(self, subscription: str, pattern: Pattern, lanes: int, said: Mapping[str, str]) -> Patterned:
        """What `make` would refuse before it looks at topics, refused. Raises KafkaError."""
        node = self._node
        making.check_lanes(lanes)
        if not subscription:
            raise KafkaError(Error.INVALID_REQUEST, "A subscription has a name.")
        self._check_namespace(pattern)
        name = self._free(subscription, pattern, lanes)
        group = node.catalog.namespaces.group_in(pattern.namespace, subscription)
        making.check_group(node, group)
        overrides = making.configs_of_new(node, group, said)
        others = sorted(set(said) - subscription_configs.NAMES)
        if others:
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"What is made on many topics has configs of subscriptions alone (pulsar.*); '{others[0]}' is none.",
            )
        config = node.group_configs.overridden(group, overrides)
        overrides |= _fixed(config)
        making.slots_of_lanes(config, lanes)
        return Patterned(name, QueueOf(b"", group, str(pattern), overrides), pattern, lanes)

    def _check_namespace(self, pattern: Pattern) -> None:
        """Raises KafkaError INVALID_CONFIG where the namespace takes no topics."""
        row = self._node.catalog.namespaces.get(pattern.namespace)
        if row is None:
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"There is no namespace {pattern.namespace}: magnetar-admin namespaces create {pattern.namespace}.",
            )
        if row.deleted:
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"Namespace {pattern.namespace} is being deleted: it takes no new topics.",
            )

    def _free(self, subscription: str, pattern: Pattern, lanes: int) -> str:
        """What a queue topic that may be made is called. Raises KafkaError."""
        node = self._node
        name = letter_names.queue_over(pattern.namespace, subscription)
        there = node.catalog.get(name)
        if there is not None and there.queue is not None and there.queue.pattern:
            raise KafkaError(
                Error.TOPIC_ALREADY_EXISTS,
                f"Topic '{name}' already exists. It is over {there.queue.pattern!r} and has {len(there.partitions)}"
                " lanes; `topics update-partitioned-topic` adds some.",
            )
        node.topics.new.check(name, lanes, {})
        if name in self._over:
            raise KafkaError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is being made.")
        where = node.catalog.namespaces.full(name).namespace
        if where != pattern.namespace:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"'{name}' would be a topic of {where}, and the pattern is over topics of {pattern.namespace}: choose "
                "another name of the subscription.",
            )
        clash = next(letter_names.bases(node.catalog, name, letter_names.QUEUE), None)
        if clash is not None:
            raise KafkaError(
                Error.INVALID_REQUEST,
                f"'{name}' is what the queue topic of subscription {bare(clash[1])} of topic '{clash[0]}' is called: "
                "choose another name of the subscription.",
            )
        return name

    async def _make(
        self, subscription: str, pattern: Pattern, lanes: int, said: Mapping[str, str], reset: str | None
    ) -> Topic:
        node = self._node
        over = self.check(subscription, pattern, lanes, said)
        # topics that would match wait from now on, and have their subscriptions with them afterwards
        self._over[over.name] = over
        group = over.of.subscription
        over.making = node.loop.create_future()
        try:
            async with self._share_groups().giving_way(group), AsyncExitStack() as held:
                await self._serve(over, held, reset)
        except BaseException as error:
            self._over.pop(over.name, None)
            if isinstance(error, StoreError):
                raise from_store(error) from error
            raise
        finally:
            over.making.set_result(None)
            over.making = None
        log.info(
            "queue topic made",
            extra={"topic": over.name, "group": group, "lanes": lanes, "topics": len(over.bases)},
        )
        return node.topics.get(over.name)

    async def _serve(self, over: Patterned, held: AsyncExitStack, reset: str | None) -> None:
        """Commit the queue topic with the subscriptions on all topics that match. Raises KafkaError, StoreError."""
        node, known, group = self._node, self._known, over.of.subscription
        # those that were being made before are in the catalog behind this
        await node.write((), Durability.OS)
        config = self._config(over)
        begin = config if reset is None else config._replace(offset_reset=OffsetReset(reset))
        assert over.pattern is not None
        prefix = prefix_of(over.pattern.namespace) + over.pattern.prefix
        found = [each.name async for each in node.catalog.every(prefix) if self._takes(over, each)]
        served: list[tuple[Subscription, Callable[[SubscriptionRow], SubscriptionRow]]] = []
        new: list[Write] = []
        topics: list[Topic] = []
        read = await making.read_by(self._groups(), group)
        for count, name in enumerate(sorted(found)):
            if count % _PAGE == _PAGE - 1:
                await asyncio.sleep(0)
            # nobody deletes it meanwhile: rows of a topic that is gone would stay
            await held.enter_async_context(node.topics.changing(name))
            topic = node.catalog.get(name)
            if topic is None or not self._takes(over, topic) or topic.topic_id in over.bases:
                continue
            topics.append(topic)
            there = known.by_id(group, topic.topic_id)
            if there is None:
                known.new.check(topic, config)
                starts = await making.begins(node, known, self._groups(), read, topic, group, begin)
                new += self._new(over, topic, starts)
                continue
            making.check_free(node, there, over.name)
            _check_same(there, config)
            selector = making.slots_of_lanes(there.config, over.lanes)
            fixed = _fixed(there.config)
            served.append((there, partial(_with, selector=selector, fixed=fixed)))

        def done() -> None:
            over.bases.update((topic.topic_id, None) for topic in topics)
            known.configs.apply(group)
            for topic in topics:
                known.configs.apply_to_retries(group, topic.name)

        # it may have gone meanwhile: then the name would be one of public/default
        self._check_namespace(over.pattern)
        await making.commit(node, known, over.name, over.lanes, over.of, served, new, done)

    # -- deleted ----------------------------------------------------------------------------------------------------

    def leave(self, queue: Topic) -> tuple[list[Write], Callable[[], None]]:
        """The subscriptions stay when the queue topic goes, and nobody serves them. See `Topics.followed_by`. Raises
        KafkaError.
        """
        assert queue.queue is not None
        writes: list[Write] = []
        group, bases = queue.queue.subscription, self.bases(queue)
        for topic_id in bases:
            live = self._known.in_use(group, topic_id)
            try:
                row = live.row if live is not None else rows.find(self._node.store, group, topic_id)
            except StoreError as error:
                raise from_store(error) from error
            if row is not None:
                writes.append(rows.writes_changed(left(row)))
        return writes, partial(self._left, queue.name, group, frozenset(bases))

    def _left(self, name: str, group: str, written: frozenset[bytes]) -> None:
        """That is durable."""
        over = self._over.pop(name, None)
        for topic_id in over.bases if over is not None else ():
            live = self._known.in_use(group, topic_id)
            if topic_id not in written:
                # its topic was on its way to the disk
                live = live or self._known.by_id(group, topic_id)
            if live is None or live.gone:
                continue
            # also of those that were taken into memory meanwhile
            live.row = left(live.row)
            if topic_id not in written:
                self._node.commit([rows.writes_changed(live.row)], lambda outcome: None)


def left(row: SubscriptionRow) -> SubscriptionRow:
    """A subscription that no lanes serve: they have no slots any more, for which nobody is to wait."""
    return msgspec.structs.replace(row, queue="", selector=b"")


def _with(row: SubscriptionRow, selector: bytes, fixed: Mapping[str, str]) -> SubscriptionRow:
    """What it is by its group's configs it says of itself: all that one queue topic serves are of one type."""
    return msgspec.structs.replace(row, selector=selector, overrides={**row.overrides, **fixed})


def _fixed(config: GroupConfig) -> dict[str, str]:
    """What all subscriptions that one queue topic serves have alike."""
    return {subscription_configs.TYPE: config.subscription.type, subscription_configs.MODE: config.mode}


def _check_same(found: Subscription, config: GroupConfig) -> None:
    its, wanted = _fixed(found.config), _fixed(config)
    if its != wanted:
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"Subscription {bare(found.group)} of topic {found.topic} is {' '.join(its.values())}, and the queue topic "
            f"is {' '.join(wanted.values())}: all that it serves are alike. Change the one or the other.",
        )
