"""The consumer group of a queue topic, from outside: who is in it, where it stands, and commits without a member.

Spark reads by offsets and is no member of any group. A broker takes offsets from such a one as long as the group has no
member: so whoever is in it has to be known first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.broker import Cluster

QUEUE = "-QUEUE"


class Member(NamedTuple):
    """A consumer that is in the group now."""

    client: str
    host: str
    partitions: list[int]
    """Of the queue topic."""

    def __str__(self) -> str:
        lanes = ", ".join(map(str, self.partitions))
        return f"{self.client} on {self.host}" + (f" (lanes {lanes})" if lanes else "")


class Stand(NamedTuple):
    """Where a lane stands."""

    offset: int
    """The first delivery that is open, or the end."""
    metadata: str
    """What was committed with this very offset."""


class MembersError(PipelineError):
    """The group has members, so that nobody else may commit for it."""


class QueueGroup:
    """The group `name` and its queue topic. Raises py4j's `Py4JError` where nothing else is said."""

    def __init__(self, cluster: Cluster, topic: str, name: str, lanes: int) -> None:
        self.topic = topic
        self.name = name
        self.lanes = lanes
        self._cluster = cluster
        self._jvm = cluster.jvm
        self._admin = cluster.admin
        partition = self._jvm.org.apache.kafka.common.TopicPartition
        self._places = [partition(topic, lane) for lane in range(lanes)]

    def width(self) -> int:
        """How many lanes there are by now."""
        there = self._cluster.described([self.topic])
        return there[self.topic].partitions if self.topic in there else 0

    def widened(self) -> QueueGroup:
        """With the lanes that there are by now."""
        return QueueGroup(self._cluster, self.topic, self.name, self.width())

    def members(self) -> list[Member]:
        """Who is in it now; nobody when there is no such group."""
        names = self._list([self.name])
        try:
            description = self._admin.describeConsumerGroups(names).all().get()[self.name]
        except Exception as error:
            if "GroupIdNotFoundException" in str(error):
                return []
            raise
        return [
            Member(
                str(each.clientId()),
                str(each.host()).lstrip("/"),
                sorted(
                    place.partition()
                    for place in each.assignment().topicPartitions()
                    if place.topic() == self.topic
                ),
            )
            for each in description.members()
        ]

    def stands(self) -> list[Stand]:
        """Where each lane stands. Raises `PipelineError` when the topic is not this group's queue topic."""
        spec = self._jvm.org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec()
        wanted = self._jvm.java.util.HashMap()
        wanted.put(self.name, spec.topicPartitions(self._list(self._places)))
        found = self._admin.listConsumerGroupOffsets(wanted).partitionsToOffsetAndMetadata(self.name).get()
        stands = []
        for place in self._places:
            each = found.get(place)
            if each is None:
                raise PipelineError(f"{self.topic} is not the queue topic of {self.name}.")
            stands.append(Stand(int(each.offset()), str(each.metadata() or "")))
        return stands

    def ends(self) -> list[int]:
        """Where each lane ends. To ask for it has a lane given what there is, as far as its window has room."""
        wanted = self._jvm.java.util.HashMap()
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        for place in self._places:
            wanted.put(place, latest)
        found = self._admin.listOffsets(wanted).all().get()
        return [int(found.get(place).offset()) for place in self._places]

    def commit(self, offsets: Mapping[int, int], metadata: str) -> None:
        """Acknowledge all that was delivered below these offsets, by lane.

        Raises `MembersError` when somebody has joined the group; `PipelineError` when the gateway refuses.
        """
        wanted = self._jvm.java.util.HashMap()
        said = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
        for lane, offset in offsets.items():
            wanted.put(self._places[lane], said(offset, metadata))
        try:
            self._admin.alterConsumerGroupOffsets(self.name, wanted).all().get()
        except Exception as error:
            text = str(error)
            if "UnknownMemberIdException" in text:
                raise MembersError(in_the_way(self.name, self.members())) from None
            if "InvalidRequestException" in text:
                raise PipelineError(
                    f"the gateway refuses to acknowledge up to {dict(offsets)} on {self.topic}: its log says why."
                ) from None
            raise

    def _list(self, items: Iterable[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for each in items:
            found.add(each)
        return found


def in_the_way(group: str, members: Iterable[Member]) -> str:
    """Why a group cannot be drained."""
    names = "; ".join(map(str, members)) or "a consumer that has just left"
    return (
        f"group {group} has members: {names}. A job that is none acknowledges nothing while there are any, and both "
        "would be given the same messages. Stop them, or have them drain it alone."
    )


def splits(topic: str) -> list[tuple[str, str]]:
    """(base topic, subscription) that the name of a queue topic may be made of, the longest base first."""
    if not topic.endswith(QUEUE):
        return []
    parts = topic[: -len(QUEUE)].split("-")
    return [
        ("-".join(parts[:at]), "-".join(parts[at:]))
        for at in range(len(parts) - 1, 0, -1)
        if "-".join(parts[:at]) and "-".join(parts[at:])
    ]


def queue_group(cluster: Cluster, topic: str, subscription: str | None) -> tuple[QueueGroup, str]:
    """The group of a queue topic, and its base topic. Raises `PipelineError` in plain words."""
    there = cluster.described([topic])
    if not splits(topic):
        if topic in there and there[topic].internal:
            raise PipelineError(
                f"{topic} is a queue topic over a pattern of topics: drain reads queue topics of one topic. "
                "Make one for each: magnetar-admin topics create-subscription TOPIC -s SUBSCRIPTION --lanes N."
            )
        raise PipelineError(
            f"{topic} is not called like a queue topic, <topic>-<subscription>{QUEUE}. "
            "magnetar-admin topics create-subscription TOPIC -s SUBSCRIPTION --lanes N makes one; "
            "to keep a plain topic use archive."
        )
    if topic not in there:
        raise PipelineError(
            f"queue topic {topic} does not exist: magnetar-admin topics create-subscription "
            f"{splits(topic)[0][0]} -s {splits(topic)[0][1]} --lanes 4 makes it."
        )
    if not there[topic].internal:
        raise PipelineError(f"{topic} is a plain topic of that name, and no queue topic: use archive.")
    bases = cluster.described({base for base, _ in splits(topic)})
    found = []
    for base, group in splits(topic):
        if base in bases and subscription in (None, group):
            candidate = QueueGroup(cluster, topic, group, there[topic].partitions)
            try:
                candidate.stands()
            except PipelineError:
                continue
            found.append((candidate, base))
    if len(found) > 1:
        names = " or ".join(group.name for group, _ in found)
        raise PipelineError(f"{topic} may be of subscription {names}: say which with --subscription.")
    if not found:
        of = f"subscription {subscription}" if subscription else "any subscription"
        raise PipelineError(f"{topic} is not the queue topic of {of}.")
    return found[0]
