"""One member of a consumer group of KIP-848: what it subscribes to, what it should have, what it has. It may speak the
classic protocol: see `mixed_group`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from gateway.coordinators import consumer_rows
from gateway.coordinators.classic_events import Protocols
from gateway.coordinators.consumer_events import DescribedMember, Heartbeat, Partition
from gateway.coordinators.consumer_rows import ConsumerMemberRow
from gateway.coordinators.reconciling import Current, Epochs, MemberState

LEFT = -2
"""The epoch of a static member that has said that it will come back."""


class Classic(NamedTuple):
    """What a member of the classic protocol has said beside all else. `session_timeout` in ms."""

    session_timeout: int
    protocols: Protocols


class Member:
    """What the group knows of it. Nothing happens here; `consumer_group` says what does."""

    __slots__ = (
        "assignor",
        "classic",
        "client_host",
        "client_id",
        "current",
        "instance_id",
        "joined",
        "member_id",
        "names",
        "pattern",
        "previous_epoch",
        "rack",
        "rebalance_timeout",
        "target",
    )

    def __init__(self, member_id: str, instance_id: str | None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack: str | None = None
        self.client_id = ""
        self.client_host = ""
        # for how long it may keep what it must give up, ms
        self.rebalance_timeout = 0
        # what it subscribes to, sorted
        self.names: tuple[str, ...] = ()
        # and the regular expression beside that; "" is none
        self.pattern = ""
        # the assignor that it asks for
        self.assignor: str | None = None
        # None of one that speaks the new protocol
        self.classic: Classic | None = None
        self.current = Current(0, MemberState.STABLE, {}, {})
        # the epoch before the one it has, from which its heartbeat may still come
        self.previous_epoch = 0
        self.target: frozenset[Partition] = frozenset()
        # who has the lower number has joined before
        self.joined = 0

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def assigned(self) -> Epochs:
        return self.current.assigned

    @property
    def left(self) -> bool:
        """Whether it is a static member that is away and means to come back."""
        return self.current.epoch == LEFT

    def settled(self, assignment_epoch: int) -> bool:
        """Whether it has what it should have."""
        return self.current.epoch == assignment_epoch and self.current.state is MemberState.STABLE

    def describe_as(self, event: Heartbeat) -> bool:
        """It says who it is. Whether that is new."""
        before = self.rack, self.client_id, self.client_host, self.rebalance_timeout
        if event.rack is not None:
            self.rack = event.rack
        self.client_id, self.client_host = event.client_id, event.client_host
        if event.rebalance_timeout >= 0:
            self.rebalance_timeout = event.rebalance_timeout
        return before != (self.rack, self.client_id, self.client_host, self.rebalance_timeout)

    def succeed(self, other: Self) -> None:
        """It takes the place of another one of the same instance, which is away, with all that it had. What that was to
        give up it has given up.
        """
        self.names, self.pattern, self.assignor = other.names, other.pattern, other.assignor
        self.target = other.target
        self.rack, self.rebalance_timeout = other.rack, other.rebalance_timeout
        self.joined = other.joined
        self.current = Current(0, MemberState.STABLE, other.current.assigned, {})
        self.previous_epoch = 0

    def may_commit(self, epoch: int, places: frozenset[Partition]) -> bool:
        """Whether it may commit offsets of these partitions, having been told this epoch: its own, or an older one in
        which it was given them (KIP-1251).
        """
        if epoch == self.current.epoch:
            return True
        if epoch > self.current.epoch:
            return False
        never = epoch + 1
        assigned, revoking = self.current.assigned, self.current.revoking
        return all(assigned.get(place, revoking.get(place, never)) <= epoch for place in places)

    def describe(self) -> DescribedMember:
        return DescribedMember(
            self.member_id,
            self.instance_id,
            self.rack,
            self.epoch,
            self.client_id,
            self.client_host,
            self.names,
            self.pattern,
            frozenset(self.current.assigned),
            self.target,
            self.classic is not None,
        )

    # -- rows --------------------------------------------------------------------------------------------------------

    def row(self) -> ConsumerMemberRow:
        """What the store should say of it."""
        return ConsumerMemberRow(
            consumer_rows.VERSION,
            self.member_id,
            self.instance_id,
            self.rack,
            self.client_id,
            self.client_host,
            self.rebalance_timeout,
            list(self.names),
            self.pattern,
            self.assignor,
            self.current.epoch,
            self.previous_epoch,
            self.current.state,
            consumer_rows.folded(self.current.assigned),
            consumer_rows.folded(self.current.revoking),
            consumer_rows.by_topic(self.target),
            self.classic.session_timeout if self.classic is not None else 0,
            list(self.classic.protocols) if self.classic is not None else None,
            self.joined,
        )

    @classmethod
    def load(cls, row: ConsumerMemberRow) -> Self:
        """The member as its row says. Raises ValueError for a state that there is not."""
        member = cls(row.member_id, row.instance_id)
        member.rack, member.client_id, member.client_host = row.rack, row.client_id, row.client_host
        member.rebalance_timeout = row.rebalance_timeout
        member.names, member.pattern, member.assignor = tuple(row.names), row.pattern, row.assignor
        member.current = Current(
            row.epoch,
            MemberState(row.state),
            consumer_rows.unfolded(row.assigned),
            consumer_rows.unfolded(row.revoking),
        )
        member.previous_epoch = row.previous_epoch
        member.target = consumer_rows.places(row.target)
        member.joined = row.joined
        if row.protocols is not None:
            member.classic = Classic(row.session_timeout, tuple(row.protocols))
        return member
