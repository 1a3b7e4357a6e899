"""A consumer group in which members may speak the classic protocol (KIP-848's online migration). Pure.

To the group all members are the same: they subscribe, have targets, give up what is not theirs, are given what is free.
A member of the classic protocol does by JoinGroup, SyncGroup and Heartbeat what the others do by one heartbeat. Its
generation is its member epoch, its JoinGroup says what it still has, and SyncGroup tells it what it has. It never
leads, and nobody waits for others: JoinGroup is answered at once.

What such a member meets. Where it is on its way to its target is told in `reconciling`; a JoinGroup takes it on:

| the member is                      | its epoch | JoinGroup          | SyncGroup      | Heartbeat |
|------------------------------------|-----------|--------------------|----------------|-----------|
| at its target                      | newest    | the same generation| what it has    | ok        |
| behind                             | older     | the next one       | 27             | 27        |
| Unrevoked: to give up partitions   | older     | the same, as long  | what it keeps  | 27        |
|                                    |           | as it has them     |                |           |
| Unreleased: others still have some | newest    | the same generation| what it has    | ok        |
| Unreleased: all of it is free      | newest    | the same generation| what it has    | 27        |
| one of the new protocol            | any       | 25                 | 25             | 25        |
| none                               |           | the newest one     | 25             | 25        |

27 sends it to join again. If it does not within its rebalance timeout, or does not ask for its partitions by SyncGroup
after it has joined, it is out, since others may wait for what it has. A wrong generation is 22, another protocol than
that of its JoinGroup 23, a protocol that not all classic members speak 23, an instance id that another member has 82.

A group becomes such a one, and a classic group again, in `converting`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.coordinators import consumer_metadata, consumer_rows
from gateway.coordinators.classic_events import (
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaver,
    Left,
    Plain,
    Sync,
    SyncAnswer,
)
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import ClassicBeat, ClassicJoin, Event
from gateway.coordinators.consumer_group import ConsumerGroup
from gateway.coordinators.consumer_member import Classic, Member
from gateway.coordinators.group_rows import State
from gateway.coordinators.reconciling import MemberState
from gateway.coordinators.subscription import CONSUMER


class MixedGroup(ConsumerGroup):
    """One group, whichever protocols its members speak."""

    __slots__ = ()

    def _on(self, event: Event) -> None:
        on = _ON.get(type(event))
        if on is None:
            super()._on(event)
        else:
            on(self, event)

    # -- JoinGroup ---------------------------------------------------------------------------------------------------

    def _on_classic_join(self, event: ClassicJoin) -> None:
        join, instance = event.join, event.join.instance_id
        code = self._refusal_of_join(event)
        if code:
            self._answer(join.token, JoinAnswer(code))
            return
        if not join.member_id and instance is None and join.id_required:
            # nothing is kept of that: whoever comes with an id that nobody has is new
            self._answer(join.token, JoinAnswer(Code.MEMBER_ID_REQUIRED, join.new_member_id))
            return
        name = join.member_id or join.new_member_id
        member, joins = self.members.get(name), False
        if member is None:
            member, joins = self._newcomer(name, instance)
        its = Classic(join.session_timeout, join.protocols)
        if its != member.classic:
            member.classic = its
            self._changed[name] = member
        self._take(member, event.beat, joins=joins, at_once=True)
        self._rejoins.put(name, self._now + member.rebalance_timeout)
        self._answer(
            join.token,
            JoinAnswer(Code.NONE, name, member.epoch, CONSUMER, its.protocols[0][0]),
        )

    def _refusal_of_join(self, event: ClassicJoin) -> Code:
        join, instance = event.join, event.join.instance_id
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        holder = self.static.get(instance) if instance is not None else None
        known = self.members.get(join.member_id)
        if known is None and holder is None and len(self.members) >= self.limits.max_size:
            return Code.GROUP_MAX_SIZE_REACHED
        if not self._speaks(event, holder or join.member_id):
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if instance is not None and join.member_id:
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder != join.member_id:
                return Code.FENCED_INSTANCE_ID
        if known is not None and (known.classic is None or known.instance_id != instance):
            return Code.UNKNOWN_MEMBER_ID
        return Code.NONE

    def _speaks(self, event: ClassicJoin, name: str) -> bool:
        """Whether one of its protocols is spoken by all others of the classic protocol."""
        join = event.join
        if join.protocol_type != CONSUMER or not join.protocols:
            return False
        others = [
            {protocol for protocol, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None and member.member_id != name
        ]
        return any(all(protocol in spoken for spoken in others) for protocol, _ in join.protocols)

    # -- the others --------------------------------------------------------------------------------------------------

    def _on_sync(self, event: Sync) -> None:
        member = self._fenced(event.member_id, event.instance_id, event.generation)
        if not isinstance(member, Member):
            self._answer(event.token, event.refused(member))
            return
        assert member.classic is not None
        protocol, metadata = member.classic.protocols[0]
        if event.protocol_type not in (None, CONSUMER) or event.protocol_name not in (None, protocol):
            self._answer(event.token, event.refused(Code.INCONSISTENT_GROUP_PROTOCOL))
        elif member.epoch < self.epoch and member.current.state is not MemberState.UNREVOKED:
            self._call(member)
            self._answer(event.token, event.refused(Code.REBALANCE_IN_PROGRESS))
        else:
            self._rejoins.drop(member.member_id)
            self._answer(
                event.token, SyncAnswer(Code.NONE, CONSUMER, protocol, self._bytes(member, metadata))
            )

    def _bytes(self, member: Member, metadata: bytes) -> bytes:
        """What it has, as clients of the classic protocol read it."""
        said = consumer_metadata.read(metadata)
        names = {view.topic_id: self.wording.outward(name) for name, view in self.topics.items()}
        topics = [
            (names[topic], indexes)
            for topic, indexes in consumer_rows.by_topic(member.assigned)
            if topic in names
        ]
        return consumer_metadata.assignment(said.version if said is not None else 0, topics)

    def _on_beat(self, event: ClassicBeat) -> None:
        beat = event.beat
        member = self._fenced(beat.member_id, beat.instance_id, beat.generation)
        if not isinstance(member, Member):
            self._answer(beat.token, Plain(member))
            return
        assert member.classic is not None
        self._sessions.put(member.member_id, self._now + member.classic.session_timeout)
        if event.topics is not None:
            if self._see(event.topics, event.matches):
                self._bump()
            self.seen = event.version
        if self._must_join(member):
            self._call(member)
            self._answer(beat.token, Plain(Code.REBALANCE_IN_PROGRESS))
        else:
            self._answer(beat.token, Plain(Code.NONE))

    def _must_join(self, member: Member) -> bool:
        """Whether a member gets on by joining again."""
        if member.epoch < self.epoch:
            return True
        # all at once: each time it joins, all its partitions stand still in most clients
        return member.current.state is MemberState.UNRELEASED and all(
            self._owners.get(place, member.member_id) == member.member_id for place in member.target
        )

    def _call(self, member: Member) -> None:
        """It is told to join again: the time for it begins with the first call."""
        if member.member_id not in self._rejoins:
            self._rejoins.put(member.member_id, self._now + member.rebalance_timeout)

    def _on_classic_leave(self, event: Leave) -> None:
        if self.state is State.DEAD:
            self._answer(event.token, event.refused(Code.COORDINATOR_NOT_AVAILABLE))
            return
        gone: dict[str, None] = {}
        left: list[Left] = []
        for leaver in event.members:
            found = self._leaver(leaver)
            if isinstance(found, Member) and found.member_id not in gone:
                gone[found.member_id] = None
                left.append(Left(leaver.member_id, leaver.instance_id, Code.NONE))
            else:
                code = Code.UNKNOWN_MEMBER_ID if isinstance(found, Member) else found
                left.append(Left(leaver.member_id, leaver.instance_id, code))
        if gone:
            self._note(f"was left by {', '.join(gone)}")
            self._remove(gone)
        self._answer(event.token, LeaveAnswer(Code.NONE, tuple(left)))

    def _leaver(self, leaver: Leaver) -> Member | Code:
        if not leaver.member_id and leaver.instance_id is not None:
            # an administrator may do that, whichever protocol the member speaks
            name = self.static.get(leaver.instance_id)
            return self.members[name] if name is not None else Code.UNKNOWN_MEMBER_ID
        return self._fenced(leaver.member_id, leaver.instance_id)

    def _fenced(self, member_id: str, instance: str | None, generation: int | None = None) -> Member | Code:
        """The member of the classic protocol that a request comes from, or the error that keeps it out."""
        if self.state is State.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if instance is not None:
            holder = self.static.get(instance)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Code.FENCED_INSTANCE_ID
        member = self.members.get(member_id)
        if member is None or member.classic is None:
            return Code.UNKNOWN_MEMBER_ID
        if generation is not None and generation != member.epoch:
            return Code.ILLEGAL_GENERATION
        return member


_ON: dict[type[Any], Callable[[MixedGroup, Any], None]] = {
    ClassicJoin: MixedGroup._on_classic_join,
    ClassicBeat: MixedGroup._on_beat,
    Sync: MixedGroup._on_sync,
    Leave: MixedGroup._on_classic_leave,
}
