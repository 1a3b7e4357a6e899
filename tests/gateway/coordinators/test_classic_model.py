"""Whatever clients do and whenever the gateway dies: what a classic group never breaks.

Clients are drawn without sense: they join twice, sync for others' generations, use ids of members long gone, stay
silent for as long as they like. The test believes only what was answered, and what was durable when it was.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import (
    Answer,
    Delete,
    Expel,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    Leaver,
    Rebalance,
    Sync,
    SyncAnswer,
    Tick,
)
from gateway.coordinators.classic_group import ClassicGroup
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import State
from gateway.coordinators.group_state import Limits
from store.api import Delete as DeleteRow
from store.api import Put
from tests.examples import examples

PROTOCOLS = st.sampled_from(
    [
        (("range", b"1"),),
        (("range", b"1"), ("sticky", b"2")),
        (("sticky", b"3"), ("range", b"4")),
        (("sticky", b"5"),),
        (("other", b"6"), ("range", b"7")),
    ]
)
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
WHICH = st.integers(0, 63)
STALE = st.sampled_from([0, 0, 0, 1])
LIMITS = Limits(300, 4)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000
        self.row: bytes | None = None
        self.group = ClassicGroup("g", LIMITS, 0)
        self.count = 0
        # every id that was ever given out
        self.ids = ["never"]
        self.forget()

    def forget(self) -> None:
        """A group of this name begins anew."""
        # the largest generation that anybody was told
        self.told = 0
        # generation -> what its leader assigned
        self.assigned: dict[int, dict[str, bytes]] = {}
        # member id -> instance, of all that were let in
        self.instances: dict[str, str | None] = {}
        self.parked: dict[int, Any] = {}

    # -- doing ---------------------------------------------------------------------------------------------

    def token(self) -> int:
        self.count += 1
        return self.count

    def send(self, event: Any) -> Any:
        """A step whose writes succeed; returns the event's own answer if there is one."""
        before, generation = self.group.state, self.group.generation
        step = self.group.step(event, self.now, self.now)
        ended = before is State.PREPARING_REBALANCE and self.group.state is not before
        assert self.group.generation - generation in ((1,) if ended else (0, 1)), (
            "a generation for a join phase"
        )
        if self.group.generation != generation:
            assert self.group.state in (State.EMPTY, State.COMPLETING_REBALANCE)
        gone = False
        for write in step.writes:
            if isinstance(write, Put):
                self.row = write.value
            elif isinstance(write, DeleteRow):
                self.row, gone = None, True
        own = None
        token = getattr(event, "token", None)
        if token is not None:
            self.parked[token] = event
        for effect in step.effects:
            if isinstance(effect, Answer):
                asked = self.parked.pop(effect.token)
                self.check(asked, effect.value)
                if effect.token == token:
                    own = effect.value
        if gone:
            assert not self.parked
            self.reload()
            self.forget()
        return own

    def reload(self) -> None:
        if self.row is None:
            self.group = ClassicGroup("g", LIMITS, self.now)
        else:
            self.group = ClassicGroup.load("g", group_rows.classic(self.row), LIMITS, self.now)

    def check(self, asked: Any, value: Any) -> None:
        """An answer against all that was seen before."""
        if isinstance(value, JoinAnswer) and value.error == Code.NONE:
            assert value.generation >= self.told, "a generation came back"
            self.told = value.generation
            assert self.row is not None, "told, but not durable"
            row = group_rows.classic(self.row)
            assert row.generation == value.generation
            members = {member.member_id: member for member in row.members}
            assert value.member_id in members
            assert all(
                value.protocol_name in [name for name, _ in member.protocols] for member in row.members
            )
            assert row.protocol_name == value.protocol_name
            self.instances[value.member_id] = asked.instance_id
            if value.members:
                assert value.leader == value.member_id
                assert {one.member_id for one in value.members} == set(members)
        if isinstance(value, SyncAnswer) and value.error == Code.NONE:
            if asked.member_id == self.group.leader and asked.generation not in self.assigned:
                self.assigned[asked.generation] = dict(asked.assignments)
            sent = self.assigned[asked.generation]
            instance = self.instances.get(asked.member_id)
            # A static member inherits from its former selves.
            mine = [asked.member_id] + [
                other for other, held in self.instances.items() if instance is not None and held == instance
            ]
            assert value.assignment in [sent.get(member_id, b"") for member_id in mine]
            assert self.row is not None
            row = group_rows.classic(self.row)
            stored = {member.member_id: member.assignment for member in row.members}
            assert (row.generation, row.state) == (asked.generation, State.STABLE)
            assert stored[asked.member_id] == value.assignment

    def pick(self, which: int) -> str:
        """A member, or (one time in four) any id of the past."""
        members = list(self.group.roster.members)
        if which % 4 and members:
            return members[which // 4 % len(members)]
        return self.ids[which // 4 % len(self.ids)]

    # -- what clients do -----------------------------------------------------------------------------------

    def join(
        self, member_id: str, instance_id: str | None, protocols: Any, id_required: bool, may_skip: bool
    ) -> None:
        token = self.token()
        event = Join(
            token,
            member_id,
            f"m{token}",
            instance_id,
            "c",
            "/h",
            10_000,
            30_000,
            "consumer",
            protocols,
            id_required,
            may_skip,
        )
        answer = self.send(event)
        if answer is not None and answer.error == Code.NONE and answer.skip_assignment:
            assert may_skip
        if not member_id:
            self.ids.append(f"m{token}")

    @rule(instance_id=INSTANCES, protocols=PROTOCOLS, id_required=st.booleans(), may_skip=st.booleans())
    def join_new(self, instance_id: str | None, protocols: Any, id_required: bool, may_skip: bool) -> None:
        self.join("", instance_id, protocols, id_required, may_skip)

    @rule(which=WHICH, instance_id=INSTANCES, protocols=PROTOCOLS)
    def join_known(self, which: int, instance_id: str | None, protocols: Any) -> None:
        self.join(self.pick(which), instance_id, protocols, True, True)

    @precondition(lambda self: self.group.state is State.EMPTY)
    @rule(size=st.integers(2, 4), static=st.integers(0, 2))
    def several_join_and_the_delay_ends(self, size: int, static: int) -> None:
        for number in range(size):
            instance_id = f"i{number + 1}" if number < static else None
            self.join("", instance_id, (("range", b"1"), ("sticky", b"2")), False, True)
        while self.group.state is State.PREPARING_REBALANCE:
            self.tick()

    @precondition(lambda self: len(self.group.roster) > 0)
    @rule(data=st.data())
    def all_join_again(self, data: st.DataObject) -> None:
        """Sensible members, so that rebalances do complete."""
        members = list(self.group.roster)
        for member in members[data.draw(st.integers(0, 1)) :]:
            self.join(member.member_id, member.instance_id, member.protocols, True, True)

    @precondition(lambda self: len(self.group.roster) > 0)
    @rule(leave_out=st.booleans(), stale=STALE)
    def the_leader_syncs(self, leave_out: bool, stale: int) -> None:
        leader = self.group.leader
        assert leader is not None
        names = [member.member_id for member in self.group.roster][leave_out:]
        self.sync(leader, stale, {name: f"{name} in {self.group.generation}".encode() for name in names})

    @rule(which=WHICH, stale=STALE)
    def somebody_syncs(self, which: int, stale: int) -> None:
        member_id = self.pick(which)
        # The leader without an assignment for anybody is legal, and too easy.
        if member_id != self.group.leader:
            self.sync(member_id, stale, {})

    @precondition(lambda self: self.group.state is State.COMPLETING_REBALANCE)
    @rule()
    def all_followers_sync(self) -> None:
        for member in list(self.group.roster):
            if member.member_id != self.group.leader:
                self.sync(member.member_id, 0, {})

    @precondition(lambda self: self.group.state is State.COMPLETING_REBALANCE)
    @rule()
    def all_live_but_nobody_assigns(self) -> None:
        """The leader hangs and heartbeats: the rebalance timeout ends it."""
        generation = self.group.generation
        for _ in range(5):
            self.now += 9_000
            for member in list(self.group.roster):
                self.send(Heartbeat(self.token(), member.member_id, self.group.generation))
            self.send(Tick())
        assert (self.group.generation, self.group.state) != (generation, State.COMPLETING_REBALANCE)

    def sync(self, member_id: str, stale: int, assignments: dict[str, bytes]) -> None:
        generation = self.group.generation - stale
        answer = self.send(Sync(self.token(), member_id, generation, None, "consumer", None, assignments))
        if answer is not None and answer.error == Code.NONE:
            assert not stale

    @rule(which=WHICH, stale=STALE)
    def beat(self, which: int, stale: int) -> None:
        member_id = self.pick(which)
        known = member_id in self.group.roster
        answer = self.send(Heartbeat(self.token(), member_id, self.group.generation - stale))
        if answer.error in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            assert known
            assert not stale

    @rule(which=WHICH, generation=st.integers(-1, 3))
    def commit(self, which: int, generation: int) -> None:
        member_id = self.pick(which)
        code = self.group.check_commit(member_id, None, generation, self.now)
        if code == Code.NONE and generation >= 0:
            assert member_id in self.group.roster
            assert generation == self.group.generation

    @rule(which=WHICH, more=st.lists(WHICH, max_size=2), instance_id=INSTANCES)
    def leave(self, which: int, more: list[int], instance_id: str | None) -> None:
        first = self.pick(which)
        leavers = [Leaver(first), Leaver("", instance_id), *(Leaver(self.pick(one)) for one in more)]
        answer = self.send(Leave(self.token(), tuple(leavers)))
        assert len(answer.members) == len(leavers)
        assert first not in self.group.roster

    @rule()
    def delete(self) -> None:
        empty = self.group.state is State.EMPTY
        answer = self.send(Delete(self.token()))
        assert (answer.error == Code.NONE) is empty

    # -- what time and crashes do --------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 299, 300, 1_000, 9_999, 10_000, 30_000, 300_000]), ticks=st.booleans())
    def wait(self, ms: int, ticks: bool) -> None:
        """Time passes; the timer may be late."""
        self.now += ms
        if ticks:
            self.send(Tick())

    @precondition(lambda self: self.group.next_due() is not None)
    @rule()
    def wait_for_what_is_due(self) -> None:
        self.tick()

    @rule(data=st.data())
    def expel(self, data: st.DataObject) -> None:
        self.send(Expel(data.draw(st.sampled_from(self.ids)), "it stands still"))

    @rule()
    def share_out_anew(self) -> None:
        self.send(Rebalance("there are more"))

    def tick(self) -> None:
        due = self.group.next_due()
        assert due is not None
        self.now = max(self.now, due)
        self.send(Tick())
        later = self.group.next_due()
        assert later is None or later > self.now, "a tick does all that is due"

    @rule()
    def crash(self) -> None:
        self.parked.clear()
        self.reload()
        if self.row is not None:
            row = group_rows.classic(self.row)
            assert self.group.row() == row
            assert row.generation >= self.told
            assert row.state in (State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE)
        else:
            assert self.told == 0

    @precondition(lambda self: self.group.next_due() is not None)
    @rule()
    def crash_before_the_write(self) -> None:
        """What is due happens, and nobody ever hears of it."""
        due = self.group.next_due()
        assert due is not None
        self.group.step(Tick(), max(self.now, due), self.now)
        self.crash()

    # -- what always holds ---------------------------------------------------------------------------------

    @invariant()
    def consistent(self) -> None:
        group = self.group
        members = list(group.roster)
        by_instance = {one.instance_id: one.member_id for one in members if one.instance_id is not None}
        assert group.roster.static == by_instance, "one member for an instance"
        assert len(by_instance) == sum(one.instance_id is not None for one in members)
        assert len(members) <= LIMITS.max_size or group.state is State.PREPARING_REBALANCE
        if members:
            assert group.leader is not None
            assert group.leader in group.roster
            assert group.state is not State.EMPTY
        else:
            assert group.leader is None
        assert not set(group.roster.pending) & set(group.roster.members)
        if members and group.state is not State.EMPTY:
            assert group.roster.vote() in [name for name, _ in members[0].protocols]

    @invariant()
    def whoever_is_parked_is_known_and_will_be_answered(self) -> None:
        held = {one.join for one in self.group.roster} | {one.sync for one in self.group.roster}
        assert held - {None} == set(self.parked)
        for event in self.parked.values():
            wanted = State.PREPARING_REBALANCE if isinstance(event, Join) else State.COMPLETING_REBALANCE
            assert self.group.state is wanted
        if self.parked:
            assert self.group.next_due() is not None

    def teardown(self) -> None:
        """All clients fall silent: whoever waits is answered, and in the end nobody is left."""
        for _ in range(50):
            if self.group.next_due() is None:
                break
            self.tick()
        assert not self.parked
        assert self.group.state is State.EMPTY
        assert self.group.idle


Groups.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=50, deadline=None)
TestGroups = Groups.TestCase
