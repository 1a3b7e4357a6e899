"""A classic group of type Failover: its leader shares partitions out, and the coordinator puts Pulsar's choice in the
place of that, in the bytes in which consumers are told.

Members of a cooperative protocol go on with what they have while they join. A partition that one of them still has and
is to lose is nobody's in this generation: it gives that up and joins again, and then it is free.

What an assignor tells its own kind beside partitions (Kafka Streams' tasks) fits no other assignment: a group with such
keeps that of its leader. librdkafka sends each member back what that has said of itself, which is nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.coordinators import consumer_metadata, consumer_rows, subscription
from gateway.coordinators.assignors import Subscriber, by_failover
from gateway.coordinators.consumer_events import Partition
from gateway.coordinators.group_state import GroupState


class TopicOf(NamedTuple):
    """What there must be known of a topic. `plain`: Pulsar's full name of one without partitions."""

    partitions: int
    plain: str | None


def assignments(
    group: GroupState,
    made: Mapping[str, bytes],
    topics: Mapping[str, TopicOf],
    priorities: Mapping[str, int],
) -> Mapping[str, bytes]:
    """What members are told, by member id, in place of what the leader made. `topics`: those that they subscribe to and
    that there are. What is not Kafka's consumers' stays as it was made.
    """
    if group.protocol_type != subscription.CONSUMER:
        return made
    said: dict[str, consumer_metadata.Said] = {}
    # most members say the same
    read: dict[bytes, consumer_metadata.Said | None] = {}
    for member in group.roster:
        metadata = member.metadata(group.protocol_name)
        if metadata not in read:
            read[metadata] = consumer_metadata.read(metadata)
        its = read[metadata]
        beside = consumer_metadata.user_data(made.get(member.member_id, b""))
        if its is None or beside is None or (beside and beside != its.user_data):
            return made
        said[member.member_id] = its
    inward = group.wording.inward
    subscribers: dict[str, Subscriber] = {}
    had: dict[Partition, set[str]] = {}
    for number, member in enumerate(group.roster):
        its = said[member.member_id]
        name = member.instance_id or member.client_id
        subscribers[member.member_id] = Subscriber(
            member.instance_id,
            frozenset([_key(name) for name in map(inward, its.topics) if name in topics]),
            frozenset(),
            member.client_id,
            its.rack,
            priorities.get(name),
            number,
        )
        for topic, index in its.owned:
            had.setdefault((_key(inward(topic)), index), set()).add(member.member_id)
    targets = by_failover(
        subscribers,
        {_key(name): topics[name].partitions for name in sorted(topics)},
        {_key(name): its.plain for name, its in topics.items() if its.plain is not None},
    )
    return {
        member: consumer_metadata.assignment(
            said[member].version,
            [
                (group.wording.outward(topic.decode()), indexes)
                for topic, indexes in consumer_rows.by_topic(
                    place for place in target if had.get(place, {member}) == {member}
                )
            ],
        )
        for member, target in targets.items()
    }


def _key(name: str) -> bytes:
    """What stands for a topic's id: a generation of classic consumers knows names."""
    return name.encode()
