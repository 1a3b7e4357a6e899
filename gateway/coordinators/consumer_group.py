"""Membership of a consumer group of the new protocol (KIP-848) as a pure state machine: a `ConsumerGroup` is one.

As for the other kinds of groups: everything that decides who is a member, of which epoch, with which partitions, lives
here; nothing does I/O or reads a clock. `step(event, now, wall)` changes the state in memory and says what must be made
durable (writes) and what follows once it is (effects).

Three numbers say where a group is. The group epoch grows when members or topics change. The assignment epoch is the
group epoch that the targets were made for. A member's epoch is the assignment epoch that it has reached.

| state       | event                                                    | then                      | group epoch |
|-------------|----------------------------------------------------------|---------------------------|-------------|
| Empty       | a member joins (epoch 0)                                 | Stable                    | + 1         |
| Stable      | another joins; one subscribes differently, or asks for   | Reconciling, or Stable if | + 1         |
|             | another assignor; a topic came, went, was made anew,     | it is the only member     |             |
|             | grew: found at the next heartbeat of any member          |                           |             |
| Reconciling | the same                                                 | Reconciling               | + 1         |
| Reconciling | a heartbeat, and the last member has reached its target  | Stable                    |             |
| Stable,     | a member leaves (-1), is silent for its session timeout, | Assigning                 | + 1         |
| Reconciling | or keeps what it must give up beyond its rebalance       |                           |             |
|             | timeout; others stay                                     |                           |             |
| Assigning   | a heartbeat of any member: targets are made anew         | Reconciling, or Stable    |             |
| Stable      | a static member is away (-2)                             | Reconciling               |             |
| any of them | a member is expelled                                     | as if it were silent      | + 1         |
| any of them | the last member is gone                                  | Empty                     | + 1         |
| Empty       | deleted                                                  | Dead                      |             |

How a member gets to its target is a table of its own: `reconciling`.

An assignment takes the longer, the more members and partitions there are, and a thousand members join at once when an
application starts. So one stands for a while (`Limits.a_ms`) in which those that join get nothing yet: the group is
Assigning, and they are told to ask again soon. With a hundred members and partitions that is a millisecond.

What a heartbeat meets, in this order (texts are Kafka's):

| it asks for an assignor that the node does not have                         | 112 |
| the group is full, the member is none of it and takes nobody's place        | 81  |
| it joins, and another member that is not away has its instance id           | 111 |
| it does not join, and nobody has its instance id, or it is no member        | 25  |
| it does not join, and another member has its instance id                    | 82  |
| its epoch is above the member's                                             | 110 |
| its epoch is below, and not the one before it, or it has what it should not | 110 |

The epoch before is taken because the answer that told the new one may have been lost. A member that joins has given up
all that it had: that is also so when the group still knows it, and it begins anew.

Whoever must know who has what is told: that partitions have other owners, or none (Moved); that a member has gone,
and whether it said so (Gone). A static member that is away has gone: what is kept for it is nobody's meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.coordinators import group_rows, offsets
from gateway.coordinators.assignors import (
    ASSIGNORS,
    FAILOVER,
    Counts,
    Subscriber,
    Subscribers,
    Target,
    by_failover,
)
from gateway.coordinators.classic_events import (
    Answered,
    Delete,
    Expel,
    Gone,
    Note,
    Plain,
    Tick,
    Token,
)
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import (
    Answer,
    Beat,
    Effect,
    Event,
    Heartbeat,
    Leave,
    Moved,
    Partition,
    Step,
    Topics,
    TopicView,
)
from gateway.coordinators.consumer_member import LEFT, Member
from gateway.coordinators.consumer_state import ConsumerState, Limits
from gateway.coordinators.group_rows import State
from gateway.coordinators.reconciling import Current, MemberState, reconcile
from gateway.coordinators.wording import HOME, Wording
from store.api import DeleteRange, Family, Write

WAITING_MS = 500
"""How soon who waits for partitions of others is told to ask again, in ms: 2 for each member, and this at the least."""


class ConsumerGroup(ConsumerState):
    """One group, and what happens to it. `now` is monotonic ms, `wall` ms since 1970."""

    __slots__ = (
        "_all_moved",
        "_changed",
        "_dirty",
        "_effects",
        "_gone",
        "_moved",
        "_now",
        "_removed",
        "_stands_until",
        "_wall",
        "_writes",
        "anew",
    )

    def __init__(self, group_id: str, limits: Limits, wall: int, wording: Wording = HOME) -> None:
        super().__init__(group_id, limits, wall, wording)
        # until then members that join are not assigned anything yet
        self._stands_until = 0
        # whether the next member that says something makes a new epoch in any case: the group was a classic one, and
        # some of its partitions may be nobody's
        self.anew = False
        # of the step under way
        self._now = 0
        self._wall = wall
        self._dirty = False
        # members whose rows are to be written, or to go
        self._changed: dict[str, Member] = {}
        self._removed: list[str] = []
        # who has gone, and which partitions have other owners; perhaps some that are not named have none
        self._gone: list[Effect] = []
        self._moved: dict[Partition, str | None] = {}
        self._all_moved = False
        self._writes: list[Write] = []
        self._effects: list[Effect] = []

    # -- the machine -------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: int, wall: int) -> Step:
        """Take in one event. `now` must not go back."""
        self._now, self._wall = now, wall
        self._writes, self._effects, self._dirty = [], [], False
        self._changed, self._removed = {}, []
        self._gone, self._moved, self._all_moved = [], {}, False
        self._on(event)
        self._become(self._state())
        if self._dirty or self._changed or self._removed:
            self._write()
        if self._all_moved:
            told: list[Effect] = [Moved(dict(self._owners), whole=True)]
        else:
            told = [Moved(self._moved, whole=False)] if self._moved else []
        # before anybody hears that it has something now
        return Step(self._writes, [*self._gone, *told, *self._effects])

    def _on(self, event: Event) -> None:
        _ON[type(event)](self, event)

    def _state(self) -> State:
        if self.state is State.DEAD:
            return State.DEAD
        if not self.members:
            return State.EMPTY
        if self.epoch > self.assignment_epoch:
            return State.ASSIGNING
        return State.RECONCILING if self._unsettled else State.STABLE

    def _write(self) -> None:
        """The rows that changed: one commit."""
        group_id, writes = self.group_id, self._writes
        writes += [group_rows.delete_member(group_id, member_id) for member_id in self._removed]
        writes += [
            group_rows.put_member(group_id, name, member.row()) for name, member in self._changed.items()
        ]
        if self._dirty and self.state is not State.DEAD:
            self.stored = True
            writes.append(group_rows.put(group_id, self.row()))

    def _on_heartbeat(self, event: Heartbeat) -> None:
        refusal = self.refusal(event)
        if refusal is not None:
            self._answer(event.token, refusal)
            return
        joins = False
        if event.epoch == 0:
            member, joins = self._join(event)
        else:
            member = self.members[event.member_id]
        before, late = member.assigned, event.epoch != member.epoch
        self._take(member, event, joins=joins, at_once=False)
        # whoever says all that it knows may have missed what it was told
        subscribes = event.names is not None or event.pattern is not None
        whole = event.owned is not None and subscribes and event.rebalance_timeout >= 0
        told = whole or late or event.epoch == 0 or member.assigned.keys() != before.keys()
        self._answer(
            event.token,
            Beat(
                Code.NONE,
                None,
                member.member_id,
                member.epoch,
                self._interval(member, event.heartbeat_interval),
                frozenset(member.assigned) if told else None,
            ),
        )

    def _take(self, member: Member, event: Heartbeat, *, joins: bool, at_once: bool) -> None:
        """Take in what a member says, and let it go on to its target. `at_once`: old targets are made anew also while
        an assignment stands.
        """
        rack = member.rack
        if member.describe_as(event):
            self._changed[member.member_id] = member
        # a rack may say who comes first
        other = (self._subscribe(member, event) or member.rack != rack) and not joins
        if event.topics is not None:
            # of one that joins the topics may be new to the group: that is no news for the others
            other = (self._see(event.topics, event.matches) and not joins) or other
            self.seen = event.version
        # the assignment that there is was made by other priorities than those of now
        others_first = self.epoch == self.assignment_epoch and self.made_by != self.limits.priorities
        if joins or other or self.anew or others_first:
            # of a classic group not all may have had what they were assigned
            self._all_moved = self.anew
            self.anew = False
            self._bump()
        if self.epoch > self.assignment_epoch and (at_once or other or self._now >= self._stands_until):
            self._assign()
        self._reconcile(member, event.owned)
        self._sessions.put(member.member_id, self._now + event.session_timeout)

    def _join(self, event: Heartbeat) -> tuple[Member, bool]:
        """The member that joins, and whether that makes another group of it."""
        name, instance = event.member_id, event.instance_id
        member = self.members.get(name)
        if member is not None and member.instance_id == instance:
            self._have(member, Current(0, MemberState.STABLE, {}, {}))
            member.previous_epoch = 0
            member.classic = None
            self._rejoins.drop(name)
            return member, False
        return self._newcomer(name, instance)

    def _newcomer(self, name: str, instance: str | None) -> tuple[Member, bool]:
        """The same of one that is new, or new under this instance id: it takes the place of who had that."""
        known = name in self.members
        if known:
            self._drop(name)
        holder = self.static.get(instance) if instance is not None else None
        member = Member(name, instance)
        if holder is not None:
            member.succeed(self.members[holder])
            self._read(member.names, member.pattern)
            self._drop(holder)
            self._owners.update(dict.fromkeys(member.assigned, name))
            self._moved.update(dict.fromkeys(member.assigned, name))
        else:
            # who joins makes a new epoch
            member.joined = self.epoch
        self.members[name] = member
        self._changed[name] = member
        if instance is not None:
            self.static[instance] = name
        self._note(f"has a new member {name}" + (f" in the place of {holder}" if holder is not None else ""))
        return member, known or holder is None

    def _subscribe(self, member: Member, event: Heartbeat) -> bool:
        """What it subscribes to from now on, and which assignor it asks for. Whether that is new."""
        names = member.names if event.names is None else tuple(sorted(set(event.names)))
        pattern = member.pattern if event.pattern is None else event.pattern
        assignor = member.assignor if event.assignor is None else event.assignor
        if (names, pattern, assignor) == (member.names, member.pattern, member.assignor):
            return False
        self._read(names, pattern)
        self._unread(member.names, member.pattern)
        member.names, member.pattern, member.assignor = names, pattern, assignor
        self._changed[member.member_id] = member
        return True

    def _see(self, topics: Topics, matches: Mapping[str, frozenset[str]]) -> bool:
        """Take over what topics there are; whether that changes anything for the group."""
        self.matches = {pattern: matches[pattern] for pattern in self._patterns}
        before, self.topics = self.topics, dict(topics)
        self.topics = self._wanted()
        return self.topics != before

    def _wanted(self) -> dict[str, TopicView]:
        """Those of the topics that somebody subscribes to, in order."""
        readers, matched = self._readers, frozenset().union(*self.matches.values())
        # of what is named most may not be there
        return {name: self.topics[name] for name in sorted(self.topics) if name in readers or name in matched}

    def _assign(self) -> None:
        """Make everybody's target anew."""
        chosen = self._chosen()
        ids: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
        priorities = self.limits.priorities
        subscribers = {
            name: Subscriber(
                member.instance_id,
                self._ids(ids, member),
                member.target,
                member.client_id,
                member.rack,
                priorities.get(member.instance_id or member.client_id) if priorities else None,
                member.joined,
            )
            for name, member in self.members.items()
        }
        counts = {view.topic_id: view.partitions for view in self.topics.values()}
        for name, target in self._shared_out(chosen, subscribers, counts).items():
            member = self.members[name]
            if target != member.target:
                member.target = target
                self._changed[name] = member
        self.assignment_epoch, self.assignor, self._dirty = self.epoch, chosen, True
        self.made_by = dict(priorities)
        self._stands_until = self._now + (len(subscribers) + sum(counts.values())) // self.limits.a_ms
        self._unsettled = set(self.members)

    def _shared_out(self, assignor: str, members: Subscribers, counts: Counts) -> dict[str, Target]:
        if assignor != FAILOVER:
            return ASSIGNORS[assignor](members, counts)
        plain = {view.topic_id: self.limits.plain(name) for name, view in self.topics.items()}
        return by_failover(
            members, counts, {topic: name for topic, name in plain.items() if name is not None}
        )

    def _ids(
        self, known: dict[tuple[tuple[str, ...], str], frozenset[bytes]], member: Member
    ) -> frozenset[bytes]:
        """The ids of those topics of a member that there are."""
        found = known.get((member.names, member.pattern))
        if found is None:
            topics = self.topics
            names = self.matches.get(member.pattern, frozenset()).union(member.names)
            found = frozenset([topics[name].topic_id for name in names if name in topics])
            known[member.names, member.pattern] = found
        return found

    def _chosen(self) -> str:
        """The assignor of the group, or that which most members ask for, of those that the node still has."""
        if self.limits.only is not None:
            return self.limits.only
        votes = Counter(
            [each.assignor for each in self.members.values() if each.assignor in self.limits.assignors]
        )
        order = self.limits.assignors
        return max(order, key=lambda name: (votes[name], -order.index(name)))

    def _reconcile(self, member: Member, owned: frozenset[Partition] | None) -> None:
        name = member.member_id
        before, previous = member.current, member.epoch
        after = reconcile(
            before,
            self.assignment_epoch,
            member.target,
            owned,
            lambda place: self._owners.get(place, name) == name,
        )
        if after is not before:
            self._have(member, after)
            if after.epoch != previous:
                member.previous_epoch = previous
        if member.settled(self.assignment_epoch):
            self._unsettled.discard(name)

    def _have(self, member: Member, current: Current) -> None:
        """A member has this from now on, and nothing else of what it had."""
        name, owners = member.member_id, self._owners
        for places in (member.current.assigned, member.current.revoking):
            for place in places:
                if place not in current.assigned and place not in current.revoking:
                    del owners[place]
                    self._moved[place] = None
        gained = {place: name for place in current.assigned if place not in owners}
        owners.update(gained)
        self._moved.update(gained)
        member.current = current
        self._changed[name] = member
        self._unsettled.add(name)
        if current.state is MemberState.UNREVOKED:
            self._revocations.put(name, self._now + member.rebalance_timeout)
        else:
            self._revocations.drop(name)

    def _on_leave(self, event: Leave) -> None:
        refusal: Beat | None
        if self.state is State.DEAD:
            refusal = Beat(Code.COORDINATOR_NOT_AVAILABLE)
        else:
            refusal = self.stranger(event.member_id, event.instance_id)
        if refusal is not None:
            self._answer(event.token, refusal)
            return
        member = self.members[event.member_id]
        if event.epoch == LEFT:
            # What it has stays its own until its session ends. What it was to give up it has given up.
            self._have(member, Current(LEFT, MemberState.STABLE, member.assigned, {}))
            self._gone.append(Gone(event.member_id, crashed=False))
            self._note(f"waits for the static member {event.member_id}")
        else:
            self._remove([event.member_id])
            self._note(f"was left by member {event.member_id}")
        self._answer(event.token, Beat(Code.NONE, None, event.member_id, event.epoch))

    def _on_delete(self, event: Delete) -> None:
        if self.state is State.DEAD:
            self._answer(event.token, Plain(Code.GROUP_ID_NOT_FOUND))
        elif self.members:
            self._answer(event.token, Plain(Code.NON_EMPTY_GROUP))
        else:
            self._become(State.DEAD)
            self._writes.append(group_rows.delete(self.group_id))
            self._writes.append(DeleteRange(Family.OFFSET, *offsets.group_range(self.group_id)))
            self._answer(event.token, Plain(Code.NONE))

    def _on_tick(self, _: Tick) -> None:
        silent, slow = self._sessions.take(self._now), self._revocations.take(self._now)
        late = self._rejoins.take(self._now)
        slow = [name for name in dict.fromkeys((*slow, *late)) if name not in silent]
        if silent:
            self._note(f"had no sign of life from {', '.join(silent)}")
        if slow:
            self._note(f"waited in vain for {', '.join(slow)} to give up partitions, or to join again")
        if silent or slow:
            self._remove([*silent, *slow], crashed=True)

    def _on_expel(self, event: Expel) -> None:
        if event.member_id in self.members:
            self._note(f"is without {event.member_id}: {event.reason}")
            self._remove([event.member_id], crashed=True)

    # -- small things ------------------------------------------------------------------------------------------------

    def _remove(self, member_ids: Iterable[str], *, crashed: bool = False) -> None:
        """They are out, and what they had is free. `crashed`: they have not said so."""
        for name in member_ids:
            self._drop(name, crashed=crashed)
        if self._patterns.keys() <= self.matches.keys():
            # else it is known at the next heartbeat
            self.matches = {pattern: self.matches[pattern] for pattern in self._patterns}
            self.topics = self._wanted()
        self._bump()

    def _drop(self, name: str, *, crashed: bool = False) -> None:
        """One is gone, with all that says that it was there. What somebody else has by now stays with that."""
        member = self.members.pop(name)
        # one that is away has said so
        self._gone.append(Gone(name, crashed=crashed and not member.left))
        for place in (*member.current.assigned, *member.current.revoking):
            if self._owners.get(place) == name:
                del self._owners[place]
        if member.instance_id is not None and self.static.get(member.instance_id) == name:
            del self.static[member.instance_id]
        self._unread(member.names, member.pattern)
        self._unsettled.discard(name)
        self._sessions.drop(name)
        self._revocations.drop(name)
        self._rejoins.drop(name)
        self._changed.pop(name, None)
        self._removed.append(name)

    def _read(self, names: Iterable[str], pattern: str) -> None:
        self._readers.update(names)
        if pattern:
            self._patterns[pattern] += 1

    def _unread(self, names: Iterable[str], pattern: str) -> None:
        for counts, those in ((self._readers, names), (self._patterns, (pattern,) if pattern else ())):
            for each in those:
                counts[each] -= 1
                if not counts[each]:
                    del counts[each]

    def _bump(self) -> None:
        self.epoch += 1
        self._dirty = True

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state, self.since, self._dirty = state, self._wall, True

    def _interval(self, member: Member, interval: int) -> int:
        """When to ask again: soon, as long as others have what is to be this one's, or nobody has said what that is."""
        if member.current.state is not MemberState.UNRELEASED and self.epoch == self.assignment_epoch:
            return interval
        return min(interval, max(WAITING_MS, 2 * len(self.members)))

    def _answer(self, token: Token, value: Beat | Answered) -> None:
        self._effects.append(Answer(token, value))

    def _note(self, text: str) -> None:
        self._effects.append(Note(f"consumer group {self.group_id} {text}"))


_ON: dict[type[Any], Callable[[ConsumerGroup, Any], None]] = {
    Heartbeat: ConsumerGroup._on_heartbeat,
    Leave: ConsumerGroup._on_leave,
    Delete: ConsumerGroup._on_delete,
    Expel: ConsumerGroup._on_expel,
    Tick: ConsumerGroup._on_tick,
}
