"""Lanes as the admin side shows them: who has them, and how much of them is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.admin.exchange import iso
from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.queues import telling
from gateway.broker.queues.lane import name_of
from semantics.lanes.lane import LaneError
from semantics.names import dotted
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.queues.queue import Queue
    from gateway.broker.queues.telling import LaneView

Stats = dict[str, Any]


class Client(NamedTuple):
    """A member of a consumer group."""

    id: str
    client_id: str
    host: str


# -- which there are ---------------------------------------------------------------------------------------------------


async def at_work(broker: Broker, topic: Topic) -> Queue | None:
    """A queue topic, loaded; None when it cannot be had at present."""
    try:
        return await until_loaded(lambda: broker.queues.of(topic))
    except KafkaError:
        return None


def members(broker: Broker, group: str) -> dict[str, Client]:
    """The members of a group that is loaded, by id; none where it cannot be read."""
    try:
        found = broker.lane_members.clients(group)
    except KafkaError:
        return {}
    return {one.member_id: Client(one.member_id, one.client_id, one.client_host.lstrip("/")) for one in found}


def readers(broker: Broker, queue: Topic) -> int:
    """How many members of its group have lanes of a queue topic: they may read others, too. 0 where the group is not
    loaded or cannot be read.
    """
    assert queue.queue is not None
    try:
        return len(broker.lane_members.owners(queue.queue.subscription, queue))
    except KafkaError:
        return 0


def views(broker: Broker, topic: Topic) -> list[LaneView]:
    """The lanes of a queue topic whose group is loaded; of one that nobody uses as far as its rows tell. Nothing where
    they cannot be read.
    """
    queue = broker.queues.in_use(topic)
    if queue is not None:
        return telling.lanes_of(queue, broker.clock.monotonic_ms())
    assert topic.queue is not None
    try:
        assigned = broker.lane_members.owners(topic.queue.subscription, topic)
        owners = {lane: member for member, lanes in assigned.items() for lane in lanes}
        return telling.resting(broker.store, topic.partitions, owners)
    except (KafkaError, StoreError, LaneError):
        return []


# -- stats -------------------------------------------------------------------------------------------------------------


def of_queue(broker: Broker, topic: Topic) -> Stats:
    """A queue topic with its lanes, as stats of its subscription show it. Its group is loaded."""
    assert topic.queue is not None
    known = members(broker, topic.queue.subscription)
    return {
        "topic": dotted(topic.name),
        "members": len(known),
        "lanes": [shown(broker, topic, view, known) for view in views(broker, topic)],
    }


def shown(broker: Broker, topic: Topic, view: LaneView, known: dict[str, Client]) -> Stats:
    """One lane."""
    lane: Stats = {
        "lane": view.lane,
        **who(view, known),
        "openDeliveries": view.open,
        "sentDeliveries": view.sent,
        "firstOpenOffset": view.first_open,
        "endOffset": view.end,
        "startOffset": view.start,
        "window": view.window,
        "allowed": view.allowed,
        "ackRate": round(view.rate, 3),
        "suspects": view.suspects,
        "waits": view.waits,
    }
    refused = broker.queues.refusals.of(topic.partitions[view.lane])
    if refused is not None:
        lane["lastRefused"] = {
            "offset": refused.offset,
            "metadata": refused.metadata,
            "reason": refused.why,
            "at": iso(refused.at),
        }
    return lane


def who(view: LaneView, known: dict[str, Client]) -> Stats:
    if view.member is None:
        return {}
    found = known.get(view.member)
    if found is None:
        return {"member": view.member}
    return {"member": found.id, "clientId": found.client_id, "clientHost": found.host}


def name_consumers(broker: Broker, consumers: list[Stats], lanes: list[Stats]) -> None:
    """To cursors lanes are consumers: say who has them."""
    by_name = {name_of(lane["lane"]): lane for lane in lanes}
    for consumer in consumers:
        lane = by_name.get(consumer["consumerName"])
        if lane is not None and "member" in lane:
            consumer["metadata"] = {
                key: lane[key] for key in ("clientId", "clientHost", "member") if key in lane
            }
            if "clientHost" in lane:
                consumer["address"] = lane["clientHost"]
                consumer["clientVersion"] = broker.client_software.of(
                    f"/{lane['clientHost']}", lane["clientId"]
                )


def backlog(broker: Broker, topic: Topic, source: int) -> list[Stats]:
    """What of a partition (the store's id of it) lies on which lane; nothing of a queue that nobody uses."""
    queue = broker.queues.in_use(topic)
    if queue is None:
        return []
    return [
        {"lane": index, "openDeliveries": counts[source][0], "sentDeliveries": counts[source][1]}
        for index, counts in enumerate(telling.open_by_source(queue))
        if source in counts
    ]
