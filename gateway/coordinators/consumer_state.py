"""What a consumer group of KIP-848 is at this moment, and the questions that it answers without changing.

The fields, how they come from rows and go into them, the fences that keep strangers out. What happens to them is told
in `consumer_group`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import NamedTuple, Self

from gateway.coordinators import group_rows
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Beat, DescribedMember, Heartbeat, Partition, TopicView
from gateway.coordinators.consumer_member import Member
from gateway.coordinators.consumer_rows import ConsumerMemberRow, ConsumerRow
from gateway.coordinators.deadlines import Deadlines
from gateway.coordinators.group_rows import Kind, State
from gateway.coordinators.reconciling import MemberState
from gateway.coordinators.subscription import CONSUMER as PROTOCOL_TYPE
from gateway.coordinators.wording import HOME, Wording

FIRST_EPOCH = 1
"""Of a group that nobody has joined yet: the first member is told 2, as in Kafka."""


class Limits(NamedTuple):
    """What a group obeys: group.consumer.max.size and group.consumer.assignors, the first of which is meant by members
    that name none; or what its own configs say.
    """

    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range", "failover")
    # how many members and partitions make a ms for which an assignment stands, whoever joins: about ten times as long
    # as it takes to make one
    a_ms: int = 100
    # the assignor of a group that has one whatever its members ask for
    only: str | None = None
    # by name, Pulsar's priorities of members
    priorities: Mapping[str, int] = {}
    # Pulsar's full name of a topic without partitions, None of any other
    plain: Callable[[str], str | None] = lambda name: None


class ConsumerState:
    """One group as it stands. Times are ms: `now` monotonic (sessions), `wall` since 1970 (rows)."""

    __slots__ = (
        "_owners",
        "_patterns",
        "_readers",
        "_rejoins",
        "_revocations",
        "_sessions",
        "_unsettled",
        "assignment_epoch",
        "assignor",
        "epoch",
        "group_id",
        "limits",
        "made_by",
        "matches",
        "members",
        "seen",
        "since",
        "state",
        "static",
        "stored",
        "topics",
        "wording",
    )

    def __init__(self, group_id: str, limits: Limits, wall: int, wording: Wording = HOME) -> None:
        """`wording`: how members that speak the classic protocol name topics."""
        self.wording = wording
        self.group_id = group_id
        self.limits = limits
        self.state = State.EMPTY
        # when the state was entered, ms since 1970
        self.since = wall
        self.epoch = FIRST_EPOCH
        self.assignment_epoch = FIRST_EPOCH
        # that made the targets, and the priorities by which it did
        self.assignor: str | None = None
        self.made_by: Mapping[str, int] = {}
        self.members: dict[str, Member] = {}
        # instance id -> member id
        self.static: dict[str, str] = {}
        # those of the topics subscribed to that there are, by name in order, and the catalog's version that says so
        self.topics: dict[str, TopicView] = {}
        self.seen = -1
        # whether a row exists, or its write was handed out
        self.stored = False
        # how many members subscribe to a topic
        self._readers: Counter[str] = Counter()
        # the same of regular expressions, and the topics of each, as they were seen last
        self._patterns: Counter[str] = Counter()
        self.matches: dict[str, frozenset[str]] = {}
        # who has a partition, also if it is about to give it up
        self._owners: dict[Partition, str] = {}
        # members that have not reached their targets
        self._unsettled: set[str] = set()
        self._sessions, self._revocations = Deadlines(), Deadlines()
        # when those of the classic protocol must have joined again, or asked for their partitions
        self._rejoins = Deadlines()

    @classmethod
    def load(
        cls,
        group_id: str,
        row: ConsumerRow,
        members: Iterable[ConsumerMemberRow],
        limits: Limits,
        session_timeout: int,
        now: int,
        wording: Wording = HOME,
    ) -> Self:
        """The group as its rows say, every member with a fresh session, and all the time to give up what it must.
        `session_timeout`: of those that do not say their own.
        """
        group = cls(group_id, limits, row.since, wording)
        group.state = State(row.state)
        group.epoch, group.assignment_epoch, group.assignor = row.epoch, row.assignment_epoch, row.assignor
        group.made_by = row.priorities
        group.topics = {name: TopicView(topic_id, count) for name, topic_id, count in row.topics}
        group.stored = True
        for stored in members:
            member = group.members[stored.member_id] = Member.load(stored)
            if member.instance_id is not None:
                group.static[member.instance_id] = member.member_id
            group._readers.update(member.names)
            if member.pattern:
                group._patterns[member.pattern] += 1
            for place in (*member.current.assigned, *member.current.revoking):
                group._owners[place] = member.member_id
            its = session_timeout if member.classic is None else member.classic.session_timeout
            group._sessions.put(member.member_id, now + its)
            if member.current.state is MemberState.UNREVOKED:
                group._revocations.put(member.member_id, now + member.rebalance_timeout)
            if not member.settled(group.assignment_epoch):
                group._unsettled.add(member.member_id)
        return group

    # -- who may say what -------------------------------------------------------------------------------------------

    def refusal(self, event: Heartbeat) -> Beat | None:
        """Why a heartbeat is not taken, or None."""
        if self.state is State.DEAD:
            return Beat(Code.COORDINATOR_NOT_AVAILABLE)
        if event.assignor is not None and event.assignor not in self.limits.assignors:
            supported = ", ".join(self.limits.assignors)
            return Beat(
                Code.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {event.assignor} is not supported. Supported assignors: {supported}.",
            )
        instance = event.instance_id
        holder = self.static.get(instance) if instance is not None else None
        known = event.member_id in self.members
        if not known and holder is None and len(self.members) >= self.limits.max_size:
            return Beat(
                Code.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {self.limits.max_size} members.",
            )
        if event.epoch == 0:
            if holder is None or holder == event.member_id or self.members[holder].left:
                return None
            if self.members[holder].classic is not None:
                # it does not say that it goes, as all static members of that protocol
                return None
            return Beat(
                Code.UNRELEASED_INSTANCE_ID,
                f"Static member {event.member_id} with instance id {instance} cannot join the group because the "
                f"instance id is owned by {holder} member.",
            )
        return self.stranger(event.member_id, instance) or self._fence(
            self.members[event.member_id], event.epoch, event.owned
        )

    def stranger(self, member_id: str, instance: str | None) -> Beat | None:
        """Why somebody is not the member that it says it is, or None."""
        if instance is not None:
            holder = self.static.get(instance)
            if holder is None:
                return Beat(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance} is unknown.")
            if holder != member_id:
                return Beat(
                    Code.FENCED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance} was fenced by member {holder}.",
                )
        member = self.members.get(member_id)
        if member is None or member.classic is not None:
            return Beat(
                Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return None

    def _fence(self, member: Member, epoch: int, owned: frozenset[Partition] | None) -> Beat | None:
        """Why a member of another epoch is not taken, or None."""
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            than = "greater"
        elif epoch == member.previous_epoch and owned is not None and owned <= member.assigned.keys():
            return None
        else:
            than = "smaller"
        return Beat(
            Code.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {than} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
        )

    # -- what others ask ---------------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """The next instant (monotonic ms) at which a Tick changes something; heartbeats only move it away."""
        firsts = (self._sessions.first(), self._revocations.first(), self._rejoins.first())
        return min((at for at in firsts if at is not None), default=None)

    @property
    def idle(self) -> bool:
        """Nothing is in memory that the rows do not say."""
        return not self.members

    def subscribed(self) -> Set[str]:
        """The topics that members subscribe to by name, whether they exist or not, and those that there are of their
        regular expressions.
        """
        return self.topics.keys() | self._readers.keys()

    def unseen(self, names: Iterable[str]) -> list[str]:
        """Those of the names of which it has not seen whether there is such a topic."""
        return [name for name in names if name not in self.topics and name not in self._readers]

    def named_with(self, member_id: str, names: Collection[str]) -> tuple[int, int]:
        """(different topics, topics in all) that members name, with one that names these from now on."""
        others = sum([len(each.names) for name, each in self.members.items() if name != member_id])
        new = sum([name not in self._readers for name in frozenset(names)])
        return len(self._readers) + new, others + len(names)

    def patterns(self) -> frozenset[str]:
        """The regular expressions that members subscribe with."""
        return frozenset(self._patterns)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self._readers or topic in self.topics

    def check_commit(
        self,
        member_id: str,
        epoch: int,
        places: Callable[[], frozenset[Partition]],
        *,
        old: bool,
    ) -> Code:
        """Whether this member may commit offsets of these partitions. `old`: by an OffsetCommit before version 9, which
        knows no member epochs.

        Without an epoch (-1) it comes from an administrator or a consumer that manages its partitions itself: allowed
        while the group has no members.
        """
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.members:
            return Code.NONE
        member = self.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if old and member.classic is None:
            return Code.UNSUPPORTED_VERSION
        if epoch == member.epoch or member.may_commit(epoch, places()):
            return Code.NONE
        return Code.STALE_MEMBER_EPOCH if member.classic is None else Code.ILLEGAL_GENERATION

    def check_offset_delete(self) -> Code:
        """Whether OffsetDelete may go on to look at topics (KIP-496)."""
        return Code.GROUP_ID_NOT_FOUND if self.state is State.DEAD else Code.NONE

    def check_fetch(self, member_id: str | None, epoch: int) -> Code:
        """Whether this member may ask for committed offsets. Whoever is no member gives no id and no epoch (-1)."""
        if self.state is State.DEAD or (not member_id and epoch < 0):
            return Code.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE if epoch == member.epoch else Code.STALE_MEMBER_EPOCH

    def owner(self, place: Partition) -> str | None:
        """The member that has a partition, also if it is about to give it up."""
        return self._owners.get(place)

    def owners(self, topic_id: bytes, partitions: int) -> dict[str, list[int]]:
        """Member -> the partitions of a topic that it may have: also those that it is to give up; none of one that
        is away.
        """
        found: dict[str, list[int]] = {}
        for index in range(partitions):
            name = self._owners.get((topic_id, index))
            if name is not None and not self.members[name].left:
                found.setdefault(name, []).append(index)
        return found

    def describe(self) -> list[DescribedMember]:
        """The members as ConsumerGroupDescribe shows them."""
        return [member.describe() for member in self.members.values()]

    def row(self) -> ConsumerRow:
        """What the store should say of this group."""
        return ConsumerRow(
            group_rows.VERSION,
            Kind.CONSUMER,
            self.state,
            self.since,
            PROTOCOL_TYPE,
            self.epoch,
            self.assignment_epoch,
            self.assignor,
            [(name, view.topic_id, view.partitions) for name, view in self.topics.items()],
            len(self.members),
            dict(self.made_by),
        )
