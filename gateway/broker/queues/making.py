"""What the making of a queue topic comes to: checks, configs, and one commit with the subscriptions that it serves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.broker.catalog import MOST_LANES, QueueOf, Topic
from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import until_loaded
from gateway.broker.new_topics import as_base
from gateway.broker.queues.lane import name_of as lane_name
from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.subscription import KEY_SHARED
from gateway.config import subscription_configs
from gateway.config.topic_table import TOPIC_CONFIGS
from gateway.promise import Promise
from gateway.wire.errors import Error
from semantics.group_names import bare
from semantics.subscriptions import selectors
from semantics.subscriptions.selectors import SelectorError
from store.api import Outcome, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.queues.lane_groups import LaneGroups
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow
    from gateway.broker.subscriptions.subscription import Subscription
    from gateway.config.group_configs import GroupConfig

log = logging.getLogger("magnetar.queues")


class New(NamedTuple):
    """A subscription that is made with its queue topic."""

    overrides: Mapping[str, str]
    """configs that it says of itself"""
    properties: Mapping[str, str]
    starts: Sequence[int] | None
    """where it begins in each partition; None: see `begins`"""


def check_lanes(lanes: int) -> None:
    """Raises KafkaError INVALID_PARTITIONS for a number that no queue topic has."""
    if not 1 <= lanes <= MOST_LANES:
        raise KafkaError(
            Error.INVALID_PARTITIONS,
            f"A queue topic has 1 to {MOST_LANES} lanes; {lanes} were asked for.",
        )


def check_of_subscription(topic: str, said: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG for a config of topics that keep records, which would be without effect."""
    others = sorted(set(said) & TOPIC_CONFIGS.keys() - subscription_configs.NAMES)
    if others:
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"{others[0]} is for topics that keep records, and a queue topic has the records of '{topic}': set it "
            "there. A queue topic is made with configs of its subscription (pulsar.*).",
        )


def configs_of_new(node: Delivering, subscription: str, said: Mapping[str, str]) -> dict[str, str]:
    """What a subscription that is made with these configs says of itself. Raises KafkaError INVALID_CONFIG."""
    own = node.group_configs.own(subscription)
    pulsars = subscription_configs.as_pulsars(own, said)
    problem = subscription_configs.check(said, own, pulsars, node.settings)
    if problem is not None:
        raise KafkaError(Error.INVALID_CONFIG, problem)
    return {**pulsars, **said}


