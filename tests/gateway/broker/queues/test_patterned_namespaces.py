"""Queue topics over patterns of other namespaces: each is over its own topics alone, and lies where they do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.broker.catalog import Topic
from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.queues.queue import Queue
from gateway.broker.rehoming import rehome
from gateway.broker.tenancy import TenancyError
from gateway.wire import letters
from gateway.wire.errors import Error
from semantics.group_names import SEPARATOR, scoped
from semantics.names import Namespace
from tests.gateway.broker.queues.reading import Client, numbers, queue_of
from tests.gateway.broker.subscriptions.world import World, run, said

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")
HOME_QUEUE, EU_QUEUE = "g-QUEUE", "shop/eu/g-QUEUE"
OVER_EU = "persistent://shop/eu/orders-.*"
KEPT = scoped(EU, "g")
"""The group g of clients at home in shop/eu, where these have a listener."""
LISTENER = ("listeners=127.0.0.1:0,EU://127.0.0.1:0", "listener.name.eu.pulsar.namespace=shop/eu")

HOMED = pytest.mark.parametrize("homed", [False, True], ids=["everywhere", "homed"])


async def shop(world: World) -> None:
    """The namespaces shop/eu and shop/us."""
    await world.broker.tenancy.create_tenant("shop", TenantRow())
    for namespace in (EU, US):
        await world.broker.tenancy.create(namespace, NamespaceRow())


async def over(world: World, text: str, lanes: int = 1, **configs: str) -> Topic:
    """The subscriptions g on all topics that match, each from its first record, served by lanes."""
    named = {key.replace("__", "."): value for key, value in configs.items()}
    pattern = world.broker.queues.patterned.pattern_of(text)
    made = await world.broker.queues.make_over("g", pattern, lanes, named, "earliest")
    await world.settled()
    await world.settled()
    return made


async def refused(world: World, code: int, text: str, group: str = "g") -> str:
    """Making that fails with this error; what it says."""
    pattern = world.broker.queues.patterned.pattern_of(text)
    with pytest.raises(KafkaError) as error:
        await world.broker.queues.make_over(group, pattern, 1, {})
    assert error.value.code == code, str(error.value)
    return str(error.value)


def reader(world: World, name: str) -> Client:
    return Client(world, 0, name=name)


def bases(queue: Queue) -> list[str]:
    """The topics that it reads."""
    return sorted({source.at.subscription.topic for source in queue.sources.values()})


async def came(world: World, name: str) -> list[bytes | None]:
    """What its lane has from where its group goes on, in byte order; nothing is committed."""
    client = reader(world, name)
    begin = client.position
    # a batch comes whole
    found = [value for offset, value in (await client.read()).items() if offset >= begin]
    return sorted(found, key=lambda value: value or b"")


@HOMED
def test_each_reads_the_topics_of_its_namespace_alone_also_after_a_restart(
    folder: Path | None, homed: bool
) -> None:
    async def test(world: World) -> None:
        await shop(world)
        for name in ("orders-a", "shop/eu/orders-a", "shop/us/orders-a", "shop/eu/bills"):
            await world.topic(name)
            await world.produce(name.encode(), topic=name)
        for text, name, group in (
            ("orders-.*", HOME_QUEUE, "g"),
            (OVER_EU, EU_QUEUE, KEPT if homed else "g"),
        ):
            made = await over(world, text, pulsar__subscription__type="key_shared")
            assert made.queue is not None
            assert (made.name, made.queue.subscription, made.queue.pattern) == (name, group, text)
        await world.crash()
        assert bases(queue_of(world, HOME_QUEUE)) == ["orders-a"]
        assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a"]
        for name in ("orders-b", "shop/eu/orders-b", "shop/us/orders-b"):
            await world.topic(name)
            await world.produce(name.encode(), topic=name)
        await world.settled()
        assert await came(world, HOME_QUEUE) == [b"orders-a", b"orders-b"]
        assert await came(world, EU_QUEUE) == [b"shop/eu/orders-a", b"shop/eu/orders-b"]
        of_group = [topic.name for topic in world.broker.queues.of_group(KEPT if homed else "g")]
        assert sorted(of_group) == ([EU_QUEUE] if homed else [HOME_QUEUE, EU_QUEUE])
        assert world.broker.queues.serving(world.broker.topics.get("shop/us/orders-a"), "g") is None

    run(test, folder, *(LISTENER if homed else ()))


@HOMED
def test_letters_and_retries_lie_in_the_namespace_of_their_topic(homed: bool) -> None:
    async def test(world: World) -> None:
        await shop(world)
        for name in ("orders-a", "shop/eu/orders-a"):
            await world.topic(name)
            await over(
                world, name.replace("shop/eu/", "persistent://shop/eu/"), pulsar__max__redeliver__count="0"
            )
        for name, queue in (("orders-a", HOME_QUEUE), ("shop/eu/orders-a", EU_QUEUE)):
            await world.produce(b"dead", b"later", topic=name)
            client = reader(world, queue)
            assert list((await client.read()).values()) == [b"dead", b"later"]
            await client.commit("ack1;d=0;r:1000=1")
            for _ in range(4):
                await world.settled()
            (letter,) = await world.read(f"{name}-g-DLQ")
            assert letter.value == b"dead"
            # as Kafka's clients call it
            assert said(letter.headers)[letters.TOPIC] == name.replace("/", ".").encode()
            assert bases(queue_of(world, queue)) == [name, f"{name}-g-RETRY"]
            await client.poll()
            await world.pass_time(1_001)
            assert list((await client.read()).values()) == [b"later"]
        there = [topic.name async for topic in world.broker.tenancy.topics_of(EU)]
        assert there == [
            f"shop/eu/{name}" for name in ("g-QUEUE", "orders-a", "orders-a-g-DLQ", "orders-a-g-RETRY")
        ]

    run(test, None, *(LISTENER if homed else ()))


def test_a_pattern_that_begins_as_kafkas_names_is_over_that_namespace_for_good() -> None:
    async def test(world: World) -> None:
        # while there is no namespace shop/eu these are names of public/default
        await world.topic("shop.eu.orders-a")
        first = await over(world, r"shop\.eu\.orders-.*")
        assert (first.name, bases(queue_of(world, "g-QUEUE"))) == ("g-QUEUE", ["shop.eu.orders-a"])
        for name in ("shop.eu.orders-a", "g-QUEUE"):
            await world.broker.topics.delete(name)
        await shop(world)
        await world.topic("shop/eu/orders-a")
        await world.topic("shop-eu-orders-a")
        for text in (r"shop\.eu\.orders-.*", "shop.eu.orders-.*", r"^shop\.eu\.orders-.*$"):
            made = await over(world, text)
            assert made.name == EU_QUEUE
            await world.crash()
            assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a"]
            await world.broker.topics.delete(EU_QUEUE)

    run(test)


def test_what_cannot_be_made_there_is_refused_with_words() -> None:
    async def test(world: World) -> None:
        wrong = Error.INVALID_CONFIG
        assert "namespaces create shop/eu" in await refused(world, wrong, OVER_EU)
        await shop(world)
        await world.topic("shop/eu/orders-a")
        await world.topic("shop/eu/orders")
        why = await refused(world, Error.INVALID_REQUEST, OVER_EU, "orders-g")
        assert "the queue topic of subscription g of topic 'shop/eu/orders'" in why
        # its queue topic would be one of another namespace
        why = await refused(world, Error.INVALID_REQUEST, "orders-.*", "shop/us/g")
        assert "'shop/us/g-QUEUE' would be a topic of shop/us" in why
        await refused(world, Error.INVALID_TOPIC_EXCEPTION, OVER_EU, "shop/us/g")
        await refused(world, Error.INVALID_TOPIC_EXCEPTION, OVER_EU, "g" * 236)
        await world.broker.queues.make("shop/eu/orders-a", KEPT, 1)
        why = await refused(world, Error.INVALID_REQUEST, OVER_EU)
        assert (
            "Subscription g of topic shop/eu/orders-a is served by the lanes of shop/eu/orders-a-g-QUEUE"
            in why
        )
        await world.broker.topics.delete("shop/eu/orders-a-g-QUEUE")
        with pytest.raises(KafkaError) as error:
            await over(world, OVER_EU, pulsar__subscription__type="key_shared")
        assert "Subscription g of topic shop/eu/orders-a is shared auto_split" in str(error.value)
        await over(world, OVER_EU)
        why = await refused(world, Error.TOPIC_ALREADY_EXISTS, OVER_EU)
        assert f"Topic '{EU_QUEUE}' already exists. It is over '{OVER_EU}'" in why
        assert SEPARATOR not in why
        # the same name elsewhere is another
        await over(world, "orders-.*")

    run(test, None, *LISTENER)


def test_lanes_count_as_topics_of_their_namespace() -> None:
    async def test(world: World) -> None:
        await world.broker.tenancy.create_tenant("shop", TenantRow())
        await world.broker.tenancy.create(EU, NamespaceRow(policies={"pulsar.max.topics": "3"}))
        await world.topic("shop/eu/orders-a")
        with pytest.raises(KafkaError) as error:
            await over(world, OVER_EU, 3)
        assert error.value.code == Error.POLICY_VIOLATION
        await over(world, OVER_EU, 2)
        assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a"]

    run(test)


def test_a_share_group_has_the_name_where_no_pattern_does() -> None:
    async def test(world: World) -> None:
        await shop(world)
        await over(world, OVER_EU)
        lanes_of = world.broker.subscriptions.lanes_of
        assert (lanes_of(KEPT), lanes_of("g"), lanes_of(scoped(US, "g"))) == (EU_QUEUE, None, None)
        await world.broker.topics.delete(EU_QUEUE)
        assert lanes_of(KEPT) is None

    run(test, None, *LISTENER)


def test_a_subscription_there_keeps_its_type_while_it_is_one_of_many() -> None:
    async def test(world: World) -> None:
        await shop(world)
        await world.topic("shop/eu/orders-a")
        await over(world, OVER_EU)
        with pytest.raises(KafkaError) as error:
            await world.broker.subscriptions.configs.alter_properties(
                KEPT, "shop/eu/orders-a", {"pulsar.subscription.type": "key_shared"}
            )
        assert "all that it serves are alike" in str(error.value)

    run(test, None, *LISTENER)


# -- namespaces that go ----------------------------------------------------------------------------------------------


@HOMED
def test_a_namespace_goes_with_it_when_that_is_forced(folder: Path | None, homed: bool) -> None:
    async def test(world: World) -> None:
        await shop(world)
        for name in ("orders-a", "shop/eu/orders-a", "shop/eu/z"):
            await world.topic(name)
        await over(world, "orders-.*")
        await over(world, OVER_EU, 2)
        await world.produce(b"1", topic="shop/eu/orders-a")
        assert await came(world, EU_QUEUE) == [b"1"]
        group = KEPT if homed else "g"
        with pytest.raises(TenancyError) as error:
            await world.broker.tenancy.delete(EU)
        assert error.value.status == 409
        assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a"]
        await world.broker.tenancy.delete(EU, force=True)
        assert world.broker.catalog.first_named("shop/eu/") is None
        assert [topic.name for topic in world.broker.queues.of_group(group)] == (
            [] if homed else [HOME_QUEUE]
        )
        # where it is made anew nothing is left of that
        for restarted in (False, True):
            if restarted:
                await world.crash()
            await world.broker.tenancy.create(EU, NamespaceRow())
            await world.topic("shop/eu/orders-a")
            assert world.broker.subscriptions.get(group, "shop/eu/orders-a") is None
            await world.broker.tenancy.delete(EU, force=True)
        assert bases(queue_of(world, HOME_QUEUE)) == ["orders-a"]

    run(test, folder, *(LISTENER if homed else ()))


def test_one_that_goes_while_it_is_made_leaves_none() -> None:
    async def test(world: World) -> None:
        await shop(world)
        # an empty share group of that name goes first, which takes as long as the namespace does
        await world.broker.share_groups.make("g")
        pattern = world.broker.queues.patterned.pattern_of(OVER_EU)
        making = asyncio.ensure_future(world.broker.queues.make_over("g", pattern, 1, {}))
        for _ in range(2):
            # it has looked for the namespace
            await asyncio.sleep(0)
        await world.broker.tenancy.delete(EU)
        with pytest.raises(KafkaError) as refused:
            await making
        # it is gone, or on its way: that goes by the turns that both take
        said = str(refused.value)
        assert "There is no namespace shop/eu" in said or "Namespace shop/eu is being deleted" in said
        assert world.broker.catalog.get(EU_QUEUE) is None
        # and nothing waits for topics any more
        await world.broker.tenancy.create(EU, NamespaceRow())
        await world.topic("shop/eu/orders-a")
        assert world.broker.subscriptions.get("g", "shop/eu/orders-a") is None

    run(test)


# -- listeners that come and go --------------------------------------------------------------------------------------


def test_it_becomes_that_of_the_group_that_can_reach_it_and_stands_where_it_stood(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await shop(world)
        for name in ("orders-a", "shop/eu/orders-a"):
            await world.topic(name)
            await world.produce(*numbers(0, 3), topic=name)
        await over(world, "orders-.*", pulsar__nack__delay__ms="7")
        await over(world, OVER_EU, pulsar__nack__delay__ms="7")
        for name in (HOME_QUEUE, EU_QUEUE):
            client = reader(world, name)
            await client.read()
            await client.commit("ack1;a=1", 1)

        async def again(group: str) -> None:
            """After a start the group has it, with what was not acknowledged, and what comes."""
            assert bases(queue_of(world, HOME_QUEUE)) == ["orders-a"]
            assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a"]
            queue = queue_of(world, EU_QUEUE)
            assert queue.topic.queue is not None
            assert queue.topic.queue.subscription == group
            found = world.broker.subscriptions.get(group, "shop/eu/orders-a")
            assert found is not None
            assert (found.row.queue, found.config.subscription.nack_delay_ms) == (EU_QUEUE, 7)
            assert await came(world, EU_QUEUE) == [b"2"]
            assert found.partition(0).ready().start == 2

        await again("g")
        world.flags = LISTENER
        await rehome(world.store, frozenset({EU}))
        await world.crash()
        await again(KEPT)
        await world.topic("shop/eu/orders-b")
        assert world.broker.subscriptions.get(KEPT, "shop/eu/orders-b") is not None
        world.flags = ()
        await rehome(world.store, frozenset())
        await world.crash()
        assert bases(queue_of(world, EU_QUEUE)) == ["shop/eu/orders-a", "shop/eu/orders-b"]
        of_group = [topic.name for topic in world.broker.queues.of_group("g")]
        assert sorted(of_group) == [HOME_QUEUE, EU_QUEUE]
        assert world.broker.queues.of_group(KEPT) == []

    run(test, folder)
