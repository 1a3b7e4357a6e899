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

A group may have ten thousand members, so nothing here goes through all of them for one: each has a row of its own,
topics are counted as they are subscribed to, and a heap that is put right when it is looked at knows whose session ends
next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
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
        "queued",
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
        # the deadline under which it stands in the group's heap
        self.queued = -1

    def row(self) -> ShareMemberRow:
        """What the store should say of it."""
        return ShareMemberRow(
            self.member_id,
            self.rack,
            self.client_id,
            self.client_host,
            list(self.names),
            self.epoch,
            self.previous_epoch,
        )


class ShareGroup:
    """One group, and what happens to it. `now` is monotonic ms, `wall` ms since 1970."""

    __slots__ = (
        "_changed",
        "_deadlines",
        "_dirty",
        "_effects",
        "_inline",
        "_now",
        "_queue_count",
        "_readers",
        "_removed",
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
        # how many members subscribe to a topic
        self._readers: Counter[str] = Counter()
        # (deadline, count, member); see next_due
        self._deadlines: list[tuple[int, int, Member]] = []
        self._queue_count = 0
        # whether a row exists, or its write was handed out
        self.stored = False
        # whether that row is of version 1: its members get rows of their own with the next write
        self._inline = False
        # of the step under way
        self._now = 0
        self._wall = wall
        self._dirty = False
        # members whose rows are to be written, or to go
        self._changed: dict[str, Member] = {}
        self._removed: list[str] = []
        self._writes: list[Write] = []
        self._effects: list[Effect] = []

    @classmethod
    def load(
        cls,
        group_id: str,
        row: ShareRow,
        members: Iterable[ShareMemberRow],
        max_size: int,
        session_timeout: int,
        now: int,
    ) -> Self:
        """The group as its rows say, every member with a fresh session."""
        group = cls(group_id, max_size, row.since)
        group.state = State(row.state)
        group.epoch = row.epoch
        group.assignment_epoch = row.assignment_epoch
        group.topics = {name: TopicView(topic_id, count) for name, topic_id, count in row.topics}
        group.stored = True
        group._inline = bool(row.members)
        for stored in [*row.members, *members]:
            member = group.members[stored.member_id] = Member(stored.member_id)
            member.rack = stored.rack
            member.client_id, member.client_host = stored.client_id, stored.client_host
            member.names = tuple(stored.names)
            member.epoch, member.previous_epoch = stored.epoch, stored.previous_epoch
            member.loaded = True
            group._readers.update(member.names)
            group._until(member, now + session_timeout)
        return group

    # -- the machine -------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int, wall: int) -> Step:
        """Take in one event. `now` must not go back."""
        self._now, self._wall = now, wall
        self._writes, self._effects, self._dirty = [], [], False
        self._changed, self._removed = {}, []
        _ON[type(event)](self, event)
        if self._dirty or self._changed:
            self._write()
        return Step(self._writes, self._effects)

    def _write(self) -> None:
        """The rows that changed: one commit."""
        group_id, writes = self.group_id, self._writes
        changed: Iterable[Member] = self._changed.values()
        if self._inline:
            changed, self._inline, self._dirty = self.members.values(), False, True
        writes += [group_rows.delete_member(group_id, member_id) for member_id in self._removed]
        writes += [group_rows.put_member(group_id, member.member_id, member.row()) for member in changed]
        if self._dirty:
            self.stored = True
            writes.append(group_rows.put(group_id, self.row()))
        self._changed, self._removed = {}, []

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
        if bump:
            self._subscribe(member, names)
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
        self._until(member, self._now + event.session_timeout)
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
        silent = []
        while (due := self.next_due()) is not None and due <= self._now:
            silent.append(heappop(self._deadlines)[2].member_id)
        if silent:
            self._remove(silent, graceful=False)
            self._note(f"had no sign of life from {', '.join(silent)}")

    # -- small things ------------------------------------------------------------------------------------------------

    def _describe_as(self, member: Member, event: Heartbeat) -> None:
        """Who it says it is."""
        rack = member.rack if event.rack is None else event.rack
        if (rack, event.client_id, event.client_host) != (member.rack, member.client_id, member.client_host):
            member.rack, member.client_id, member.client_host = rack, event.client_id, event.client_host
            self._changed[member.member_id] = member

    def _subscribe(self, member: Member, names: tuple[str, ...]) -> None:
        """It subscribes to these topics from now on, and is written."""
        self._unsubscribe(member)
        member.names = names
        self._readers.update(names)
        self._changed[member.member_id] = member

    def _unsubscribe(self, member: Member) -> None:
        for name in member.names:
            self._readers[name] -= 1
            if not self._readers[name]:
                del self._readers[name]

    def _until(self, member: Member, deadline: int) -> None:
        """Its session ends then. Heartbeats put that off, and the heap is put right when it is looked at."""
        member.deadline = deadline
        if member.queued < 0 or deadline < member.queued:
            self._queue(member)

    def _queue(self, member: Member) -> None:
        member.queued = member.deadline
        self._queue_count += 1
        heappush(self._deadlines, (member.deadline, self._queue_count, member))

    def _see(self, topics: Topics) -> bool:
        """Take over what topics there are; whether that changes anything for the group."""
        seen = {name: view for name, view in topics.items() if name in self._readers}
        changed = seen != self.topics
        self.topics = seen
        return changed

    def _remove(self, member_ids: Iterable[str], *, graceful: bool) -> None:
        for member_id in member_ids:
            self._unsubscribe(self.members.pop(member_id))
            self._changed.pop(member_id, None)
            self._removed.append(member_id)
            self._effects.append(Gone(member_id, graceful))
        self.topics = {name: view for name, view in self.topics.items() if name in self._readers}
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
        heap = self._deadlines
        while heap:
            deadline, _, member = heap[0]
            if deadline == member.deadline and self.members.get(member.member_id) is member:
                return deadline
            heappop(heap)
            if deadline == member.queued and self.members.get(member.member_id) is member:
                self._queue(member)
        return None

    @property
    def idle(self) -> bool:
        """Nothing is in memory that the row does not say."""
        return not self.members

    def subscribed(self) -> frozenset[str]:
        """The topics that members subscribe to, whether they exist or not."""
        return frozenset(self._readers)

    def readers(self, topic: str) -> int:
        """How many members subscribe to a topic."""
        return self._readers[topic]

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
            group_rows.SHARE_VERSION,
            Kind.SHARE,
            self.state,
            self.since,
            PROTOCOL_TYPE,
            self.epoch,
            self.assignment_epoch,
            [(name, view.topic_id, view.partitions) for name, view in self.topics.items()],
            [],
            len(self.members),
        )


_ON: dict[type[Any], Callable[[ShareGroup, Any], None]] = {
    Heartbeat: ShareGroup._on_heartbeat,
    Leave: ShareGroup._on_leave,
    Make: ShareGroup._on_make,
    Delete: ShareGroup._on_delete,
    Tick: ShareGroup._on_tick,
}
