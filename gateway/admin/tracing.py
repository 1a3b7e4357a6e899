"""The verb that follows one message: where it was published, which RETRY topics it went through, where it died.

Letters say which message they were at first (ORIGIN_MESSAGE_ID, REAL_TOPIC). So the RETRY and dead letter topics of
each subscription are searched from the time that the message was published on, for LONGEST_NS at most. What is said of
a consumer's own doings is what a cursor knows now: an acknowledged message is settled, and nobody knows when or by
whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin import browsing, messages
from gateway.admin.browsing import Cursor, Page, Seen, Wanted
from gateway.admin.exchange import Call, RefusedError, Reply, iso, json
from gateway.admin.places import by_time, offset_of
from gateway.admin.record_pages import iso_of, shown_bytes
from gateway.admin.topics import found_by, loaded
from gateway.broker.errors import KafkaError
from gateway.broker.message_ids import id_at
from gateway.broker.subscriptions import letter_names
from gateway.wire import letters, properties
from semantics.access.acl import Operation
from semantics.group_names import bare
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.messages import Stored
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.rows import SubscriptionRow

LONGEST_NS = 2_000_000_000
"""Of time that one question may take, about."""
MOST = 200
"""Letters that are told."""
SUBSCRIPTIONS = 100
"""Subscriptions whose letters are looked for."""


async def trace(context: Context, call: Call) -> Reply:
    """What happened to a message, by its id on this topic or by that of a letter: the events in their order, and how it
    stands with each subscription. (Magnetar's own.)
    """
    broker = context.broker
    partition, stored = await _named(broker, call)
    partition, stored = await _origin(broker, call, partition, stored)
    message_id = str(id_at(partition, stored.offset))
    found = _Trace(context, call, partition.topic.topic, message_id, stored.record.timestamp)
    events = [_published(partition, stored, message_id)]
    states: list[dict[str, Any]] = []
    count = 0
    namespace = broker.catalog.namespaces.full(partition.topic.topic.name).namespace
    all_of_them = call.asker.administers(namespace.tenant)
    async with context.browsing.of(call):
        async for row in broker.subscriptions.each_of_topic(partition.topic_id):
            count += 1
            if count > SUBSCRIPTIONS:
                found.whole = False
                break
            if not all_of_them and not call.asker.group(Operation.READ, row.group, namespace):
                # `explain` would not tell how it stands there, either
                continue
            states.append(_state(broker, row, partition, stored.offset))
            for name in found.topics_of(row):
                for seen in await found.letters_on(name):
                    event = _letter(seen)
                    if event.get("subscription") == bare(row.group):
                        events.append(event)
    answer: dict[str, Any] = {
        "messageId": message_id,
        "events": sorted(events, key=lambda event: event["timestamp"]),
        "subscriptions": [each for each in states if each],
        "looked": found.looked,
        "of": found.of,
    }
    if not found.whole:
        answer["atLeast"] = True
    if found.hidden:
        answer["notAllowed"] = sorted(found.hidden)
    return json(answer)


# -- which message


async def _named(broker: Broker, call: Call) -> tuple[Partition, Stored]:
    found = await found_by(broker, call)
    try:
        wanted = MessageId.parse(call.query.get("id", ""))
    except MessageIdError as error:
        raise RefusedError(400, str(error)) from None
    if wanted.ledger < 0 or found.topic.queue is not None:
        raise RefusedError(
            400, "A message is named by its id, such as 17:3:0:5, on a topic that keeps records."
        )
    index = found.index if found.index >= 0 else max(wanted.partition, 0)
    if index >= len(found.topic.partitions):
        raise RefusedError(404, f"{found.name} has no partition {index}.")
    partition = broker.partition(found.topic, index)
    offset = offset_of(partition, wanted)
    stored = await messages.record_at(broker, partition, offset)
    if stored is None or stored.offset != offset:
        raise RefusedError(404, f"There is no message {wanted} (any more).")
    return partition, stored


async def _origin(
    broker: Broker, call: Call, partition: Partition, stored: Stored
) -> tuple[Partition, Stored]:
    """The message that a letter was at first, where it says that and it is still there."""
    said = {name: value for name, value in stored.record.headers if value is not None}
    real, origin = said.get(properties.REAL_TOPIC), said.get(properties.ORIGIN_MESSAGE_ID)
    if real is None or origin is None:
        return partition, stored
    name = letter_names.name_of(real.decode("utf-8", "replace"))
    topic = broker.catalog.get(name) if name is not None else None
    if topic is None or topic.queue is not None or not _may_read(broker, call, topic):
        return partition, stored
    try:
        wanted = MessageId.parse(origin.decode("utf-8", "replace"))
        if wanted.ledger < 0 or max(wanted.partition, 0) >= len(topic.partitions):
            return partition, stored
        await loaded(broker, topic.partitions)
        at = broker.partition(topic, max(wanted.partition, 0))
        offset = offset_of(at, wanted)
        first = await messages.record_at(broker, at, offset)
    except (MessageIdError, RefusedError, KafkaError, StoreError):
        return partition, stored
    return (at, first) if first is not None and first.offset == offset else (partition, stored)


def _may_read(broker: Broker, call: Call, topic: Topic) -> bool:
    return call.asker.topic(Operation.READ, topic.name, broker.catalog.namespaces.full(topic.name).namespace)


# -- its letters


class _Trace:
    """The search for the letters of one message."""

    def __init__(self, context: Context, call: Call, topic: Topic, message_id: str, timestamp: int) -> None:
        self._context = context
        self._call = call
        self._topic = topic
        self._since = timestamp
        self._wanted = Wanted(header=properties.ORIGIN_MESSAGE_ID, header_value=message_id.encode())
        self._real = letter_names.full_name(context.broker.catalog, topic.name).encode()
        self._begun = context.broker.clock_ns()
        # several subscriptions may have one
        self._found: dict[str, list[Seen]] = {}
        self.looked = self.of = 0
        self.whole = True
        self.hidden: set[str] = set()

    def topics_of(self, row: SubscriptionRow) -> list[str]:
        """Where a subscription's letters go."""
        config = self._context.broker.subscriptions.configs.of(row)
        base = self._context.broker.subscriptions.configs.base_of(row) or self._topic.name
        return [config.retries_of(row.group, base), config.dead_letters_of(row.group, base)]

    async def letters_on(self, name: str) -> list[Seen]:
        """Those of the message that are on a topic."""
        if name not in self._found:
            self._found[name] = await self._search(name)
        return self._found[name]

    async def _search(self, name: str) -> list[Seen]:
        broker = self._context.broker
        topic = broker.catalog.get(name)
        if topic is None or topic.topic_id == self._topic.topic_id:
            return []
        if not _may_read(broker, self._call, topic):
            self.hidden.add(dotted(name))
            return []
        await loaded(broker, topic.partitions)
        partitions = [broker.partition(topic, index) for index in range(len(topic.partitions))]
        self.whole = self.whole and len(partitions) <= browsing.PARTITIONS
        partitions = partitions[: browsing.PARTITIONS]
        # a letter is not older than its message, but for a producer's clock that is ahead
        since = min(self._since, broker.clock.wall_ms())
        positions = {each.index: await by_time(broker, each, since) for each in partitions}
        cursor: Cursor | None = Cursor(False, 0, positions)
        found: list[Seen] = []
        page: Page | None = None
        while cursor is not None and len(found) < MOST:
            if broker.clock_ns() - self._begun > LONGEST_NS:
                self.whole = False
                break
            page = await browsing.browse(broker, partitions, cursor, self._wanted, MOST)
            found += [
                each for each in page.found if dict(each.headers).get(properties.REAL_TOPIC) == self._real
            ]
            cursor = Cursor.parse(page.next) if page.next else None
        else:
            self.whole = self.whole and cursor is None
        if page is not None:
            self.looked += page.looked
            self.of += page.of
        return found


# -- as JSON


def _place(partition: Partition, offset: int, timestamp: int) -> dict[str, Any]:
    return {
        "timestamp": timestamp,
        **iso_of(timestamp),
        "topic": dotted(partition.topic.name),
        "partition": partition.index,
        "offset": offset,
    }


def _published(partition: Partition, stored: Stored, message_id: str) -> dict[str, Any]:
    key = stored.record.key
    event = {"what": "published", **_place(partition, stored.offset, stored.record.timestamp)}
    due = properties.deliver_at(stored.record.headers, stored.record.timestamp)
    if due is not None and (when := iso_of(due)):
        event["due"] = when["time"]
    return {**event, "messageId": message_id, "key": shown_bytes(key, len(key or b""), 1024)}


def _letter(seen: Seen) -> dict[str, Any]:
    """A retry letter or a dead letter: what its headers say."""
    said = {name: (value or b"")[:256].decode("utf-8", "replace") for name, value in seen.headers}
    dead = letters.REASON in said
    event: dict[str, Any] = {
        "what": "dead letter" if dead else "to be tried again",
        **_place(seen.partition, seen.offset, seen.timestamp),
        "subscription": said.get(properties.REAL_SUBSCRIPTION, ""),
    }
    names = {
        "reason": letters.REASON,
        "readFrom": letters.TOPIC,
        "readPartition": letters.PARTITION,
        "readOffset": letters.OFFSET,
        "deliveries": letters.DELIVERY_COUNT,
    } if dead else {"times": properties.RECONSUME_TIMES, "delayMs": properties.DELAY_TIME}  # fmt: skip
    for key, header in names.items():
        if header in said:
            number = properties.number(said[header].encode()) if key not in ("reason", "readFrom") else None
            event[key] = said[header] if number is None else number
    return event


def _state(broker: Broker, row: SubscriptionRow, partition: Partition, offset: int) -> dict[str, Any]:
    """How the message stands with a subscription on its topic now."""
    subscription = broker.subscriptions.by_id(row.group, row.topic_id)
    if subscription is None:
        return {}
    try:
        found = subscription.partition(partition.index).ready().look(offset)
    except (KafkaError, StoreError):
        return {}
    state: dict[str, Any] = {"subscription": bare(row.group), "state": found.state}
    if found.count:
        state["failed"] = found.count
    if found.consumer is not None:
        state["consumer"] = found.consumer
    if found.due is not None:
        state["due"] = iso(found.due)
    return state
