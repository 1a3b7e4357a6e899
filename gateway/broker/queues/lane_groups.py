"""What queue topics ask of consumer groups, whose members are the consumers of lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.coordinators.offsets import Committed

Assignment = Mapping[str, Mapping[str, Sequence[int]]]
"""Member -> topic -> its partitions."""


class LaneGroups(Protocol):
    """Those whose members are the consumers. All raise KafkaError while a group is not loaded."""

    def assignment(self, group_id: str, /) -> Assignment:
        """Who has which partitions, once they are shared out."""
        ...

    def owners(self, group_id: str, topic: Topic, /) -> Mapping[str, Sequence[int]]:
        """Member -> the partitions of one topic that it may have in work."""
        ...

    def stable(self, group_id: str, /) -> bool:
        """Whether its members have what they have shared out last, and share nothing out now. They may not know all
        there is. False where the gateway shares out.
        """
        ...

    def rebalancing(self, group_id: str, /) -> bool:
        """Whether its members are about to share partitions out anew, so that nobody can say who has what."""
        ...

    def committed(self, group_id: str, topic: Topic, partitions: Sequence[int], /) -> list[Committed | None]:
        """What one that is loaded has committed in a topic, None where it has not. Raises StoreError."""
        ...

    def rebalance(self, group_id: str, reason: str, /) -> None:
        """Have its members share out partitions anew. The gateway does so by itself where it shares out."""
        ...

    def expel(self, group_id: str, member_id: str, reason: str, /) -> None:
        """Take a member out as if it were lost."""
        ...

    async def give_way(self, group_id: str, /) -> None:
        """Delete one that has no members and has committed nothing."""
        ...
