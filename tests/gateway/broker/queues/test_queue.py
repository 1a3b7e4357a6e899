"""A queue topic at work: what consumers say of deliveries, and what their ends leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error
from semantics.lanes.marks import MarksError
from store import memory
from tests.gateway.broker.queues.reading import (
    KEYS,
    KINDS,
    Client,
    FailingStore,
    at_of,
    given,
    numbers,
    own,
    queue_of,
    queued,
    read_all,
)
from tests.gateway.broker.subscriptions.world import World, run

# -- what a commit says ----------------------------------------------------------------------------------------------


@KINDS
def test_a_commit_acknowledges_what_lies_below(kind: str, folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await client.commit(offset=4)
        assert (at_of(world).lane.open, world.at().ready().start) == (4, 4)
        # once more, and an older one: nothing happens
        await client.commit(offset=4)
        await client.commit(offset=2)
        assert at_of(world).lane.open == 4
        await world.crash()
        assert (at_of(world).lane.open, world.at().ready().start) == (4, 4)
        again = Client(world)
        assert again.position == 4
        assert [at for at in await again.read() if at >= 4] == list(range(4, 10))
        await again.commit()
        assert world.at().ready().start == 10

    run(test, folder)


@KINDS
def test_what_a_commit_names_is_nacked_dead_or_acknowledged(kind: str) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        await world.produce(*numbers(0, 10), key=KEYS[:10])
        client = Client(world)
        first = await client.read()
        await client.commit("ack1;n:0=1,3;d=2;a=8", offset=5)
        # behind the window, and each with an offset of its own
        again = await client.read()
        assert sorted(given(again)) == sorted(given({at: first[at] for at in (1, 3)}))
        assert min(again) == 10
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [first[2]]
        lane = at_of(world).lane
        assert (lane.open, lane.opened) == (5, 6)
        await client.commit()
        assert world.at().ready().start == 10

    run(test)


@KINDS
def test_a_delayed_record_that_was_in_hand_before_a_restart_is_acknowledged(
    kind: str, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind)
        now = world.clock.wall_ms()
        # the second keeps others waiting
        for value, wait in ((b"0", 5_000), (b"1", 5_000_000)):
            await world.produce(value, key=value, headers=[("pulsar-deliver-at", b"%d" % (now + wait))])
        client = Client(world)
        assert await client.read() == {}
        await world.pass_time(6_000)
        assert given(await client.read()) == [0]
        await world.crash()
        assert at_of(world).lane.opened == 1
        client.lane = None
        await client.commit()
        assert world.at().ready().start == 1
        assert await client.read() == {}

    run(test, folder)


def test_a_record_that_is_nacked_too_often_is_a_dead_letter(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, limit=3)
        await world.produce(*numbers(0, 3))
        client = Client(world)
        seen = 0
        found = await client.read()
        while found:
            bad = [at for at, value in found.items() if value == b"1"]
            seen += len(bad)
            await client.commit(f"ack1;n:0={bad[0]}" if bad else "")
            found = await client.read()
        assert seen == 3
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"1"]
        assert world.at().ready().start == 3

    run(test, folder)


@pytest.mark.parametrize(
    ("metadata", "offset"),
    [
        ("ack1;n=7", 5),
        ("ack1;a=1", 5),
        ("ack1;d=10", 10),
        ("ack1;n:soon=3", 5),
        ("ack7;", 5),
        ("", 11),
        ("ack1;s", 2**62),
    ],
)
def test_a_commit_that_makes_no_sense_does_nothing(metadata: str, offset: int) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        before = at_of(world).lane.state()
        with pytest.raises(MarksError):
            await client.commit(metadata, offset)
        assert at_of(world).lane.state() == before
        assert world.at().ready().acquired == 10
        # nor does it stand in the way of one that does
        await client.commit()
        assert world.at().ready().start == 10

    run(test)


@pytest.mark.parametrize("metadata", ["", "a framework's own", "ack", "0 1 2", None])
def test_metadata_of_others_says_nothing(metadata: str | None) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        queue_of(world).commit(0, 10, metadata, member=False)
        assert world.at().ready().start == 10

    run(test)


def test_nothing_is_acknowledged_while_a_cursor_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, partitions=2)
        await world.produce(*numbers(0, 5))
        await world.produce(*numbers(5, 10), index=1)
        client = Client(world)
        assert len(await client.read()) == 10
        away = world.at(index=1)
        original = type(away).ready

        def ready(self: object) -> object:
            if self is away:
                raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
            return original(self)  # type: ignore[arg-type]

        with monkeypatch.context() as patched:
            patched.setattr(type(away), "ready", ready)
            with pytest.raises(KafkaError):
                queue.commit(0, 10, "", member=True)
        assert (queue.at[0].lane.opened, world.at().ready().acquired) == (10, 5)
        await client.commit()
        assert [world.at(index=index).ready().start for index in range(2)] == [5, 5]

    run(test)


@KINDS
def test_a_commit_that_is_not_stored_has_acknowledged_nothing(kind: str) -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await queued(world, 2, kind=kind)
        await world.produce(*numbers(0, 20), key=KEYS[:20])
        clients = [Client(world, index) for index in range(2)]
        before = [await client.read() for client in clients]
        assert sum(map(len, before)) == 20
        store.failing = True
        for client in clients:
            queue_of(world).commit(client.index, client.position, "", member=True)
        assert await world.settled() is not None
        store.failing = False
        again = [Client(world, index) for index in range(2)]
        assert [client.position for client in again] == [0, 0]
        # the same deliveries: an offset is one of them
        assert [await client.read() for client in again] == before
        for client in again:
            await client.commit()
        assert world.at().ready().start == 20

    run(test)


# -- the ends of consumers -------------------------------------------------------------------------------------------


@KINDS
def test_after_a_crash_what_was_served_comes_again_at_the_end_and_counts(
    kind: str, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2, kind=kind, limit=5)
        await world.produce(*numbers(0, 20), key=KEYS[:20])
        clients = [Client(world, index) for index in range(2)]
        own(world, [0], [1])
        before = await read_all(clients)
        assert sorted(before) == list(range(20))
        held = [client.position for client in clients]
        queue.crashed("m0")
        await world.settled()
        assert [at_of(world, index).lane.open for index in range(2)] == [held[0], 0]
        # nobody has lane 0 now, and whoever comes is given anew what was in hand
        own(world, [0, 1])
        again: list[int] = []
        while len(again) < held[0]:
            came = await read_all(clients)
            assert came
            again += came
            for client in clients:
                await client.commit()
        assert sorted(again) == sorted(before[: held[0]])
        assert world.at().ready().start == 20
        assert queue.lanes.owners == ["m0", "m0"]

    run(test, folder)


def test_what_was_given_and_never_sent_comes_again_without_a_count() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, limit=3)
        await world.produce(*numbers(0, 5))
        client = Client(world)
        own(world, [0])
        # it asks, and is lost before it could fetch what it got
        await client.poll()
        await world.settled()
        queue.crashed("m0")
        (source,) = queue.sources.values()
        assert [source.failures(offset) for offset in range(5)] == [0] * 5
        assert given(await Client(world).read()) == list(range(5))

    run(test)


def test_the_crash_of_a_member_without_lanes_does_nothing() -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.produce(*numbers(0, 5))
        client = Client(world)
        own(world, [0])
        await client.read()
        queue.crashed("m7")
        queue.left("m7")
        assert at_of(world).lane.opened == 5
        (source,) = queue.sources.values()
        assert source.failures(0) == 0

    run(test)


def test_a_record_that_takes_its_consumer_down_dies_and_its_neighbours_live() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 1, limit=3)
        await world.produce(*numbers(0, 30))
        settled: set[int] = set()
        for _ in range(200):
            client = Client(world)
            own(world, [0])
            found = await client.read()
            if not found:
                break
            if b"17" in found.values():
                queue.crashed("m0")
            else:
                settled |= set(given(found))
                await client.commit()
            client.leave()
            await world.settled()
        assert settled == set(range(30)) - {17}
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"17"]
        assert world.at().ready().start == 30

    run(test)


@KINDS
def test_after_a_leave_the_same_offsets_come_and_the_first_counts(kind: str) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, kind=kind, limit=5)
        await world.produce(*numbers(0, 10), key=KEYS[:10])
        client = Client(world)
        own(world, [0])
        found = await client.read()
        await client.commit(offset=3)
        queue.left("m0")
        await world.settled()
        (source,) = queue.sources.values()
        first = given(found)[3]
        assert [source.failures(offset) for offset in range(10)] == [int(n == first) for n in range(10)]
        again = Client(world)
        assert again.position == 3
        assert {at: value for at, value in (await again.read()).items() if at >= 3} == {
            at: found[at] for at in range(3, 10)
        }
        assert queue.lanes.owners == [None]

    run(test)


def test_a_record_alone_whose_consumers_leave_dies_at_its_limit(folder: Path | None) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, limit=2)
        await world.produce(b"0")
        for times in range(2):
            client = Client(world)
            own(world, [0])
            assert len(await client.read()) == 1, times
            queue.left("m0")
            client.leave()
            await world.settled()
        await world.settled()
        assert at_of(world).lane.opened == 0
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"0"]
        assert await Client(world).read() == {}

    run(test, folder)


@KINDS
def test_a_record_whose_consumers_leave_dies_at_its_limit_though_others_are_open_behind_it(
    kind: str, folder: Path | None
) -> None:
    async def test(world: World) -> None:
        await queued(world, kind=kind, limit=3)
        await world.produce(*numbers(0, 10), key=KEYS[:10])
        poison: set[int] = set()
        for _ in range(3):
            own(world, [0])
            client = Client(world)
            # it fails at the first, and closes in good order: nothing is committed
            poison.add(given(await client.read())[0])
            client.leave()
            queue_of(world).left("m0")
            await world.settled()
        await world.settled()
        [dead] = await world.read("t-g-DLQ")
        assert poison == {int(dead.value or b"-1")}
        own(world, [0])
        found: list[int] = []
        client = Client(world)
        while came := given(await client.read()):
            found += came
            await client.commit()
        assert sorted(found) == sorted(set(range(10)) - poison)
        assert world.at().ready().start == 10

    run(test, folder)


def test_a_leave_counts_nothing_where_leaves_do_not_count() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, pulsar__leave__counts="false")
        await world.produce(*numbers(0, 3))
        own(world, [0])
        await Client(world).read()
        queue.left("m0")
        (source,) = queue.sources.values()
        assert source.failures(0) == 0
        assert (queue.lanes.owners, at_of(world).lane.opened) == ([None], 3)

    run(test)


def test_after_the_gateway_was_restarted_nobody_is_blamed_for_what_was_not_sent_since() -> None:
    async def test(world: World) -> None:
        await queued(world, limit=2)
        await world.produce(*numbers(0, 5))
        await Client(world).read()
        await world.crash()
        own(world, [0])
        queue = queue_of(world)
        queue.crashed("m0")
        (source,) = queue.sources.values()
        assert [source.failures(offset) for offset in range(5)] == [0] * 5
        assert given(await Client(world).read()) == list(range(5))

    run(test)


def test_a_limit_that_is_changed_holds_for_the_next_crash() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, limit=5)
        await world.produce(b"0")
        own(world, [0])
        assert len(await Client(world).read()) == 1
        await world.broker.subscriptions.configs.alter_properties(
            "g", "t", {"pulsar.max.redeliver.count": "0"}
        )
        assert queue_of(world) is queue
        queue.crashed("m0")
        await world.settled()
        await world.settled()
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"0"]

    run(test)


def test_a_limit_that_is_lowered_kills_nobody_who_was_not_alone() -> None:
    async def test(world: World) -> None:
        queue = await queued(world, limit=5)
        await world.produce(b"0", b"1")
        own(world, [0])
        assert len(await Client(world).read()) == 2
        await world.broker.subscriptions.configs.alter_properties(
            "g", "t", {"pulsar.max.redeliver.count": "0"}
        )
        queue.crashed("m0")
        await world.settled()
        await world.settled()
        assert world.broker.catalog.get("t-g-DLQ") is None
        assert world.at().ready().dying_records == 0

    run(test)
