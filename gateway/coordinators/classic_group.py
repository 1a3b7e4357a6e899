"""Kafka's classic group membership as a pure state machine: one `ClassicGroup` is one group.

Two rules. Everything that decides who is a member, of which generation, with which assignment, lives here.
Nothing here does I/O, reads a clock or rolls a die: `step(event, now, wall)` changes the state in memory and
says what must be made durable (writes) and who may be answered once it is (effects). If the writes fail, the
object is thrown away and made again from its row, as after a crash.

The states, and what moves a group from one to the next:

| from                | event                                               | to                  | row |
|---------------------|-----------------------------------------------------|---------------------|-----|
| (none), Empty       | a member joins                                      | PreparingRebalance  |     |
| PreparingRebalance  | all joined, or the rebalance (initial) delay is over| CompletingRebalance | yes |
| PreparingRebalance  | the same, and nobody is left                        | Empty               | yes |
| CompletingRebalance | the leader's assignment arrives                     | Stable              | yes |
| CompletingRebalance | a member joins anew or differently, leaves, expires | PreparingRebalance  |     |
| Stable              | the same; the leader joins again                    | PreparingRebalance  |     |
| Stable              | a static member comes back under a new id, and the  | Stable              | yes |
|                     | protocol stays: no rebalance (KIP-345)              |                     |     |
| Stable, Completing… | some do not sync within the rebalance timeout       | PreparingRebalance  |     |
| Empty               | deleted                                             | Dead                | gone|

What a request meets:

| state               | JoinGroup                       | SyncGroup           | Heartbeat | OffsetCommit |
|---------------------|---------------------------------|---------------------|-----------|--------------|
| Empty               | parked                          | 25                  | 25        | 25           |
| PreparingRebalance  | parked                          | 27                  | 27        | ok           |
| CompletingRebalance | same member, nothing new: the   | parked; the         | ok        | 27           |
|                     | generation; else parked         | leader's answers all|           |              |
| Stable              | the same, but the leader: parked| the assignment      | ok        | ok           |
| Dead                | 15                              | 15                  | 15        | 15           |

Before that the fences: a member id nobody has 25, an instance id that another member id holds 82, a wrong
generation 22, a protocol type or protocols that do not fit 23, no room 81, a first join without an id 79.

A generation is announced (the answers to JoinGroup leave) only when its row is durable, so a number never
comes twice, whatever crashes. PreparingRebalance is not stored: after a crash the generation before it goes
on, and whoever was joining joins again. But a group that was a consumer group begins in it (`converting`), and goes on
in it after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gateway.coordinators import group_rows, offsets
from gateway.coordinators.classic_events import (
    Answer,
    Assigned,
    Delete,
    Effect,
    Event,
    Expel,
    Gone,
    HandOver,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    LeaveAnswer,
    Leaver,
    Left,
    Note,
    Plain,
    Rebalance,
    Step,
    Sync,
    SyncAnswer,
    Tick,
    Token,
)
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import CLASSIC_STATES, State
from gateway.coordinators.group_state import GroupState, Limits
from gateway.coordinators.roster import Member
from gateway.coordinators.wording import HOME, Wording
from store.api import DeleteRange, Family, Write

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = CLASSIC_STATES

CAME_FROM: dict[State, frozenset[State]] = {
    EMPTY: frozenset({PREPARING}),
    PREPARING: frozenset({EMPTY, COMPLETING, STABLE}),
    COMPLETING: frozenset({PREPARING}),
    STABLE: frozenset({COMPLETING}),
    DEAD: frozenset({EMPTY}),
}
"""The first table's shape: a state -> the states it may be entered from."""

ON_HEARTBEAT: dict[State, Code] = {
    EMPTY: Code.UNKNOWN_MEMBER_ID,
    PREPARING: Code.REBALANCE_IN_PROGRESS,
    COMPLETING: Code.NONE,
    STABLE: Code.NONE,
    DEAD: Code.COORDINATOR_NOT_AVAILABLE,
}

NEW_MEMBER_TIMEOUT = 300_000
"""How long a member's first JoinGroup may stay parked, in ms: it cannot heartbeat yet (Kafka's value)."""

INITIAL_EXTENSION = 1_000
"""How long newcomers can extend the first rebalance's delay, in ms in all."""


