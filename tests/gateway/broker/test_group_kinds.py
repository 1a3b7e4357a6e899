"""The registry of kinds of groups: an id has one owner, and no kind knows another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.group_kinds import GroupKind, Listed
from gateway.broker.share_admission import Beating
from gateway.coordinators import group_rows
from gateway.coordinators.classic_events import Heartbeat, JoinAnswer, Plain
from gateway.coordinators.group_rows import GroupHead, Kind, State
from gateway.coordinators.share_events import Beat
from gateway.wire.errors import Error
from store.api import Durability, Family, Put
from store.pending import Asking
from tests.gateway.broker.fake_broker import LOOP, FakeBroker, listing
from tests.gateway.broker.group_client import SESSION, Client, caller, value


class Number(int):
    """A number that is free: nothing else in a gateway has it."""

    shown = "streams"


class Streams:
    """A kind that none of the others has heard of, with groups in memory and in rows."""

    kind: Any = Number(4)

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.swept: list[str] = []
        self.deleted: list[str] = []
        self.released = 0

    def claims(self, group_id: str) -> bool:
        return group_id in self.claimed

    def refusal(self, group_id: str) -> KafkaError:
        return KafkaError(Error.GROUP_ID_NOT_FOUND, f"{group_id} is no such group")

    def listed(self, group_id: str, head: GroupHead, row: bytes) -> Listed | None:
        return Listed(group_id, "streams", "Stable", self.kind, 3)

    def unwritten(self) -> Iterable[Listed]:
        return [Listed(group_id, "streams", "Empty", self.kind, 0) for group_id in self.claimed]

    def reads(self, group_id: str, topic: str) -> bool:
        return topic == "in"

    def deletion(self, group_id: str) -> int:
        self.deleted.append(group_id)
        return Error.NON_EMPTY_GROUP

    def sweep(self, group_id: str, head: GroupHead) -> Asking[None]:
        self.swept.append(group_id)
        yield asyncio.sleep(0)

    def drop(self, group_id: str) -> None:
        pass

    def release_idle(self) -> None:
        self.released += 1

    def yields(self, group_id: str) -> bool:
        return False


@pytest.fixture
def streams(broker: FakeBroker) -> Streams:
    added = Streams()
    broker.group_kinds.add(added)
    return added


def stored(broker: FakeBroker, group_id: str, kind: int, state: State = State.EMPTY) -> None:
    head = GroupHead(group_rows.VERSION, int(kind), state, 0, None)
    row = Put(Family.GROUP, group_id.encode(), group_rows._encoder.encode(head))
    broker.store.commit([row], Durability.OS, lambda outcome: None)


def share_beat(broker: FakeBroker, group_id: str, epoch: int) -> Beat:
    beating = Beating(group_id, "m", epoch, ("t",), None, ("/h", "c"), 1, caller())
    beat: Beat = broker.share_groups.heartbeat(beating)
    return beat


def join(broker: FakeBroker, group_id: str) -> JoinAnswer:
    answer: JoinAnswer = value(Client(broker, group_id).join())
    return answer


def code_of(deletion: int | Awaitable[int]) -> int:
    if isinstance(deletion, int):
        return deletion

    async def wait() -> int:
        return await deletion

    return LOOP.run_until_complete(wait())


def make_share(broker: FakeBroker, group_id: str) -> None:
    LOOP.run_until_complete(broker.share_groups.make(group_id))


def take_by_row(broker: FakeBroker, streams: Streams) -> None:
    stored(broker, "g", streams.kind)


def take_in_memory(broker: FakeBroker, streams: Streams) -> None:
    streams.claimed.add("g")


@pytest.mark.parametrize("take", [take_by_row, take_in_memory])
class TestAnIdOfAThirdKind:
    def test_is_no_classic_group(
        self, broker: FakeBroker, streams: Streams, take: Callable[[FakeBroker, Streams], None]
    ) -> None:
        take(broker, streams)
        assert join(broker, "g").error == Error.INCONSISTENT_GROUP_PROTOCOL
        assert broker.groups.run("g", Heartbeat(caller(), "m", 1)).error == Error.UNKNOWN_MEMBER_ID
        committed = broker.groups.commit_offsets("g", "", None, -1, [], caller())
        assert committed == Plain(Error.INCONSISTENT_GROUP_PROTOCOL)

    def test_is_no_share_group(
        self, broker: FakeBroker, streams: Streams, take: Callable[[FakeBroker, Streams], None]
    ) -> None:
        take(broker, streams)
        answer = share_beat(broker, "g", 0)
        assert (answer.error, answer.message) == (
            Error.GROUP_ID_NOT_FOUND,
            "Group g is not a share group.",
        )
        with pytest.raises(KafkaError, match="not a share group"):
            make_share(broker, "g")

    def test_goes_to_its_owner(
        self, broker: FakeBroker, streams: Streams, take: Callable[[FakeBroker, Streams], None]
    ) -> None:
        take(broker, streams)
        assert broker.group_kinds.owner("g") is streams
        assert broker.group_kinds.deletion("g") == Error.NON_EMPTY_GROUP
        assert streams.deleted == ["g"]
        (listed,) = listing(broker)
        assert (listed.group_id, listed.kind.shown) == ("g", "streams")
        assert broker.group_kinds.reads(listed, "in")
        assert not broker.group_kinds.reads(listed, "out")


def test_a_classic_group_keeps_its_id_before_it_is_stored(broker: FakeBroker, streams: Streams) -> None:
    waits = Client(broker).join()
    assert list(broker.store.scan(Family.GROUP)) == []
    for asking in (Kind.SHARE, streams.kind):
        with pytest.raises(KafkaError) as caught:
            broker.group_kinds.check(asking, "g", None)
        assert caught.value.code == Error.GROUP_ID_NOT_FOUND
    broker.group_kinds.check(Kind.CLASSIC, "g", None)
    assert share_beat(broker, "g", 0).error == Error.GROUP_ID_NOT_FOUND
    broker.advance(300)
    assert value(waits).error == 0


def test_a_share_group_keeps_its_id_before_it_is_stored(broker: FakeBroker) -> None:
    broker.at_once = False
    making = LOOP.create_task(broker.share_groups.make("g"))
    LOOP.run_until_complete(asyncio.sleep(0))
    assert broker.store.get(Family.GROUP, b"g") is None
    assert join(broker, "g").error == Error.INCONSISTENT_GROUP_PROTOCOL
    assert listing(broker) == [], "nobody is told before it is stored"
    broker.land()
    LOOP.run_until_complete(making)
    assert join(broker, "g").error == Error.INCONSISTENT_GROUP_PROTOCOL
    assert [listed.kind for listed in listing(broker)] == [Kind.SHARE]


def test_an_id_is_free_when_its_group_is_deleted(broker: FakeBroker) -> None:
    make_share(broker, "g")
    assert code_of(broker.group_kinds.deletion("g")) == 0
    assert broker.subscriptions.deleted == [("g", None)]
    assert broker.group_kinds.owner("g") is None
    client = Client(broker)
    client.stable()
    assert broker.group_kinds.deletion("g") == Error.NON_EMPTY_GROUP
    client.leave("m1")
    assert broker.group_kinds.deletion("g") == 0
    assert broker.group_kinds.deletion("g") == Error.GROUP_ID_NOT_FOUND
    make_share(broker, "g")


def test_the_list_is_of_all_kinds_and_by_id(broker: FakeBroker, streams: Streams) -> None:
    make_share(broker, "b")
    Client(broker, "c").stable()
    stored(broker, "a", streams.kind)
    streams.claimed.add("d")
    assert listing(broker) == [
        ("a", "streams", "Stable", streams.kind, 3),
        ("b", "share", "Empty", Kind.SHARE, 0),
        ("c", "consumer", "Stable", Kind.CLASSIC, 1),
        ("d", "streams", "Empty", streams.kind, 0),
    ]


def test_what_cannot_be_read_is_left_out_of_the_list_alone(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    Client(broker, "good").stable()
    # the head says that there are members, and there is no more than the head
    stored(broker, "torn", Kind.CLASSIC, State.STABLE)
    stored(broker, "newer", 9)
    broker.store.commit([Put(Family.GROUP, b"odd", b"\xc1")], Durability.OS, lambda outcome: None)
    assert [listed.group_id for listed in listing(broker)] == ["good"]
    assert "group newer: its type is 9, which this release does not know" in caplog.messages
    assert broker.group_kinds.deletion("odd") == Error.UNKNOWN_SERVER_ERROR
    assert broker.group_kinds.deletion("newer") == Error.GROUP_ID_NOT_FOUND
    assert join(broker, "newer").error == Error.INCONSISTENT_GROUP_PROTOCOL


def test_each_kind_sweeps_its_own_and_lets_go_of_its_own(broker: FakeBroker, streams: Streams) -> None:
    topic = broker.topic("t")
    stored(broker, "a", streams.kind)
    stored(broker, "b", 9)
    Client(broker, "c").commit(topic.name, 1)
    make_share(broker, "d")
    broker.advance(broker.settings.integer("offsets.retention.check.interval.ms"))
    assert set(streams.swept) == {"a"}
    assert streams.released
    assert len(list(broker.store.scan(Family.GROUP))) == 4, "only a classic group without offsets goes"


def test_the_sweep_has_the_sessions_of_absent_members_run(broker: FakeBroker) -> None:
    Client(broker).stable()
    after = broker.restart()
    assert after.groups.look("g") is None
    after.advance(0)
    assert after.groups.look("g") is not None
    after.advance(SESSION)
    assert [(listed.state, listed.members) for listed in listing(after)] == [("Empty", 0)]


def test_a_kind_is_added_once(broker: FakeBroker, streams: Streams) -> None:
    kinds: list[GroupKind] = [broker.groups, broker.share_groups, streams]
    for kind in kinds:
        with pytest.raises(AssertionError):
            broker.group_kinds.add(kind)
