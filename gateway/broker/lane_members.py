"""The members of a group of consumers, of whichever kind it is: whoever serves them lanes asks here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.loading import until_loaded

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.committing import Committing
    from gateway.broker.consumer_groups import ConsumerGroups
    from gateway.broker.group_offsets import OffsetGroups
    from gateway.broker.groups import Groups
    from gateway.coordinators.offsets import Committed


class MemberClient(NamedTuple):
    """A member, and whose client it is."""

    member_id: str
    client_id: str
    client_host: str


class LaneMembers:
    """See `queues.lane_groups.LaneGroups`. A group that there is not is a classic one without members; where it cannot
    be said of which kind one is, the error is what classic groups say of it.
    """

    def __init__(self, committing: Committing, classic: Groups, consumer: ConsumerGroups) -> None:
        self._committing = committing
        self._classic = classic
        self._consumer = consumer

    def _new_protocol(self, group_id: str) -> bool:
        return self._committing.of(group_id) is self._consumer

    def assignment(self, group_id: str) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """Member -> topic -> the partitions that it has. Raises KafkaError; Loading."""
        if self._new_protocol(group_id):
            return self._consumer.assignment(group_id)
        return self._classic.assignment(group_id)

    def owners(self, group_id: str, topic: Topic) -> Mapping[str, Sequence[int]]:
        """Member -> the partitions of one topic that it may have in work. Raises KafkaError; Loading."""
        if self._new_protocol(group_id):
            return self._consumer.owners(group_id, topic)
        return self._classic.owners(group_id, topic)

    def stable(self, group_id: str) -> bool:
        """Whether its members have what they have shared out last. Raises KafkaError; Loading."""
        return not self._new_protocol(group_id) and self._classic.stable(group_id)

    def rebalancing(self, group_id: str) -> bool:
        """Whether its members are about to share partitions out anew. Raises KafkaError; Loading."""
        return not self._new_protocol(group_id) and self._classic.rebalancing(group_id)

    def committed(self, group_id: str, topic: Topic, partitions: Sequence[int]) -> list[Committed | None]:
        """See `Groups.committed`: rows of offsets are the same for all kinds. Raises StoreError."""
        return self._classic.committed(group_id, topic, partitions)

    def rebalance(self, group_id: str, reason: str) -> None:
        """Have its members share out partitions anew. Consumer groups look at the catalog themselves. Raises
        KafkaError; Loading.
        """
        if not self._new_protocol(group_id):
            self._classic.rebalance(group_id, reason)

    def expel(self, group_id: str, member_id: str, reason: str) -> None:
        """Take a member out as if it were lost. Raises KafkaError; Loading."""
        its: OffsetGroups[Any] = self._consumer if self._new_protocol(group_id) else self._classic
        its.expel(group_id, member_id, reason)

    async def give_way(self, group_id: str) -> None:
        """Delete a group that has no members and has committed nothing, so that its id may be that of another kind."""
        its: OffsetGroups[Any] = await until_loaded(lambda: self._committing.of(group_id))
        await its.give_way(group_id, self._classic.all_committed)

    # -- who they are --------------------------------------------------------------------------------------------------

    def members(self, group_id: str) -> int:
        """How many there are. Raises KafkaError; Loading."""
        if self._new_protocol(group_id):
            return self._consumer.members(group_id)
        return self._classic.members(group_id)

    def has_member(self, group_id: str, member_id: str, instance_id: str | None) -> bool:
        """Whether it has this member, or a static one of this name. Raises KafkaError; Loading."""
        if self._new_protocol(group_id):
            return self._consumer.has_member(group_id, member_id, instance_id)
        return self._classic.has_member(group_id, member_id, instance_id)

    def clients(self, group_id: str) -> list[MemberClient]:
        """All of them. Raises KafkaError; Loading."""
        group = (self._consumer if self._new_protocol(group_id) else self._classic).get(group_id)
        its = group.describe() if group is not None else []
        return [MemberClient(one.member_id, one.client_id, one.client_host) for one in its]
