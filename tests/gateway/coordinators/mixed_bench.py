"""A group on the bench that changes its type as its members come and go: rows as a store has them, clients of both
protocols, what each believes that it has.

The clients do what real ones do. Those of the new protocol give up late what they are told to give up. Those of the
classic protocol are eager (they give up all before they join) or cooperative (they keep what they have, and give up
late what they are no longer assigned); one of them leads a classic group.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

from gateway.coordinators import consumer_metadata, consumer_rows, converting, group_rows, subscription
from gateway.coordinators import group_state as classic_state
from gateway.coordinators.classic_events import (
    Answer,
    Gone,
    HandOver,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    Leaver,
    Plain,
    Sync,
    SyncAnswer,
)
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Answer as ConsumerAnswer
from gateway.coordinators.consumer_events import Beat, ClassicBeat, ClassicJoin, Moved, Partition, TopicView
from gateway.coordinators.consumer_events import Heartbeat as ConsumerHeartbeat
from gateway.coordinators.consumer_events import Leave as ConsumerLeave
from gateway.coordinators.consumer_state import Limits
from gateway.coordinators.group_rows import Kind, State
from gateway.coordinators.mixed_group import MixedGroup
from gateway.coordinators.wording import Wording
from store.api import Delete, DeleteRange, Family, Put, Write
from tests.gateway.coordinators.bench import Bench
from tests.gateway.coordinators.consumer_bench import followed

SESSION, REBALANCE = 45_000, 60_000
PREFIX = "home/"
WORDING = Wording(PREFIX)
"""How names of topics begin in the group; the classic protocol leaves it out."""


def metadata(topics: Iterable[str], owned: Collection[tuple[str, int]] = (), version: int = 3) -> bytes:
    """ConsumerProtocolSubscription."""

    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    names = list(topics)
    parts = [struct.pack(">hi", version, len(names)), *map(text, names), struct.pack(">i", -1)]
    if version >= 1:
        by: dict[str, list[int]] = {}
        for name, index in sorted(owned):
            by.setdefault(name, []).append(index)
        parts.append(struct.pack(">i", len(by)))
        parts += [text(name) + struct.pack(f">{1 + len(its)}i", len(its), *its) for name, its in by.items()]
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", -1))
    return b"".join(parts)


class MixedBench(Bench):
    """One group of either type. `policy`: which ways it may go."""

    group: ClassicGroup | MixedGroup

    def __init__(self, *, upgrade: bool = True, downgrade: bool = True, limits: Limits | None = None) -> None:
        super().__init__()
        self.upgrade, self.downgrade = upgrade, downgrade
        self.limits = limits or Limits()
        self.classic_limits = classic_state.Limits(0)
        self.topics: dict[str, TopicView] = {}
        self.version = 0
        self.rows: dict[tuple[Family, bytes], bytes] = {}
        self.answers: deque[tuple[Any, Any]] = deque()
        # what the group has become, one after the other
        self.types: list[Kind] = [Kind.CLASSIC]
        self.group = ClassicGroup("g", self.classic_limits, self.now, WORDING)
        # what somebody knows who is told who has gone, and what has other owners: of classic groups only the first
        self.followed: dict[Partition, str] = {}

    def owned(self) -> dict[Partition, str]:
        """Who may have what in work, as a consumer group says it."""
        group = self.mixed
        assert group is not None
        currents = [each.current for each in group.members.values()]
        topics = {topic for its in currents for topic, _ in (*its.assigned, *its.revoking)}
        return {
            (topic, index): name
            for topic in topics
            for name, indexes in group.owners(topic, 64).items()
            for index in indexes
        }

    def _follow(self, effect: Any) -> None:
        if isinstance(effect, Gone | Moved):
            self.followed = followed(self.followed, effect)

    # -- as a gateway does -------------------------------------------------------------------------------------------

    @property
    def mixed(self) -> MixedGroup | None:
        return self.group if isinstance(self.group, MixedGroup) else None

    def send(self, event: Any) -> Any:
        """Take in an event; answers wait in `answers`, with the tokens that they are for."""
        step = self.group.step(event, self.now, self.now)
        self.store(step.writes)
        for effect in step.effects:
            self._follow(effect)
            if isinstance(effect, Answer | ConsumerAnswer):
                self.answers.append((effect.token, effect.value))
        group = self.mixed
        if group is not None and self.downgrade and converting.may_downgrade(group):
            row = converting.downgraded(group)
            self.store(converting.writes_back(group, row))
            self.become(ClassicGroup.load("g", row, self.classic_limits, self.now, WORDING))

    def store(self, writes: Iterable[Write]) -> None:
        for write in writes:
            if isinstance(write, Put):
                self.rows[write.family, write.key] = write.value
            elif isinstance(write, Delete):
                del self.rows[write.family, write.key]
            else:
                assert isinstance(write, DeleteRange)

    def become(self, group: ClassicGroup | MixedGroup) -> None:
        self.group = group
        self.types.append(Kind.CONSUMER if isinstance(group, MixedGroup) else Kind.CLASSIC)

    def modern(self, event: ConsumerHeartbeat) -> None:
        """Of the new protocol."""
        if isinstance(self.group, ClassicGroup):
            if event.epoch:
                self.answers.append((event.token, Beat(Code.UNKNOWN_MEMBER_ID)))
                return
            if self.group.state is State.EMPTY:
                self.become(MixedGroup("g", self.limits, self.now, WORDING))
            else:
                assert self.upgrade, "the gateway says GROUP_ID_NOT_FOUND"
                row = self.group.handed_over()
                views = {
                    name: self.topics[name] for name in converting.names_in(row, WORDING) & self.topics.keys()
                }
                its, members = converting.upgraded(row, views, WORDING, self.limits.max_size)
                self.send(HandOver())
                self.store(converting.writes("g", its, members))
                group = MixedGroup.load("g", its, members, self.limits, SESSION, self.now, WORDING)
                group.anew = True
                self.become(group)
        self.send(event)

    def classic(
        self, event: Any, names: Collection[str] = (), owned: Collection[tuple[str, int]] = ()
    ) -> None:
        """A request of the classic protocol, JoinGroup with the topics and what the member still has."""
        group = self.mixed
        if group is not None and not group.members and isinstance(event, Join):
            self.become(ClassicGroup("g", self.classic_limits, self.now, WORDING))
        elif group is not None:
            if isinstance(event, Join):
                whole = frozenset(PREFIX + name for name in names)
                beat = ConsumerHeartbeat(
                    event.token,
                    event.member_id or event.new_member_id,
                    0,
                    event.instance_id,
                    event.client_id,
                    event.client_host,
                    None,
                    event.rebalance_timeout,
                    tuple(sorted(whole)),
                    "",
                    None,
                    self.places(owned),
                    self.seen(group, whole),
                    {},
                    self.version,
                    event.session_timeout,
                    0,
                )
                event = ClassicJoin(event, beat)
            elif isinstance(event, Heartbeat):
                changed = group.seen != self.version
                event = ClassicBeat(event, self.seen(group, ()) if changed else None, {}, self.version)
        self.send(event)

    def seen(self, group: MixedGroup, names: Iterable[str]) -> dict[str, TopicView]:
        wanted = group.subscribed() | frozenset(names)
        return {name: view for name, view in self.topics.items() if name in wanted}

    def places(self, names: Collection[tuple[str, int]]) -> frozenset[Partition]:
        return frozenset(
            (self.topics[PREFIX + name].topic_id, index)
            for name, index in names
            if PREFIX + name in self.topics
        )

    def change(self, **topics: TopicView | None) -> None:
        """Topics made, grown or (None) deleted, by their bare names."""
        for name, view in topics.items():
            if view is None:
                del self.topics[PREFIX + name]
            else:
                self.topics[PREFIX + name] = view
        self.version += 1

    def crash(self) -> None:
        """All that is not in rows is gone, and nobody is answered."""
        self.answers.clear()
        row = self.rows.get((Family.GROUP, b"g"))
        if row is None:
            self.become(ClassicGroup("g", self.classic_limits, self.now, WORDING))
            return
        if group_rows.head(row).kind == Kind.CLASSIC:
            assert not [key for family, key in self.rows if family is Family.MEMBER]
            self.become(
                ClassicGroup.load("g", group_rows.classic(row), self.classic_limits, self.now, WORDING)
            )
            return
        members = [
            consumer_rows.member(value)
            for (family, key), value in sorted(self.rows.items())
            if family is Family.MEMBER
        ]
        its = consumer_rows.group(row)
        assert its.size == len(members)
        self.become(MixedGroup.load("g", its, members, self.limits, SESSION, self.now, WORDING))
        self.followed = self.owned()

    def has(self, member_id: str) -> bool:
        """Whether the group has this member."""
        if isinstance(self.group, MixedGroup):
            return member_id in self.group.members
        return member_id in self.group.roster


class NewClient:
    """A consumer of the new protocol, as far as it knows."""

    modern = True

    def __init__(self, bench: MixedBench, name: str, names: list[str], instance: str | None = None) -> None:
        self.bench, self.name, self.names, self.instance = bench, name, names, instance
        self.epoch = 0
        self.told: frozenset[Partition] = frozenset()
        self.keeps: frozenset[Partition] = frozenset()
        self.unsure = False

    @property
    def member_id(self) -> str:
        return self.name

    @property
    def uses(self) -> frozenset[Partition]:
        return self.told | self.keeps

    def abandon(self) -> None:
        self.epoch, self.told, self.keeps = 0, frozenset(), frozenset()

    def settle_up(self) -> None:
        """It gives up what it was told to give up."""
        self.keeps = frozenset()

    def beat(self, report: bool = True) -> None:
        joins = self.epoch == 0
        if joins:
            self.abandon()
        says_all = joins or self.unsure
        names = tuple(sorted(PREFIX + name for name in self.names)) if says_all else None
        group = self.bench.mixed
        changed = group is None or says_all or group.seen != self.bench.version
        wanted = frozenset(names or ()).union(group.subscribed() if group is not None else self.bench.topics)
        self.bench.modern(
            ConsumerHeartbeat(
                self,
                self.name,
                self.epoch,
                self.instance,
                "c",
                "/h",
                None,
                REBALANCE if says_all else -1,
                names,
                "" if says_all else None,
                None,
                self.uses if report or says_all else None,
                {name: view for name, view in self.bench.topics.items() if name in wanted}
                if changed
                else None,
                {},
                self.bench.version,
                SESSION,
                5_000,
            )
        )

    def answered(self, answer: Beat) -> None:
        if answer.error:
            assert answer.error in (
                Code.UNKNOWN_MEMBER_ID,
                Code.FENCED_MEMBER_EPOCH,
                Code.FENCED_INSTANCE_ID,
                Code.UNRELEASED_INSTANCE_ID,
            )
            self.abandon()
            return
        self.epoch, self.unsure = answer.epoch, False
        if answer.assignment is not None:
            self.keeps = self.uses - answer.assignment
            self.told = answer.assignment

    def leave(self, epoch: int = -1) -> None:
        if self.bench.mixed is not None:
            self.bench.send(ConsumerLeave(None, self.name, self.instance, epoch))

    def cut_off(self) -> None:
        """An answer may have been lost."""
        self.unsure = True


class ClassicClient:
    """A consumer of the classic protocol, as far as it knows."""

    modern = False

    def __init__(
        self, bench: MixedBench, name: str, names: list[str], *, eager: bool, instance: str | None = None
    ) -> None:
        self.bench, self.name, self.names, self.eager, self.instance = bench, name, names, eager, instance
        self.member_id = ""
        self.generation = -1
        # what it has, by topic and index, and what it was told to give up and still works on
        self.told: frozenset[tuple[str, int]] = frozenset()
        self.keeps: frozenset[tuple[str, int]] = frozenset()
        # a JoinGroup or SyncGroup has no answer yet
        self.waits = False
        self.must_join = True
        self.count = 0

    @property
    def uses(self) -> frozenset[Partition]:
        return self.bench.places(self.told | self.keeps)

    def abandon(self) -> None:
        self.member_id, self.generation = "", -1
        self.told, self.keeps = frozenset(), frozenset()
        self.waits, self.must_join = False, True

    def settle_up(self) -> None:
        self.keeps = frozenset()

    def beat(self, report: bool = True) -> None:
        """What it does next."""
        if self.waits:
            return
        if self.must_join:
            self.join()
            return
        self.bench.classic(Heartbeat(self, self.member_id, self.generation, self.instance))

    def join(self) -> None:
        self.keeps = frozenset()
        if self.eager:
            self.told = frozenset()
        self.waits, self.count = True, self.count + 1
        protocol = "range" if self.eager else "cooperative-sticky"
        self.bench.classic(
            Join(
                self,
                self.member_id,
                f"{self.name}-{self.count}",
                self.instance,
                "c",
                "/h",
                SESSION,
                REBALANCE,
                subscription.CONSUMER,
                ((protocol, metadata(self.names, self.told)),),
            ),
            self.names,
            self.told,
        )

    def answered(self, answer: Any) -> None:
        if isinstance(answer, Plain):
            if answer.error == Code.REBALANCE_IN_PROGRESS:
                self.must_join = True
            elif answer.error:
                self.lose(answer.error)
            return
        if isinstance(answer, JoinAnswer):
            self.joined(answer)
        else:
            assert isinstance(answer, SyncAnswer)
            self.synced(answer)

    def lose(self, error: int) -> None:
        """It is no member any more, or not of this generation: what it has is lost."""
        assert error in (Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.FENCED_INSTANCE_ID), error
        member_id = self.member_id
        self.abandon()
        if error == Code.ILLEGAL_GENERATION:
            self.member_id = member_id

    def joined(self, answer: JoinAnswer) -> None:
        self.waits = False
        if answer.error == Code.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error == Code.REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif answer.error:
            self.lose(answer.error)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation
            shares = self.share(answer.members) if answer.leader == answer.member_id else {}
            self.waits, self.must_join = True, False
            self.bench.classic(
                Sync(
                    self,
                    self.member_id,
                    self.generation,
                    self.instance,
                    answer.protocol_type,
                    answer.protocol_name,
                    shares,
                )
            )

    def synced(self, answer: SyncAnswer) -> None:
        self.waits = False
        if answer.error == Code.REBALANCE_IN_PROGRESS:
            self.must_join = True
        elif answer.error:
            self.lose(answer.error)
        else:
            has = subscription.assignment(answer.assignment)
            now = frozenset((name, index) for name, its in has.items() for index in its)
            self.keeps = frozenset() if self.eager else self.told - now
            self.told = now
            # what it gives up is to be somebody's: a cooperative member says so by joining again
            self.must_join = bool(self.keeps)

    def share(self, members: Iterable[JoinedMember]) -> dict[str, bytes]:
        """As a leader: as many for each, and nothing that somebody else still has."""
        said = {one.member_id: consumer_metadata.read(one.metadata) for one in members}
        names = sorted(said)
        shares: dict[str, dict[str, list[int]]] = {name: {} for name in names}
        owner = {place: name for name, its in said.items() if its is not None for place in its.owned}
        turn = 0
        for topic, view in sorted(self.bench.topics.items()):
            bare = topic.removeprefix(PREFIX)
            readers = [name for name in names if (its := said[name]) is not None and bare in its.topics]
            for index in range(view.partitions if readers else 0):
                name = readers[turn % len(readers)]
                turn += 1
                if owner.get((bare, index), name) == name:
                    shares[name].setdefault(bare, []).append(index)
        return {name: consumer_metadata.assignment(1, its.items()) for name, its in shares.items()}

    def leave(self) -> None:
        if self.member_id:
            self.bench.classic(Leave(None, (Leaver(self.member_id, self.instance),)))

    def cut_off(self) -> None:
        if self.waits:
            self.waits, self.must_join = False, True
