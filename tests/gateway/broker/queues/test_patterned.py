"""Queue topics over a pattern: which topics they are over, what comes and goes, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.catalog import Topic
from gateway.broker.errors import KafkaError
from gateway.broker.queues import patterned
from gateway.broker.queues.queue import Queue
from gateway.wire.errors import Error
from semantics.patterns import Pattern, PatternError
from semantics.subscriptions.states import Ending
from store import memory
from tests.gateway.broker.queues.reading import Client, FailingStore, numbers, queue_of
from tests.gateway.broker.subscriptions.world import World, run

NAME = "g-QUEUE"
PATTERN = "orders-.*"


async def over(world: World, lanes: int = 1, pattern: str = PATTERN, **configs: str) -> Topic:
    """The subscription g on all topics that match, each from its first record, served by lanes."""
    named = {key.replace("__", "."): value for key, value in configs.items()}
    made = await world.broker.queues.make_over("g", Pattern(pattern), lanes, named, "earliest")
    await world.settled()
    await world.settled()
    return made


async def refused(world: World, code: int, pattern: str = PATTERN, group: str = "g", lanes: int = 1) -> str:
    """Making that fails with this error; what it says. It leaves nothing behind."""
    with pytest.raises(KafkaError) as error:
        await world.broker.queues.make_over(group, Pattern(pattern), lanes, {})
    assert error.value.code == code, str(error.value)
    return str(error.value)


def reader(world: World, lane: int = 0) -> Client:
    return Client(world, lane, "", "g", name=NAME)


def bases(queue: Queue) -> list[str]:
    """The topics that it reads."""
    return sorted({source.at.subscription.topic for source in queue.sources.values()})


def values(found: dict[int, bytes | None]) -> list[bytes | None]:
    return list(found.values())


# -- made ------------------------------------------------------------------------------------------------------------


def test_it_reads_all_topics_that_match_and_is_found_after_a_restart(folder: Path | None) -> None:
    async def test(world: World) -> None:
        for name in ("orders-eu", "orders-us", "orders", "my-orders-eu", "bills"):
            await world.topic(name, partitions=2)
            await world.produce(name.encode(), topic=name, index=1)
        made = await over(world, 3, pulsar__subscription__type="key_shared")
        assert (made.name, len(made.partitions), made.internal) == (NAME, 3, True)
        for name in ("orders-eu", "orders-us"):
            config = world.subscription(topic=name).config.subscription
            assert (config.type, config.lanes) == ("key_shared", True)
        await world.crash()
        assert world.broker.catalog.get(NAME) == made
        queue = queue_of(world, NAME)
        assert queue_of(world, NAME) is queue
        assert not queue.lanes.shared
        assert bases(queue) == ["orders-eu", "orders-us"]
        await world.settled()
        await world.settled()
        found = [value for lane in range(3) for value in values(await reader(world, lane).read())]
        assert sorted(filter(None, found)) == [b"orders-eu", b"orders-us"]
        # it follows what comes after the restart as well
        await world.topic("orders-asia")
        assert bases(queue) == ["orders-asia", "orders-eu", "orders-us"]

    run(test, folder)


def test_a_subscription_that_is_there_goes_on_where_it_stands_and_a_new_one_begins_where_it_is_told() -> None:
    async def test(world: World) -> None:
        for name in ("orders-a", "orders-b"):
            await world.topic(name)
            await world.produce(*numbers(0, 3), topic=name)
        at = await world.subscribe(topic="orders-a")
        assert len(await world.fetch(at, "c", 2, strict=True)) == 2
        await world.ack(at, 0)
        why = await refused(world, Error.NON_EMPTY_GROUP)
        assert "has consumers of a share group" in why
        assert world.broker.catalog.get(NAME) is None
        assert world.broker.subscriptions.get("g", "orders-b") is None
        at.detach("c", Ending.STOPPED)
        await world.broker.queues.make_over("g", Pattern(PATTERN), 1, {}, "latest")
        await world.produce(b"new", topic="orders-b")
        found = values(await reader(world).read())
        assert sorted(filter(None, found)) == [b"1", b"2", b"new"]

    run(test)


def test_what_is_internal_or_belongs_to_a_subscription_does_not_match() -> None:
    async def test(world: World) -> None:
        await world.configure("h", pulsar__retry__letter__topic="orders-again")
        for name in (
            "orders",
            "orders-g-RETRY",
            "orders-h-DLQ",
            "orders-again",
            "orders-dead",
            "orders-x-DLQ-y",
        ):
            await world.topic(name)
        await world.broker.topics.create("orders-internal", 1, {}, internal=True)
        await world.broker.queues.make("orders", "h", 1)
        await over(world, pattern="orders.*", pulsar__dead__letter__topic="orders-dead")
        # the retries are read as such
        assert bases(queue_of(world, NAME)) == ["orders", "orders-g-RETRY", "orders-x-DLQ-y"]
        for name in ("orders-h-RETRY", "orders-g-DLQ", "orders-dead-2"):
            await world.topic(name)
        assert world.broker.subscriptions.get("g", "orders-h-RETRY") is None
        assert world.broker.subscriptions.get("g", "orders-g-DLQ") is None
        assert world.broker.subscriptions.get("g", "orders-dead-2") is not None

    run(test)


def test_what_cannot_be_made_is_refused_with_words() -> None:
    async def test(world: World) -> None:
        for lanes in (0, 1_001):
            await refused(world, Error.INVALID_PARTITIONS, lanes=lanes)
        with pytest.raises(KafkaError) as error:
            world.broker.queues.patterned.pattern_of("orders-(.*")
        assert error.value.code == Error.INVALID_CONFIG
        assert "a ')' is missing" in str(error.value)
        # <topic>-<subscription>-QUEUE and <subscription>-QUEUE may be the same
        await world.topic("orders")
        why = await refused(world, Error.INVALID_REQUEST, group="orders-g")
        assert "the queue topic of subscription g of topic 'orders'" in why
        # one subscription is served by one queue topic
        await world.topic("orders-eu")
        await world.broker.queues.make("orders-eu", "g", 1)
        why = await refused(world, Error.INVALID_REQUEST)
        assert "served by the lanes of orders-eu-g-QUEUE" in why
        await world.topic("orders-us")
        assert world.broker.subscriptions.get("g", "orders-us") is None
        # and all that one serves are of one type
        await world.broker.topics.delete("orders-eu-g-QUEUE")
        with pytest.raises(KafkaError) as error:
            await over(world, pulsar__subscription__type="key_shared")
        assert "orders-eu is shared auto_split, and the queue topic is key_shared" in str(error.value)
        await over(world)
        why = await refused(world, Error.TOPIC_ALREADY_EXISTS)
        assert f"It is over {PATTERN!r} and has 1 lanes; `topics update-partitioned-topic` adds some." in why
        with pytest.raises(KafkaError) as error:
            await world.broker.queues.make("orders-eu", "g", 1)
        assert "served by the lanes of g-QUEUE" in str(error.value)

    run(test)


def test_a_subscription_keeps_its_type_while_it_is_one_of_many() -> None:
    async def test(world: World) -> None:
        await world.topic("orders-eu")
        await world.subscribe(topic="orders-eu")
        await over(world)
        alter = world.broker.subscriptions.configs.alter_properties
        with pytest.raises(KafkaError) as error:
            await alter("g", "orders-eu", {"pulsar.subscription.type": "key_shared"})
        assert error.value.code == Error.INVALID_CONFIG
        assert "all that it serves are alike" in str(error.value)
        # by its group it would be another now
        await world.configure("g", pulsar__subscription__type="key_shared")
        assert world.subscription(topic="orders-eu").config.subscription.type == "shared"
        await alter("g", "orders-eu", {"pulsar.nack.delay.ms": "7"})
        assert world.subscription(topic="orders-eu").config.subscription.nack_delay_ms == 7

    run(test)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_making_is_one_commit_whoever_asked_for_it(cancelled: bool) -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await world.topic("orders-a")
        await world.topic("orders-b")
        await world.subscribe(topic="orders-a")
        store.failing = True
        await refused(world, Error.KAFKA_STORAGE_ERROR)
        store.failing = False
        assert world.broker.catalog.get(NAME) is None
        assert world.subscription(topic="orders-a").row.queue == ""
        assert world.broker.subscriptions.get("g", "orders-b") is None
        # a topic that comes meanwhile is none of its
        await world.topic("orders-c")
        assert world.broker.subscriptions.get("g", "orders-c") is None

        task = asyncio.ensure_future(world.broker.queues.make_over("g", Pattern(PATTERN), 2, {}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await world.settled()
        store.holding = True
        if cancelled:
            task.cancel()
            await asyncio.wait([task])
        while not store.held and not task.done():
            await asyncio.sleep(0)
        store.let_go()
        if not cancelled:
            await task
        while world.broker.catalog.get(NAME) is None:
            await world.settled()
        assert bases(queue_of(world, NAME)) == ["orders-a", "orders-b", "orders-c"]

    run(test)


def test_a_topic_that_is_made_at_the_same_time_is_read() -> None:
    async def test(world: World) -> None:
        make = world.broker.queues.make_over
        await world.topic("orders-a")
        await asyncio.gather(
            world.topic("orders-b"),
            make("g", Pattern(PATTERN), 1, {}),
            *(world.topic(f"orders-c{n}") for n in range(3)),
        )
        assert bases(queue_of(world, NAME)) == ["orders-a", "orders-b", *(f"orders-c{n}" for n in range(3))]

    run(test)


# -- topics come, grow and go ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_topic_that_would_match_waits_for_a_making_and_nothing_is_left_of_one_that_is_refused(
    turns: int,
) -> None:
    async def test(world: World) -> None:
        await world.topic("orders-eu")
        await world.configure("g", pulsar__subscription__type="shared")
        await world.subscribe("g", "orders-eu")

        async def later() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await world.broker.topics.create("orders-us", 1, {})

        making = asyncio.ensure_future(over(world, 2, pulsar__subscription__type="key_shared"))
        await later()
        with pytest.raises(KafkaError):
            await making
        assert [row.topic for row in world.broker.subscriptions.of_group("g")] == ["orders-eu"]
        # and one that is made is over what waited for it
        making = asyncio.ensure_future(over(world, 2, pulsar__subscription__type="shared"))
        for _ in range(turns):
            await asyncio.sleep(0)
        await world.broker.topics.create("orders-de", 1, {})
        await making
        found = world.broker.subscriptions.of_group("g")
        assert {row.topic: row.queue for row in found} == dict.fromkeys(
            ("orders-eu", "orders-us", "orders-de"), NAME
        )

    run(test)


def test_topics_that_come_or_grow_are_read_from_their_first_record_by_who_waits(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await over(world, pulsar__subscription__type="key_shared")
        client = reader(world)
        queue = queue_of(world, NAME)
        assert await client.poll() == {}
        held = 0
        await world.topic("orders-eu")
        for index in (0, 1):
            woken = client.woken
            await world.produce(b"%d" % index, topic="orders-eu", index=index)
            await world.settled()
            assert client.woken > woken
            assert values(await client.read()) == [b"%d" % index]
            held += 1
            if not index:
                await world.broker.topics.grow("orders-eu", 2)
        # nothing was read again for that: what is in hand stays there
        assert queue_of(world, NAME) is queue
        assert queue.lanes.lanes[0].opened == held
        await client.commit()
        assert [world.at(topic="orders-eu", index=index).ready().start for index in (0, 1)] == [1, 1]

    run(test, folder)


def test_a_topic_is_made_with_its_subscription_or_not_at_all() -> None:
    async def test(world: World) -> None:
        store = FailingStore(memory.open(clock=world.clock.wall_ms))
        await world.start(store)
        await over(world)
        store.failing = True
        with pytest.raises(KafkaError):
            await world.topic("orders-a")
        store.failing = False
        assert bases(queue_of(world, NAME)) == []
        await world.topic("orders-a")
        await world.produce(b"first", topic="orders-a")
        # nobody has asked for a record when the gateway goes
        world.store = store.inner
        await world.crash()
        assert values(await reader(world).read()) == [b"first"]

    run(test)


def test_a_topic_that_goes_takes_its_part_only(folder: Path | None) -> None:
    async def test(world: World) -> None:
        for name in ("orders-a", "orders-b"):
            await world.topic(name)
        await over(world)
        for name in ("orders-a", "orders-b"):
            await world.produce(name.encode(), topic=name)
        client = reader(world)
        assert len(await client.read()) == 2
        await world.broker.topics.delete("orders-a")
        assert world.broker.catalog.get(NAME) is not None
        queue = queue_of(world, NAME)
        assert bases(queue) == ["orders-b"]
        assert queue.lanes.lanes[0].opened == 1
        await client.commit()
        assert world.at(topic="orders-b").ready().start == 1
        # one of that name is another topic
        await world.topic("orders-a")
        await world.produce(b"again", topic="orders-a")
        assert values(await client.read()) == [b"again"]
        await world.crash()
        assert bases(queue_of(world, NAME)) == ["orders-a", "orders-b"]

    run(test, folder)


def test_deleting_it_leaves_the_subscriptions_as_they_are(folder: Path | None) -> None:
    async def test(world: World) -> None:
        for name in ("orders-a", "orders-b"):
            await world.topic(name)
        await over(world, 2, pulsar__subscription__type="key_shared")
        for name in ("orders-a", "orders-b"):
            await world.produce(*numbers(0, 3), topic=name)
        for client in (reader(world, 0), reader(world, 1)):
            await client.read()
            await client.commit()
        await world.crash()
        # not in memory
        await world.broker.topics.delete(NAME)
        for name in ("orders-a", "orders-b"):
            row = world.subscription(topic=name).row
            assert (row.queue, row.selector) == ("", b"")
            config = world.subscription(topic=name).config.subscription
            assert (config.type, config.lanes) == ("key_shared", False)
        # nothing comes to it any more
        await world.topic("orders-c")
        assert world.broker.subscriptions.get("g", "orders-c") is None
        await world.crash()
        assert world.broker.catalog.get(NAME) is None
        again = await over(world, 2, pulsar__subscription__type="key_shared")
        assert again.queue is not None
        assert bases(queue_of(world, NAME)) == ["orders-a", "orders-b", "orders-c"]
        assert [world.at(topic=name).ready().start for name in ("orders-a", "orders-b", "orders-c")] == [
            3,
            3,
            0,
        ]

    run(test, folder)


# -- letters ---------------------------------------------------------------------------------------------------------


def test_letters_go_to_the_topics_of_the_topic_that_they_are_from() -> None:
    async def test(world: World) -> None:
        for name in ("orders-a", "orders-b"):
            await world.topic(name)
        await over(world, pulsar__max__redeliver__count="0")
        await world.produce(b"dead", topic="orders-a")
        client = reader(world)
        await client.read()
        await client.commit("ack1;d=0")
        await world.settled()
        await world.settled()
        assert [each.value for each in await world.read("orders-a-g-DLQ")] == [b"dead"]
        await world.produce(b"later", topic="orders-b")
        assert values(await client.read()) == [b"later"]
        await client.commit(f"ack1;r:1000={client.position - 1}")
        await world.settled()
        await world.settled()
        assert [each.value for each in await world.read("orders-b-g-RETRY")] == [b"later"]
        assert bases(queue_of(world, NAME)) == ["orders-a", "orders-b", "orders-b-g-RETRY"]
        await client.poll()
        await world.pass_time(1_001)
        assert values(await client.read()) == [b"later"]
        retries = world.broker.catalog.get("orders-b-g-RETRY")
        assert retries is not None
        serving = world.broker.queues.serving(retries, "g")
        assert serving is not None
        assert serving.name == NAME

    run(test)


def test_a_pattern_that_this_gateway_cannot_read_serves_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a later gateway has written."""

    async def test(world: World) -> None:
        await world.topic("orders-a")
        await over(world)

        def unread(text: str) -> object:
            raise PatternError("no")

        monkeypatch.setattr(patterned, "Pattern", unread)
        await world.crash()
        await world.topic("orders-b")
        assert bases(queue_of(world, NAME)) == ["orders-a"]
        await world.broker.topics.grow("orders-a", 2)
        await world.produce(b"a", topic="orders-a", index=1)
        assert values(await reader(world).read()) == [b"a"]
        await world.broker.topics.delete("orders-a")
        assert bases(queue_of(world, NAME)) == []

    run(test)


