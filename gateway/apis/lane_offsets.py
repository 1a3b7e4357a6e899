"""What OffsetFetch tells the group of a subscription that is served by lanes, and what moves it from outside.

| topic | the committed offset of that group |
|---|---|
| the queue topic | of each lane the first open delivery |
| the base topic, and its retries | of each partition mark-delete + 1, the start offset of a share group |

So tools that know nothing of lanes show as lag what is open, and what is not settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions import positions
from gateway.coordinators.offsets import Committed
from gateway.wire.errors import Error
from store.api import Durability, StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic

Rows = list[Committed | None]


def told_by(broker: Broker, topic: Topic, group: str) -> Topic | None:
    """The queue topic that knows where a group stands in a topic; None where what it has committed tells it."""
    if topic.queue is not None:
        return topic if is_lane(topic, group) else None
    return broker.queues.serving(topic, group)


def is_lane(topic: Topic | None, group: str) -> bool:
    """Whether partitions of a topic are lanes, and the group is the one that they are of."""
    return topic is not None and topic.queue is not None and topic.queue.subscription == group


async def stored(broker: Broker, groups: Iterable[str]) -> bool:
    """Until what the cursors of these groups say at the call is stored: nothing that was read of them before, with no
    wait in between, comes back lower after a crash. False if it is not and never will be: then it is to be read again.
    """
    if any(map(broker.subscriptions.unsaved, groups)):
        try:
            await broker.write((), Durability.OS)
        except StoreError:
            return False
    return True


def rows(
    broker: Broker,
    queue_topic: Topic,
    topic: Topic,
    indexes: Sequence[int],
    committed: Sequence[Committed | None],
) -> tuple[Rows, int]:
    """Where a group stands in some partitions of a topic, of which a queue topic knows; and an error code.
    `committed`: what the group has committed there.
    """
    try:
        if topic is queue_topic:
            return _open(broker, topic, indexes, committed), 0
        return _marks(broker, queue_topic, topic, indexes), 0
    except KafkaError:
        return [None] * len(indexes), Error.UNSTABLE_OFFSET_COMMIT


def _open(
    broker: Broker, topic: Topic, indexes: Sequence[int], committed: Sequence[Committed | None]
) -> Rows:
    """The first open deliveries of lanes, with what the group has said at that very offset."""
    queue = broker.queues.of(topic)
    found: Rows = []
    for index, row in zip(indexes, committed, strict=True):
        if not 0 <= index < len(queue.at):
            found.append(None)
            continue
        at = queue.at[index].lane.open
        found.append(row if row is not None and row.offset == at else _plain(topic, at))
    return found


def _marks(broker: Broker, queue_topic: Topic, topic: Topic, indexes: Sequence[int]) -> Rows:
    queue = broker.queues.of(queue_topic)
    found: Rows = []
    for index in indexes:
        inside = 0 <= index < len(topic.partitions)
        source = queue.sources.get(topic.partitions[index]) if inside else None
        found.append(_plain(topic, positions.position_at(source.at).start) if source is not None else None)
    return found


def _plain(topic: Topic, offset: int) -> Committed:
    return Committed(offset, -1, 0, -1, topic.topic_id, "")


def everywhere(broker: Broker, group: str) -> list[tuple[Topic, Topic]]:
    """(queue topic, topic) of all topics in which lanes know where a group stands. Raises StoreError."""
    found: list[tuple[Topic, Topic]] = []
    for queue_topic in broker.queues.of_group(group):
        found.append((queue_topic, queue_topic))
        try:
            names = {
                source.at.subscription.topic for source in broker.queues.of(queue_topic).sources.values()
            }
        except KafkaError:
            continue
        found += [(queue_topic, topic) for name in sorted(names) if (topic := broker.catalog.get(name))]
    return found


def seek(broker: Broker, queue_topic: Topic, offsets: Iterable[tuple[int, int]]) -> None:
    """Begin anew at these offsets, by the store's ids of partitions, in the open turn. Raises KafkaError."""
    sources = broker.queues.of(queue_topic).sources
    positions.seek_all([(sources[number].at, offset) for number, offset in offsets if number in sources])
