"""Which queue topics there are: made, found again, told of groups, and gone with what they belong to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.catalog import MOST_LANES
from gateway.broker.errors import KafkaError
from gateway.broker.loading import Loading
from gateway.broker.queues.served import name_of
from gateway.wire.errors import Error
from semantics.subscriptions.states import Ending
from store import memory
from store.api import Family, of_group
from tests.gateway.broker.queues.reading import Client, FailingStore, at_of, numbers, queue_of, queued
from tests.gateway.broker.subscriptions.world import World, run

NAME = "t-g-QUEUE"


async def refused(world: World, code: int, topic: str, subscription: str, lanes: int) -> str:
    """Making that fails with this error; what it says."""
    with pytest.raises(KafkaError) as error:
        await world.broker.queues.make(topic, subscription, lanes)
    assert error.value.code == code
    return str(error.value)


def test_it_is_made_with_its_subscription_and_found_after_a_restart(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.produce(b"before")
        await world.configure("g", share__auto__offset__reset="earliest")
        made = await world.broker.queues.make("t", "g", 3, {"pulsar.subscription.type": "key_shared"})
        assert (made.name, len(made.partitions), made.internal) == (NAME, 3, True)
        assert world.subscription().row.queue == NAME
        config = world.subscription().config.subscription
        assert (config.type, config.lanes) == ("key_shared", True)
        await world.crash()
        again = world.broker.catalog.get(NAME)
        assert again == made
        assert world.subscription().config.subscription.lanes
        queue = queue_of(world)
        assert queue_of(world) is queue
        assert not queue.lanes.shared
        await world.settled()
        await world.settled()
        found = [value for index in range(3) for value in (await Client(world, index).read()).values()]
        assert found == [b"before"]

    run(test, folder)


def test_a_subscription_that_is_there_is_served_by_lanes_from_now_on() -> None:
    async def test(world: World) -> None:
        at = await world.subscribed(*numbers(0, 4))
        assert len(await world.fetch(at, "c", 2, strict=True)) == 2
        await world.ack(at, 0)
        # while it has consumers of a share group it is theirs
        why = await refused(world, Error.NON_EMPTY_GROUP, "t", "g", 2)
        assert "has consumers of a share group" in why
        assert world.broker.catalog.get(NAME) is None
        assert world.subscription().row.queue == ""
        at.detach("c", Ending.STOPPED)
        await world.broker.queues.make("t", "g", 2)
        assert [*(await Client(world).read()).values()] == numbers(1, 4)

    run(test)


def test_a_subscription_that_is_there_is_not_made_another_without_a_word() -> None:
    async def test(world: World) -> None:
        await world.subscribed(*numbers(0, 4))
        make = world.broker.queues.make
        for said in ({"pulsar.subscription.type": "key_shared"}, {"pulsar.nack.delay.ms": "7"}):
            with pytest.raises(KafkaError, match="its configs are others") as error:
                await make("t", "g", 2, said)
            assert error.value.code == Error.INVALID_CONFIG
        assert world.broker.catalog.get(NAME) is None
        # what it is already can be said
        made = await make("t", "g", 2, {"pulsar.subscription.type": "shared"})
        assert made.name == NAME

    run(test)


def test_it_is_made_once() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        why = await refused(world, Error.TOPIC_ALREADY_EXISTS, "t", "g", 2)
        assert "It has 2 lanes; `topics update-partitioned-topic` adds some." in why
        assert world.subscription().row.queue == NAME
        # nothing of the first was lost
        await world.produce(b"a")
        assert await Client(world).read() == {0: b"a"}

    run(test)


def test_a_plain_topic_of_that_name_is_to_be_deleted_first() -> None:
    async def test(world: World) -> None:
        await world.topic(NAME)
        await world.topic("t")
        why = await refused(world, Error.TOPIC_ALREADY_EXISTS, "t", "g", 2)
        assert f"It is a plain topic: delete it first, with magnetar-admin topics delete {NAME}" in why

    run(test)


def test_a_name_that_two_subscriptions_have_is_the_firsts() -> None:
    async def test(world: World) -> None:
        for topic in ("x", "x-y"):
            await world.topic(topic)
        queues = world.broker.queues
        name = "x-y-z-QUEUE"
        # nobody is there: the longer name of a topic
        assert queues.named(name) == ("x-y", "z")
        await queues.make("x", "y-z", 2)
        why = await refused(world, Error.TOPIC_ALREADY_EXISTS, "x-y", "z", 2)
        assert "It serves subscription y-z of 'x': choose another name for the subscription." in why
        # made again it serves the one that was there
        await world.broker.topics.delete(name)
        assert queues.named(name) == ("x", "y-z")

    run(test)


def test_two_who_make_it_at_once_make_one() -> None:
    async def test(world: World) -> None:
        await world.topic()
        make = world.broker.queues.make
        done = await asyncio.gather(make("t", "g", 2), make("t", "g", 2), return_exceptions=True)
        (error,) = [each for each in done if isinstance(each, BaseException)]
        assert isinstance(error, KafkaError)
        assert error.code == Error.TOPIC_ALREADY_EXISTS
        assert len(queue_of(world).at) == 2

    run(test)


def test_what_cannot_be_made_is_refused() -> None:
    async def test(world: World) -> None:
        for lanes in (0, -1, MOST_LANES + 1):
            await refused(world, Error.INVALID_PARTITIONS, "t", "g", lanes)
        await refused(world, Error.UNKNOWN_TOPIC_OR_PARTITION, "t", "g", 1)
        await queued(world)
        why = await refused(world, Error.INVALID_REQUEST, NAME, "h", 1)
        assert "is a queue topic itself" in why
        assert world.broker.subscriptions.get("h", NAME) is None

    run(test)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_making_that_is_stored_or_not_is_known_whoever_asked_for_it(cancelled: bool) -> None:
    """Also when the connection that asked is gone before the disk has answered."""

    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await world.topic()
        await world.subscribe()
        store.holding = True
        task = asyncio.ensure_future(world.broker.queues.make("t", "g", 2))
        while not store.held:
            await asyncio.sleep(0)
        if cancelled:
            task.cancel()
            await asyncio.wait([task])
        store.let_go()
        if not cancelled:
            await task
        await world.settled()
        assert world.broker.catalog.get(NAME) is not None
        assert world.subscription().row.queue == NAME
        assert world.subscription().config.subscription.lanes
        # a later change of the row keeps it
        await world.subscription().keep({"team": "payments"})
        await world.crash()
        assert world.subscription().row.queue == NAME

    run(test)


def test_it_and_a_subscription_that_is_missing_are_one_commit() -> None:
    """What is refused, or cut off, leaves no subscription of which nobody knows whose it is."""

    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await world.topic()
        sticky = {"pulsar.key.shared.mode": "sticky", "pulsar.key.shared.ranges": "lane 0:0-9"}
        with pytest.raises(KafkaError, match="lane 1 gets no slots"):
            await world.broker.queues.make("t", "g", 2, {"pulsar.subscription.type": "key_shared", **sticky})
        store.failing = True
        with pytest.raises(KafkaError):
            await world.broker.queues.make("t", "g", 2)
        store.failing = False
        assert world.broker.subscriptions.get("g", "t") is None
        assert world.broker.catalog.get(NAME) is None
        store.holding = True
        making = asyncio.ensure_future(world.broker.queues.make("t", "g", 2))
        while not store.held:
            await asyncio.sleep(0)
        # nothing is stored behind the first commit
        store.failing = True
        store.let_go()
        await making
        store.failing = False
        await world.crash()
        assert world.subscription().row.queue == NAME
        assert len(queue_of(world).at) == 2

    run(test)


def test_a_making_that_fails_leaves_the_subscription_as_it_was() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await world.topic()
        await world.subscribe()
        store.failing = True
        await refused(world, Error.KAFKA_STORAGE_ERROR, "t", "g", 2)
        store.failing = False
        assert world.broker.catalog.get(NAME) is None
        assert world.subscription().row.queue == ""
        assert not world.subscription().config.subscription.lanes
        await world.broker.queues.make("t", "g", 2)
        assert world.subscription().row.queue == NAME

    run(test)


def test_a_making_that_is_refused_late_lets_go_of_the_subscriptions_row() -> None:
    async def test(world: World) -> None:
        await world.topic("a.b")
        await world.subscribe(topic="a.b")
        # nothing can be called so beside it
        await world.topic("a_b-g-QUEUE")
        await refused(world, Error.INVALID_TOPIC_EXCEPTION, "a.b", "g", 2)
        async with asyncio.timeout(5):
            await world.subscription(topic="a.b").keep({"team": "payments"})
        assert world.subscription(topic="a.b").row.properties == {"team": "payments"}

    run(test)


# -- changed and deleted ---------------------------------------------------------------------------------------------


def test_a_base_that_grows_is_read_whole(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        await world.produce(b"a")
        client = Client(world)
        assert await client.read() == {0: b"a"}
        await world.broker.topics.grow("t", 3)
        await world.produce(b"b", index=2)
        assert [*(await client.read()).values()] == [b"b"]
        # what it held is held on
        assert at_of(world).lane.open == 0
        await client.commit()
        assert [world.at(index=index).ready().start for index in range(3)] == [1, 0, 1]

    run(test, folder)


def test_a_reader_that_waits_is_given_what_comes_into_topics_that_are_to_be_read_too() -> None:
    """A fetch of a session waits on the lane that it has, and asks for no other until it is woken."""

    async def test(world: World) -> None:
        queue = await queued(world)
        client = Client(world)
        assert await client.poll() == {}
        await world.broker.topics.grow("t", 2)
        await world.broker.subscriptions.make_retries("g", "t", "t-g-RETRY")
        await world.settled()
        # what it holds stays with it
        assert not queue.gone
        for topic, index in (("t", 1), ("t-g-RETRY", 0), ("t-g-RETRY", 1)):
            woken = client.woken
            await world.produce(b"%d" % index, topic=topic, index=index)
            await world.settled()
            assert client.woken > woken
            assert client.lane is not None
            assert client.lane.high_watermark == client.position + 1
            assert [*(await client.poll()).values()] == [b"%d" % index]
            assert await client.poll() == {}

    run(test)


def test_a_reader_that_waits_is_told_that_a_topic_is_gone() -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.broker.subscriptions.make_retries("g", "t", "t-g-RETRY")
        client = Client(world)
        assert await client.poll() == {}
        woken = client.woken
        await world.broker.topics.delete("t-g-RETRY")
        await world.settled()
        assert queue.gone
        assert client.woken > woken
        assert client.lane is not None
        assert client.lane.stale

    run(test)


def test_a_change_elsewhere_leaves_it_alone() -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.topic("other")
        assert queue_of(world) is queue

    run(test)


@pytest.mark.parametrize("first", ["queue", "retries"])
def test_a_retry_topic_that_anybody_made_is_read_from_its_first_record(first: str) -> None:
    async def test(world: World) -> None:
        if first == "retries":
            await world.topic("t-g-RETRY")
        await queued(world)
        client = Client(world)
        await client.poll()
        if first == "queue":
            await world.topic("t-g-RETRY")
        await world.produce(b"again", topic="t-g-RETRY")
        assert [*(await client.read()).values()] == [b"again"]
        # that of a group without lanes is none of theirs
        await world.topic("t-other-RETRY")
        assert world.broker.subscriptions.get("other", "t-other-RETRY") is None

    run(test)


def test_a_retry_topic_that_appears_is_read_too(folder: Path | None) -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        client = Client(world)
        await client.poll()
        await world.broker.subscriptions.make_retries("g", "t", "t-g-RETRY")
        assert len(queue_of(world).sources) == len(queue.sources) == 2
        await world.produce(b"again", topic="t-g-RETRY")
        assert [*(await client.read()).values()] == [b"again"]
        await client.commit()
        assert world.at(topic="t-g-RETRY").ready().start == 1
        await world.crash()
        assert len(queue_of(world).sources) == 2
        # and when it goes, what was given of it is not held up
        await world.produce(b"and again", topic="t-g-RETRY")
        client = Client(world)
        await client.poll()
        await world.settled()
        await world.broker.topics.delete("t-g-RETRY")
        await world.produce(b"a")
        assert [*(await client.read()).values()] == [b"a"]
        await client.commit()
        assert at_of(world).lane.opened == 0

    run(test, folder)


def test_with_its_base_it_goes_with_all_its_rows(folder: Path | None) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2)
        await world.produce(*numbers(0, 10))
        client = Client(world)
        await client.read()
        await world.broker.topics.delete("t")
        assert world.broker.catalog.get(NAME) is None
        assert world.broker.in_use.topic(NAME.encode()) is None
        assert (queue.gone, client.woken > 0) == (True, True)
        assert list(world.store.scan(Family.LANE)) == []
        with pytest.raises(KafkaError):
            world.broker.queues.of(queue.topic)
        # another of that name begins anew
        await queued(world, 1)
        assert at_of(world).lane.end == 0

    run(test, folder)


def test_without_its_queue_topic_a_subscription_is_for_share_groups_again(folder: Path | None) -> None:
    async def test(world: World) -> None:
        queue = await queued(world, 2)
        await world.produce(*numbers(0, 4))
        client = Client(world)
        await client.read()
        await client.commit(offset=1)
        await world.broker.topics.delete(NAME)
        assert queue.gone
        assert list(world.store.scan(Family.LANE)) == []
        assert world.subscription().row.queue == ""
        config = world.subscription().config.subscription
        assert not config.lanes
        assert config.lock_ms < 1 << 40
        assert list(world.at().consumers) == []
        assert list(await world.fetch(world.at())) == [1, 2, 3]
        await world.crash()
        assert not world.subscription().config.subscription.lanes
        world.at()
        await world.broker.queues.make("t", "g", 1)
        assert [*(await Client(world).read()).values()] == numbers(1, 4)

    run(test, folder)


def test_lanes_of_a_subscription_that_was_deleted_are_not_there() -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.broker.subscriptions.delete("g")
        assert queue.gone
        with pytest.raises(KafkaError) as error:
            queue_of(world)
        assert error.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION
        # who waits for it to be loaded is not kept
        topic = world.broker.catalog.get(NAME)
        assert topic is not None
        assert world.broker.queues.load([topic]) is None
        await world.broker.topics.delete(NAME)

    run(test)


def test_lanes_that_there_are_not_are_unknown() -> None:
    async def test(world: World) -> None:
        await queued(world, 2)
        runtime = world.broker.in_use.topic(NAME.encode())
        assert runtime is not None
        for index in (-1, 2):
            with pytest.raises(KafkaError) as error:
                world.broker.queues.lane(runtime, index)
            assert error.value.code == Error.UNKNOWN_TOPIC_OR_PARTITION
        runtime.deleting = True
        with pytest.raises(KafkaError) as error:
            world.broker.queues.lane(runtime, 0)
        assert error.value.code == Error.NOT_LEADER_OR_FOLLOWER
        runtime.deleting = False

    run(test)


# -- groups ----------------------------------------------------------------------------------------------------------


def test_assignments_say_whose_lanes_are_and_who_is_gone_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        assigned = {"m1": {NAME: [0, 2], "u": [0]}, "m2": {NAME: [1, 99, -1]}, "m3": {"u": [1]}}
        monkeypatch.setattr(world.broker.groups, "assignment", lambda group: assigned if group == "g" else {})
        queue = await queued(world, 4)
        assert queue.lanes.owners == ["m1", "m2", "m1", None]
        queues = world.broker.queues
        assigned["m2"] = {NAME: [3]}
        queues.assigned("h")
        assert queue.lanes.owners == ["m1", "m2", "m1", None]
        queues.assigned("g")
        assert queue.lanes.owners == ["m1", None, "m1", "m2"]
        await world.produce(*numbers(0, 5))
        await Client(world, 0).read()
        queues.member_gone("h", "m1", crashed=True)
        assert queue.at[0].lane.opened == 5
        queues.member_gone("g", "m1", crashed=False)
        assert (queue.at[0].lane.opened, queue.lanes.owners) == (5, [None, None, None, "m2"])
        queues.assigned("g")
        queues.member_gone("g", "m1", crashed=True)
        assert queue.at[0].lane.open == 5
        # after a restart they are as the group says
        del assigned["m1"]
        await world.crash()
        monkeypatch.setattr(world.broker.groups, "assignment", lambda group: assigned)
        assert queue_of(world).lanes.owners == [None, None, None, "m2"]

    run(test)


def test_while_its_group_is_not_loaded_nobody_finds_lanes_without_owners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(world: World) -> None:
        await queued(world)
        await world.crash()
        loaded = asyncio.get_running_loop().create_future()

        def assignment(group: str) -> dict[str, dict[str, list[int]]]:
            if not loaded.done():
                raise Loading(of_group(group), loaded)
            return {"m": {NAME: [0]}}

        monkeypatch.setattr(world.broker.groups, "assignment", assignment)
        topic = world.broker.catalog.get(NAME)
        assert topic is not None
        for _ in range(2):
            with pytest.raises(Loading):
                queue_of(world)
        waits = world.broker.queues.load([topic])
        assert waits is not None
        loaded.set_result(None)
        await waits
        assert queue_of(world).lanes.owners == ["m"]

    run(test)


def test_a_member_that_goes_while_a_cursor_cannot_be_had_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(world: World) -> None:
        queue = await queued(world)
        await world.produce(*numbers(0, 3))
        client = Client(world)
        await client.read()
        queue.assigned({"m": [0]})

        def away() -> None:
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)

        with monkeypatch.context() as patched:
            patched.setattr(type(world.at()), "ready", lambda self: away())
            world.broker.queues.member_gone("g", "m", crashed=True)
        assert queue.gone
        (source,) = queue_of(world).sources.values()
        assert [source.failures(offset) for offset in range(3)] == [0, 0, 0]
        again = Client(world)
        assert (again.position, len(await again.read())) == (0, 3)

    run(test)


def test_names_are_those_of_topic_and_subscription() -> None:
    assert name_of("orders", "billing") == "orders-billing-QUEUE"


def test_what_belongs_to_the_group_is_not_said_of_the_subscription() -> None:
    async def test(world: World) -> None:
        await world.topic()
        with pytest.raises(KafkaError, match="belongs to the group") as caught:
            await world.broker.queues.make("t", "g", 2, {"pulsar.retry.letter.topic": "later"})
        assert caught.value.code == Error.INVALID_CONFIG
        assert world.broker.subscriptions.get("g", "t") is None

    run(test)


def test_it_and_its_subscription_go_in_one_commit() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await queued(world, 2)
        store.failing = True
        with pytest.raises(KafkaError):
            await world.broker.queues.unsubscribe(queue_of(world).topic)
        store.failing = False
        assert world.subscription().row.queue == NAME, "nothing was done"
        await world.produce(b"0")
        assert list((await Client(world).read()).values()) == [b"0"]
        store.holding = True
        leaving = asyncio.ensure_future(world.broker.queues.unsubscribe(queue_of(world).topic))
        while not store.held:
            await asyncio.sleep(0)
        assert world.broker.subscriptions.get("g", "t") is None, "who looks meanwhile finds none"
        # nothing is stored behind the first commit
        store.failing = True
        store.let_go()
        await leaving
        store.failing = False
        await world.crash()
        assert world.broker.catalog.get(NAME) is None
        assert world.broker.subscriptions.get("g", "t") is None

    run(test)
