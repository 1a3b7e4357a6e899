"""The limits that policies set, at each level where they can be said, on a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.broker.policies import new_topic
from gateway.wire.errors import Error
from semantics.names import DEFAULT, Namespace
from semantics.patterns import Pattern
from semantics.policies import POLICIES
from tests.gateway.broker.subscriptions.world import World, run

SHOP = Namespace("shop", "eu")


async def say(world: World, level: str, name: str, value: str | None, topic: str = "t") -> None:
    """Set a policy, or take it back. The broker's name follows from its config's."""
    said: Mapping[str, str] = {} if value is None else {name: value}
    if level == "namespace":
        change = partial(msgspec.structs.replace, policies=said)
        await world.broker.tenancy.change(DEFAULT, change)
    elif level == "topic":
        await world.broker.topics.configure(topic, lambda old: dict(said))
    else:
        setting = POLICIES[name].setting
        assert setting is not None
        await world.broker.broker_configs.alter("", lambda old: {setting: value} if value else {})


def refused(error: pytest.ExceptionInfo[KafkaError]) -> str:
    assert error.value.code == Error.POLICY_VIOLATION
    return str(error.value)


# -- topics of a namespace -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("level", ["namespace", "broker"])
def test_a_namespace_has_so_many_topics_and_no_more(folder: Path | None, level: str, counted: bool) -> None:
    async def test(world: World) -> None:
        topics = world.broker.topics
        await world.topic("a", 2)
        await say(world, level, "pulsar.max.topics", "4")
        await world.crash()
        topics = world.broker.topics
        if counted:
            await world.broker.catalog.partition_counts()
        await world.topic("b")
        with pytest.raises(KafkaError) as error:
            await world.topic("c", 2)
        assert (
            "public/default may have 4 topics, each partition counted as one: it has 3, and 2 more"
            in refused(error)
        )
        await world.topic("d")
        with pytest.raises(KafkaError) as error:
            await topics.grow("b", 2)
        refused(error)
        with pytest.raises(KafkaError) as error:
            topics.new.check("e", 1, {})
        refused(error)
        await topics.delete("a")
        await topics.grow("b", 3)
        with pytest.raises(KafkaError) as error:
            await world.topic("e")
        await say(world, level, "pulsar.max.topics", None)
        await world.topic("e", 50)

    run(test, folder)


def test_topics_that_are_on_their_way_count(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await say(world, "namespace", "pulsar.max.topics", "3")
        await world.topic("t")
        grown = world.broker.topics.grow("t", 2)
        made = await asyncio.gather(grown, *[world.topic(name) for name in "abc"], return_exceptions=True)
        assert len([each for each in made if isinstance(each, KafkaError)]) == 2
        assert await world.broker.catalog.partition_counts() == {DEFAULT: 3}
        # those that were refused are no longer on their way
        await world.broker.topics.delete("t")
        await world.topic("t")

    run(test, folder)


@pytest.mark.parametrize("counted", [False, True])
def test_each_namespace_has_topics_of_its_own(counted: bool) -> None:
    async def test(world: World) -> None:
        await world.broker.tenancy.create_tenant("shop", TenantRow())
        await world.broker.tenancy.create(SHOP, NamespaceRow(policies={"pulsar.max.topics": "1"}))
        if counted:
            await world.broker.catalog.partition_counts()
        for name in ("a", "shop/eu/a", "z"):
            await world.topic(name, 1)
        with pytest.raises(KafkaError) as error:
            await world.topic("shop/eu/b")
        assert "namespaces set-max-topics-per-namespace shop/eu" in refused(error)
        await say(world, "namespace", "pulsar.max.topics", "2")
        with pytest.raises(KafkaError) as error:
            await world.topic("b")
        assert "it has 2" in refused(error)

    run(test)


def test_a_limit_below_what_there_is_leaves_it(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t", 5)
        await say(world, "namespace", "pulsar.max.topics", "2")
        await world.produce(b"1", topic="t", index=4)
        with pytest.raises(KafkaError) as error:
            await world.topic("b")
        assert "it has more than 2" in refused(error)

    run(test, folder)


# -- subscriptions of a topic ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["topic", "namespace", "broker"])
def test_a_topic_has_so_many_subscriptions_and_no_more(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.topic("other")
        await world.subscribe("a")
        await say(world, level, "pulsar.max.subscriptions", "2")
        await world.crash()
        subscriptions, queues = world.broker.subscriptions, world.broker.queues
        await world.subscribe("b")
        # who is there already goes on
        await world.subscribe("a")
        for attempt in (
            lambda: subscriptions.ensure("c", "t"),
            lambda: subscriptions.make("c", "t", [0], {}, {}),
            lambda: queues.make("t", "c", 2, {}),
            lambda: queues.make_over("c", Pattern("t.*"), 2, {}, "earliest"),
        ):
            with pytest.raises(KafkaError) as error:
                await attempt()
            assert "Topic t may have no more than 2 subscriptions" in refused(error)
        assert {row.group for row in subscriptions.of_topic(world.broker.topics.get("t").topic_id)} == {
            "a",
            "b",
        }
        await world.subscribe("c", "other")
        await subscriptions.delete("a")
        await queues.make("t", "c", 2, {})
        with pytest.raises(KafkaError) as error:
            await subscriptions.ensure("d", "t")
        refused(error)
        await say(world, level, "pulsar.max.subscriptions", None)
        await world.subscribe("d")

    run(test, folder)


def test_a_topic_may_have_more_than_its_namespace_says() -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, "namespace", "pulsar.max.subscriptions", "1")
        await say(world, "topic", "pulsar.max.subscriptions", "0")
        for group in "abc":
            await world.subscribe(group)

    run(test)


def test_those_who_come_at_once_are_counted(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, "topic", "pulsar.max.subscriptions", "2")
        made = await asyncio.gather(
            *[world.broker.subscriptions.ensure(group, "t") for group in "abcd"],
            world.broker.queues.make("t", "e", 1, {}),
            return_exceptions=True,
        )
        assert len([each for each in made if isinstance(each, KafkaError)]) == 3

    run(test, folder)


# -- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["topic", "namespace", "broker"])
def test_only_allowed_types_are_made_and_none_becomes_another(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await world.subscribe("old")
        await say(world, level, "pulsar.subscription.types.enabled", "Key_Shared")
        await world.crash()
        subscriptions, queues = world.broker.subscriptions, world.broker.queues
        shared = {"pulsar.subscription.type": "shared"}
        for attempt in (
            lambda: subscriptions.ensure("g", "t"),
            lambda: subscriptions.make("g", "t", [0], {}, shared),
            lambda: queues.make("t", "g", 2, {}),
            lambda: queues.make_over("g", Pattern("t.*"), 2, shared, "earliest"),
        ):
            with pytest.raises(KafkaError) as error:
                await attempt()
            assert "Topic t takes no Shared subscriptions, only: Key_Shared" in refused(error)
        await world.configure("k", pulsar__subscription__type="key_shared")
        await world.subscribe("k")
        # of a subscription that is there, and of its group
        with pytest.raises(KafkaError) as error:
            await world.configure("k", pulsar__subscription__type="shared")
        refused(error)
        with pytest.raises(KafkaError) as error:
            await subscriptions.configs.alter_properties("k", "t", shared)
        refused(error)
        await subscriptions.ensure("old", "t")
        await subscriptions.configs.alter_properties("old", "t", {"pulsar.nack.delay.ms": "5"})
        await say(world, level, "pulsar.subscription.types.enabled", None)
        await world.configure("k", pulsar__subscription__type="shared")

    run(test, folder)


# -- what is made for who asks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said", "made"),
    [
        ([], {}, (-1, False)),
        (["auto.create.topics.enable=false"], {}, None),
        (["allowAutoTopicCreation=false"], {}, None),
        # the nearest wins
        (["auto.create.topics.enable=false"], {"": "true"}, (-1, False)),
        ([], {"": "false"}, None),
        (["defaultNumPartitions=3"], {}, (3, False)),
        (["defaultNumPartitions=3"], {".partitions": "5", ".type": "partitioned"}, (5, True)),
        (["defaultNumPartitions=3"], {".type": "non-partitioned"}, (1, False)),
        (["allowAutoTopicCreationType=partitioned"], {}, (-1, True)),
    ],
)
def test_what_becomes_of_a_name_that_no_topic_has(
    settings: list[str], said: Mapping[str, str], made: tuple[int, bool] | None
) -> None:
    async def test(world: World) -> None:
        broker = world.broker
        policies = {f"pulsar.auto.topic.creation{end}": value for end, value in said.items()}
        await broker.tenancy.change(DEFAULT, partial(msgspec.structs.replace, policies=policies))
        assert new_topic(broker, broker.catalog, "t") == made

    run(test, None, *settings)


@pytest.mark.parametrize("level", ["namespace", "topic", "broker"])
def test_a_group_that_comes_gets_a_subscription_only_where_it_may(folder: Path | None, level: str) -> None:
    async def test(world: World) -> None:
        await world.topic("t")
        await say(world, level, "pulsar.auto.subscription.creation", "false")
        await world.crash()
        known = world.broker.subscriptions
        with pytest.raises(KafkaError) as error:
            await known.ensure("g", "t", asked=False)
        assert "Make it with: magnetar-admin topics create-subscription t -s g" in refused(error)
        # who asks for it has it, and who comes then finds it
        await known.ensure("g", "t")
        assert (await known.ensure("g", "t", asked=False)).group == "g"
        await say(world, level, "pulsar.auto.subscription.creation", None)
        assert (await known.ensure("another", "t", asked=False)).group == "another"

    run(test, folder)
