"""What the verbs of subscriptions have in common: what paths and bodies name, where one stands, and moving it.

A group id is a subscription's name. A share group's subscription is Shared or Key_Shared; a consumer group's is
Failover, and is there once the group has committed an offset of the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin import audit, groups, lane_stats
from gateway.admin.exchange import Call, RefusedError
from gateway.admin.topics import Found, found_by
from gateway.broker import offsets_by_time
from gateway.broker.errors import from_code
from gateway.broker.loading import until_loaded
from gateway.broker.machines import Caller
from gateway.broker.subscriptions import positions
from gateway.coordinators import offsets
from gateway.coordinators.classic_events import Plain
from gateway.wire.batch import BatchError
from gateway.wire.errors import Error
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted
from store.api import Family, Put, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.queues.queue import Queue
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.subscription import Subscription
    from semantics.subscriptions.cursor import Cursor


class Named(NamedTuple):
    """A subscription that a path names, and where it is. `shared` is False for a consumer group's."""

    found: Found
    name: str
    shared: bool
    # another of its name has another; 0 where any is meant, and of a consumer group, which has none of its own
    id: int = 0


async def named_subscription(broker: Broker, call: Call) -> Named:
    """The subscription that the path names. Refuses with 404 what is not there; with 409 where `subscriptionId` of the
    query says another: the one that a dry run was about has been deleted since, and the name is another's.
    """
    found, name = await found_by(broker, call), call.path[5]
    await groups.load(broker, name)
    if (subscription := broker.subscriptions.by_id(name, found.topic.topic_id)) is not None:
        return _as_seen(call, Named(found, name, True, subscription.id))
    indexes = range(len(found.topic.partitions))
    if any(row is not None for row in broker.groups.committed(name, found.topic, indexes)):
        return _as_seen(call, Named(found, name, False))
    of, hint = found.topic.queue, ""
    if of is not None and of.subscription == name and (base := broker.catalog.by_id(of.topic_id)) is not None:
        hint = f" It is a queue topic and serves the one of {dotted(base.name)}: name that topic."
    raise RefusedError(404, f"{found.name} has no subscription {name}.{hint}")


def _as_seen(call: Call, at: Named) -> Named:
    seen = call.query.get("subscriptionId")
    if seen == "":
        raise RefusedError(
            400, "subscriptionId is empty: leave it out if any subscription of this name is meant."
        )
    if seen is not None and seen != str(at.id):
        raise _another(at)
    return at


def _another(at: Named) -> RefusedError:
    return RefusedError(
        409,
        f"{at.name} on {at.found.name} is another subscription than the one that was looked at: it was made anew"
        " since.",
    )


async def has_committed(broker: Broker, topic: Topic, group: str) -> bool:
    """Whether a group has committed an offset of the topic."""
    await groups.load(broker, group)
    rows = broker.groups.committed(group, topic, range(len(topic.partitions)))
    return any(row is not None for row in rows)


# -- moved


async def moved(
    broker: Broker,
    at: Named,
    targets: dict[int, int],
    move: Callable[[Cursor, int], object],
    call: Call | None = None,
    counts: Callable[[], dict[str, int | str]] = dict,
) -> None:
    """Move the cursors of a shared subscription, by partition, all in one commit. With a `call` that has its record in
    the audit's topic: what it `counts` when they were moved, and nothing is moved where that cannot be written.
    """

    def all_of_them() -> None:
        if call is not None:
            broker.audit_log.check()
        positions.move([(cursor_of(broker, at, index), number) for index, number in targets.items()], move)
        if call is not None:
            # without the number or the time behind the verb
            audit.tell(broker, call, call.method, counts(), path=call.path[:7])

    await broker.audit_log.ready()
    await until_loaded(all_of_them)
    await broker.write([])


def backlog_of(broker: Broker, at: Named, index: int, end: int) -> int:
    """Messages before `end` that a subscription has still to acknowledge on a partition."""
    if at.shared:
        return cursor_of(broker, at, index).ready().backlog(end)
    return max(0, end - committed_offset(broker, at, broker.partition(at.found.topic, index)))


def committed_offset(broker: Broker, at: Named, partition: Partition) -> int:
    """Where a consumer group reads on."""
    row = broker.groups.committed(at.name, at.found.topic, [partition.index])[0]
    return max(row.offset if row is not None else 0, partition.log_start)


# -- what paths and bodies say

LATEST_LEDGER = 2**63 - 1


def whole(found: Found) -> Found:
    """A topic, not one partition of it: a group's subscription is on all of them."""
    if found.index >= 0 and found.topic.partitioned and len(found.topic.partitions) > 1:
        raise RefusedError(
            412,
            f"A subscription is on all partitions of a topic: name {found.name.parent}, not {found.name}.",
        )
    return found


def indexes_of(found: Found) -> list[int]:
    return [found.index] if found.index >= 0 else list(range(len(found.topic.partitions)))


