"""The queue topics there are: made, found, told of what happens to groups, deleted with what they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.catalog import QueueOf, Topic
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import Loading, all_loaded, check_loaded
from gateway.broker.queues import making
from gateway.broker.queues import rows as lane_rows
from gateway.broker.queues.building import Builder
from gateway.broker.queues.more_lanes import MoreLanes
from gateway.broker.queues.patterned import PatternedQueues, ShareGroups, left
from gateway.broker.queues.queue import Queue
from gateway.broker.queues.served import Served, name_of
from gateway.broker.queues.source import Source
from gateway.broker.queues.telling import Refusals, Strangers
from gateway.broker.subscriptions import letter_names, rows
from gateway.wire.errors import Error
from semantics.group_names import bare
from store.api import StoreError, Write, of_partition
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.queues.lane import LaneAtWork
    from gateway.broker.queues.lane_groups import LaneGroups
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.subscription import Subscription
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.config.group_configs import GroupConfig
    from semantics.patterns import Pattern

log = logging.getLogger("magnetar.queues")


class Queues:
    """All queue topics of this node."""

    def __init__(
        self,
        node: Delivering,
        subscriptions: Subscriptions,
        groups: Callable[[], LaneGroups],
        share_groups: Callable[[], ShareGroups],
        changed: Callable[[str, Topic | None], None],
        *,
        newest_connection: Callable[[], int],
    ) -> None:
        """`changed` is called when a change of the catalog is durable; `newest_connection` says the highest number that
        a connection has so far.
        """
        self.node = node
        self._subscriptions = subscriptions
        self._changed = changed
        self._groups = groups
        self._share_groups = share_groups
        self._tasks: set[asyncio.Task[None]] = set()
        self._builder = Builder(node.decompression_limit)
        self._live: dict[bytes, Queue] = {}
        self.more_lanes = MoreLanes(node, groups, self._assigned_in, newest_connection)
        # for who asks why
        self.refusals = Refusals()
        self.strangers = Strangers()
        self.patterned = PatternedQueues(node, subscriptions, groups, share_groups)
        self.served = Served(node, subscriptions, self.patterned)
        # as APIs and the admin server ask for them
        self.named = self.served.named
        self.serving = self.served.serving
        self.of_group = self.served.of_group
        self.bases_of = self.served.bases_of

    # -- found ------------------------------------------------------------------------------------------------------

    def of(self, topic: Topic) -> Queue:
        """A queue topic at work. Raises KafkaError; Loading."""
        found = self._live.get(topic.topic_id)
        if found is not None:
            if not found.gone:
                if found.version == self.node.catalog.version:
                    return found
                # one over a pattern may have many topics: it looks when one of them has changed
                over = found.topic.queue is not None and found.topic.queue.pattern
                if found.topic.partitions == topic.partitions and (over or self._up_to_date(found)):
                    found.version = self.node.catalog.version
                    found.look_at_durability()
                    return found
                found.retire("its topics have changed")
            if found.being_written:
                # the rows are not yet what was said; clients come again at once
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER, "The lanes are being written.")
        return self._load(topic)

    def in_use(self, topic: Topic) -> Queue | None:
        """A queue topic at work if it is; one that nobody uses stays where it is."""
        found = self._live.get(topic.topic_id)
        return found if found is not None and not found.gone else None

    def load(self, topics: Iterable[Topic]) -> Pending[None]:
        """Until these queue topics can be had, as far as they can."""
        loading: list[Loading] = []
        for topic in topics:
            try:
                self.of(topic)
            except Loading as error:
                loading.append(error)
            except KafkaError:
                # whoever asks is told
                continue
        return all_loaded(loading) if loading else None

    def lane(self, runtime: TopicRuntime, index: int) -> LaneAtWork:
        """A lane by its partition number. Raises KafkaError; Loading."""
        if not 0 <= index < len(runtime.topic.partitions):
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        if runtime.deleting:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
        return self.of(runtime.topic).at[index]

    def ahead(self, runtime: TopicRuntime, index: int) -> Awaitable[None] | None:
        """See `LaneAtWork.ahead`. Raises KafkaError; Loading."""
        return self.lane(runtime, index).ahead()

    def _up_to_date(self, queue: Queue) -> bool:
        """Whether a queue has the sources that it is to have by now. Those that have come are added to it."""
        wanted: list[tuple[Subscription, int]] = []
        there: set[int] = set()
        try:
            for topic, its in self.served.read(queue.topic):
                there.update(topic.partitions)
                wanted += [
                    (its, index)
                    for index, number in enumerate(topic.partitions)
                    if number not in queue.sources
                ]
            if not there.issuperset(queue.sources):
                return False
            if wanted:
                if any(each.giving for each in queue.at):
                    # they look at the sources that they know
                    return False
                queue.add([_source(its, index) for its, index in wanted])
                for its, _ in wanted:
                    its.holder = queue
        except KafkaError:
            return False
        return True

    def _load(self, topic: Topic) -> Queue:
        node = self.node
        store = node.store_of(topic)
        for number in topic.partitions:
            check_loaded(store, of_partition(number))
        assert topic.queue is not None
        if self._subscriptions.configs.retyping(topic.queue.subscription):
            # clients come again at once
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER, "The subscription's type is being changed.")
        sources: list[Source] = []
        read = list(self.served.read(topic))
        config = self._config_of(topic, read)
        for found, its in read:
            sources += [_source(its, index) for index in range(len(found.partitions))]
        # not loaded: then nobody is to find lanes without owners
        assigned = self._assigned_in(topic)
        queue = Queue(
            node,
            topic,
            store,
            self._builder,
            sources,
            config=config,
        )
        queue.version = node.catalog.version
        before = self._live.get(topic.topic_id)
        if before is not None:
            queue.follow(before)
        queue.news = self.more_lanes.of(topic)
        if topic.queue is not None:
            group = topic.queue.subscription
            others = next((each for each in self._of_group(group) if each is not before), None)
            queue.join(others.company if others is not None else [])
        self._live[topic.topic_id] = queue
        for _, its in read:
            its.holder = queue
        if before is None or not self._groups().rebalancing(topic.queue.subscription):
            queue.assigned(assigned)
        else:
            # whose they were, until it is said anew
            queue.give_all()
        return queue

    def _config_of(
        self, topic: Topic, read: Sequence[tuple[Topic, Subscription]]
    ) -> Callable[[], GroupConfig]:
        """What its lanes go by: what its subscription does, or what it was made with over all that it reads."""
        of = topic.queue
        assert of is not None
        if of.pattern:
            return partial(self.node.group_configs.overridden, of.subscription, of.overrides)
        _, subscription = read[0]
        return lambda: subscription.config

    def _assigned_in(self, topic: Topic) -> Mapping[str, Sequence[int]]:
        """Member -> its lanes. Raises KafkaError; Loading."""
        assert topic.queue is not None
        return self._groups().owners(topic.queue.subscription, topic)

    def keep(self) -> None:
        """Forget settled deliveries of those in use whose time is over."""
        for queue in list(self._live.values()):
            if not queue.gone:
                queue.keep()

    # -- what happens to groups -------------------------------------------------------------------------------------

    def expel_stuck(self) -> None:
        """To be called each second: members of whose lanes none has settled anything for `pulsar.ack.timeout.ms`, while
        they had deliveries, are lost.
        """
        for queue in list(self._live.values()):
            if queue.gone:
                continue
            assert queue.topic.queue is not None
            group = queue.topic.queue.subscription
            for member, lane in queue.stuck():
                try:
                    self._groups().expel(
                        group, member, f"nothing of {queue.name}-{lane} was settled in pulsar.ack.timeout.ms"
                    )
                except KafkaError as error:
                    log.info("member %s of group %s stays for now: %s", member, group, error)

    def give_again(self) -> None:
        """To be called each second: lanes that waited for suspects on one that its consumer has paused by now; and
        those whose consumer has gone, for whoever reads them without a group.
        """
        for queue in list(self._live.values()):
            if not queue.gone and (queue.lanes.suspecting or any(each.left_alone for each in queue.at)):
                for each in queue.at:
                    each.taken_over()
                queue.give_all()

    def _of_group(self, group: str) -> Iterator[Queue]:
        for queue in list(self._live.values()):
            if not queue.gone and queue.topic.queue is not None and queue.topic.queue.subscription == group:
                yield queue

    def serves(self, group: str) -> bool:
        """Whether there is a queue topic of a group. Raises KafkaError."""
        return self._subscriptions.lanes_of(group) is not None

    def assigned(self, group: str) -> None:
        """A group has another assignment, as a whole."""
        for queue in self._of_group(group):
            queue.assigned(self._assigned_in(queue.topic))

    def moved(self, group: str, owners: Mapping[tuple[bytes, int], str | None], *, whole: bool) -> None:
        """Partitions, by topic id and index, have other owners than before, or none. `whole`: those that are not named
        have none.
        """
        for queue in self._of_group(group):
            its = {lane: owner for (topic, lane), owner in owners.items() if topic == queue.topic.topic_id}
            if its or whole:
                queue.moved(its, whole=whole)

    def member_gone(self, group: str, member: str, *, crashed: bool) -> None:
        """A member of a group is gone: it has said so, or it was lost."""
        # before any of them lets go of what the member had
        of_group = [(queue, queue.lanes.alone(member)) for queue in self._of_group(group)]
        for queue, alone in of_group:
            try:
                if crashed:
                    queue.crashed(member, alone=alone)
                else:
                    queue.left(member, alone=alone)
            except KafkaError as error:
                # nothing of what it had counts, and all of it is delivered again
                queue.retire(f"a member went while a cursor could not be had: {error}")

    # -- made and deleted -------------------------------------------------------------------------------------------

    async def make(
        self,
        topic: str,
        subscription: str,
        lanes: int,
        said: Mapping[str, str] | None = None,
        new: making.New | None = None,
    ) -> Topic:
        """The queue topic of a subscription, which is made in the same commit if it is missing: with the configs that
        are `said`, or all as `new` has it. One that is there stays as it is. Raises KafkaError.
        """
        node, known = self.node, self._subscriptions
        making.check_of_subscription(topic, said or {})
        name = self._free(topic, subscription, lanes)
        async with self._share_groups().giving_way(subscription), node.topics.changing(topic):
            self._free(topic, subscription, lanes)
            found = known.get(subscription, topic)
            if found is None:
                if new is None:
                    new = making.New(making.configs_of_new(node, subscription, said or {}), {}, None)
                await making.both(
                    node, known, self._groups(), node.topics.get(topic), subscription, name, lanes, new
                )
            elif new is not None:
                raise KafkaError(
                    Error.TOPIC_ALREADY_EXISTS, f"{topic} has a subscription {bare(subscription)} already."
                )
            else:
                making.check_same(node, known, found, said or {})
                await making.beside(node, known, found, name, lanes)
        log.info("queue topic made", extra={"topic": name, "group": subscription, "lanes": lanes})
        made = node.topics.get(name)
        config = known.configs.on(subscription, topic)
        await self._read_retries(made, topic, config.retries_of(subscription, topic))
        return made

    def _whose(self, of: QueueOf) -> str:
        base = self.node.catalog.by_id(of.topic_id)
        over = (
            f"pattern {of.pattern!r}"
            if of.pattern
            else f"'{base.name}'"
            if base is not None
            else "a topic that is gone"
        )
        return f"subscription {bare(of.subscription)} of {over}"

    def check(self, topic: str, subscription: str, lanes: int, said: Mapping[str, str]) -> None:
        """Whether `make` would do so with these configs, as far as can be said before. Raises KafkaError."""
        making.check_of_subscription(topic, said)
        self._free(topic, subscription, lanes)
        found = self._subscriptions.get(subscription, topic)
        if found is None:
            making.configs_of_new(self.node, subscription, said)
        else:
            making.check_same(self.node, self._subscriptions, found, said)

    def _free(self, topic: str, subscription: str, lanes: int) -> str:
        """What a queue topic that may be made is called. Raises KafkaError."""
        making.check_lanes(lanes)
        base = self.node.topics.get(topic)
        if base.queue is not None:
            raise KafkaError(Error.INVALID_REQUEST, f"'{topic}' is a queue topic itself.")
        name = name_of(topic, subscription)
        if (why := letter_names.strays(self.node.catalog, topic, name)) is not None:
            raise KafkaError(Error.INVALID_REQUEST, f"{why}: choose another name for the subscription.")
        there = self.node.catalog.get(name)
        if there is not None:
            adds = "`topics update-partitioned-topic` adds some"
            if there.queue is None:
                hint = f"It is a plain topic: delete it first, with magnetar-admin topics delete {name}"
            elif there.queue != QueueOf(base.topic_id, subscription):
                hint = f"It serves {self._whose(there.queue)}: choose another name for the subscription."
            else:
                hint = f"It has {len(there.partitions)} lanes; {adds}."
            raise KafkaError(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists. {hint}")
        return name

    async def make_over(
        self,
        subscription: str,
        pattern: Pattern,
        lanes: int,
        overrides: Mapping[str, str],
        reset: str | None = None,
    ) -> Topic:
        """The queue topic over a pattern: see `PatternedQueues.make`. Raises KafkaError."""
        made = await self.patterned.make(subscription, pattern, lanes, overrides, reset)
        assert made.queue is not None
        group = made.queue.subscription
        for topic_id in self.patterned.bases(made):
            found = self._subscriptions.by_id(group, topic_id)
            if found is not None:
                await self._read_retries(made, found.topic, found.config.retries_of(group, found.topic))
        return made

    def grown(self, topic: Topic) -> None:
        """A queue topic has more lanes, durably. Those who fetch are told once that they should look for leaders, and
        those who are members of its group to share the lanes out anew: some clients follow the one, some the other.
        """
        self.more_lanes.begin(topic)
        try:
            # the new lanes get their slots, whether they are read or not
            self.of(topic)
        except KafkaError as error:
            log.info("%s is read by whoever asks next: %s", topic.name, error)
        self.more_lanes.rebalance(topic)

    def tell_again(self) -> None:
        """To be called each second: see `MoreLanes.tell_again`."""
        self.more_lanes.tell_again(list(self._live.values()))

    def topic_changed(self, name: str) -> None:
        """A topic is there, has grown, or is gone: queues that are to read it do so, and those that have read it are
        read again. Not by whoever asks next: a fetch of a session waits on the lanes that it knows, and asks nobody.
        """
        for queue in list(self._live.values()):
            if not queue.gone and self.served.may_read(queue.topic, name) and not self._up_to_date(queue):
                queue.retire(f"topic {name} has changed")

    def come(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """What is made with a topic: see `Topics.come_with`. What matches a pattern has its subscription. So has the
        RETRY topic of a subscription that lanes serve, from the first record on: consumers that know only offsets
        cannot subscribe to it. Raises KafkaError.
        """
        catalog, known = self.node.catalog, self._subscriptions
        writes, done = self.patterned.come(topic)
        for name, group in letter_names.bases(catalog, topic.name, letter_names.RETRY):
            base = catalog.get(name)
            its = known.get(group, name)
            if base is None or its is None or self.serving(base, group) is None:
                continue
            if its.config.retries_of(group, name) == topic.name:
                _, more = known.new.writes(group, topic, [0] * len(topic.partitions))
                writes += more
        return writes, done

    async def _read_retries(self, queue: Topic, base: str, retries: str) -> None:
        assert queue.queue is not None
        known, group = self._subscriptions, queue.queue.subscription
        found = known.get(group, base)
        there = self.node.catalog.get(retries)
        if found is None or there is None or found.config.retries_of(group, base) != retries:
            return
        await known.ensure(group, retries, [0] * len(there.partitions))
        live = self._live.get(queue.topic_id)
        if live is not None and not live.gone and not self._up_to_date(live):
            # it looked between the two commits
            live.retire(f"topic {retries} has changed")

    async def unsubscribe(self, topic: Topic, with_it: Callable[[], None] = lambda: None) -> None:
        """Delete a queue topic that serves one subscription, and that, in one commit. `with_it` puts what is one fact
        with that into the open turn. Raises KafkaError, and what that raises.
        """
        of, known = topic.queue, self._subscriptions
        assert of is not None
        found = known.by_id(of.subscription, of.topic_id)
        if found is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)

        def follow(_: Topic) -> tuple[list[Write], Callable[[], None]]:
            going = until_then.enter_context(known.going([found.row]))
            with_it()
            return going

        with contextlib.ExitStack() as until_then:
            await self.node.topics.delete(topic.name, follow)
        known.configs.apply(of.subscription)

    def tied(self, topic: Topic) -> list[str]:
        """Names of the queue topics that go with a topic."""
        if topic.queue is not None:
            return []
        try:
            found = [row.queue for row in self._subscriptions.of_topic(topic.topic_id) if row.queue]
        except StoreError as error:
            raise from_store(error) from error
        its = [self.node.catalog.get(name) for name in found]
        return [each.name for each in its if each is not None and each.queue and not each.queue.pattern]

    def follow(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """What goes with the deletion of a topic: see `Topics.followed_by`. Raises KafkaError."""
        node = self.node
        if topic.queue is not None:
            return self._deleted(topic)
        writes: list[Write] = []
        after: list[Callable[[], None]] = []
        try:
            found = self._subscriptions.of_topic(topic.topic_id)
        except StoreError as error:
            raise from_store(error) from error
        for row in found:
            its = node.catalog.get(row.queue) if row.queue else None
            if its is None:
                continue
            if its.queue is not None and its.queue.pattern:
                # it goes on with the others
                after.append(partial(self.patterned.went, topic))
            else:
                more, gone = self._deleted(its, with_subscription=True)
                writes += [*node.catalog.writes_delete(its), *more]
                after += [gone, partial(self._changed, its.name, None)]

        def done() -> None:
            for each in after:
                each()

        return writes, done

    def _deleted(
        self, topic: Topic, *, with_subscription: bool = False
    ) -> tuple[list[Write], Callable[[], None]]:
        writes: list[Write] = [lane_rows.writes_deleted(number) for number in topic.partitions]
        of = topic.queue
        assert of is not None
        over: Callable[[], None] | None = None
        if of.pattern:
            more, over = self.patterned.leave(topic)
            writes += more
        found = self._subscriptions.by_id(of.subscription, of.topic_id) if not of.pattern else None
        row = None
        if found is not None and not with_subscription:
            row = left(found.row)
        if row is not None:
            writes.append(rows.writes_changed(row))

        def gone() -> None:
            self.more_lanes.forget(topic)
            changed = over is not None
            # before the lanes go: what follows from that is written over it
            if over is not None:
                over()
            elif found is not None and row is not None and not found.gone:
                changed = True
                found.row = row
            queue = self._live.pop(topic.topic_id, None)
            if queue is not None:
                queue.throw_away("it was deleted")
                queue.let_go()
            for number in topic.partitions:
                self.refusals.forget(number)
            if changed:
                self._subscriptions.configs.apply(of.subscription)
            # a share group may have the id now
            task = self.node.loop.create_task(self._groups().give_way(of.subscription))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return writes, gone


def _source(subscription: Subscription, index: int) -> Source:
    """A partition with its cursor. Raises KafkaError; Loading."""
    at = subscription.partition(index)
    at.ready()
    return Source(at)
