"""The configs of subscriptions: what each says of itself, over what its group says.

A subscription of retries follows that on its base topic. Whatever changes what is in force (a group's configs, a
subscription's properties, a base that comes or goes) is applied to those in use at once; the others are opened with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import msgspec

from gateway.broker.errors import KafkaError, from_store
from gateway.broker.policies import check_type
from gateway.broker.subscriptions import letter_names
from gateway.broker.subscriptions.policed import within_policies
from gateway.broker.subscriptions.rows import SubscriptionRow
from gateway.broker.subscriptions.subscription import KEY_SHARED, Subscription
from gateway.config import subscription_configs
from gateway.config.group_configs import effective, validate
from gateway.wire.errors import Error
from semantics.group_names import bare
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.subscriptions.node import Delivering
    from gateway.config.group_configs import GroupConfig


_FOREVER_MS = 1 << 50
_NO_LIMIT = 1 << 40


def _check_fixed(what: str, before: GroupConfig, after: GroupConfig, consumers: int) -> bool:
    """What cannot change while consumers of one kind are connected: Pulsar refuses those of another, too. Whether it
    changes. Raises KafkaError INVALID_CONFIG.
    """
    old, new = before.subscription.type, after.subscription.type
    changes = (old, before.mode) != (new, after.mode)
    if not consumers or not changes:
        return changes
    was, to_be = (
        f"{kind} ({config.mode})" if kind == KEY_SHARED or old == new else kind
        for kind, config in ((old, before), (new, after))
    )
    raise KafkaError(
        Error.INVALID_CONFIG,
        f"{what} is {was} and cannot become {to_be} while it has consumers ({consumers}): stop them, change it, start "
        "them again.",
    )


def _of_members(*configs: GroupConfig) -> bool:
    """Whether the type of one of them says who may be a member, or who has which partition, of a consumer group."""
    return any(config.exclusive or config.failover for config in configs)


def with_lanes(config: GroupConfig) -> GroupConfig:
    """The same for a subscription whose consumers are lanes: how much these hold, and for how long, is their own
    affair. They are given what is committed, as Pulsar's consumers are.
    """
    its = config.subscription
    return config._replace(
        subscription=replace(
            its, lanes=True, lock_ms=_FOREVER_MS, max_locks=_NO_LIMIT, receiver_queue=_NO_LIMIT
        ),
        read_committed=True,
    )


class Known(Protocol):
    """The subscriptions there are. The first three raise KafkaError where one cannot be read."""

    def get(self, group: str, topic: str, /) -> Subscription | None:
        """The subscription of a group on the topic of that name."""
        ...

    def by_id(self, group: str, topic_id: bytes, /) -> Subscription | None:
        """The same by the topic's id."""
        ...

    def row(self, group: str, topic: str, /) -> SubscriptionRow | None:
        """What is stored of it, in use or not."""
        ...

    def of_group(self, group: str, /) -> list[SubscriptionRow]:
        """What the store has of a group. Raises StoreError."""
        ...

    def lanes_of(self, group: str, /) -> str | None:
        """A queue topic that serves one of a group's subscriptions."""
        ...

    def in_use(self, group: str, topic_id: bytes, /) -> Subscription | None:
        """The subscription if somebody uses it."""
        ...

    def live_of(self, group: str, /) -> list[Subscription]:
        """The subscriptions of a group that are in use."""
        ...

    def live(self) -> Iterator[Subscription]:
        """All that are in use."""
        ...


