"""The subscriptions there are: rows of the store, and in memory those that somebody uses.

A group id is a subscription's name on each topic that it reads. A topic that is made again is another topic, with no
subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.changing import stored
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import until_loaded
from gateway.broker.new_topics import as_base
from gateway.broker.policies import check_auto_subscription
from gateway.broker.subscriptions import letter_names, rows
from gateway.broker.subscriptions.configs import SubscriptionConfigs
from gateway.broker.subscriptions.counted import Counted
from gateway.broker.subscriptions.letters import Letters
from gateway.broker.subscriptions.new_subscriptions import NewSubscriptions
from gateway.broker.subscriptions.rows import SubscriptionRow
from gateway.broker.subscriptions.scanning import Scanner
from gateway.broker.subscriptions.subscription import Subscription
from gateway.broker.subscriptions.timers import Timers, Turns
from gateway.broker.subscriptions.tools import Tools
from gateway.promise import Promise
from gateway.wire.errors import Error
from store.api import Outcome, StoreError, Write
from store.steps import step

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.ports import Watching

log = logging.getLogger("magnetar.subscriptions")

PAGE = 100
"""Subscriptions looked at in one go."""


class Subscriptions:
    """All subscriptions of this node."""

    def __init__(
        self,
        node: Delivering,
        *,
        members_of: Callable[[str], int],
        members_on: Callable[[str, str], int],
        lane_members_of: Callable[[str], int],
        readers_of: Callable[[str], int],
        several_plain: Callable[[str], bool],
        entrusted: Callable[[int, int], Iterable[tuple[str, Sequence[tuple[int, int]]]]],
        withdraw: Callable[
            [int, int, Callable[[str, Sequence[tuple[int, int]]], Sequence[tuple[int, int]]]], None
        ],
    ) -> None:
        """See `SubscriptionConfigs`, `Tools`."""
        self.node = node
        self.timers = Timers(node)
        self.scanner = Scanner(node.decompression_limit)
        node.metrics.watch_opened(self.scanner.kept_bytes)
        self.configs = SubscriptionConfigs(node, self, members_of, members_on, lane_members_of, readers_of)
        self.new = NewSubscriptions(node, self.configs)
        self.letters = Letters(node, self.new.writes)
        self.counted = Counted()
        # True while the gateway stops: connections that close then are nobody's crash
        self._stopping = False
        self._tools = Tools(
            node=node,
            timers=self.timers,
            turns=Turns(node.loop),
            scanner=self.scanner,
            letters=self.letters,
            counted=self.counted,
            watched={},
            members_on=members_on,
            several_plain=several_plain,
            retyping=self.configs.retyping,
            entrusted=entrusted,
            withdraw=withdraw,
            stopping=lambda: self._stopping,
        )
        # group -> topic id -> subscription, of those in use
        self._live: dict[str, dict[bytes, Subscription]] = {}
        # on their way out: their rows are no longer to be read
        self._deleting: set[tuple[str, bytes]] = set()

    # -- which there are ------------------------------------------------------------------------------------------

    def get(self, group: str, topic: str) -> Subscription | None:
        """The subscription of a group on the topic of that name. Raises KafkaError when it cannot be read."""
        found = self.node.catalog.get(topic)
        return self.by_id(group, found.topic_id) if found is not None else None

    def by_id(self, group: str, topic_id: bytes) -> Subscription | None:
        """The same by the topic's id."""
        live = self._live.get(group)
        found = live.get(topic_id) if live is not None else None
        if found is not None:
            return found
        if (group, topic_id) in self._deleting:
            return None
        try:
            row = rows.find(self.node.store, group, topic_id)
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        return self._open(row) if row is not None else None

    def row(self, group: str, topic: str) -> SubscriptionRow | None:
        """What is stored of a subscription on the topic of that name, in use or not. Raises KafkaError."""
        found = self.node.catalog.get(topic)
        if found is None or (group, found.topic_id) in self._deleting:
            return None
        live = self.in_use(group, found.topic_id)
        if live is not None:
            return live.row
        try:
            return rows.find(self.node.store, group, found.topic_id)
        except StoreError as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error

    def of_group(self, group: str) -> list[SubscriptionRow]:
        """What the store has of a group. Raises StoreError."""
        return list(rows.of_group(self.node.store, group))

    def lanes_of(self, group: str) -> str | None:
        """A queue topic that serves one of a group's subscriptions, None where none does. Raises KafkaError."""
        over = letter_names.over_patterns(self.node.catalog, group)
        if over:
            # though no topic matches as yet
            return over[0].name
        try:
            names = [row.queue for row in self.of_group(group) if row.queue]
        except StoreError as error:
            raise from_store(error) from error
        return next((name for name in names if self.node.catalog.get(name) is not None), None)

    def of_topic(self, topic_id: bytes) -> list[SubscriptionRow]:
        """Who reads a topic. Raises StoreError."""
        return list(rows.of_topic(self.node.store, topic_id))

    async def each_of_topic(self, topic_id: bytes) -> AsyncIterator[SubscriptionRow]:
        """The same, a page at a time: others have their turn in between. Raises StoreError."""
        behind: str | None = None
        while True:
            page = rows.page_of_topic(self.node.store, topic_id, behind, PAGE)
            if page is None:
                return
            for row in page:
                yield row
                behind = row.group
            if len(page) < PAGE:
                return
            await asyncio.sleep(0)

    async def every(self) -> AsyncIterator[SubscriptionRow]:
        """All subscriptions there are, a page at a time. Raises StoreError."""
        behind: SubscriptionRow | None = None
        while True:
            page = rows.page(self.node.store, behind, PAGE)
            for row in page:
                yield row
            if len(page) < PAGE:
                return
            behind = page[-1]
            await asyncio.sleep(0)

    def in_use(self, group: str, topic_id: bytes) -> Subscription | None:
        """The subscription if somebody uses it; one that is only in the store stays there."""
        return self._live.get(group, {}).get(topic_id)

    def live_of(self, group: str) -> list[Subscription]:
        """The subscriptions of a group that are in use."""
        return list(self._live.get(group, {}).values())

    def live(self) -> Iterator[Subscription]:
        """The subscriptions in use."""
        for topics in list(self._live.values()):
            yield from list(topics.values())

    def watch(self, row: SubscriptionRow, watching: Watching | None) -> None:
        """Tell somebody what happens in a subscription from now on, and nobody else; None: nobody."""
        if watching is None:
            self._tools.watched.pop(row.id, None)
        else:
            self._tools.watched[row.id] = watching
        live = self.in_use(row.group, row.topic_id)
        for at in live.partitions.values() if live is not None else ():
            at.watching = watching

    def unsaved(self, group: str) -> bool:
        """Whether the cursors of a group say something that is not stored yet."""
        return any(each.unsaved for each in self.live_of(group))

    def _open(self, row: SubscriptionRow) -> Subscription:
        found = Subscription(row, self.configs.of(row), self.configs.base_of(row), self._tools)
        self.counted.changed.add(found.place)
        self._subscribed(row.topic_id)
        self._live.setdefault(row.group, {})[row.topic_id] = found
        self.configs.in_use_changed(row.group)
        return found

    def _subscribed(self, topic_id: bytes) -> None:
        """One that is new may stand before all others: what was measured of backlogs is worth nothing."""
        runtime = self.node.in_use.topic_by_id(topic_id)
        for partition in runtime.partitions if runtime is not None else ():
            if partition is not None:
                partition.subscribed()
                if partition.gate is not None:
                    partition.gate.forget()

    def _forget(self, group: str, topic_id: bytes) -> None:
        self.configs.in_use_changed(group)
        live = self._live.get(group)
        found = live.pop(topic_id, None) if live is not None else None
        if found is not None:
            found.close()
        if live is not None and not live:
            del self._live[group]

    # -- made and deleted -----------------------------------------------------------------------------------------

    async def ensure(
        self, group: str, topic: str, starts: Sequence[int] | None = None, *, asked: bool = True
    ) -> Subscription:
        """The subscription on the topic of that name, made if it is missing: durable when this returns. One that nobody
        has `asked` for is made where the topic's policy has it so. Raises KafkaError.

        It begins where the group's share.auto.offset.reset says, or at the offsets given for each partition.
        Partitions that are added later are read from their first record.
        """
        found = self.get(group, topic)
        if found is None:
            # Not while the topic is being deleted: rows of a topic that is gone would stay.
            async with self.node.topics.changing(topic):
                found = self.get(group, topic)
                if found is None:
                    if not asked:
                        check_auto_subscription(
                            self.node, self.node.catalog, self.node.topics.get(topic), group
                        )
                    found = await self._make(group, topic, starts, {}, {}, None)
        return found

    async def make(
        self,
        group: str,
        topic: str,
        starts: Sequence[int],
        overrides: Mapping[str, str],
        properties: Mapping[str, str],
        retries: str | None = None,
        beside: Callable[[], None] | None = None,
    ) -> bool:
        """Make a subscription that says this of itself; False when there is one, which stays as it is.

        `retries` names a RETRY topic that is made in the same commit, with a subscription of the group, unless it is
        there. `beside` puts into the open turn what is to be there with the subscription: it is called when nothing
        else can be refused any more, and may refuse. Raises KafkaError.
        """
        async with self.node.topics.changing(topic):
            if self.get(group, topic) is not None:
                return False
            if retries is not None:
                self.check_ensure(group, retries)
            await self._make(group, topic, starts, overrides, properties, retries, beside)
            return True

    def check_ensure(self, group: str, topic: str, *, asked: bool = True) -> None:
        """Whether `ensure` would make the subscription, as far as policies say; nothing where it is there, or no topic
        is. Raises KafkaError.
        """
        node = self.node
        found = node.catalog.get(topic)
        if found is None or self.row(group, topic) is not None:
            return
        if not asked:
            check_auto_subscription(node, node.catalog, found, group)
        try:
            self.new.check(found, self.configs.of_new(group, found, {}, {}))
        except StoreError as error:
            raise from_store(error) from error

    async def _make(
        self,
        group: str,
        topic: str,
        starts: Sequence[int] | None,
        overrides: Mapping[str, str],
        properties: Mapping[str, str],
        retries: str | None,
        beside: Callable[[], None] | None = None,
    ) -> Subscription:
        node = self.node
        current = node.topics.get(topic)
        try:
            self.new.check(current, self.configs.of_new(group, current, overrides, properties))
            if starts is None:
                starts = await self.new.starts(current, node.group_configs.get(group))
            # whoever gave them may have seen the topic before it grew, or one of that name before it
            count = len(current.partitions)
            starts = [*starts[:count], *[0] * (count - len(starts))]
            if current.transient:
                # what has left memory by now is not missed
                logs = [
                    await until_loaded(partial(node.in_use.log_of, current, index)) for index in range(count)
                ]
                starts = [max(start, log.start_offset) for start, log in zip(starts, logs, strict=True)]
            row, writes = self.new.writes(group, current, starts, overrides, properties)
            if retries is None or not await self._with_retries(group, retries, current, writes, beside):
                if beside is not None:
                    beside()
                await node.write(writes)
        except StoreError as error:
            raise from_store(error) from error
        self.configs.apply_to_retries(group, topic)
        log.info("subscription made", extra={"group": group, "topic": topic, "type": row.type})
        found = self.by_id(group, current.topic_id)
        if found is None:
            # by somebody who saw it stored before we were woken
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, "The subscription was deleted.")
        return found

    def consumers(self, topic: Topic) -> int:
        """How many consumers all subscriptions of a topic have together. Raises KafkaError; Loading."""
        try:
            found = self.of_topic(topic.topic_id)
        except StoreError as error:
            raise from_store(error) from error
        return sum([self.configs.consumers(row) for row in found])

    async def make_retries(self, group: str, topic: str, retries: str) -> None:
        """Make the RETRY topic of a group on a topic, with the group's subscription on it, in one commit.

        Nothing happens when it is there. Raises KafkaError.
        """
        async with self.node.topics.changing(topic):
            try:
                await self._with_retries(group, retries, self.node.topics.get(topic), [])
            except StoreError as error:
                raise from_store(error) from error

    async def _with_retries(
        self,
        group: str,
        retries: str,
        base: Topic,
        writes: list[Write],
        beside: Callable[[], None] | None = None,
    ) -> bool:
        """Commit a RETRY topic and the subscription that reads it, with other writes; False when it is there already,
        and nothing was done. `beside`: see `make`. Raises KafkaError, StoreError.
        """
        node, count = self.node, len(base.partitions)
        stored = Promise[Outcome]()

        def more(made: Topic) -> list[Write]:
            _, reading = self.new.writes(group, made, [0] * count)
            if beside is not None:
                beside()
            return [*writes, *reading]

        try:
            node.topics.create_with(
                retries, count, as_base(base), more, stored.tell, partitioned=base.partitioned
            )
        except KafkaError as error:
            if error.code == Error.TOPIC_ALREADY_EXISTS:
                return False
            raise
        if (outcome := await stored) is not None:
            raise outcome
        log.info("retry letter topic made", extra={"topic": retries, "group": group, "partitions": count})
        return True

    @step("unsubscribe.before", "unsubscribe.after")
    async def delete(
        self, group: str, topic_id: bytes | None = None, with_it: Callable[[], None] = lambda: None
    ) -> int:
        """Delete a group's subscriptions, or the one on a topic, with all they remember: how many. `with_it` puts what
        is one fact with that into the open turn. Raises KafkaError, and what that raises.
        """
        try:
            found = [row for row in self.of_group(group) if topic_id in (None, row.topic_id)]
        except StoreError as error:
            raise from_store(error) from error
        if not found:
            return 0
        # what is in the open turn is written before it is deleted
        self.node.turn.end()
        try:
            with self.going(found) as (writes, gone):
                with_it()
                # they are deleted by one commit: all of them, or none
                await stored(self.node, writes, gone, lambda: self._perhaps(found[0], gone))
        finally:
            # those of retries followed it
            self.configs.apply(group)
        return len(found)

    def _perhaps(self, row: SubscriptionRow, gone: Callable[[], None]) -> None:
        """Nobody knows whether the deletion of this one, and of those with it, was stored: the store says."""
        if rows.find(self.node.store, row.group, row.topic_id) is None:
            gone()

    @contextlib.contextmanager
    def going(self, found: Sequence[SubscriptionRow]) -> Iterator[tuple[list[Write], Callable[[], None]]]:
        """Around the deletion of these, of which the open turn has nothing: what is to be written, and what is to be
        done when that is durable. Nobody finds them meanwhile.
        """
        # before those who wait are woken: they look for what they waited at, and its row is still there
        going = {(row.group, row.topic_id) for row in found}
        self._deleting |= going
        try:
            writes: list[Write] = []
            counted: list[tuple[int, Sequence[int]]] = []
            for row in found:
                writes += rows.writes_removed(row)
                self._forget(row.group, row.topic_id)
                topic = self.node.catalog.by_id(row.topic_id)
                counted.append((row.id, topic.partitions if topic is not None else ()))

            def gone() -> None:
                for number, partitions in counted:
                    self.counted.forget((number,), partitions)

            yield writes, gone
        finally:
            self._deleting -= going
            self.counted.changed |= going

    def follow(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """What goes with the deletion of a topic, and what is to be done when that is durable. Call when nothing is
        appended to it any more. Raises KafkaError.
        """
        try:
            found = self.of_topic(topic.topic_id)
        except StoreError as error:
            raise from_store(error) from error
        writes: list[Write] = []
        for row in found:
            writes += rows.writes_removed(row)
        return writes, partial(self._topic_deleted, topic, [row.id for row in found])

    def _topic_deleted(self, topic: Topic, gone: Sequence[int]) -> None:
        """The deletion is durable."""
        for group in [group for group, topics in self._live.items() if topic.topic_id in topics]:
            self._forget(group, topic.topic_id)
        self.counted.forget(gone, topic.partitions)

    # -- what happens to groups -----------------------------------------------------------------------------------

    def member_gone(self, group: str, member: str, *, graceful: bool = False) -> None:
        """A member left the group (graceful) or ran out: its session ends, and what it held and its slots go on."""
        self.node.share_sessions.member_gone(group, member, graceful=graceful)
        for each in self.live_of(group):
            each.forget(member)

    # -- the end --------------------------------------------------------------------------------------------------

    def release_idle(self) -> None:
        """Let go of cursors and subscriptions that nobody has used since the last call."""
        for each in self.live():
            each.release_idle()
            if each.idle:
                self._forget_idle(each)

    def _forget_idle(self, each: Subscription) -> None:
        self.configs.in_use_changed(each.group)
        topics = self._live[each.group]
        del topics[each.topic_id]
        if not topics:
            del self._live[each.group]
        each.close()

    def stop(self) -> None:
        """The gateway stops: consumers whose connections close from now on keep their slots, and what they hold
        counts as not delivered.
        """
        self._stopping = True

    def close(self) -> None:
        """No connection is left."""
        self.timers.close()
        self.letters.close()