def test_retries_that_an_administrator_makes_are_read() -> None:
    async def test(world: World) -> None:
        await world.topic("orders-a")
        await over(world)
        client = reader(world)
        assert await client.poll() == {}
        await world.broker.create_topic("orders-a-g-RETRY", 1, {})
        await world.produce(b"again", topic="orders-a-g-RETRY")
        assert values(await client.read()) == [b"again"]

    run(test)


def test_a_group_has_its_queue_topic_though_nothing_matches(folder: Path | None) -> None:
    async def test(world: World) -> None:
        made = await over(world, 2)
        assert world.broker.queues.of_group("g") == [made]
        assert world.broker.queues.of_group("h") == []

    run(test, folder)


def test_a_topic_that_comes_brings_its_durability() -> None:
    async def test(world: World) -> None:
        await world.topic("orders-eu")
        await over(world)
        queue = queue_of(world, NAME)
        assert not queue.fsync
        await world.topic("orders-us", durability="fsync")
        await world.settled()
        assert queue_of(world, NAME) is queue
        assert queue.fsync

    run(test)


def test_subscriptions_in_use_are_no_longer_of_lanes_when_these_are_deleted(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("orders-eu")
        await over(world, pulsar__subscription__type="key_shared")
        live = world.subscription(topic="orders-eu")
        assert live.row.queue == NAME
        await world.broker.topics.delete(NAME)
        for _ in range(3):
            await world.settled()
        live = world.subscription(topic="orders-eu")
        assert (live.row.queue, live.row.selector) == ("", b"")
        await world.crash()
        live = world.subscription(topic="orders-eu")
        assert (live.row.queue, live.row.selector) == ("", b"")

    run(test, folder)
