"""The share group's table, row by row: what an event does in a state, and what each heartbeat is answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Delete, Plain, Tick
from gateway.coordinators.codes import Code
from gateway.coordinators.group_rows import Kind, RowError, ShareMemberRow, State
from gateway.coordinators.share_events import Answer, Beat, Gone, Heartbeat, Leave, Make, TopicView
from gateway.coordinators.share_group import ShareGroup
from store.api import Delete as DeleteRow
from store.api import Family, Put, Write
from tests.gateway.coordinators.bench import Bench

SESSION = 45_000
INTERVAL = 5000
T, U = TopicView(b"t" * 16, 3), TopicView(b"u" * 16, 1)


class ShareBench(Bench):
    """A share group on the bench, and topics that can change."""

    def __init__(self, max_size: int = 200) -> None:
        super().__init__()
        self.max_size = max_size
        self.group = ShareGroup("g", max_size, 0)
        self.topics = {"t": T, "u": U}
        self.version = 0
        self.gone: list[Gone] = []
        self.writes: list[Write] = []
        self.rows: dict[tuple[Family, bytes], bytes] = {}

    def send(self, event: Any) -> Any:
        """The answer to this event."""
        step = self.group.step(event, self.now, self.now)
        self.writes = step.writes
        for write in step.writes:
            if isinstance(write, Put):
                self.rows[write.family, write.key] = write.value
            else:
                assert isinstance(write, DeleteRow)
                self.rows.pop((write.family, write.key), None)
        self.gone += [effect for effect in step.effects if isinstance(effect, Gone)]
        answers = [effect.value for effect in step.effects if isinstance(effect, Answer)]
        assert len(answers) == (0 if isinstance(event, Tick) else 1)
        return answers[0] if answers else None

    def beat(
        self,
        member: str,
        epoch: int,
        *names: str,
        rack: str | None = None,
        client: str = "c",
        host: str = "/h",
    ) -> Beat:
        changed = bool(names) or self.group.seen != self.version
        answer: Beat = self.send(
            Heartbeat(
                None,
                member,
                epoch,
                client,
                host,
                rack,
                names or None,
                dict(self.topics) if changed else None,
                self.version,
                SESSION,
                INTERVAL,
            )
        )
        return answer

    def change(self, **topics: TopicView | None) -> None:
        """Topics made (anew), grown or (None) deleted."""
        for name, view in topics.items():
            if view is None:
                del self.topics[name]
            else:
                self.topics[name] = view
        self.version += 1

    def crash(self) -> None:
        """The group again from its rows."""
        members = [
            group_rows.share_member(value)
            for (family, key), value in sorted(self.rows.items())
            if family is Family.MEMBER and key.startswith(group_rows.members_prefix("g"))
        ]
        row = group_rows.share(self.rows[Family.GROUP, b"g"])
        assert row.size == len(members)
        self.group = ShareGroup.load("g", row, members, self.max_size, SESSION, self.now)
        self.version = 0


@pytest.fixture
def bench() -> ShareBench:
    return ShareBench()


class TestJoining:
    def test_the_first_answer_is_the_assignment(self, bench: ShareBench) -> None:
        """Kafka's is empty, and the next heartbeat is 5 s away."""
        answer = bench.beat("m", 0, "t", "missing")
        assert answer == Beat(Code.NONE, None, "m", 2, INTERVAL, (T,))
        assert bench.state == "Stable"
        assert bench.group.epoch == 2
        assert set(bench.rows) == {(Family.GROUP, b"g"), (Family.MEMBER, b"\0\0\0\1gm")}

    def test_everybody_gets_every_partition(self, bench: ShareBench) -> None:
        assert bench.beat("m1", 0, "u", "t").assignment == (T, U)
        assert bench.beat("m2", 0, "t").assignment == (T,)
        assert bench.beat("m3", 0, "t", "u", "t").assignment == (T, U)

    def test_another_bumps_the_epoch_and_the_first_goes_along_untold(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t")
        assert bench.beat("m2", 0, "t").epoch == 3
        assert bench.beat("m1", 2) == Beat(Code.NONE, None, "m1", 3, INTERVAL, None)
        assert bench.writes == [], "a member's epoch alone is not worth a row"

    def test_again_with_epoch_0_is_told_again_and_changes_nothing(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        assert bench.beat("m", 0, "t") == Beat(Code.NONE, None, "m", 2, INTERVAL, (T,))
        assert bench.writes == []

    def test_no_room(self) -> None:
        bench = ShareBench(max_size=2)
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "t")
        full = Beat(
            Code.GROUP_MAX_SIZE_REACHED, "The share group has reached its maximum capacity of 2 members."
        )
        assert bench.beat("m3", 0, "t") == full
        assert bench.beat("m3", 7) == full, "as Kafka: before it is told that nobody knows it"
        assert bench.beat("m1", 0, "t").error == Code.NONE, "those who are in come again"
        assert list(bench.group.members) == ["m1", "m2"]


class TestHeartbeats:
    def test_nothing_new(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        assert bench.beat("m", 2) == Beat(Code.NONE, None, "m", 2, INTERVAL, None)
        assert bench.writes == []

    def test_names_are_always_answered_with_the_assignment(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        assert bench.beat("m", 2, "t").assignment == (T,)
        assert bench.group.epoch == 2

    def test_another_subscription(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        assert bench.beat("m", 2, "u") == Beat(Code.NONE, None, "m", 3, INTERVAL, (U,))
        assert bench.group.topics == {"u": U}
        assert bench.group.subscribed() == {"u"}

    def test_a_stranger(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        unknown = Beat(Code.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")
        assert bench.beat("x", 2) == unknown
        assert bench.send(Leave(None, "x")) == unknown

    @pytest.mark.parametrize("epoch", [5, 99])
    def test_an_epoch_that_was_never_told(self, bench: ShareBench, epoch: int) -> None:
        bench.beat("m", 0, "t")
        bench.beat("m", 2, "u")
        answer = bench.beat("m", epoch)
        assert answer == Beat(
            Code.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group "
            "coordinator (3). The member must abandon all its partitions and rejoin.",
        )

    def test_the_epoch_before_is_taken_since_an_answer_may_be_lost_and_older_ones_are_not(
        self, bench: ShareBench
    ) -> None:
        bench.beat("m", 0, "t")
        bench.beat("m", 2, "u")
        assert bench.beat("m", 2).epoch == 3
        bench.beat("m", 3, "t")
        answer = bench.beat("m", 2)
        assert answer == Beat(
            Code.FENCED_MEMBER_EPOCH,
            "The share group member has a smaller member epoch (2) than the one known by the group coordinator (4), "
            "and it does not match the previous member epoch (3). The member must abandon all its partitions and "
            "rejoin.",
        )

    def test_refused_ones_are_no_sign_of_life(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.pass_time(SESSION - 1)
        bench.beat("m", 99)
        bench.pass_time(1)
        assert bench.gone == [Gone("m", False)]

    def test_who_it_says_it_is_is_stored_without_a_new_epoch(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t", rack="a")
        bench.beat("m", 2, client="other", host="/elsewhere")
        assert len(bench.writes) == 1
        (member,) = bench.group.describe()
        assert (member.rack, member.client_id, member.client_host) == ("a", "other", "/elsewhere")
        assert bench.group.epoch == 2


class TestTopics:
    def test_made_later(self, bench: ShareBench) -> None:
        assert bench.beat("m", 0, "t", "late").assignment == (T,)
        late = TopicView(b"l" * 16, 2)
        bench.change(late=late)
        assert bench.beat("m", 2) == Beat(Code.NONE, None, "m", 3, INTERVAL, (late, T))

    def test_others_do_not_matter(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.change(other=TopicView(b"o" * 16, 2))
        assert bench.beat("m", 2) == Beat(Code.NONE, None, "m", 2, INTERVAL, None)
        assert bench.writes == []
        assert bench.group.seen == bench.version, "it need not be told again"

    @pytest.mark.parametrize("now", [TopicView(b"t" * 16, 5), TopicView(b"n" * 16, 3)])
    def test_grown_or_made_anew(self, bench: ShareBench, now: TopicView) -> None:
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "t")
        bench.change(t=now)
        assert bench.beat("m1", 2) == Beat(Code.NONE, None, "m1", 4, INTERVAL, (now,))
        assert bench.beat("m2", 3) == Beat(Code.NONE, None, "m2", 4, INTERVAL, (now,)), (
            "told once the other was"
        )

    def test_deleted(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.change(t=None)
        assert bench.beat("m", 2) == Beat(Code.NONE, None, "m", 3, INTERVAL, ())
        assert bench.beat("m", 3).assignment is None

    def test_a_heartbeat_that_is_refused_leaves_the_news_for_the_next(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.change(t=None)
        assert bench.beat("m", 77).error == Code.FENCED_MEMBER_EPOCH
        assert bench.beat("m", 2).assignment == ()


class TestLeaving:
    def test_by_itself(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "u")
        assert bench.send(Leave(None, "m1")) == Beat(Code.NONE, None, "m1", -1)
        assert bench.gone == [Gone("m1", True)]
        assert (bench.state, bench.group.epoch) == ("Stable", 4)
        assert bench.group.topics == {"u": U}
        assert bench.beat("m2", 3) == Beat(Code.NONE, None, "m2", 4, INTERVAL, None)

    def test_the_last(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.send(Leave(None, "m"))
        assert bench.state == "Empty"
        assert (bench.group.epoch, bench.group.assignment_epoch) == (3, 2)
        assert bench.group.idle
        assert bench.beat("m", 0, "t").epoch == 4

    def test_the_silent_are_out_after_their_session(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "t")
        bench.pass_time(SESSION - 1)
        bench.beat("m2", 3)
        bench.pass_time(1)
        assert bench.gone == [Gone("m1", False)]
        assert list(bench.group.members) == ["m2"]
        assert bench.beat("m1", 2).error == Code.UNKNOWN_MEMBER_ID
        bench.pass_time(SESSION)
        assert bench.state == "Empty"

    def test_several_at_once_are_one_epoch(self, bench: ShareBench) -> None:
        for name in "abc":
            bench.beat(name, 0, "t")
        epoch = bench.group.epoch
        bench.pass_time(SESSION)
        assert [gone.member_id for gone in bench.gone] == ["a", "b", "c"]
        assert bench.group.epoch == epoch + 1


class TestAdministrators:
    def test_made_empty(self, bench: ShareBench) -> None:
        assert bench.send(Make(None)) == Plain(Code.NONE)
        assert [type(write) for write in bench.writes] == [Put]
        assert bench.send(Make(None)) == Plain(Code.NONE)
        assert bench.writes == []
        assert bench.state == "Empty"

    def test_deleted_when_empty(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        assert bench.send(Delete(None)) == Plain(Code.NON_EMPTY_GROUP)
        bench.send(Leave(None, "m"))
        assert bench.send(Delete(None)) == Plain(Code.NONE)
        assert [type(write) for write in bench.writes] == [DeleteRow]
        assert bench.state == "Dead"

    def test_of_the_dead_nobody_hears(self, bench: ShareBench) -> None:
        bench.send(Make(None))
        bench.send(Delete(None))
        assert bench.beat("m", 0, "t").error == Code.COORDINATOR_NOT_AVAILABLE
        assert bench.send(Leave(None, "m")).error == Code.COORDINATOR_NOT_AVAILABLE
        assert bench.send(Make(None)) == Plain(Code.COORDINATOR_NOT_AVAILABLE)
        assert bench.send(Delete(None)) == Plain(Code.GROUP_ID_NOT_FOUND)
        assert bench.writes == []


class TestRestarts:
    def test_members_go_on_with_their_epochs(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t", rack="a")
        bench.beat("m2", 0, "u")
        before = [one._replace(epoch=0) for one in bench.group.describe()]
        bench.crash()
        assert [one._replace(epoch=0) for one in bench.group.describe()] == before
        assert bench.beat("m1", 2) == Beat(Code.NONE, None, "m1", 3, INTERVAL, (T,))
        assert bench.beat("m2", 3) == Beat(Code.NONE, None, "m2", 3, INTERVAL, (U,))
        assert bench.group.epoch == 3

    def test_an_epoch_that_was_told_but_not_written_is_taken_once(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "t")
        bench.beat("m1", 2)  # told 3
        bench.crash()
        assert bench.beat("m1", 3).epoch == 3
        bench.crash()
        assert bench.beat("m1", 4).error == Code.FENCED_MEMBER_EPOCH

    def test_topics_that_changed_meanwhile(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        bench.crash()
        bench.change(t=TopicView(b"t" * 16, 9))
        assert bench.beat("m", 2) == Beat(Code.NONE, None, "m", 3, INTERVAL, (TopicView(b"t" * 16, 9),))

    def test_whoever_does_not_come_back_is_out_after_a_session(self, bench: ShareBench) -> None:
        bench.beat("m1", 0, "t")
        bench.beat("m2", 0, "t")
        bench.crash()
        bench.pass_time(SESSION - 1)
        bench.beat("m1", 2)
        bench.pass_time(1)
        assert bench.gone == [Gone("m2", False)]

    def test_a_damaged_row_says_so(self) -> None:
        with pytest.raises(RowError, match="cannot be read"):
            group_rows.share(group_rows.put("g", ShareGroup("g", 1, 0).row()).value[:-1])

    def test_the_head_of_the_row_says_what_it_is(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        head = group_rows.head(bench.rows[Family.GROUP, b"g"])
        assert (head.kind, head.state, head.protocol_type) == (Kind.SHARE, State.STABLE, "share")


class TestManyMembers:
    """What a member costs does not depend on how many there are."""

    def test_a_join_and_a_leave_write_that_member_and_the_head(self) -> None:
        bench = ShareBench(20_000)
        sizes = []
        for number in range(10_000):
            bench.beat(f"m{number}", 0, "t")
            written = [len(write.value) for write in bench.writes if isinstance(write, Put)]
            sizes.append((len(bench.writes), sum(written)))
        assert {count for count, _ in sizes} == {2}
        assert max(size for _, size in sizes) < sizes[0][1] + 20
        assert bench.send(Leave(None, "m5000")).error == Code.NONE
        assert sorted(type(write).__name__ for write in bench.writes) == ["Delete", "Put"]
        bench.crash()
        assert len(bench.group.members) == 9_999
        assert bench.group.readers("t") == 9_999

    def test_whose_session_ends_is_found_without_a_look_at_the_others(self) -> None:
        bench = ShareBench(20_000)
        for number in range(1_000):
            bench.beat(f"m{number}", 0, "t")
            bench.pass_time(1)
        for number in range(1_000):
            if number != 17:
                bench.beat(f"m{number}", bench.group.members[f"m{number}"].epoch)
        bench.pass_time(SESSION - 1_000 + 17)
        assert bench.gone == [Gone("m17", False)]
        # each of the others was put off once, and stands in the heap once
        assert len(bench.group._deadlines) == 999

    def test_one_that_comes_and_goes_leaves_nothing_behind(self, bench: ShareBench) -> None:
        for _ in range(100):
            bench.beat("m", 0, "t")
            assert bench.send(Leave(None, "m")).error == Code.NONE
            bench.group.next_due()
        assert not bench.group._deadlines
        assert not bench.group.subscribed()
        assert set(bench.rows) == {(Family.GROUP, b"g")}

    def test_a_session_that_is_shorter_now_ends_earlier(self, bench: ShareBench) -> None:
        bench.beat("m", 0, "t")
        member = bench.group.members["m"]
        bench.group._until(member, member.deadline - 500)
        assert bench.group.next_due() == member.deadline


class TestRowsOfVersion1:
    """Members in the group's row: what an older gateway wrote."""

    def old(self, *members: ShareMemberRow) -> ShareBench:
        bench = ShareBench()
        topics = [("t", T.topic_id, T.partitions)]
        row = group_rows.ShareRow(1, Kind.SHARE, State.STABLE, 5, "share", 7, 7, topics, list(members))
        bench.rows[Family.GROUP, b"g"] = group_rows.put("g", row).value
        read = group_rows.share(bench.rows[Family.GROUP, b"g"])
        bench.group = ShareGroup.load("g", read, [], 200, SESSION, bench.now)
        return bench

    def test_members_get_rows_of_their_own_with_the_next_write(self) -> None:
        bench = self.old(
            ShareMemberRow("a", None, "c", "/h", ["t"], 7, 6),
            ShareMemberRow("b", None, "c", "/h", ["t"], 6, 5),
        )
        assert bench.beat("a", 7).error == Code.NONE
        assert not bench.writes
        assert bench.send(Leave(None, "b")).error == Code.NONE
        bench.crash()
        assert list(bench.group.members) == ["a"]
        assert bench.beat("a", 7).error == Code.NONE
        assert bench.group.epoch == 8

    def test_one_whose_client_changes_takes_the_others_along(self) -> None:
        bench = self.old(
            ShareMemberRow("a", None, "c", "/h", ["t"], 7, 6),
            ShareMemberRow("b", None, "c", "/h", ["t"], 7, 6),
        )
        assert bench.beat("a", 7, client="other").error == Code.NONE
        bench.crash()
        assert {each.client_id for each in bench.group.describe()} == {"c", "other"}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "beat", "old", "leave", "wait", "crash", "topic"]),
        st.sampled_from("abc"),
        st.lists(st.sampled_from(["t", "u", "v"]), min_size=1, max_size=3),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens(steps: list[tuple[str, str, list[str]]]) -> None:
    """Epochs grow, also over crashes; members are who said so; all of them have all of what they subscribe to."""
    bench = ShareBench()
    told: dict[str, int] = {}
    names: dict[str, set[str]] = {}
    has: dict[str, tuple[TopicView, ...]] = {}
    highest = 0
    for kind, member, wanted in steps:
        if kind == "join":
            answer = bench.beat(member, 0, *wanted)
            names[member] = set(wanted)
        elif kind == "beat":
            answer = bench.beat(member, told.get(member, 1))
        elif kind == "old":
            answer = bench.beat(member, max(1, told.get(member, 1) - 2))
        elif kind == "leave":
            answer = bench.send(Leave(None, member))
            assert (answer.error == Code.NONE) == (member in names)
            names.pop(member, None)
            told.pop(member, None)
        elif kind == "wait":
            bench.gone.clear()
            bench.pass_time(SESSION // 2)
            for gone in bench.gone:
                del names[gone.member_id]
                told.pop(gone.member_id, None)
        elif kind == "crash":
            if bench.rows:
                bench.crash()
        elif wanted[0] in bench.topics:
            bench.change(**{wanted[0]: None})
        else:
            bench.change(**{wanted[0]: TopicView(bytes([len(told)]) * 16, len(steps))})
        assert set(bench.group.members) == set(names)
        assert (bench.state == "Stable") == bool(names)
        if kind in ("join", "beat", "old"):
            expected: int = Code.NONE if member in names else Code.UNKNOWN_MEMBER_ID
            if kind == "old" and member in names:
                expected = answer.error  # the one before is taken, older ones are not
                assert expected in (Code.NONE, Code.FENCED_MEMBER_EPOCH)
            assert answer.error == expected
            if answer.error == Code.NONE:
                assert answer.epoch >= highest
                highest = told[member] = answer.epoch
                has[member] = has[member] if answer.assignment is None else answer.assignment
                assert set(has[member]) == {
                    bench.topics[name] for name in names[member] if name in bench.topics
                }
