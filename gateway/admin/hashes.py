"""A key's hashes: the slot that Key_Shared orders it by, and the partitions that producers send it to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.admin import lane_stats
from gateway.admin.exchange import RefusedError, Reply, json
from gateway.admin.places import cursor_of, indexes_of, named_subscription
from gateway.admin.topics import found_by
from gateway.broker.queues.lane import name_of as lane_name
from semantics.names import dotted
from semantics.subscriptions import hashing

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.catalog import Topic

Hashes = dict[str, Any]


async def of_key(context: Context, call: Call) -> Reply:
    """The hashes and the slot."""
    return json(_hashes(call))


async def on_topic(context: Context, call: Call) -> Reply:
    """The same, and which partition of a topic the key goes to, by the three ways in which producers choose one."""
    answer = _hashes(call)
    found = await found_by(context.broker, call)
    return json(answer | _partitions(answer["key"], found.topic))


async def on_subscription(context: Context, call: Call) -> Reply:
    """The same, and who owns the slot in a Key_Shared subscription, and who holds it."""
    broker, answer = context.broker, _hashes(call)
    at = await named_subscription(broker, call)
    answer |= _partitions(answer["key"], at.found.topic)
    slot: int = answer["slot"]
    subscription = broker.subscriptions.by_id(at.name, at.found.topic.topic_id) if at.shared else None
    if subscription is None or subscription.selector is None:
        raise RefusedError(412, f"{at.name} is not a Key_Shared subscription: no slot is anybody's.")
    answer["owner"] = subscription.selector.owner(slot)
    holders = {
        str(index): cursor_of(broker, at, index).ready().holder_of(slot) for index in indexes_of(at.found)
    }
    # by partition, where somebody has
    answer["holders"] = {index: holder for index, holder in holders.items() if holder is not None}
    queue_topic = broker.queues.serving(at.found.topic, at.name)
    if queue_topic is not None:
        lanes = lane_stats.of_queue(broker, queue_topic)["lanes"]
        names = {answer["owner"], *answer["holders"].values()}
        answer["lanes"] = [lane for lane in lanes if lane_name(lane["lane"]) in names]
    return json(answer)


def _hashes(call: Call) -> Hashes:
    key = call.query.get("key")
    if key is None:
        raise RefusedError(400, "The parameter key is missing.")
    raw = key.encode("utf-8", "surrogatepass")
    return {
        "key": key,
        "murmur2": hashing.murmur2(raw),
        "murmur3": hashing.murmur3_32(raw),
        "javaStringHash": hashing.java_string_hash(key),
        "slot": hashing.slot_of(raw, None, 0),
    }


def _partitions(key: str, topic: Topic) -> Hashes:
    """By Kafka's producers, and by Pulsar's with each of their two hashing schemes. Refuses a queue topic."""
    if topic.queue is not None:
        raise RefusedError(412, f"{dotted(topic.name)} is a queue topic: name the topic that it reads.")
    raw, count = key.encode("utf-8", "surrogatepass"), len(topic.partitions)
    return {
        "partitions": count,
        "partitionByMurmur2": hashing.partition_by_murmur2(raw, count),
        "partitionByMurmur3": hashing.partition_by_murmur3(raw, count),
        "partitionByJavaStringHash": hashing.partition_by_java_string_hash(key, count),
    }