def one_partition(broker: Broker, found: Found, verb: str) -> Partition:
    """One partition. Refuses a topic with several with 405, as Pulsar does; and a queue topic."""
    of = found.topic.queue
    if of is not None:
        base = broker.catalog.by_id(of.topic_id)
        named = dotted(base.name) if base is not None else "one of the topics that it serves"
        raise RefusedError(
            412, f"{found.name} is a queue topic, which keeps no messages of its own: use {verb} on {named}."
        )
    if found.index < 0 and len(found.topic.partitions) > 1:
        raise RefusedError(
            405,
            f"{found.name} has {len(found.topic.partitions)} partitions and {verb} is for one:"
            f" name it, for example {found.name.with_partition(0)}.",
        )
    return broker.partition(found.topic, max(found.index, 0))


async def lane_of(broker: Broker, call: Call, verb: str) -> tuple[Queue, int] | None:
    """The lane of a queue topic that the path names; None for any other topic. Refuses another subscription than the
    topic's, and the topic as a whole.
    """
    found = await found_by(broker, call)
    of = found.topic.queue
    if of is None:
        return None
    if of.subscription != call.path[5]:
        raise RefusedError(
            404, f"{found.name} has no subscription {call.path[5]}: it is that of {of.subscription}."
        )
    if found.index < 0 and len(found.topic.partitions) > 1:
        raise RefusedError(
            405,
            f"{found.name} has {len(found.topic.partitions)} lanes and {verb} is for one: name it, for example "
            f"{found.name.with_partition(0)}.",
        )
    await groups.load(broker, of.subscription)
    queue = await lane_stats.at_work(broker, found.topic)
    if queue is None:
        raise RefusedError(503, f"The lanes of {found.name} cannot be read at present.")
    return queue, max(found.index, 0)


def cursor_of(broker: Broker, at: Named, index: int) -> SubscriptionPartition:
    """Where it stands in a partition. Refuses with 404 where it is gone, with 409 where its name is another's."""
    return subscription_of(broker, at).partition(index)


def subscription_of(broker: Broker, at: Named) -> Subscription:
    """A shared one, in use. Refuses in the same way."""
    subscription = broker.subscriptions.by_id(at.name, at.found.topic.topic_id)
    if subscription is None:
        raise RefusedError(404, f"{at.found.name} has no subscription {at.name} any more.")
    if at.id not in (0, subscription.id):
        raise _another(at)
    return subscription


def number_of(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise RefusedError(400, f"A whole number says {what}; not {text[:40]!r}.")
    return int(text)


def id_of(call: Call) -> MessageId:
    """The message id in the body; latest when there is none."""
    body = call.json()
    if isinstance(body, dict):
        # what stands beside the id in the body of create-subscription
        body = {name: value for name, value in body.items() if name != "properties"}
    try:
        return MessageId.from_json(body) if body not in (None, {}) else MessageId.parse("latest")
    except MessageIdError as error:
        raise RefusedError(400, str(error)) from None


def start_of(partition: Partition, call: Call) -> int:
    wanted = id_of(call)
    if wanted.partition not in (-1, partition.index) and 0 <= wanted.ledger < LATEST_LEDGER:
        return partition.high_watermark
    return offset_of(partition, wanted)


def offset_of(partition: Partition, wanted: MessageId) -> int:
    """Where a message id is. Refuses with 404 one that is not there."""
    if wanted.ledger < 0:
        return partition.log_start
    if wanted.ledger == LATEST_LEDGER:
        return partition.high_watermark
    try:
        return partition.log.offset_of(wanted.ledger, wanted.entry) + max(wanted.batch_index, 0)
    except KeyError:
        raise RefusedError(404, f"There is no message {wanted} (any more).") from None


async def by_time(broker: Broker, partition: Partition, since: int) -> int:
    try:
        found = await offsets_by_time.first_at_or_after(partition, since, broker.decompression_limit)
    except (BatchError, StoreError) as error:
        raise RefusedError(503, f"The log cannot be searched: {error}") from None
    return found[1] if found is not None else partition.high_watermark


# -- offsets of consumer groups


def caller() -> Caller:
    return Caller(lambda answer: answer)


async def answered(answer: object) -> None:
    """Wait for the group's answer. Raises KafkaError."""
    said = answer if isinstance(answer, Plain) else await answer  # type: ignore[misc]
    if said.error == Error.UNKNOWN_MEMBER_ID:
        raise RefusedError(412, "The consumer group has connected members: stop them first.")
    if said.error:
        raise from_code(said.error)


async def commit_offsets(broker: Broker, found: Found, group: str, targets: dict[int, int]) -> None:
    """Commit offsets on behalf of nobody, as kafka-consumer-groups --reset-offsets does."""
    now = broker.clock.wall_ms()
    rows = [
        Put(
            Family.OFFSET,
            offsets.key(group, found.topic.name, index),
            offsets.encode(offset, -1, now, -1, found.topic.topic_id, None),
        )
        for index, offset in targets.items()
    ]
    await answered(broker.committing.commit_offsets(group, "", None, -1, list(rows), caller()))
