"""A subscription is a topic and a name: what it says of itself, over what its group says, durable and live."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.broker.errors import KafkaError
from gateway.broker.subscriptions.rows import SubscriptionRow, find
from gateway.wire.errors import Error
from semantics.subscriptions.selectors import load
from semantics.subscriptions.states import Ending
from store.api import Family, Put, StoreError
from tests.gateway.broker.held import HeldStore
from tests.gateway.broker.subscriptions.world import RELEASE, World, run


async def make(world: World, topic: str, group: str = "g", retries: str | None = None, **own: str) -> bool:
    """The subscription that an administrator makes, with these properties."""
    count = len(world.broker.topics.get(topic).partitions)
    properties = named(own)
    return await world.broker.subscriptions.make(group, topic, [0] * count, {}, properties, retries)


async def alter(world: World, topic: str, **own: str) -> None:
    await world.broker.subscriptions.configs.alter_properties("g", topic, named(own))


def named(own: dict[str, str]) -> dict[str, str]:
    return {key.replace("__", "."): value for key, value in own.items()}


def config(world: World, topic: str, group: str = "g") -> Any:
    return world.broker.subscriptions.configs.on(group, topic).subscription


def row(world: World, topic: str, group: str = "g") -> SubscriptionRow:
    found = find(world.store, group, world.broker.topics.get(topic).topic_id)
    assert found is not None
    return found


def test_what_one_says_of_itself_is_not_its_groups_affair(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic("orders")
        await world.topic("payments")
        await world.configure("g", pulsar__subscription__type="key_shared", pulsar__nack__delay__ms="7")
        await world.subscribe(topic="orders")
        own = {"pulsar__subscription__type": "shared", "pulsar__nack__delay__ms": "60000"}
        assert await make(world, "payments", **own)
        assert (config(world, "orders").type, config(world, "orders").nack_delay_ms) == ("key_shared", 7)
        assert (config(world, "payments").type, config(world, "payments").nack_delay_ms) == ("shared", 60_000)
        for topic, key_shared in (("orders", True), ("payments", False)):
            assert world.at(topic=topic).key_shared is key_shared

    run(test, folder)


def test_the_groups_configs_hold_where_it_says_nothing_and_are_followed_live(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", pulsar__nack__delay__ms="5000")
        await world.produce(b"a")
        at = world.at()
        assert await world.fetch(at) == {0: (b"a", 1)}
        await world.configure("g", pulsar__nack__delay__ms="60000", pulsar__max__redeliver__count="1")
        assert not await world.ack(at, 0, kind=RELEASE)
        await world.pass_time(4_999)
        assert await world.fetch(at) == {}
        await world.pass_time(1)
        assert await world.fetch(at) == {0: (b"a", 2)}, "its own delay"
        assert not await world.ack(at, 0, kind=RELEASE)
        assert await world.read("t-g-DLQ"), "the group's limit"

    run(test, folder)


def test_properties_take_the_place_of_those_before_and_are_in_force_at_once_and_after_a_crash(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", pulsar__nack__delay__ms="5000", team="blue")
        at = world.at()
        await alter(world, "t", pulsar__ack__timeout__ms="1000", owner="me")
        assert at.subscription.config.subscription.nack_delay_ms == 0
        assert at.subscription.config.subscription.lock_ms == 1000
        await world.crash()
        assert row(world, "t").properties == {"pulsar.ack.timeout.ms": "1000", "owner": "me"}
        assert world.at().subscription.config.subscription.lock_ms == 1000
        await alter(world, "t")
        assert row(world, "t").properties == {}
        assert world.at().subscription.config.subscription.lock_ms == 30_000

    run(test, folder)


def test_a_subscription_that_is_there_stays_as_it_is() -> None:
    async def test(world: World) -> None:
        await world.topic()
        assert await make(world, "t", team="blue")
        assert not await make(world, "t", team="red", pulsar__nack__delay__ms="1")
        assert row(world, "t").properties == {"team": "blue"}
        assert config(world, "t").nack_delay_ms == 0

    run(test)


def test_rows_of_before_are_read_and_follow_their_group() -> None:
    async def test(world: World) -> None:
        topic = await world.topic()
        await world.configure("g", pulsar__nack__delay__ms="60000")
        fields = {
            "id": 7, "group": "g", "topic": "t", "topic_id": topic.topic_id, "created_at": 1, "type": "shared"
        }  # fmt: skip
        key = b"g\0\1g" + topic.topic_id
        old = Put(Family.SUBSCRIPTION, key, msgspec.msgpack.encode(fields))
        await world.broker.write([old, Put(Family.SUBSCRIPTION, b"t" + topic.topic_id + b"g", b"")])
        assert (row(world, "t").overrides, row(world, "t").properties) == ({}, {})
        assert config(world, "t").nack_delay_ms == 60_000
        await alter(world, "t", team="blue")
        assert (row(world, "t").id, row(world, "t").properties) == (7, {"team": "blue"})

    run(test)


def test_retries_follow_the_subscription_on_their_base(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=2)
        await make(world, "t", retries="t-g-RETRY", pulsar__subscription__type="key_shared")
        retries = world.at(topic="t-g-RETRY", index=1)
        assert retries.key_shared
        assert len(world.broker.topics.get("t-g-RETRY").partitions) == 2
        await alter(world, "t", pulsar__max__redeliver__count="1")
        assert retries.subscription.config.subscription.delivery_limit == 2
        assert not world.at(topic="t-g-RETRY", index=1).key_shared
        await world.crash()
        assert config(world, "t-g-RETRY").delivery_limit == 2
        await alter(world, "t-g-RETRY", pulsar__max__redeliver__count="4")
        assert (config(world, "t").delivery_limit, config(world, "t-g-RETRY").delivery_limit) == (2, 5)
        await world.broker.subscriptions.delete("g", world.broker.topics.get("t").topic_id)
        await alter(world, "t-g-RETRY")
        assert config(world, "t-g-RETRY").delivery_limit == 5, "the group's five deliveries"

    run(test, folder)


def test_a_retry_topic_and_its_subscriptions_are_one_commit() -> None:
    async def test(world: World) -> None:
        store = HeldStore(world.store)
        world.broker.store = world.broker.durable = store
        await world.topic()
        before = len(store.commits)
        await make(world, "t", retries="t-g-RETRY")
        assert len(store.commits) == before + 1
        assert world.at(topic="t-g-RETRY").subscription.base == "t"

    run(test)


def test_a_type_does_not_change_under_who_only_reads_the_retries(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", retries="t-g-RETRY", pulsar__subscription__type="key_shared")
        retries = world.at(topic="t-g-RETRY")
        retries.attach("c")
        with pytest.raises(KafkaError, match=r"g of topic t-g-RETRY is key_shared .* while it has consumers"):
            await alter(world, "t")
        assert row(world, "t").properties == {"pulsar.subscription.type": "key_shared"}
        assert retries.key_shared
        await alter(world, "t", pulsar__subscription__type="key_shared", pulsar__max__redeliver__count="1")
        assert config(world, "t-g-RETRY").delivery_limit == 2, "what is not fixed follows"
        # one that says of itself what it is does not follow
        retries.detach("c", Ending.LEFT)
        await alter(world, "t-g-RETRY", pulsar__subscription__type="key_shared")
        world.at(topic="t-g-RETRY").attach("c")
        await alter(world, "t")
        assert (config(world, "t").type, config(world, "t-g-RETRY").type) == ("shared", "key_shared")

    run(test, folder)


@pytest.mark.parametrize("named", [False, True])
def test_a_type_does_not_change_by_the_name_of_the_retries(folder: Path | None, named: bool) -> None:
    """The subscription on the RETRY topic is of its base's type while the topic is the group's for retries."""

    async def test(world: World) -> None:
        await world.topic()
        await world.topic("again")
        if named:
            await world.configure("g", pulsar__retry__letter__topic="again")
        await make(world, "t", retries="t-g-RETRY", pulsar__subscription__type="key_shared")
        retries = world.at(topic="t-g-RETRY")
        assert retries.key_shared is not named
        retries.attach("c")
        other = {} if named else {"pulsar.retry.letter.topic": "again"}
        with pytest.raises(
            KafkaError, match=r"of topic t-g-RETRY is .* while it has consumers \(1\)"
        ) as refused:
            await world.broker.group_configs.alter("g", lambda _: other)
        assert refused.value.code == Error.INVALID_CONFIG
        assert retries.key_shared is not named
        retries.detach("c", Ending.LEFT)
        await world.broker.group_configs.alter("g", lambda _: other)
        assert world.at(topic="t-g-RETRY").key_shared is named

    run(test, folder)


def test_a_type_changes_only_while_nobody_is_there(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t")
        world.at().attach("c")
        with pytest.raises(
            KafkaError, match=r"is shared and cannot become key_shared \(auto_split\) while it has"
        ):
            await alter(world, "t", pulsar__subscription__type="key_shared")
        assert row(world, "t").properties == {}
        world.at().detach("c", Ending.LEFT)
        await alter(world, "t", pulsar__subscription__type="key_shared")
        assert world.at().key_shared

    run(test, folder)


@pytest.mark.parametrize("whose", ["its own", "its group's", "its base's", "the retries' name"])
@pytest.mark.parametrize("stored", [True, False])
def test_nobody_becomes_a_consumer_while_a_type_changes(whose: str, stored: bool) -> None:
    """What one got of the old type would be given to others with the new one."""

    async def test(world: World) -> None:
        store = HeldStore(world.store)
        world.broker.store = world.broker.durable = store
        await world.topic()
        await world.topic("again")
        own = {"pulsar__subscription__type": "key_shared"} if whose == "the retries' name" else {}
        await make(world, "t", retries="t-g-RETRY", **own)
        other = await world.subscribe("other")
        topic = "t" if whose.startswith(("its own", "its group")) else "t-g-RETRY"
        await world.produce(b"a", topic=topic)
        at = world.at(topic=topic)
        at.ready()
        before = at.key_shared
        store.holding = True
        if whose == "its group's":
            change = world.configure("g", pulsar__subscription__type="key_shared")
        elif whose == "the retries' name":
            change = world.configure("g", pulsar__retry__letter__topic="again")
        else:
            change = alter(world, "t", pulsar__subscription__type="key_shared")
        changing = asyncio.create_task(change)
        await store.has(1)
        with pytest.raises(KafkaError) as refused:
            at.attach("c")
        assert refused.value.code == Error.NOT_LEADER_OR_FOLLOWER
        other.attach("c")
        store.holding = False
        if stored:
            store.release()
            await changing
        else:
            store.fail(StoreError("no"))
            with pytest.raises(KafkaError):
                await changing
        at.attach("c")
        assert at.key_shared is (before if not stored else not before)
        await world.settled()
        if stored:
            assert await world.fetch(at, "c") == {0: (b"a", 1)}

    run(test)


def test_a_change_of_something_else_keeps_nobody_out() -> None:
    async def test(world: World) -> None:
        store = HeldStore(world.store)
        world.broker.store = world.broker.durable = store
        await world.topic()
        await make(world, "t")
        store.holding = True
        changing = [
            asyncio.create_task(alter(world, "t", pulsar__nack__delay__ms="7")),
            asyncio.create_task(world.configure("g", pulsar__nack__delay__ms="9")),
        ]
        await store.has(1)
        world.at().attach("c")
        store.release()
        await asyncio.gather(*changing)

    run(test)


def test_a_wrong_value_is_refused_and_says_which_are_good() -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", team="blue")
        for name, value, said in (
            ("pulsar__nack__delay__ms", "soon", "must be"),
            ("pulsar__subscription__type", "exclusive", "shared or key_shared"),
            ("pulsar__nack__dely__ms", "1", 'Did you mean "pulsar.nack.delay.ms"'),
            ("share__isolation__level", "read_committed", "belongs to the group"),
            ("pulsar__retry__letter__topic", "x", "belongs to the group"),
        ):
            with pytest.raises(KafkaError, match=said) as refused:
                await alter(world, "t", **{name: value})
            assert refused.value.code == Error.INVALID_CONFIG
        assert row(world, "t").properties == {"team": "blue"}

    run(test)


def test_a_groups_configs_are_checked_beside_what_its_subscriptions_say() -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", pulsar__nack__backoff__max__ms="2000")
        with pytest.raises(KafkaError, match="the subscription g of topic t"):
            await world.configure("g", pulsar__nack__backoff__min__ms="5000")
        await world.configure("g", pulsar__nack__backoff__min__ms="500")
        assert config(world, "t").nack_backoff is not None

    run(test)


def test_properties_and_members_that_come_at_the_same_time_do_not_undo_each_other(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await make(world, "t", pulsar__subscription__type="key_shared")
        own = {"pulsar__subscription__type": "key_shared", "pulsar__nack__delay__ms": "9"}
        # a member's row is on its way when the properties come
        world.at().attach("a")
        await alter(world, "t", **own)
        await world.settled()
        stored = row(world, "t")
        assert stored.properties["pulsar.nack.delay.ms"] == "9"
        assert set(load(stored.selector).members()) == {"a"}
        # and the other way round
        altering = asyncio.ensure_future(alter(world, "t", **{**own, "team": "blue"}))
        await asyncio.sleep(0)
        world.at().attach("b")
        await altering
        await world.settled()
        await world.crash()
        assert row(world, "t").properties["team"] == "blue"
        selector = world.at().subscription.selector
        assert selector is not None
        assert set(selector.members()) == {"a", "b"}

    run(test, folder)


def test_the_lock_that_members_are_told_is_the_shortest_of_the_groups() -> None:
    async def test(world: World) -> None:
        await world.topic("long")
        await world.topic("short")
        subscriptions = world.broker.subscriptions
        assert subscriptions.configs.lock_ms("g") == 30_000
        await make(world, "long", pulsar__ack__timeout__ms="0")
        world.at(topic="long")
        assert subscriptions.configs.lock_ms("g") == 2**31 - 1
        await make(world, "short", pulsar__ack__timeout__ms="5000")
        assert subscriptions.configs.lock_ms("g") == 5000
        await alter(world, "short", pulsar__ack__timeout__ms="6000")
        assert subscriptions.configs.lock_ms("g") == 6000

    run(test)


def test_lanes_have_no_part_in_the_lock_that_a_group_is_told() -> None:
    async def test(world: World) -> None:
        subscriptions = world.broker.subscriptions
        await world.topic("lanes")
        await world.broker.queues.make("lanes", "g", 1)
        assert subscriptions.configs.lock_ms("g") == 30_000
        await world.topic("t")
        await world.subscribe()
        await world.configure("g", share__record__lock__duration__ms="15000")
        assert subscriptions.configs.lock_ms("g") == 15_000
        # nor have locks and hands that are bounded a part in what lanes hold
        config = world.subscription("g", "lanes").config.subscription
        assert (config.lanes, world.subscription().config.subscription.lanes) == (True, False)
        assert min(config.lock_ms, config.max_locks, config.receiver_queue) > 2**31

    run(test)
