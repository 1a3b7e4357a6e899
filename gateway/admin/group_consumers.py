"""The members of a consumer group as Pulsar's stats show the consumers of a Failover or Exclusive subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.coordinators import subscription
from semantics.policies import TYPE_NAMES

if TYPE_CHECKING:
    from gateway.broker.broker import Broker


class Consumers(NamedTuple):
    """Those of a group that subscribe to a topic. `active`: by partition, the name of who has it."""

    each: list[dict[str, Any]]
    active: dict[int, str]


NOBODY = Consumers([], {})


def type_of(broker: Broker, group: str) -> str:
    """Failover, or Exclusive if the group's configs say so."""
    try:
        exclusive = broker.group_configs.get(group).exclusive
    except KafkaError:
        exclusive = False
    return TYPE_NAMES["exclusive" if exclusive else "failover"]


def of_topic(broker: Broker, group: str, topic: str) -> Consumers:
    """The consumers of a topic in a consumer group of either protocol, which is loaded, in the order of their names.
    Raises KafkaError.
    """
    if broker.consumer_groups.claims(group):
        there, assignment = _new(broker, group, topic), broker.consumer_groups.assignment(group)
    else:
        there, assignment = _classic(broker, group, topic), broker.groups.assignment(group)
    active: dict[int, str] = {}
    for consumer in there:
        its = assignment.get(consumer["metadata"]["memberId"], {})
        active.update(dict.fromkeys(its.get(topic, ()), consumer["consumerName"]))
    there.sort(key=lambda one: (one["consumerName"], one["metadata"]["memberId"]))
    return Consumers(there, active)


def _classic(broker: Broker, group: str, topic: str) -> list[dict[str, Any]]:
    core = broker.groups.get(group)
    if core is None or core.protocol_type != subscription.CONSUMER:
        return []
    inward = core.wording.inward
    return [
        _consumer(broker, member.member_id, member.instance_id, member.client_id, member.client_host)
        for member in core.roster
        if topic in map(inward, subscription.topics(member.metadata(core.protocol_name)) or ())
    ]


def _new(broker: Broker, group: str, topic: str) -> list[dict[str, Any]]:
    core = broker.consumer_groups.get(group)
    if core is None:
        return []
    return [
        _consumer(broker, member.member_id, member.instance_id, member.client_id, member.client_host)
        for member in core.members.values()
        if topic in member.names or topic in core.matches.get(member.pattern, ())
    ]


def _consumer(broker: Broker, member: str, instance: str | None, client: str, host: str) -> dict[str, Any]:
    metadata = {"memberId": member, "clientId": client}
    if instance is not None:
        metadata["instanceId"] = instance
    # the name by which Failover sorts consumers
    return {
        "consumerName": instance or client,
        "address": host,
        "clientVersion": broker.client_software.of(host, client),
        "metadata": metadata,
    }
