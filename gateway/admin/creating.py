"""Topics that are made, and what one would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import DONE, RefusedError, previewed
from gateway.admin.kept_properties import read
from gateway.admin.policies import in_force
from gateway.admin.refusals import check_called
from gateway.admin.topics import count_of, named
from gateway.config.topic_table import PERSISTENCE
from gateway.not_served import sentence
from semantics.names import NON_PERSISTENT, canonical

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call, Reply
    from gateway.broker.broker import Broker
    from semantics.names import TopicName

_SHADOW = "PULSAR.SHADOW_SOURCE"
"""The property by which Pulsar's client makes a shadow topic."""


async def create(context: Context, call: Call) -> Reply:
    """A plain topic: one partition, no suffix. The body holds its properties. With `dryRun` none is made: it is refused
    in the same way, or says how many `partitions` it would have, and which `policies` would be in force.
    """
    broker = context.broker
    name = _new(broker, call)
    kept = read(call.json())
    if _SHADOW in kept:
        raise RefusedError(501, sentence("topics", "create-shadow-topic") or "")
    if call.flag("dryRun"):
        return _preview(context, name, 0)
    await broker.create_topic(canonical(name), 1, _configs(name), partitioned=False, properties=kept)
    return DONE


async def create_partitioned(context: Context, call: Call) -> Reply:
    """The body is a number, or an object with `partitions` and `properties`. `dryRun` as for a plain one."""
    broker = context.broker
    name = _new(broker, call)
    count, kept = count_of(call), _said_beside(call)
    if call.flag("dryRun"):
        return _preview(context, name, count)
    await broker.create_topic(canonical(name), count, _configs(name), partitioned=True, properties=kept)
    return DONE


def _preview(context: Context, name: TopicName, count: int) -> Reply:
    """What a topic would be; `count` 0 is a plain one. Refuses what its creation would."""
    topic = context.broker.topics.would_be(canonical(name), count or 1, _configs(name), partitioned=count > 0)
    return previewed({"partitions": count, "policies": in_force(context, topic)})


def _new(broker: Broker, call: Call) -> TopicName:
    """The name of a topic that is to be made."""
    name = named(broker, call)
    if name.partition >= 0:
        raise RefusedError(
            412,
            f"{name} is a partition's name. Choose one that does not end in -partition-{name.partition}.",
        )
    check_called(call, broker, canonical(name))
    return name


def _configs(name: TopicName) -> dict[str, str]:
    """What the domain of a name says of a new topic."""
    return {} if name.persistent else {PERSISTENCE: NON_PERSISTENT}


def _said_beside(call: Call) -> dict[str, str]:
    """The properties beside the number of partitions."""
    value = call.json()
    return read(value.get("properties")) if isinstance(value, dict) else {}
