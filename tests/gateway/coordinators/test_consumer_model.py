"""Whatever clients do and whenever the gateway dies: what a consumer group of KIP-848 never breaks.

Clients are as KIP-848 has them: they use what they were told, give up late what they were told to give up, say all that
they know after an answer was lost, and begin anew when they are fenced. They come, go, fall silent, subscribe
differently; topics come, grow and go. The test believes what was answered, and what was durable when it was.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gateway.coordinators.classic_events import Expel
from gateway.coordinators.codes import Code
from gateway.coordinators.consumer_events import Beat, Partition, TopicView
from gateway.coordinators.consumer_group import ConsumerGroup
from gateway.coordinators.consumer_state import Limits
from tests.examples import examples
from tests.gateway.coordinators.consumer_bench import SESSION, ConsumerBench

NAMES = st.lists(st.sampled_from("tuv"), min_size=1, max_size=3, unique=True)
WHICH = st.integers(0, 63)


class Client:
    """A consumer, as far as it knows."""

    def __init__(self, name: str, instance: str | None, names: list[str]) -> None:
        self.name, self.instance, self.names = name, instance, names
        self.epoch = 0
        self.told: frozenset[Partition] = frozenset()
        # what it was told to give up and still works on
        self.keeps: frozenset[Partition] = frozenset()
        # whether an answer was lost
        self.unsure = False

    @property
    def uses(self) -> frozenset[Partition]:
        return self.told | self.keeps

    def abandon(self) -> None:
        self.epoch, self.told, self.keeps = 0, frozenset(), frozenset()


def snapshot(group: ConsumerGroup) -> Any:
    """All that must outlive a crash."""
    members = sorted((each.row() for each in group.members.values()), key=lambda row: str(row.member_id))
    owners = {place: group.owner(place) for member in group.members.values() for place in member.assigned}
    return group.row(), members, dict(sorted(group.static.items())), owners, group.subscribed()


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # an assignment stands for some ms here
        self.bench = ConsumerBench(Limits(5, a_ms=1))
        self.clients: dict[str, Client] = {}
        self.count = 0
        self.epoch = 0
        self.assignment_epoch = 0

    # -- what clients do ---------------------------------------------------------------------------------------------

    def pick(self, which: int) -> Client:
        return list(self.clients.values())[which % len(self.clients)]

    def beat(self, client: Client, *, report: bool = False, lost: bool = False) -> None:
        joins, whole = client.epoch == 0, report and client.unsure
        if joins:
            client.abandon()
        answer: Beat = self.bench.beat(
            client.name,
            client.epoch,
            *(client.names if joins or client.unsure else ()),
            owned=client.uses if report or client.unsure else None,
            instance=client.instance,
        )
        self.forget_the_removed()
        if client.name not in self.clients:
            return
        if lost:
            client.unsure = True
            return
        if answer.error:
            assert answer.error in (
                Code.UNKNOWN_MEMBER_ID,
                Code.FENCED_MEMBER_EPOCH,
                Code.GROUP_MAX_SIZE_REACHED,
                Code.UNRELEASED_INSTANCE_ID,
                Code.FENCED_INSTANCE_ID,
            )
            client.abandon()
            if joins:
                del self.clients[client.name]
            return
        assert client.epoch <= answer.epoch <= self.bench.group.assignment_epoch, "an epoch went back"
        if joins or whole or client.unsure:
            assert answer.assignment is not None
        client.epoch, client.unsure = answer.epoch, False
        if answer.assignment is not None:
            client.keeps = client.uses - answer.assignment
            client.told = answer.assignment

    def forget_the_removed(self) -> None:
        """Whoever the group has given up has been away for a session: it uses nothing any more."""
        for client in self.clients.values():
            if client.name not in self.bench.group.members:
                client.abandon()

    @precondition(lambda self: len(self.clients) < 6)
    @rule(names=NAMES, instance=st.sampled_from([None, None, "i", "j"]), lost=st.booleans())
    def a_client_comes(self, names: list[str], instance: str | None, lost: bool) -> None:
        self.count += 1
        client = Client(f"m{self.count}", instance, names)
        self.clients[client.name] = client
        self.beat(client, lost=lost)

    @precondition(lambda self: len(self.clients) < 4)
    @rule(names=NAMES, size=st.integers(2, 3))
    def several_come(self, names: list[str], size: int) -> None:
        for _ in range(size):
            self.a_client_comes(names, None, False)

    @precondition(lambda self: self.clients)
    @rule(report=st.booleans(), times=st.integers(1, 2))
    def everybody_heartbeats(self, report: bool, times: int) -> None:
        for client in list(self.clients.values()) * times:
            if client.name in self.clients:
                self.beat(client, report=report)
                self.nothing_has_two_owners()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, report=st.booleans(), lost=st.sampled_from([False, False, True]))
    def a_heartbeat(self, which: int, report: bool, lost: bool) -> None:
        self.beat(self.pick(which), report=report, lost=lost)

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, names=NAMES)
    def another_subscription(self, which: int, names: list[str]) -> None:
        client = self.pick(which)
        client.names, client.unsure = names, True
        self.beat(client, report=True)

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def what_was_taken_is_given_up(self, which: int) -> None:
        self.pick(which).keeps = frozenset()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, stays=st.booleans())
    def a_client_goes(self, which: int, stays: bool) -> None:
        client = self.clients.pop(self.pick(which).name)
        self.bench.leave(client.name, -2 if stays and client.instance else -1, client.instance)
        self.forget_the_removed()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def a_client_dies(self, which: int) -> None:
        del self.clients[self.pick(which).name]

    @rule(ms=st.sampled_from([1_000, 20_000, SESSION]))
    def time_passes(self, ms: int) -> None:
        self.bench.pass_time(ms)
        self.forget_the_removed()

    # -- what administrators do, and the power -----------------------------------------------------------------------

    @rule(name=st.sampled_from("tuv"), count=st.integers(1, 5))
    def a_topic_grows_or_is_made(self, name: str, count: int) -> None:
        old = self.bench.topics.get(name)
        self.count += 1
        made = TopicView(self.count.to_bytes(16, "big"), count)
        self.bench.change(**{name: old._replace(partitions=old.partitions + 1) if old else made})

    @rule(name=st.sampled_from("tuv"))
    def a_topic_is_deleted(self, name: str) -> None:
        if name in self.bench.topics:
            self.bench.change(**{name: None})

    @precondition(lambda self: self.bench.rows)
    @rule()
    def the_gateway_dies(self) -> None:
        before = snapshot(self.bench.group)
        self.bench.crash()
        assert snapshot(self.bench.group) == before

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def one_is_expelled(self, which: int) -> None:
        self.bench.send(Expel(self.pick(which).name, "it stands still"))
        self.forget_the_removed()

    # -- what holds --------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_has_two_owners(self) -> None:
        used = [place for client in self.clients.values() for place in client.uses]
        assert len(used) == len(set(used))
        for client in self.clients.values():
            for place in client.uses:
                assert self.bench.group.owner(place) == client.name, "somebody else could be given it"

    @invariant()
    def who_is_told_knows_who_has_what(self) -> None:
        assert self.bench.followed == self.bench.owned()

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.bench.group
        assert group.epoch >= self.epoch
        assert group.epoch >= group.assignment_epoch >= self.assignment_epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
        self.epoch, self.assignment_epoch = group.epoch, group.assignment_epoch

    @invariant()
    def targets_are_whole_after_each_assignment(self) -> None:
        group = self.bench.group
        if group.epoch != group.assignment_epoch or not group.members:
            return
        targets = [place for member in group.members.values() for place in member.target]
        assert len(targets) == len(set(targets))
        assert set(targets) == {
            (view.topic_id, index) for view in group.topics.values() for index in range(view.partitions)
        }

    def teardown(self) -> None:
        """Those who are there settle, once the dead are out."""
        bench = self.bench
        bench.pass_time(SESSION // 2)
        self.forget_the_removed()
        for _ in range(3):
            self.everybody_beats()
        # the dead have not been heard of for longer than these
        bench.pass_time(SESSION - 50)
        self.forget_the_removed()
        for _ in range(12):
            self.everybody_beats()
        group = bench.group
        assert set(group.members) == set(self.clients)
        if not self.clients:
            return
        assert bench.state == "Stable"
        wanted = {name for client in self.clients.values() for name in client.names}
        used = {place for client in self.clients.values() for place in client.uses}
        assert used == {
            (view.topic_id, index)
            for name, view in bench.topics.items()
            if name in wanted
            for index in range(view.partitions)
        }
        load = {name: len(client.uses) for name, client in self.clients.items()}
        if len({frozenset(bench.topics.keys() & set(client.names)) for client in self.clients.values()}) == 1:
            assert max(load.values()) - min(load.values()) <= 1

    def everybody_beats(self) -> None:
        self.bench.pass_time(50)
        for client in list(self.clients.values()):
            client.keeps = frozenset()
            self.beat(client, report=True)


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