class ClassicGroup(GroupState):
    """One group, and what happens to it. `now` is monotonic ms, `wall` ms since 1970."""

    __slots__ = ("_dirty", "_effects", "_now", "_wall", "_writes")

    def __init__(self, group_id: str, limits: Limits, wall: int, wording: Wording = HOME) -> None:
        super().__init__(group_id, limits, wall, wording)
        # of the step under way
        self._now = 0
        self._wall = wall
        self._dirty = False
        self._writes: list[Write] = []
        self._effects: list[Effect] = []

    # -- the machine -----------------------------------------------------------------------------------------

    def step(self, event: Event, now: int, wall: int) -> Step:
        """Take in one event. `now` must not go back."""
        self._now, self._wall = now, wall
        self._writes, self._effects, self._dirty = [], [], False
        _ON[type(event)](self, event)
        if self._dirty:
            self.stored = True
            self._writes.append(group_rows.put(self.group_id, self.row()))
        return Step(self._writes, self._effects)

    def _on_join(self, event: Join) -> None:
        roster = self.roster
        if not self._has_room(event):
            # JoinGroup has no room for a sentence
            self._note(
                f"is full: a member of client {event.client_id} is refused, as the limit is {self.limits.max_size}"
            )
            self._answer(event.token, JoinAnswer(Code.GROUP_MAX_SIZE_REACHED))
            roster.pending.pop(event.member_id, None)
            member = roster.get(event.member_id)
            if member is not None:
                self._remove(member, crashed=False)
                self._complete_if_ready()
        elif self.state is DEAD:
            self._answer(event.token, event.refused(Code.COORDINATOR_NOT_AVAILABLE))
        elif not self._fits(event):
            self._answer(event.token, event.refused(Code.INCONSISTENT_GROUP_PROTOCOL))
        elif event.member_id:
            self._join_known(event)
        elif event.instance_id is not None:
            known = roster.static.get(event.instance_id)
            if known is None:
                self._admit(event, event.new_member_id)
            else:
                self._replace(roster.members[known], event)
        elif event.id_required:
            roster.pending[event.new_member_id] = self._now + event.session_timeout
            self._answer(event.token, JoinAnswer(Code.MEMBER_ID_REQUIRED, event.new_member_id))
        else:
            self._admit(event, event.new_member_id)

    def _join_known(self, event: Join) -> None:
        """A join under an id that the group gave out."""
        if event.member_id in self.roster.pending and event.instance_id is None:
            self._admit(event, event.member_id)
            return
        member = self._fence(event.member_id, event.instance_id)
        if not isinstance(member, Member):
            self._answer(event.token, event.refused(member))
            return
        same = member.protocols == event.protocols
        if same and (self.state is COMPLETING or (self.state is STABLE and member.member_id != self.leader)):
            # It may not have seen the answer to its first join. A leader that joins a stable group wants a
            # rebalance (its topics changed); a leader that has not synced yet wants the same list again.
            self._touch(member)
            self._answer(event.token, self._joined(member))
            return
        self._park_join(member, event)
        self._rebalance(f"member {member.member_id} joins again", event.reason)

    def _admit(self, event: Join, member_id: str) -> None:
        """Let a new member in and wait for the others."""
        if not len(self.roster):
            self.protocol_type = event.protocol_type
        member = Member(
            member_id,
            event.instance_id,
            event.client_id,
            event.client_host,
            event.session_timeout,
            event.rebalance_timeout,
            event.protocols,
        )
        member.join = event.token
        member.is_new = True
        member.deadline = self._now + NEW_MEMBER_TIMEOUT
        self.roster.add(member)
        if self.leader is None:
            self.leader = member_id
        if self._initial_end is not None:
            self._join_due = min(self._initial_end, self._now + self.limits.initial_delay)
        self._rebalance(f"member {member_id} joins", event.reason)

    def _replace(self, member: Member, event: Join) -> None:
        """A static member came back without its id: it takes the place of its former self."""
        former, leader = member.member_id, self.leader
        if member.join is not None:
            self._answer(member.join, JoinAnswer(Code.FENCED_INSTANCE_ID, former))
            member.join = None
        if member.sync is not None:
            self._answer(member.sync, SyncAnswer(Code.FENCED_INSTANCE_ID))
            member.sync = None
        self.roster.rename(member, event.new_member_id)
        # a static member does not say that it goes: whoever was here before has lost what it had in work
        self._effects.append(Gone(former, crashed=False))
        if former in self._unsynced:
            self._unsynced.remove(former)
            self._unsynced.add(member.member_id)
        if leader == former:
            self.leader = member.member_id
        member.client_id, member.client_host = event.client_id, event.client_host
        # It has its id only when it is answered, but was a member all along: its session counts from here.
        member.is_new = False
        self._park_join(member, event)
        self._touch(member)
        if self.state is STABLE and self.roster.vote() == self.protocol_name:
            answer = self._joined(member)
            if not event.may_skip:
                # An older client that leads would assign anew, and a stable group does not listen: it gets
                # the former leader's name and so takes itself for a follower.
                answer = answer._replace(leader=leader or "", members=())
            elif answer.members:
                answer = answer._replace(skip_assignment=True)
            member.join = None
            self._answer(event.token, answer)
            self._effects.append(Assigned(self.generation))
            self._dirty = True
        else:
            # In CompletingRebalance the leader may already be assigning to the former id.
            self._rebalance(f"static member {member.instance_id} is back as {member.member_id}", event.reason)

    def _on_sync(self, event: Sync) -> None:
        found = self._fence(event.member_id, event.instance_id, event.generation)
        if self.state is DEAD:
            self._answer(event.token, event.refused(Code.COORDINATOR_NOT_AVAILABLE))
        elif not isinstance(found, Member):
            self._answer(event.token, event.refused(found))
        elif _differ(event.protocol_type, self.protocol_type) or _differ(
            event.protocol_name, self.protocol_name
        ):
            self._answer(event.token, event.refused(Code.INCONSISTENT_GROUP_PROTOCOL))
        elif self.state is PREPARING:
            self._answer(event.token, event.refused(Code.REBALANCE_IN_PROGRESS))
        else:
            self._unsynced.discard(found.member_id)
            if not self._unsynced:
                self._sync_due = None
            if self.state is STABLE:
                self._touch(found)
                self._answer(event.token, self._synced(found))
                return
            if found.sync is not None:
                self._answer(found.sync, SyncAnswer(Code.REBALANCE_IN_PROGRESS))
            found.sync = event.token
            if found.member_id == self.leader:
                self._become(STABLE)
                self._dirty = True
                self.priorities = self.limits.priorities
                for member in self.roster:
                    member.assignment = event.assignments.get(member.member_id, b"")
                self._effects.append(Assigned(self.generation))
                self._answer_syncs(Code.NONE)

    def shares_out(self, event: Sync) -> bool:
        """Whether what this request says is what members are told: their leader's, of the generation that waits."""
        found = self._fence(event.member_id, event.instance_id, event.generation)
        return (
            self.state is COMPLETING
            and isinstance(found, Member)
            and found.member_id == self.leader
            and not _differ(event.protocol_type, self.protocol_type)
            and not _differ(event.protocol_name, self.protocol_name)
        )

    def _on_heartbeat(self, event: Heartbeat) -> None:
        if self.state is DEAD:
            self._answer(event.token, Plain(Code.COORDINATOR_NOT_AVAILABLE))
            return
        found = self._fence(event.member_id, event.instance_id, event.generation)
        if isinstance(found, Member):
            self._touch(found)
            found = ON_HEARTBEAT[self.state]
        self._answer(event.token, Plain(found))

    def _on_leave(self, event: Leave) -> None:
        if self.state is DEAD:
            self._answer(event.token, event.refused(Code.COORDINATOR_NOT_AVAILABLE))
            return
        left = [Left(leaver.member_id, leaver.instance_id, self._let_go(leaver)) for leaver in event.members]
        self._answer(event.token, LeaveAnswer(Code.NONE, tuple(left)))
        gone = [one.member_id or one.instance_id or "" for one in left if one.error == Code.NONE]
        if gone:
            reason = next((leaver.reason for leaver in event.members if leaver.reason), None)
            self._after_removal(f"{', '.join(gone)} left", reason)

    def _let_go(self, leaver: Leaver) -> Code:
        roster = self.roster
        if not leaver.member_id:
            known = roster.static.get(leaver.instance_id) if leaver.instance_id is not None else None
            if known is None:
                return Code.UNKNOWN_MEMBER_ID
            self._remove(roster.members[known], crashed=False)
        elif leaver.member_id in roster.pending:
            del roster.pending[leaver.member_id]
        else:
            found = self._fence(leaver.member_id, leaver.instance_id)
            if not isinstance(found, Member):
                return found
            self._remove(found, crashed=False)
        return Code.NONE

    def _on_delete(self, event: Delete) -> None:
        if self.state is DEAD:
            self._answer(event.token, Plain(Code.GROUP_ID_NOT_FOUND))
        elif self.state is not EMPTY:
            self._answer(event.token, Plain(Code.NON_EMPTY_GROUP))
        else:
            self._become(DEAD)
            self.roster.pending.clear()
            self._writes.append(group_rows.delete(self.group_id))
            self._writes.append(DeleteRange(Family.OFFSET, *offsets.group_range(self.group_id)))
            self._answer(event.token, Plain(Code.NONE))

    def _on_expel(self, event: Expel) -> None:
        member = self.roster.members.get(event.member_id)
        if member is not None:
            self._remove(member)
            self._after_removal(f"{event.member_id} is out: {event.reason}", None)

    def _on_rebalance(self, event: Rebalance) -> None:
        if self.state in (STABLE, COMPLETING):
            self._prepare(event.reason, None)

    def _on_hand_over(self, _: HandOver) -> None:
        for member in self.roster:
            if member.join is not None:
                self._answer(member.join, JoinAnswer(Code.REBALANCE_IN_PROGRESS, member.member_id))
                member.join = None
        self._answer_syncs(Code.REBALANCE_IN_PROGRESS)

    def _on_tick(self, _: Tick) -> None:
        roster, now = self.roster, self._now
        promised = [member_id for member_id, due in roster.pending.items() if due <= now]
        for member_id in promised:
            del roster.pending[member_id]
        expired = [member for member in roster if (due := member.due()) is not None and due <= now]
        for member in expired:
            self._remove(member)
        if promised or expired:
            names = ", ".join([*promised, *(member.member_id for member in expired)])
            self._after_removal(f"no sign of life from {names}", None, rebalance=bool(expired))
        if self._join_due is not None and self._join_due <= now:
            self._complete()
        if self._sync_due is not None and self._sync_due <= now:
            silent = [member for member in roster if member.member_id in self._unsynced]
            for member in silent:
                self._remove(member)
            self._prepare(f"no SyncGroup from {', '.join(member.member_id for member in silent)}", None)

    # -- the parts of a rebalance ----------------------------------------------------------------------------

    def _rebalance(self, reason: str, said: str | None) -> None:
        """A member joined: begin a rebalance, or go on with the one under way."""
        if self.state is PREPARING:
            self._complete_if_ready()
        else:
            self._prepare(reason, said)

    def _after_removal(self, reason: str, said: str | None, *, rebalance: bool = True) -> None:
        """Members (`rebalance`) or only promised ones are gone."""
        if self.state is PREPARING:
            self._complete_if_ready()
        elif rebalance and self.state in (STABLE, COMPLETING):
            self._prepare(reason, said)

    def _prepare(self, reason: str, said: str | None) -> None:
        """Begin a rebalance: those who wait for an assignment are sent to join again."""
        if self.state is COMPLETING:
            for member in self.roster:
                member.assignment = b""
            self._answer_syncs(Code.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._sync_due = None
        timeout = self.roster.rebalance_timeout()
        if self.state is EMPTY:
            # Others are likely to come within a moment: without a delay the first would get everything, and
            # two more rebalances follow.
            delay = self.limits.initial_delay
            self._join_due = self._now + delay
            self._initial_end = self._now + max(delay, min(INITIAL_EXTENSION, timeout))
        else:
            self._join_due = self._now + timeout
        self._become(PREPARING)
        client = f"; the client says: {said}" if said else ""
        self._note(f"rebalances after generation {self.generation}: {reason}{client}")
        self._complete_if_ready()

    def _complete_if_ready(self) -> None:
        if self.state is PREPARING and self._initial_end is None and self.roster.all_joined():
            self._complete()

    def _complete(self) -> None:
        """The join phase is over: whoever has not joined is out, the others get the next generation."""
        roster = self.roster
        for member in [one for one in roster if one.join is None and one.instance_id is None]:
            self._remove(member)
        self._initial_end = None
        if not len(roster):
            self._join_due = None
            self.generation += 1
            self.protocol_name = None
            self.leader = None
            self._become(EMPTY)
            self.subscribed = self._subscribed_topics()
            self._dirty = True
            self._note(f"is empty as of generation {self.generation}")
            return
        joined = next((member for member in roster if member.join is not None), None)
        if joined is None:
            # Only static members, and none has come: wait until their sessions end.
            self._join_due = self._now + max(roster.rebalance_timeout(), 1)
            return
        self._join_due = None
        if self.leader is None or roster.members[self.leader].join is None:
            self.leader = joined.member_id
        self.generation += 1
        self.protocol_name = roster.vote()
        self._become(COMPLETING)
        self.subscribed = self._subscribed_topics()
        self._dirty = True
        for member in roster:
            member.is_new = False
            if member.join is not None:
                self._answer(member.join, self._joined(member))
                member.join = None
            self._touch(member)
        self._expect_syncs(self._now)
        self._note(
            f"has generation {self.generation} of {len(roster)} members, protocol {self.protocol_name}"
        )

    # -- small things ----------------------------------------------------------------------------------------

    def _become(self, state: State) -> None:
        assert self.state in CAME_FROM[state], f"{self.state.shown} -> {state.shown}"
        self.state = state
        self.since = self._wall

    def _fits(self, event: Join) -> bool:
        """Whether the protocols can be those of this group."""
        if self.state is EMPTY:
            return bool(event.protocol_type and event.protocols)
        return event.protocol_type == self.protocol_type and self.roster.supports_any(event.protocols)

    def _has_room(self, event: Join) -> bool:
        limit = self.limits.max_size
        if self.state in (EMPTY, DEAD) or len(self.roster) < limit:
            return True
        member = self.roster.get(event.member_id)
        if not event.member_id and event.instance_id in self.roster.static:
            # it takes the place of its former self
            return True
        if self.state is PREPARING:
            # Counted by those who have come, so that a group above a lowered limit loses the last to rejoin.
            return (member is not None and member.join is not None) or self.roster.waiting() < limit
        return member is not None

    def _park_join(self, member: Member, event: Join) -> None:
        if member.join is not None:
            # The client has given up on that one, or it would not ask again.
            self._answer(member.join, JoinAnswer(Code.REBALANCE_IN_PROGRESS, member.member_id))
        member.join = event.token
        member.session_timeout = event.session_timeout
        member.rebalance_timeout = event.rebalance_timeout
        self.roster.set_protocols(member, event.protocols)

    def _remove(self, member: Member, *, crashed: bool = True) -> None:
        """Take a member out, whatever it waits for; what follows for the group is the caller's."""
        self._effects.append(Gone(member.member_id, crashed))
        if member.join is not None:
            self._answer(member.join, JoinAnswer(Code.UNKNOWN_MEMBER_ID))
            member.join = None
        if member.sync is not None:
            self._answer(member.sync, SyncAnswer(Code.UNKNOWN_MEMBER_ID))
            member.sync = None
        self.roster.remove(member)
        self._unsynced.discard(member.member_id)
        if member.member_id == self.leader:
            self.leader = next(iter(self.roster.members), None)

    def _joined(self, member: Member) -> JoinAnswer:
        members: Iterable[JoinedMember] = ()
        if member.member_id == self.leader:
            name = self.protocol_name
            members = (
                JoinedMember(one.member_id, one.instance_id, one.metadata(name)) for one in self.roster
            )
        return JoinAnswer(
            Code.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader or "",
            False,
            tuple(members),
        )

    def _synced(self, member: Member) -> SyncAnswer:
        return SyncAnswer(Code.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def _answer_syncs(self, error: Code) -> None:
        for member in self.roster:
            if member.sync is not None:
                self._answer(member.sync, SyncAnswer(error) if error else self._synced(member))
                member.sync = None
                self._touch(member)

    def _touch(self, member: Member) -> None:
        member.deadline = self._now + member.session_timeout

    def _answer(self, token: Token, value: JoinAnswer | SyncAnswer | LeaveAnswer | Plain) -> None:
        self._effects.append(Answer(token, value))

    def _note(self, text: str) -> None:
        self._effects.append(Note(f"group {self.group_id} {text}"))


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


_ON: dict[type[Any], Callable[[ClassicGroup, Any], None]] = {
    Join: ClassicGroup._on_join,
    Sync: ClassicGroup._on_sync,
    Heartbeat: ClassicGroup._on_heartbeat,
    Leave: ClassicGroup._on_leave,
    Delete: ClassicGroup._on_delete,
    Expel: ClassicGroup._on_expel,
    Rebalance: ClassicGroup._on_rebalance,
    HandOver: ClassicGroup._on_hand_over,
    Tick: ClassicGroup._on_tick,
}