class SubscriptionConfigs:
    """The configs of all subscriptions of this node (`Subscriptions.configs`)."""

    def __init__(
        self,
        node: Delivering,
        known: Known,
        members_of: Callable[[str], int],
        members_on: Callable[[str, str], int],
        lane_members_of: Callable[[str], int],
        readers_of: Callable[[str], int],
    ) -> None:
        """`members_of`: how many members a share group has; `members_on`: how many of them subscribe to a topic;
        `lane_members_of`: how many members the classic group has that reads lanes; `readers_of`: how many a consumer
        group has, of either protocol. All raise KafkaError while the group is not loaded.
        """
        self._node = node
        self._known = known
        self._members_of = members_of
        self._members_on = members_on
        self._lane_members_of = lane_members_of
        self._readers_of = readers_of
        # see `_retry_topics`; None until somebody asks
        self._named_retries: dict[str, str] | None = None
        # see `lock_ms`
        self._locks: dict[str, int] = {}
        # groups of which a subscription may be about to have another type, once for each change
        self._retyping: list[str] = []
        # groups of which lanes are about to serve a subscription, once for each queue topic
        self._lanes_coming: list[str] = []
        node.group_configs.guard(self._changing_group, self.retyping)
        node.group_configs.watch(self.reconfigure)

    # -- what is in force -----------------------------------------------------------------------------------------

    def own(self, row: SubscriptionRow, config: GroupConfig | None = None) -> dict[str, str]:
        """What a subscription says of itself; one of retries first of all what that of its base says. `config` stands
        in for its group's. Raises KafkaError.
        """
        return self._own(row, self.base_of(row, config))

    def _own(self, row: SubscriptionRow, base: str | None) -> dict[str, str]:
        own = subscription_configs.merged(row.overrides, row.properties)
        if base is None or base == row.topic:
            return own
        found = self._known.row(row.group, base)
        if found is None:
            return own
        return {**subscription_configs.merged(found.overrides, found.properties), **own}

    def of(self, row: SubscriptionRow) -> GroupConfig:
        """A subscription's configuration as it is in force: its own over its group's, within what the policies of its
        topic allow. Raises KafkaError.
        """
        node = self._node
        base = self.base_of(row)
        config = node.group_configs.overridden(row.group, self._own(row, base))
        if self._has_lanes(row, base):
            config = with_lanes(config)
        topic = node.catalog.get(row.topic)
        if topic is None:
            return config
        return within_policies(node, node.catalog, topic, row.group, config, retries=base is not None)

    def _has_lanes(self, row: SubscriptionRow, base: str | None) -> bool:
        """Whether it is served by the lanes of a queue topic, its own or that of its base. Raises KafkaError."""
        if base == row.topic:
            # retries with a name of their own are of all that the group reads
            return self._known.lanes_of(row.group) is not None
        if base is not None:
            found = self._known.row(row.group, base)
            if found is not None:
                row = found
        return bool(row.queue) and self._node.catalog.get(row.queue) is not None

    def of_new(
        self, group: str, topic: Topic, overrides: Mapping[str, str], properties: Mapping[str, str]
    ) -> GroupConfig:
        """What a subscription comes to that is made on a topic, and says this of itself. Raises KafkaError."""
        row = SubscriptionRow(
            0,
            group,
            topic.name,
            topic.topic_id,
            0,
            "",
            overrides=dict(overrides),
            properties=dict(properties),
        )
        return self.of(row)

    def on(self, group: str, topic: str) -> GroupConfig:
        """The same of a group on the topic of that name, where it may have no subscription yet. Raises KafkaError."""
        row = self._known.row(group, topic)
        return self.of(row) if row is not None else self._node.group_configs.get(group)

    def lock_ms(self, group: str) -> int:
        """For how long records of a group stay acquired, in ms: one number is told for all of a group's subscriptions,
        and the shortest time is safe for all. Raises KafkaError.
        """
        found = self._locks.get(group)
        if found is None:
            configs = [each.config.subscription for each in self._known.live_of(group)]
            # what lanes hold has no end, and is no affair of members of share groups
            times = [each.lock_ms for each in configs if not each.lanes]
            if not times:
                return self._node.group_configs.get(group).subscription.lock_ms
            found = self._locks[group] = min(times)
        return found

    def in_use_changed(self, group: str) -> None:
        """A subscription of the group is in use now, or is not any more."""
        self._locks.pop(group, None)

    def base_of(self, row: SubscriptionRow, config: GroupConfig | None = None) -> str | None:
        """The topic whose retries these are; `config` stands in for the group's. Raises KafkaError."""
        node = self._node
        config = config or node.group_configs.get(row.group)
        return letter_names.base_of_retries(node.catalog, config, row.group, row.topic)

    # -- changed --------------------------------------------------------------------------------------------------

    def retyping(self, group: str) -> bool:
        """Whether the type of a subscription of the group may be changing: nobody becomes a consumer meanwhile. What
        one got of the old type would be given to others with the new one.
        """
        return group in self._retyping

    @contextlib.contextmanager
    def _keep_out(self, group: str, needed: bool) -> Iterator[None]:
        """`retyping` as long as a change takes to be stored and to be in force."""
        if needed:
            self._retyping.append(group)
            for each in self._known.live_of(group):
                each.retyping()
        try:
            yield
        finally:
            if needed:
                self._retyping.remove(group)

    @contextlib.contextmanager
    def lanes_coming(self, group: str) -> Iterator[None]:
        """As long as a queue topic is made for a group: it keeps a type that lanes can serve. Raises KafkaError
        COORDINATOR_LOAD_IN_PROGRESS while that changes.
        """
        self._node.group_configs.check_join(group)
        self._lanes_coming.append(group)
        try:
            yield
        finally:
            self._lanes_coming.remove(group)

    def _changing_group(self, group: str, new: Mapping[str, str]) -> AbstractContextManager[None]:
        """Around the change of a group's configs. Refuses those that are wrong beside what its subscriptions say of
        themselves, or change what is fixed while consumers are connected. Raises KafkaError.
        """
        settings = self._node.settings
        before, after = self._node.group_configs.get(group), effective(new, settings)
        retypes = _check_fixed(f"Group {group}", before, after, self._members_of(group))
        if before.subscription.type != after.subscription.type and _of_members(before, after):
            _check_fixed(f"Group {group}", before, after, self._readers_of(group))
            lanes = self._known.lanes_of(group)
            if lanes is None and group in self._lanes_coming:
                lanes = "a queue topic that is being made"
            if lanes is not None and _of_members(after):
                raise KafkaError(
                    Error.INVALID_CONFIG,
                    "Lanes serve subscriptions that are shared or key_shared, and those of "
                    f"{lanes} serve one of group {bare(group)}.",
                )
        try:
            found = self._known.of_group(group)
        except StoreError as error:
            raise from_store(error) from error
        for row in found:
            own = self.own(row, after)
            problem = None
            if own:
                problem = subscription_configs.beside(new, own) or validate({**new, **own}, settings)
            if problem is not None:
                raise KafkaError(
                    Error.INVALID_CONFIG,
                    f"With what the subscription {group} of topic {row.topic} says of itself: {problem}",
                )
            # pulsar.retry.letter.topic says whom it follows
            its = effective({**new, **own}, settings) if own else after
            self._check_allowed(row.topic, self.of(row), its)
            consumers = self.consumers(row)
            if consumers:
                what = f"Subscription {group} of topic {row.topic}"
                _check_fixed(what, self.of(row), its, consumers)
        return self._keep_out(group, retypes or before.retry_letter_topic != after.retry_letter_topic)

    def _check_allowed(self, topic: str, before: GroupConfig, after: GroupConfig) -> None:
        """Whether a subscription may become of another type. Raises KafkaError POLICY_VIOLATION."""
        found = self._node.catalog.get(topic)
        if found is not None and before.subscription.type != after.subscription.type:
            check_type(self._node, self._node.catalog, found, after.subscription.type)

    def consumers(self, row: SubscriptionRow) -> int:
        """How many consumers a subscription has, or will have: members that subscribe to its topic, or those of the
        group that reads its lanes. Raises KafkaError.
        """
        if self._has_lanes(row, self.base_of(row)):
            return self._lane_members_of(row.group)
        live = self._known.in_use(row.group, row.topic_id)
        return max(len(live.consumers) if live is not None else 0, self._members_on(row.group, row.topic))

    async def alter_properties(self, group: str, topic: str, properties: Mapping[str, str]) -> None:
        """Give a subscription these properties in place of those it had: durable, and in force, when this returns.

        Raises KafkaError: INVALID_CONFIG says which values are good; UNKNOWN_TOPIC_OR_PARTITION where there is none.
        """
        node = self._node
        async with node.topics.changing(topic):
            subscription = self._known.get(group, topic)
            if subscription is None:
                raise KafkaError(
                    Error.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic} has no subscription {group}."
                )
            row = subscription.row
            own = node.group_configs.own(group)
            problem = subscription_configs.check(properties, own, row.overrides, node.settings)
            if problem is not None:
                raise KafkaError(Error.INVALID_CONFIG, problem)
            changed = msgspec.structs.replace(row, properties=dict(properties))
            self._check_alike(subscription, changed)
            with self._keep_out(group, self._check_properties(subscription, changed)):
                try:
                    await subscription.keep(dict(properties))
                except StoreError as error:
                    raise from_store(error) from error
                self.apply(group)

    def _check_alike(self, subscription: Subscription, new: SubscriptionRow) -> None:
        """The lanes of a queue topic over a pattern serve many subscriptions, all of one type. Raises KafkaError."""
        over = self._node.catalog.get(new.queue) if new.queue else None
        if over is None or over.queue is None or not over.queue.pattern:
            return
        old, its = subscription.config, self.of(new)
        if (old.subscription.type, old.mode) != (its.subscription.type, its.mode):
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"Subscription {new.group} of topic {new.topic} is served by the lanes of {over.name}, and all that it "
                "serves are alike: delete that first, which keeps the subscriptions.",
            )

    def _check_properties(self, subscription: Subscription, new: SubscriptionRow) -> bool:
        """Refuse what is fixed while consumers are connected to the subscription, or to that of its retries. Whether
        something of that changes. Raises KafkaError.
        """
        group = subscription.group
        changing = [(subscription, self.of(new))]
        retries = self._retries_of(group, subscription.topic)
        following = self._known.by_id(group, retries.topic_id) if retries is not None else None
        if following is not None and following.base == subscription.topic:
            base = subscription_configs.merged(new.overrides, new.properties)
            own = subscription_configs.merged(following.row.overrides, following.row.properties)
            changing.append((following, self._node.group_configs.overridden(group, {**base, **own})))
        changes = False
        for each, after in changing:
            self._check_allowed(each.topic, each.config, after)
            what = f"Subscription {group} of topic {each.topic}"
            if _check_fixed(what, each.config, after, self.consumers(each.row)):
                changes = True
        return changes

    def apply(self, group: str) -> None:
        """Configs of a group or of one of its subscriptions are others now."""
        self._locks.pop(group, None)
        for each in self._known.live_of(group):
            self._renew(each)

    def _renew(self, each: Subscription) -> None:
        each.reconfigure(self.of(each.row), self.base_of(each.row))

    def policies_changed(self, topic: Topic | None = None) -> None:
        """What policies say of a topic is different now; None: of any."""
        for each in self._known.live():
            if topic is None or each.topic_id == topic.topic_id:
                # what cannot be read of one must not keep the others waiting
                with contextlib.suppress(KafkaError):
                    self._renew(each)

    def apply_to_retries(self, group: str, topic: str) -> None:
        """A group has a subscription on a topic now: that of its retries follows it, and nobody else does."""
        retries = self._retries_of(group, topic)
        following = self._known.in_use(group, retries.topic_id) if retries is not None else None
        if following is not None:
            self._locks.pop(group, None)
            self._renew(following)

    def _retries_of(self, group: str, topic: str) -> Topic | None:
        """The topic of a group's retries of a topic, if there is one."""
        return self._node.catalog.get(self._node.group_configs.get(group).retries_of(group, topic))

    def reconfigure(self, group: str) -> None:
        """The group's configs are others now."""
        config = self._node.group_configs.get(group)
        self._name_retries(group, config.retry_letter_topic)
        self.apply(group)

    def settings_changed(self) -> None:
        """What group configs fall back to is different now."""
        for group in {each.group for each in self._known.live()}:
            self.reconfigure(group)

    # -- retries --------------------------------------------------------------------------------------------------

    def retries_into(self, topic: str) -> tuple[str, str] | None:
        """(Pulsar's full name of the base topic, subscription) if a topic of this name is a retry letter topic."""
        catalog = self._node.catalog
        found = list(letter_names.bases(catalog, topic, letter_names.RETRY))
        for base, group in found:
            # of several readings of the name, the one that is in use
            if self._known.get(group, base) is not None:
                return letter_names.full_name(catalog, base), bare(group)
        if found:
            return letter_names.full_name(catalog, found[0][0]), bare(found[0][1])
        named = self._retry_topics()
        if topic not in named:
            return None
        group = named[topic]
        read = [row.topic for row in self._known.of_group(group) if row.topic != topic]
        return letter_names.full_name(catalog, read[0] if read else topic), bare(group)

    def _retry_topics(self) -> dict[str, str]:
        """Retry letter topics with names of their own -> the group that says so."""
        if self._named_retries is None:
            configs = self._node.group_configs
            self._named_retries = {}
            for group in configs.named():
                name = configs.get(group).retry_letter_topic
                if name is not None:
                    self._named_retries[name] = group
        return self._named_retries

    def _name_retries(self, group: str, name: str | None) -> None:
        """The group's retry letter topic is called so, None: as Pulsar calls it."""
        named = {other: its for other, its in self._retry_topics().items() if its != group}
        if name is not None:
            named[name] = group
        if named != self._named_retries:
            self._named_retries = named
            for runtime in self._node.in_use.runtimes():
                for partition in runtime.partitions:
                    if partition is not None:
                        partition.configure(runtime.config)
