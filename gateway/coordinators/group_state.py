"""What a classic group is at this moment, and the questions that it answers without changing.

The fields, how they come from a row and go into one, the fences that keep strangers out. What happens to them
is told in `classic_group`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from gateway.coordinators import group_rows, subscription
from gateway.coordinators.classic_events import Described
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import ClassicRow, Kind, MemberRow, State
from gateway.coordinators.roster import Member, Roster
from gateway.coordinators.wording import HOME, Wording
from store.api import Write


class Limits(NamedTuple):
    """What a group obeys: group.initial.rebalance.delay.ms and group.max.size, or what its own configs say."""

    initial_delay: int = 300
    max_size: int = 2**31 - 1
    # by name, Pulsar's priorities of the members of a group of type failover
    priorities: Mapping[str, int] = {}


class GroupState:
    """One group as it stands. Times are ms: `now` monotonic (sessions), `wall` since 1970 (rows)."""

    __slots__ = (
        "_initial_end",
        "_join_due",
        "_sync_due",
        "_unsynced",
        "generation",
        "group_id",
        "leader",
        "limits",
        "priorities",
        "protocol_name",
        "protocol_type",
        "roster",
        "since",
        "state",
        "stored",
        "subscribed",
        "wording",
    )

    def __init__(self, group_id: str, limits: Limits, wall: int, wording: Wording = HOME) -> None:
        """A group that nobody has heard of yet: Empty, generation 0, no row. `wording`: how its members name
        topics.
        """
        self.wording = wording
        self.group_id = group_id
        self.limits = limits
        # that the assignment was made by
        self.priorities: Mapping[str, int] = {}
        self.state = State.EMPTY
        # when the state was entered, ms since 1970
        self.since = wall
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.roster = Roster()
        # Topics of all members of this generation; None when the protocol does not tell.
        self.subscribed: frozenset[str] | None = None
        # whether a row exists, or its write was handed out
        self.stored = False
        # PreparingRebalance ends here at the latest (monotonic)
        self._join_due: int | None = None
        # Set during the first rebalance of an empty group: until then newcomers may extend the delay.
        self._initial_end: int | None = None
        # Members of this generation that have not sent SyncGroup, and when they are given up.
        self._unsynced: set[str] = set()
        self._sync_due: int | None = None

    @classmethod
    def load(cls, group_id: str, row: ClassicRow, limits: Limits, now: int, wording: Wording = HOME) -> Self:
        """The group as its row says, every member with a fresh session."""
        group = cls(group_id, limits, row.since, wording)
        group.state = State(row.state)
        group.generation = row.generation
        group.protocol_type = row.protocol_type
        group.protocol_name = row.protocol_name
        group.leader = row.leader
        group.priorities = row.priorities
        if group.state is State.STABLE and group.priorities != limits.priorities:
            # they were told others, and nobody had time to call the members
            group.state = State.PREPARING_REBALANCE
        group.stored = True
        for stored in row.members:
            group.roster.add(
                Member(
                    stored.member_id,
                    stored.instance_id,
                    stored.client_id,
                    stored.client_host,
                    stored.session_timeout,
                    stored.rebalance_timeout,
                    tuple(stored.protocols),
                    stored.assignment,
                    now + stored.session_timeout,
                )
            )
        group.subscribed = group._subscribed_topics()
        if group.state is State.COMPLETING_REBALANCE:
            group._expect_syncs(now)
        elif group.state is State.PREPARING_REBALANCE:
            group._join_due = now + max(group.roster.rebalance_timeout(), 1)
        return group

    # -- what others ask -------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """The next instant (monotonic ms) at which a Tick changes something; heartbeats only move it away."""
        due = [*self.roster.pending.values()]
        due.extend(at for at in map(Member.due, self.roster) if at is not None)
        if self._join_due is not None:
            due.append(self._join_due)
        if self._sync_due is not None:
            due.append(self._sync_due)
        return min(due, default=None)

    @property
    def idle(self) -> bool:
        """Nothing is in memory that the row does not say."""
        return self.state in (State.EMPTY, State.DEAD) and not self.roster.pending

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now: int) -> Code:
        """Whether this member may commit offsets; a commit is also a sign of life.

        Without a generation (-1) and without a member id it comes from an administrator or a consumer that
        manages its partitions itself: allowed while the group has no members.
        """
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is State.EMPTY:
            return Code.NONE
        if generation < 0 and not member_id and instance_id is None:
            return Code.UNKNOWN_MEMBER_ID
        found = self._fence(member_id, instance_id, generation)
        if not isinstance(found, Member):
            return found
        if self.state is State.COMPLETING_REBALANCE:
            # It knows the generation, so it has been told to sync first.
            return Code.REBALANCE_IN_PROGRESS
        found.deadline = now + found.session_timeout
        return Code.NONE

    def check_offset_delete(self) -> Code:
        """Whether OffsetDelete may go on to look at topics (KIP-496)."""
        if self.state is State.DEAD:
            return Code.GROUP_ID_NOT_FOUND
        if self.state is not State.EMPTY and self.protocol_type != subscription.CONSUMER:
            return Code.NON_EMPTY_GROUP
        return Code.NONE

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribed to the topic. True for consumers whose subscription cannot be read."""
        if self.subscribed is None:
            return self.protocol_type == subscription.CONSUMER
        return topic in self.subscribed

    def describe(self) -> list[Described]:
        """The members as DescribeGroups shows them."""
        protocol = self.protocol_name if self.state is State.STABLE else None
        return [
            Described(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol),
                member.assignment,
            )
            for member in self.roster
        ]

    def row(self) -> ClassicRow:
        """What the store should say of this group."""
        members = [
            MemberRow(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout,
                member.rebalance_timeout,
                list(member.protocols),
                member.assignment,
            )
            for member in self.roster
        ]
        return ClassicRow(
            group_rows.VERSION,
            Kind.CLASSIC,
            self.state,
            self.since,
            self.protocol_type,
            self.generation,
            self.protocol_name,
            self.leader,
            members,
            dict(self.priorities),
        )

    def handed_over(self) -> ClassicRow:
        """The same for a group of another type that goes on with the members. Without those whose first JoinGroup has
        no answer: they have nothing, may not know their ids, and join again.
        """
        row = self.row()
        row.members = [member for member in row.members if not self.roster.members[member.member_id].is_new]
        return row

    def store_simple(self) -> list[Write]:
        """The row that a first commit to a group which nobody joined needs; nothing if there is one."""
        if self.stored:
            return []
        self.stored = True
        return [group_rows.put(self.group_id, self.row())]

    def _fence(self, member_id: str, instance_id: str | None, generation: int | None = None) -> Member | Code:
        """The member that a request comes from, or the error that keeps it out."""
        if instance_id is not None:
            holder = self.roster.static.get(instance_id)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Code.FENCED_INSTANCE_ID
        member = self.roster.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if generation is not None and generation != self.generation:
            return Code.ILLEGAL_GENERATION
        return member

    def _subscribed_topics(self) -> frozenset[str] | None:
        if self.protocol_type != subscription.CONSUMER:
            return None
        every: set[str] = set()
        for member in self.roster:
            named = subscription.topics(member.metadata(self.protocol_name))
            if named is None:
                return None
            every |= named
        return frozenset(map(self.wording.inward, every))

    def _expect_syncs(self, now: int) -> None:
        self._unsynced = set(self.roster.members)
        self._sync_due = now + max(self.roster.rebalance_timeout(), 1)
