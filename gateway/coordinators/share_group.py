"""Membership of a share group (KIP-932) as a pure state machine: one `ShareGroup` is one group.

As for the classic group: everything that decides who is a member, of which epoch, with which assignment, lives
here; nothing does I/O or reads a clock. `step(event, now, wall)` changes the state in memory and says what must
be made durable (writes) and what follows once it is (effects).

| state  | event                                       | then   | group epoch | row  |
|--------|---------------------------------------------|--------|-------------|------|
| Empty  | a member joins (epoch 0)                    | Stable | + 1         | yes  |
| Stable | another joins; one subscribes differently   | Stable | + 1         | yes  |
| Stable | a topic came, went, was made anew, grew:    | Stable | + 1         | yes  |
|        | found at the next heartbeat of any member   |        |             |      |
| Stable | a member leaves (epoch -1) or is silent for | Stable | + 1         | yes  |
|        | its session timeout; others stay            |        |             |      |
| Stable | the same, and it was the last               | Empty  | + 1         | yes  |
| Empty  | deleted                                     | Dead   |             | gone |

Every member gets every partition of the topics it subscribes to, in the answer to the heartbeat that joins: the
share of each is made record by record, by the subscription. So there is nothing to reconcile: with each
heartbeat a member goes to the group's epoch, and is told its assignment when it joins, when it names its topics,
and when the assignment is another than it was told.

What a heartbeat meets, in this order (texts are Kafka's):

| the group is full, the member is none of it                            | 81  |
| it does not join (epoch 0) and is no member                            | 25  |
| its epoch is above the member's, or below and not the one before it    | 110 |

The epoch before is taken because the answer that told the new one may have been lost. A member's epoch is not
written each time it grows: after a restart any from the stored one to the group's is taken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Delete, Note, Plain, Tick, Token
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import Kind, ShareMemberRow, ShareRow, State
from gateway.coordinators.share_events import (
    Answer,
    Assignment,
    Beat,
    DescribedMember,
    Effect,
    Event,
    Gone,
    Heartbeat,
    Leave,
    Make,
    Step,
    Topics,
    TopicView,
)
from store.api import Write

PROTOCOL_TYPE = "share"

FIRST_EPOCH = 1
"""Of a group that nobody has joined yet: the first member is told 2, as in Kafka."""


class Member:
    """One member."""

    __slots__ = (
        "client_host",
        "client_id",
        "deadline",
        "epoch",
        "loaded",
        "member_id",
        "names",
        "previous_epoch",
        "rack",
        "told",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.rack: str | None = None
        self.client_id = ""
        self.client_host = ""
        # what it subscribes to, sorted
        self.names: tuple[str, ...] = ()
        self.epoch = 0
        self.previous_epoch = 0
        # Its epoch is that of the row, and may have grown since.
        self.loaded = False
        # what it was told last; None: nothing, or before a restart
        self.told: Assignment | None = None
        # when it is out unless it is heard of, monotonic ms
        self.deadline = 0


class ShareGroup:
    """One group, and what happens to it. `now` is monotonic ms, `wall` ms since 1970."""

    __slots__ = (
        "_dirty",
        "_effects",
        "_now",
        "_wall",
        "_writes",
        "assignment_epoch",
        "epoch",
        "group_id",
        "max_size",
        "members",
        "seen",
        "since",
        "state",
        "stored",
        "topics",
    )

    def __init__(self, group_id: str, max_size: int, wall: int) -> None:
        self.group_id = group_id
        self.max_size = max_size
        self.state = State.EMPTY
        # when the state was entered, ms since 1970
        self.since = wall
        self.epoch = FIRST_EPOCH
        # that of the last heartbeat: members that went since have changed nobody's assignment
        self.assignment_epoch = FIRST_EPOCH
        self.members: dict[str, Member] = {}
        # those of the topics subscribed to that there are, and the catalog's version that says so
        self.topics: dict[str, TopicView] = {}
        self.seen = -1
        # whether a row exists, or its write was handed out
        self.stored = False
        # of the step under way
        self._now = 0
        self._wall = wall
        self._dirty = False
        self._writes: list[Write] = []
        self._effects: list[Effect] = []

    @classmethod
    def load(cls, group_id: str, row: ShareRow, max_size: int, session_timeout: int, now: int) -> Self:
        """The group as its row says, every member with a fresh session."""
        group = cls(group_id, max_size, row.since)
        group.state = State(row.state)
        group.epoch = row.epoch
        group.assignment_epoch = row.assignment_epoch
        group.topics = {name: TopicView(topic_id, count) for name, topic_id, count in row.topics}
        group.stored = True
        for stored in row.members:
            member = group.members[stored.member_id] = Member(stored.member_id)
            member.rack = stored.rack
            member.client_id, member.client_host = stored.client_id, stored.client_host
            member.names = tuple(stored.names)
            member.epoch, member.previous_epoch = stored.epoch, stored.previous_epoch
            member.loaded = True
            member.deadline = now + session_timeout
        return group

    # -- the machine -------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int, wall: int) -> Step:
        """Take in one event. `now` must not go back."""
        self._now, self._wall = now, wall
        self._writes, self._effects, self._dirty = [], [], False
        _ON[type(event)](self, event)
        if self._dirty:
            self.stored = True
            self._writes.append(group_rows.put(self.group_id, self.row()))
        return Step(self._writes, self._effects)

    def _on_heartbeat(self, event: Heartbeat) -> None:
        refusal = self._refusal(event)
        if refusal is not None:
            self._answer(event.token, refusal)
            return
        member = self.members.get(event.member_id)
        joins = member is None
        if member is None:
            member = self.members[event.member_id] = Member(event.member_id)
            self._note(f"has a new member {event.member_id}")
        elif member.loaded and event.epoch > member.epoch:
            member.previous_epoch, member.epoch = member.epoch, event.epoch
        member.loaded = False
        self._describe_as(member, event)
        names = member.names if event.names is None else tuple(sorted(set(event.names)))
        bump = joins or names != member.names
        member.names = names
        if event.topics is not None:
            bump = self._see(event.topics) or bump
            self.seen = event.version
        if self.state is State.EMPTY:
            self._become(State.STABLE)
        if bump:
            self._bump()
        self.assignment_epoch = self.epoch
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        member.deadline = self._now + event.session_timeout
        assignment = self._assignment(member)
        told = None
        if event.epoch == 0 or event.names is not None or assignment != member.told:
            told = member.told = assignment
        self._answer(
            event.token,
            Beat(Code.NONE, None, member.member_id, member.epoch, event.heartbeat_interval, told),
        )

    def _refusal(self, event: Heartbeat) -> Beat | None:
        """Why a heartbeat is not taken, or None."""
        if self.state is State.DEAD:
            return Beat(Code.COORDINATOR_NOT_AVAILABLE)
        member = self.members.get(event.member_id)
        if member is None and len(self.members) >= self.max_size:
            return Beat(
                Code.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {self.max_size} members.",
            )
        if member is None:
            return self._unknown(event.member_id) if event.epoch else None
        if event.epoch == 0 or event.epoch == member.epoch or event.epoch == member.previous_epoch:
            return None
        if member.loaded and member.epoch < event.epoch <= self.epoch:
            return None
        if event.epoch > member.epoch:
            text = (
                f"The share group member has a greater member epoch ({event.epoch}) than the one known by the group "
                f"coordinator ({member.epoch})."
            )
        else:
            text = (
                f"The share group member has a smaller member epoch ({event.epoch}) than the one known by the group "
                f"coordinator ({member.epoch}), and it does not match the previous member epoch "
                f"({member.previous_epoch})."
            )
        return Beat(
            Code.FENCED_MEMBER_EPOCH, f"{text} The member must abandon all its partitions and rejoin."
        )

    def _on_leave(self, event: Leave) -> None:
        if self.state is State.DEAD:
            self._answer(event.token, Beat(Code.COORDINATOR_NOT_AVAILABLE))
        elif event.member_id not in self.members:
            self._answer(event.token, self._unknown(event.member_id))
        else:
            self._remove([event.member_id], graceful=True)
            self._note(f"was left by member {event.member_id}")
            self._answer(event.token, Beat(Code.NONE, None, event.member_id, -1))

    def _on_make(self, event: Make) -> None:
        if self.state is State.DEAD:
            self._answer(event.token, Plain(Code.COORDINATOR_NOT_AVAILABLE))
            return
        if not self.stored:
            self._dirty = True
        self._answer(event.token, Plain(Code.NONE))

    def _on_delete(self, event: Delete) -> None:
        if self.state is State.DEAD:
            self._answer(event.token, Plain(Code.GROUP_ID_NOT_FOUND))
        elif self.members:
            self._answer(event.token, Plain(Code.NON_EMPTY_GROUP))
        else:
            self._become(State.DEAD)
            self._dirty = False
            self._writes.append(group_rows.delete(self.group_id))
            self._answer(event.token, Plain(Code.NONE))

    def _on_tick(self, _: Tick) -> None:
        silent = [member.member_id for member in self.members.values() if member.deadline <= self._now]
        if silent:
            self._remove(silent, graceful=False)
            self._note(f"had no sign of life from {', '.join(silent)}")

    # -- small things ------------------------------------------------------------------------------------------------

    def _describe_as(self, member: Member, event: Heartbeat) -> None:
        """Who it says it is."""
        rack = member.rack if event.rack is None else event.rack
        if (rack, event.client_id, event.client_host) != (member.rack, member.client_id, member.client_host):
            member.rack, member.client_id, member.client_host = rack, event.client_id, event.client_host
            self._dirty = True

    def _see(self, topics: Topics) -> bool:
        """Take over what topics there are; whether that changes anything for the group."""
        names = self.subscribed()
        seen = {name: view for name, view in topics.items() if name in names}
        changed = seen != self.topics
        self.topics = seen
        return changed

    def _remove(self, member_ids: Iterable[str], *, graceful: bool) -> None:
        for member_id in member_ids:
            del self.members[member_id]
            self._effects.append(Gone(member_id, graceful))
        names = self.subscribed()
        self.topics = {name: view for name, view in self.topics.items() if name in names}
        self._bump()
        if not self.members:
            self._become(State.EMPTY)

    def _bump(self) -> None:
        self.epoch += 1
        self._dirty = True

    def _become(self, state: State) -> None:
        self.state = state
        self.since = self._wall
        self._dirty = True

    def _assignment(self, member: Member) -> Assignment:
        topics = self.topics
        return tuple([topics[name] for name in member.names if name in topics])

    def _unknown(self, member_id: str) -> Beat:
        return Beat(Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")

    def _answer(self, token: Token, value: Beat | Plain) -> None:
        self._effects.append(Answer(token, value))

    def _note(self, text: str) -> None:
        self._effects.append(Note(f"share group {self.group_id} {text}"))

    # -- what others ask ---------------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """The next instant (monotonic ms) at which a Tick changes something; heartbeats only move it away."""
        return min((member.deadline for member in self.members.values()), default=None)

    @property
    def idle(self) -> bool:
        """Nothing is in memory that the row does not say."""
        return not self.members

    def subscribed(self) -> frozenset[str]:
        """The topics that members subscribe to, whether they exist or not."""
        return frozenset(name for member in self.members.values() for name in member.names)

    def describe(self) -> list[DescribedMember]:
        """The members as ShareGroupDescribe shows them."""
        return [
            DescribedMember(
                member.member_id,
                member.rack,
                member.epoch,
                member.client_id,
                member.client_host,
                member.names,
                tuple([(name, self.topics[name]) for name in member.names if name in self.topics]),
            )
            for member in self.members.values()
        ]

    def row(self) -> ShareRow:
        """What the store should say of this group."""
        return ShareRow(
            group_rows.VERSION,
            Kind.SHARE,
            self.state,
            self.since,
            PROTOCOL_TYPE,
            self.epoch,
            self.assignment_epoch,
            [(name, view.topic_id, view.partitions) for name, view in self.topics.items()],
            [
                ShareMemberRow(
                    member.member_id,
                    member.rack,
                    member.client_id,
                    member.client_host,
                    list(member.names),
                    member.epoch,
                    member.previous_epoch,
                )
                for member in self.members.values()
            ],
        )


_ON: dict[type[Any], Callable[[ShareGroup, Any], None]] = {
    Heartbeat: ShareGroup._on_heartbeat,
    Leave: ShareGroup._on_leave,
    Make: ShareGroup._on_make,
    Delete: ShareGroup._on_delete,
    Tick: ShareGroup._on_tick,
}
