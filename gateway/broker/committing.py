"""Which kind of groups takes the offsets that are committed in a group's name: the one that has the group, and classic
groups where there is none yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gateway.broker.errors import KafkaError
from gateway.broker.loading import after
from gateway.broker.machines import Caller
from gateway.wire.errors import Error
from store.api import Write
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.broker.consumer_groups import ConsumerGroups
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.group_offsets import Along, OffsetGroups
    from gateway.broker.groups import Groups


class Committing:
    """Offsets of all groups. What they are told is in `group_offsets.OffsetGroups`."""

    def __init__(self, kinds: GroupKinds, classic: Groups, consumer: ConsumerGroups) -> None:
        self._kinds = kinds
        self._classic = classic
        self._consumer = consumer

    def of(self, group_id: str) -> OffsetGroups[Any]:
        """The kind that has a group which is loaded. Raises Loading."""
        if self._classic.claims(group_id):
            return self._classic
        try:
            its = self._kinds.owner(group_id) is self._consumer
        except KafkaError:
            # whoever is asked meets the same, and says it in its way
            its = False
        return self._consumer if its else self._classic

    def commit_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        rows: list[Write],
        caller: Caller,
        along: Along | None = None,
        *,
        old: bool = False,
    ) -> Any:
        return after(
            self.loaded(group_id),
            lambda: self.of(group_id).commit_offsets(
                group_id, member_id, instance_id, generation, rows, caller, along, old=old
            ),
        )

    def stage_offsets(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        stage: Callable[[], tuple[int, list[Write]]],
        caller: Caller,
        rows: Sequence[Write] = (),
    ) -> Any:
        return after(
            self.loaded(group_id),
            lambda: self.of(group_id).stage_offsets(
                group_id, member_id, instance_id, generation, stage, caller, rows
            ),
        )

    def take_offsets(self, group_id: str, puts: Sequence[Write]) -> None:
        self.of(group_id).take_offsets(group_id, puts)

    def members(self, group_id: str) -> int:
        """How many members a consumer group of either protocol has; 0 for what is none. Raises KafkaError; Loading."""
        try:
            return self.of(group_id).members(group_id)
        except KafkaError as error:
            if error.code != Error.INCONSISTENT_GROUP_PROTOCOL:
                raise
            # a share group
            return 0

    def check(self, group_id: str) -> None:
        """Whether a group can be read, or there is none. Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL if it is of a
        kind that commits no offsets.
        """
        self.of(group_id).get(group_id)

    def in_flight(self, group_id: str) -> Pending[None]:
        """Until all commits of the group that are under way have landed, well or not; None if none is."""
        if self._consumer.claims(group_id):
            return self._consumer.in_flight(group_id)
        return self._classic.in_flight(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> int:
        """The error code for a member that asks for the committed offsets of its group, which is loaded; 0 if it may.
        Only consumer groups of the new protocol look at that.
        """
        if self.of(group_id) is not self._consumer:
            return 0
        return self._consumer.check_fetch(group_id, member_id, epoch)

    def loaded(self, group_id: str) -> Pending[None]:
        """Until the group is in memory, or what there is of it can be read."""
        in_memory = self._classic.claims(group_id) or self._consumer.claims(group_id)
        return None if in_memory else self._kinds.load((group_id,))
