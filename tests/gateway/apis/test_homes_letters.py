"""What is served to groups of a namespace, and written for them, is theirs who are at home there: a client of another
home that may read a topic reads it, and has nothing that the gateway does for a group.
"""

from __future__ import annotations

from gateway.broker.subscriptions import rows
from gateway.wire import messages
from gateway.wire.errors import Error
from semantics.access.acl import Operation, ResourceType
from semantics.group_names import scoped
from tests.gateway.apis.test_homes_foreign import altered
from tests.gateway.apis.users_asking import EU, Users, joined, made, rejected, run
from tests.gateway.broker.held import until
from tests.gateway.serving import Client, batch, fetch_body, produce_body

R, W, C, A = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.ALTER
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
QUEUE = "shop.eu.orders-billing-QUEUE"


async def reader(users: Users) -> Client:
    """The client of a user that is at home in public/default, and may read shop/eu's orders, which has a record."""
    boss = await users.login("shop.boss")
    assert (await made(boss, "orders"))[0] == 0
    await boss.ask(0, 9, produce_body("orders", batch(b"first")))
    await users.allow("max", TOPIC, "orders", R, where=EU)
    await users.allow("max", GROUP, "*", R)
    return await users.login("max")


async def fetched(client: Client, name: str) -> tuple[int, bytes]:
    (found,) = (await client.ask(1, 12, fetch_body(name, 0))).responses[0].partitions
    return found.error_code, bytes(found.records or b"")


def test_a_share_group_of_another_home_is_refused_and_a_consumer_reads() -> None:
    async def test(users: Users) -> None:
        client = await reader(users)
        before = users.broker.catalog.names()
        code, why = await joined(client, "audit", "shop.eu.orders")
        assert code == Error.POLICY_VIOLATION
        assert "Subscriptions on shop.eu.orders are of groups of clients at home in shop/eu" in why
        assert list(rows.every(users.broker.durable)) == []
        code, records = await fetched(client, "shop.eu.orders")
        assert (code, b"first" in records) == (0, True)
        # who may do everything is of no other home for that
        root = await users.login("root")
        assert (await joined(root, "audit", "shop.eu.orders"))[0] == Error.POLICY_VIOLATION
        assert users.broker.catalog.names() == before

    run(test)


def test_offsets_of_a_share_group_are_not_set_on_topics_of_another_home() -> None:
    async def test(users: Users) -> None:
        client = await reader(users)
        request = messages.AlterShareGroupOffsetsRequest
        part = request.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
        topic = request.AlterShareGroupOffsetsRequestTopic(topic_name="shop.eu.orders", partitions=[part])
        answer = await client.ask(91, 0, request(group_id="audit", topics=[topic]))
        ((told,),) = [each.partitions for each in answer.responses]
        assert told.error_code == Error.POLICY_VIOLATION
        assert "at home in shop/eu" in told.error_message
        assert list(rows.every(users.broker.durable)) == []

    run(test)


def test_lanes_of_another_home_are_neither_made_nor_grown_nor_read() -> None:
    async def test(users: Users) -> None:
        client = await reader(users)
        await users.allow("max", TOPIC, "orders-billing-QUEUE", R, C, A, where=EU)
        await users.allow("max", GROUP, "billing", R, where=EU)
        code, why, _ = await made(client, QUEUE)
        assert code == Error.POLICY_VIOLATION
        assert "clients at home in another namespace" in why
        boss = await users.login("shop.boss")
        assert (await made(boss, "orders-billing-QUEUE"))[:2] == (0, "")
        request = messages.CreatePartitionsRequest
        grow = request.CreatePartitionsTopic(name=QUEUE, count=2, assignments=None)
        (grown,) = (await client.ask(37, 3, request(topics=[grow], timeout_ms=1000))).results
        assert grown.error_code == Error.POLICY_VIOLATION
        assert (await fetched(client, QUEUE)) == (Error.TOPIC_AUTHORIZATION_FAILED, b"")
        assert (await fetched(boss, "orders-billing-QUEUE"))[0] == 0

    run(test)


def test_a_queue_topic_over_a_pattern_is_made_by_who_is_at_home_there() -> None:
    async def test(users: Users) -> None:
        await reader(users)
        root, boss = await users.login("root"), await users.login("shop.boss")
        over = "persistent://shop/eu/.*"
        code, why, _ = await made(root, "shop.eu.grp-QUEUE", pulsar__queue__pattern=over)
        assert (code, "clients at home" in why) == (Error.POLICY_VIOLATION, True)
        assert users.broker.catalog.over_patterns() == []
        assert (await made(boss, "grp-QUEUE", pulsar__queue__pattern=over))[:2] == (0, "")

    run(test)


def test_letters_of_a_group_of_another_home_are_not_written() -> None:
    """As if its subscription had outlived what made each namespace a home."""

    async def test(users: Users) -> None:
        boss, root = await users.login("shop.boss"), await users.login("root")
        _, _, topic_id = await made(boss, "orders")
        namespaces, metrics = users.broker.catalog.namespaces, users.broker.metrics
        everywhere, before = namespaces.homes, users.broker.catalog.names()
        namespaces.homes, namespaces.guarded = frozenset(), False

        def meanwhile() -> None:
            namespaces.homes, namespaces.guarded = everywhere, True

        await rejected(root, "audit", "shop.eu.orders", topic_id, root, meanwhile)
        await until(lambda: metrics.dead_letters_refused.value)
        assert users.broker.catalog.names() == before
        # those of the home are
        await rejected(boss, "billing", "orders", topic_id, boss)
        await until(lambda: "shop/eu/orders-billing-DLQ" in users.broker.catalog.names())

    run(test)


def test_a_dead_letter_topic_is_made_with_a_subscription_of_who_may_read_with_it() -> None:
    async def test(users: Users) -> None:
        await users.make("shop.ann", "shop/eu")
        await users.allow("shop.ann", GROUP, "g", R, Operation.ALTER_CONFIGS, where=EU)
        ann, boss = await users.login("shop.ann"), await users.login("shop.boss")
        config = "pulsar.dead.letter.initial.subscription"
        # also where it has another home before it, which is not looked at
        await users.allow("shop.ann", GROUP, "other/ns/\x1fpayroll", R, where=EU)
        for name in ("payroll", "other/ns/\x1fpayroll"):
            (answer,) = (await ann.ask(44, 1, altered("g", config, name))).responses
            assert answer.error_code == Error.GROUP_AUTHORIZATION_FAILED
            assert "payroll: who sets it must be allowed to read" in answer.error_message
        assert users.broker.group_configs.own(scoped(EU, "g")) == {}
        await users.allow("shop.ann", GROUP, "payroll", R, where=EU)
        (answer,) = (await ann.ask(44, 1, altered("g", config, "payroll"))).responses
        assert answer.error_code == 0
        # and it is that of the namespace, whoever has the name elsewhere
        _, _, topic_id = await made(boss, "orders")
        await rejected(boss, "g", "orders", topic_id, boss)
        kept = users.broker.subscriptions
        await until(lambda: kept.of_group(scoped(EU, "payroll")))
        assert kept.of_group("payroll") == []

    run(test)