def check_same(node: Delivering, known: Subscriptions, found: Subscription, said: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG when a subscription that is there is other than `said`."""
    own = known.configs.own(found.row)
    of, group = node.group_configs.overridden, found.group
    problem = subscription_configs.check(said, node.group_configs.own(group), own, node.settings)
    if problem is None and of(group, {**own, **said}) != of(group, own):
        problem = (
            f"Subscription {bare(group)} of topic {found.topic} is there already, and its configs are others: leave "
            "them out, or change them first."
        )
    if problem is not None:
        raise KafkaError(Error.INVALID_CONFIG, problem)


def check_group(node: Delivering, group: str) -> None:
    """Raises KafkaError INVALID_CONFIG for a group whose type lets no lanes serve it."""
    config = node.group_configs.get(group)
    if config.exclusive or config.failover:
        raise KafkaError(
            Error.INVALID_CONFIG,
            f"Lanes serve subscriptions that are shared or key_shared, and group {bare(group)} is "
            f"{config.subscription.type} (pulsar.subscription.type).",
        )


def slots_of_lanes(config: GroupConfig, lanes: int) -> bytes:
    """Who owns which slots when all lanes are there, as a subscription's row keeps it; nothing for Shared. Raises
    KafkaError INVALID_CONFIG.
    """
    if config.subscription.type != KEY_SHARED:
        return b""
    selector = selectors.make(config.mode)
    for index in range(lanes):
        lane = lane_name(index)
        ranges = config.ranges.get(lane)
        try:
            selector.add(lane, list(ranges) if ranges is not None else None)
        except SelectorError as error:
            raise KafkaError(Error.INVALID_CONFIG, f"{lane} gets no slots: {error}") from error
    return selector.dump()


def check_free(node: Delivering, found: Subscription, name: str) -> None:
    """Raises KafkaError when a subscription cannot be served by the queue topic of this name now."""
    serving = found.row.queue
    if serving not in ("", name) and node.catalog.get(serving) is not None:
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"Subscription {bare(found.group)} of topic {found.topic} is served by the lanes of {serving}, and one "
            f"queue topic serves it: delete '{serving}' first, which keeps the subscription.",
        )
    if found.consumers:
        raise KafkaError(
            Error.NON_EMPTY_GROUP,
            f"Subscription {bare(found.group)} has consumers of a share group: one is served by share groups or by "
            "lanes. Stop them first.",
        )


async def read_by(groups: LaneGroups, group: str) -> set[str]:
    """Topics whose partitions members of a consumer group have now; it is loaded then. Raises KafkaError."""
    assigned = await until_loaded(partial(groups.assignment, group))
    return {name for topics in assigned.values() for name, partitions in topics.items() if partitions}


async def begins(
    node: Delivering,
    known: Subscriptions,
    groups: LaneGroups,
    read: set[str],
    topic: Topic,
    group: str,
    config: GroupConfig,
) -> list[int]:
    """Where a subscription that is made for lanes begins in each partition: where the consumer group of that name
    stands, if it has read the topic itself until now; else where its configs say. `read`: see `read_by`. Raises
    KafkaError NON_EMPTY_GROUP while it does; StoreError.
    """
    if topic.name in read:
        raise KafkaError(
            Error.NON_EMPTY_GROUP,
            f"Consumers of group {bare(group)} read '{topic.name}' itself: stop them first. The lanes go on where the "
            "group stands by then.",
        )
    committed = groups.committed(group, topic, range(len(topic.partitions)))
    found = await known.new.starts(topic, config)
    for index, row in enumerate(committed):
        if row is not None:
            at = await until_loaded(partial(node.in_use.log_of, topic, index))
            found[index] = min(row.offset, at.end_offset)
    return found


async def both(
    node: Delivering,
    known: Subscriptions,
    groups: LaneGroups,
    base: Topic,
    subscription: str,
    name: str,
    lanes: int,
    new: New,
) -> None:
    """Commit the queue topic of this name with the subscription on its base that it serves. Raises KafkaError."""
    check_group(node, subscription)
    overrides, properties = dict(new.overrides), dict(new.properties)
    # of retries what their base says, too
    config = known.configs.of_new(subscription, base, overrides, properties)
    selector = slots_of_lanes(config, lanes)
    try:
        known.new.check(base, config)
        starts = new.starts
        if starts is None:
            read = await read_by(groups, subscription)
            starts = await begins(node, known, groups, read, base, subscription, config)
        # whoever gave them may have seen the topic before it grew, or one of that name before it
        count = len(base.partitions)
        starts = [*starts[:count], *[0] * (count - len(starts))]
        row, writes = known.new.writes(
            subscription, base, starts, overrides, properties, queue=name, selector=selector
        )
    except StoreError as error:
        raise from_store(error) from error

    def done() -> None:
        known.configs.apply(subscription)
        known.configs.apply_to_retries(subscription, base.name)
        log.info("subscription made", extra={"group": subscription, "topic": base.name, "type": row.type})

    await commit(node, known, name, lanes, QueueOf(base.topic_id, subscription), [], writes, done)


async def beside(node: Delivering, known: Subscriptions, found: Subscription, name: str, lanes: int) -> None:
    """Commit the queue topic of this name, and that it serves a subscription that is there. Raises KafkaError."""
    check_group(node, found.group)
    check_free(node, found, name)
    selector = slots_of_lanes(found.config, lanes)
    await commit(
        node,
        known,
        name,
        lanes,
        QueueOf(found.topic_id, found.group),
        [(found, lambda row: msgspec.structs.replace(row, selector=selector))],
        [],
        partial(known.configs.apply, found.group),
    )


async def commit(
    node: Delivering,
    known: Subscriptions,
    name: str,
    lanes: int,
    of: QueueOf,
    served: Sequence[tuple[Subscription, Callable[[SubscriptionRow], SubscriptionRow]]],
    new: Sequence[Write],
    done: Callable[[], None],
) -> None:
    """Commit the queue topic of this name: with the changed rows of the subscriptions that there are, and the writes of
    `new` ones. `done` is called when it shows. Raises KafkaError.
    """
    with known.configs.lanes_coming(of.subscription):
        check_group(node, of.subscription)
        taken: list[tuple[Subscription, SubscriptionRow]] = []
        stored = Promise[Outcome]()

        def ended(outcome: Outcome) -> None:
            # whoever asked for it may be gone by now
            for found, row in taken:
                found.rewritten(row if outcome is None else None)
            if outcome is None:
                done()
            stored.tell(outcome)

        def more(made: Topic) -> list[Write]:
            return [*new, *(rows.writes_changed(row) for _, row in taken)]

        held: Subscription | None = None
        try:
            for found, changed in served:
                row = await found.rewriting()
                held = found
                taken.append((found, msgspec.structs.replace(changed(row), queue=name)))
                held = None
            for found, _ in taken:
                # others had their turn
                check_free(node, found, name)
            # where its base is there are its lanes: what they hold is one fact with what the cursors say
            base = node.catalog.by_id(of.topic_id)
            configs = as_base(base) if base is not None else {}
            node.topics.create_with(name, lanes, configs, more, ended, queue=of)
        except BaseException:
            for found in [*(found for found, _ in taken), *([held] if held is not None else [])]:
                found.rewritten(None)
            raise
        if (outcome := await stored) is not None:
            raise from_store(outcome)
