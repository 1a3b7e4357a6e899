"""Whatever members of both protocols do and whenever the gateway dies: no partition is two members' at once, and at the
end each is somebody's, in a group of the type that its members speak.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.coordinators.consumer_events import TopicView
from gateway.coordinators.group_rows import State
from tests.examples import examples
from tests.gateway.coordinators.mixed_bench import PREFIX, SESSION, ClassicClient, MixedBench, NewClient

NAMES = st.lists(st.sampled_from("tu"), min_size=1, max_size=2, unique=True)
WHICH = st.integers(0, 63)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = MixedBench()
        self.clients: list[NewClient | ClassicClient] = []
        self.count = 0
        self.eager = False

    @initialize(eager=st.booleans())
    def begin(self, eager: bool) -> None:
        self.eager = eager
        self.bench.change(t=TopicView(b"t" * 16, 4), u=TopicView(b"u" * 16, 2))

    # -- what clients do ---------------------------------------------------------------------------------------------

    def pick(self, which: int) -> NewClient | ClassicClient:
        return self.clients[which % len(self.clients)]

    def hear(self, *, lost: bool = False) -> None:
        """Everybody hears what there is to hear. `lost`: but the first."""
        self.forget_the_removed()
        while self.bench.answers:
            client, answer = self.bench.answers.popleft()
            if client is None or client not in self.clients:
                continue
            if lost:
                client.cut_off()
                lost = False
            else:
                client.answered(answer)
            self.nothing_has_two_owners()
        self.forget_the_removed()

    def forget_the_removed(self) -> None:
        """Whoever the group has given up has been away for a session, or for its rebalance timeout: it has noticed."""
        for client in self.clients:
            joined = isinstance(client, NewClient) or client.generation >= 0
            if joined and client.member_id and not self.bench.has(client.member_id):
                client.abandon()

    @precondition(lambda self: len(self.clients) < 6)
    @rule(names=NAMES, modern=st.booleans(), static=st.booleans())
    def a_client_comes(self, names: list[str], modern: bool, static: bool) -> None:
        self.count += 1
        self.start(names, modern, f"i{self.count}" if static else None)

    def start(self, names: list[str], modern: bool, instance: str | None) -> None:
        self.count += 1
        name = f"m{self.count}"
        client = (
            NewClient(self.bench, name, names, instance)
            if modern
            else ClassicClient(self.bench, name, names, eager=self.eager, instance=instance)
        )
        self.clients.append(client)
        client.beat()
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, modern=st.booleans(), says=st.booleans())
    def one_is_started_anew(self, which: int, modern: bool, says: bool) -> None:
        """With either protocol. A static one of the classic protocol does not say that it goes, one of the new one may
        say that it comes back.
        """
        client = self.pick(which)
        if client.instance is None:
            self.a_client_goes(which)
        else:
            self.clients.remove(client)
            if isinstance(client, NewClient) and says:
                client.leave(-2)
            self.hear()
        self.start(client.names, modern, client.instance)

    @precondition(lambda self: self.clients)
    @rule(report=st.booleans())
    def everybody_does_what_is_next(self, report: bool) -> None:
        for client in list(self.clients):
            client.beat(report)
            self.hear()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH, report=st.booleans(), lost=st.sampled_from([False, False, True]))
    def one_does_what_is_next(self, which: int, report: bool, lost: bool) -> None:
        self.pick(which).beat(report)
        self.hear(lost=lost)

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def what_was_taken_is_given_up(self, which: int) -> None:
        self.pick(which).settle_up()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def a_client_goes(self, which: int) -> None:
        client = self.pick(which)
        self.clients.remove(client)
        if not (isinstance(client, ClassicClient) and client.waits):
            client.leave()
        self.hear()

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def a_client_dies(self, which: int) -> None:
        self.clients.remove(self.pick(which))

    @rule(ms=st.sampled_from([1_000, 20_000, SESSION]))
    def time_passes(self, ms: int) -> None:
        self.bench.pass_time(ms)
        self.hear()

    # -- topics, and the power ---------------------------------------------------------------------------------------

    @rule(name=st.sampled_from("tu"))
    def a_topic_grows(self, name: str) -> None:
        view = self.bench.topics[PREFIX + name]
        self.bench.change(**{name: view._replace(partitions=view.partitions + 1)})

    @rule()
    def the_gateway_dies(self) -> None:
        self.bench.crash()
        for client in self.clients:
            client.cut_off()
        self.forget_the_removed()

    # -- what holds --------------------------------------------------------------------------------------------------

    @invariant()
    def nothing_has_two_owners(self) -> None:
        used = [place for client in self.clients for place in client.uses]
        assert len(used) == len(set(used))

    @invariant()
    def who_is_told_knows_who_has_what(self) -> None:
        group = self.bench.mixed
        if group is not None and not group.anew:
            assert self.bench.followed == self.bench.owned()

    @invariant()
    def the_group_is_of_the_type_of_its_members(self) -> None:
        """Once a member of the new protocol is there it is a consumer group."""
        if self.bench.mixed is None:
            assert not any(client.modern and self.bench.has(client.member_id) for client in self.clients)

    def teardown(self) -> None:
        """Those who are there settle, once the dead are out."""
        bench = self.bench
        if not bench.topics:
            return
        for _ in range(3):
            bench.pass_time(SESSION // 3)
            self.hear()
            self.everybody_beats()
        for _ in range(16):
            bench.pass_time(500)
            self.hear()
            self.everybody_beats()
        bench.pass_time(SESSION - 10_000)
        self.hear()
        for _ in range(16):
            bench.pass_time(500)
            self.hear()
            self.everybody_beats()
        if not self.clients:
            return
        assert bench.group.state is State.STABLE
        assert (bench.mixed is not None) == any(client.modern for client in self.clients)
        used = {place for client in self.clients for place in client.uses}
        wanted = {PREFIX + name for client in self.clients for name in client.names}
        known = {
            (view.topic_id, index)
            for name, view in bench.topics.items()
            if name in wanted
            for index in range(view.partitions)
        }
        if bench.mixed is not None:
            assert used == known
        else:
            # of a classic group the leader looks after partitions that are new; here it does not
            assert used <= known
            assert {topic for topic, _ in used} == {topic for topic, _ in known}

    def everybody_beats(self) -> None:
        for client in list(self.clients):
            client.settle_up()
            client.beat()
            self.hear()


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
