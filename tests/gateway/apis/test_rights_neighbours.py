"""What is allowed on the cluster of one namespace is allowed nowhere else."""

from __future__ import annotations

import asyncio
import contextlib

from gateway.admin.asker import asker_of
from gateway.peer import Identity
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation, PatternType
from semantics.names import DEFAULT
from tests.gateway.apis.neighbours import (
    CLUSTER,
    EU,
    GROUP,
    OTHER,
    US,
    World,
    delete,
    get,
    give_password,
    make,
    put,
    run,
)
from tests.gateway.serving import Client

FORBIDDEN, NO_TOPIC = Error.TOPIC_AUTHORIZATION_FAILED, Error.UNKNOWN_TOPIC_OR_PARTITION
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
CREATE, DELETE, ALTER = Operation.CREATE, Operation.DELETE, Operation.ALTER


def test_who_may_delete_at_home_deletes_no_topic_of_a_neighbour() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        _, bank = await make(root, "other.ns.bank")
        _, pay = await make(root, "shop.eu.pay")
        # an administrator of a tenant, somebody with a row, and somebody at home in public/default
        await world.user("shop.op", "shop/eu")
        await world.user("max")
        await world.allow("shop.op", DELETE, kind=CLUSTER)
        await world.allow("max", DELETE, kind=CLUSTER, namespace=DEFAULT)
        for name in ("shop.boss", "shop.op"):
            await world.allow(name, READ, name="bank", namespace=OTHER)
        await world.allow("max", DESCRIBE, name="pay", namespace=EU)
        for name, topic, topic_id in (
            ("shop.boss", "other.ns.bank", bank),
            ("shop.op", "other.ns.bank", bank),
            ("max", "shop.eu.pay", pay),
        ):
            client = await world.login(name)
            assert await delete(client, topic) == await delete(client, None, topic_id) == FORBIDDEN
        assert world.has("other/ns/bank")
        assert world.has("shop/eu/pay")
        # at home it is enough, and elsewhere by the right there
        op = await world.login("shop.op")
        assert await delete(op, "pay") == 0
        await world.allow("shop.op", DELETE, kind=CLUSTER, namespace=OTHER)
        assert await delete(op, "other.ns.bank") == 0

    run(test)


def test_who_may_create_at_home_makes_no_topic_in_a_neighbours_namespace() -> None:
    async def test(world: World) -> None:
        await world.allow("shop.boss", DESCRIBE, name="*", namespace=OTHER)
        boss = await world.login("shop.boss")

        async def met(name: str) -> int:
            """By Metadata."""
            asked = messages.MetadataRequest.MetadataRequestTopic(name=name)
            request = messages.MetadataRequest(topics=[asked], allow_auto_topic_creation=True)
            return int((await boss.ask(ApiKey.METADATA, 12, request)).topics[0].error_code)

        assert (await make(boss, "other.ns.junk"))[0] == FORBIDDEN
        assert await met("other.ns.auto") == FORBIDDEN
        assert not world.has("other/ns/junk")
        assert not world.has("other/ns/auto")
        assert await met("auto") == 0
        await world.allow("shop.boss", CREATE, kind=CLUSTER, namespace=OTHER)
        assert (await make(boss, "other.ns.junk"))[0] == await met("other.ns.auto") == 0
        assert world.has("other/ns/auto")

    run(test)


async def _added(client: Client, name: str) -> int:
    """A topic is made part of a transaction, as brokers say it: its error code."""
    request = messages.InitProducerIdRequest(
        transactional_id="tx", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    made = await client.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    added = messages.AddPartitionsToTxnRequest
    transaction = added.AddPartitionsToTxnTransaction(
        transactional_id="tx",
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        verify_only=False,
        topics=[added.AddPartitionsToTxnTopic(name=name, partitions=[0])],
    )
    answer = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 4, added(transactions=[transaction]))
    (found,) = answer.results_by_transaction
    return int(found.topic_results[0].results_by_partition[0].partition_error_code)


def test_who_may_act_as_a_broker_at_home_takes_no_topic_of_a_neighbour_into_a_transaction() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        for name in ("other.ns.bank", "shop.eu.pay"):
            await make(root, name)
        await world.allow("shop.boss", DESCRIBE, name="bank", namespace=OTHER)
        boss = await world.login("shop.boss")
        assert await _added(boss, "other.ns.bank") == FORBIDDEN
        assert await _added(boss, "pay") == 0
        await world.allow("shop.boss", WRITE, name="bank", namespace=OTHER)
        assert await _added(boss, "other.ns.bank") == 0

    run(test)


def test_letters_make_no_topic_in_a_neighbours_namespace() -> None:
    async def test(world: World) -> None:
        await world.allow("shop.boss", CREATE, READ, name="orders-g-QUEUE", namespace=OTHER)
        await world.allow("shop.boss", READ, name="orders", namespace=OTHER)
        await world.allow("shop.boss", WRITE, name="graves", namespace=OTHER)
        await world.allow("shop.boss", READ, kind=GROUP, name="g", namespace=OTHER)
        root, boss = await world.login("root"), await world.login("shop.boss")
        await make(root, "other.ns.orders")
        letters = {"pulsar__dead__letter__topic": "other.ns.graves"}
        assert (await make(boss, "other.ns.orders-g-QUEUE", **letters))[0] == FORBIDDEN
        await make(root, "other.ns.graves")
        # with every right it is still for who is at home there
        assert (await make(boss, "other.ns.orders-g-QUEUE", **letters))[0] == Error.POLICY_VIOLATION

    run(test)


def test_who_may_alter_at_home_has_no_queue_topic_over_a_neighbours_namespace() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        await make(root, "other.ns.bank")
        await put(root, "other.ns.bank", b"secret")
        await world.allow("shop.boss", CREATE, READ, name="grp-QUEUE", namespace=OTHER)
        await world.allow("shop.boss", READ, kind=GROUP, name="grp", namespace=OTHER)
        boss = await world.login("shop.boss")
        over = {"pulsar__queue__pattern": "persistent://other/ns/.*"}
        assert (await make(boss, "other.ns.grp-QUEUE", **over))[0] == Error.CLUSTER_AUTHORIZATION_FAILED
        assert not world.has("other/ns/grp-QUEUE")
        assert (await get(boss, "other.ns.bank"))[0] == NO_TOPIC
        await world.allow("shop.boss", ALTER, kind=CLUSTER, namespace=OTHER)
        # with every right it is still for who is at home there
        assert (await make(boss, "other.ns.grp-QUEUE", **over))[0] == Error.POLICY_VIOLATION

    run(test)


def test_who_alters_the_cluster_of_one_namespace_becomes_nobody_whom_another_trusts() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        for topic in ("shop.us.secret", "other.ns.secret"):
            await make(root, topic)
            await put(root, topic, b"secret")
        # carl is none of the users, and dora is one of this namespace
        await world.allow("shop.carl", READ, name="secret", namespace=US)
        await world.allow("shop.dora", READ, name="secret", namespace=OTHER)
        await world.allow("shop.eve", READ, name="secret", namespace=EU)
        for name in ("shop.dora", "shop.ed"):
            await world.user(name, "shop/eu")
        await world.allow("shop.ed", ALTER, kind=CLUSTER, namespace=EU)
        # who has rights elsewhere itself changes its own password all the same
        await world.allow("shop.ed", READ, name="secret", namespace=OTHER)
        ed = await world.login("shop.ed")
        cannot = Error.UNACCEPTABLE_CREDENTIAL
        users = world.gateway.broker.users
        dora = users.get("shop.dora")
        assert [await give_password(ed, each, "mine") for each in ("carl", "dora")] == [cannot, cannot]
        assert (users.get("shop.carl"), users.get("shop.dora")) == (None, dora)
        assert await give_password(ed, "eve", "mine") == 0
        # who may alter the cluster there, too, may
        boss = await world.login("shop.boss")
        assert [await give_password(boss, each, "mine") for each in ("carl", "dora")] == [0, cannot]
        # and everybody when nothing is said of the name any more
        access = world.gateway.broker.access
        await access.remove([row for row in access.rows(OTHER) if row.principal == "User:shop.dora"])
        assert await give_password(ed, "dora", "mine") == 0
        dora_now = await world.login("shop.dora", "mine")
        assert (await get(dora_now, "other.ns.secret"))[0] == FORBIDDEN
        with contextlib.suppress(asyncio.IncompleteReadError):
            # its connections end
            await give_password(ed, "ed", "mine")
        await world.login("shop.ed", "mine")

    run(test)


def test_what_no_row_is_about_is_open_to_who_is_at_home_there() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        await make(root, "other.ns.bank")
        await put(root, "other.ns.bank", b"secret")
        await world.user("shop.eva", "shop/eu")
        await world.user("max")
        for name in ("shop.eva", "max"):
            client = await world.login(name)
            assert await get(client, "other.ns.bank") == (NO_TOPIC, b"")
            assert await put(client, "other.ns.bank", b"x") == NO_TOPIC
            assert await delete(client, "other.ns.bank") == NO_TOPIC
            # its own home is open
            assert (await make(client, "own"))[0] == await put(client, "own", b"x") == 0
        assert world.has("other/ns/bank")
        # the gateway is nobody's home
        max_ = await world.login("max")
        assert await give_password(max_, "root", "mine") == Error.CLUSTER_AUTHORIZATION_FAILED
        # over HTTP, too
        bank = "other/ns/bank"
        for home, expected in (("shop/eu", False), (None, False), ("other/ns", True)):
            identity = Identity("User:eva", "PLAIN", home)
            asker = asker_of(world.gateway.broker, identity, "127.0.0.1")
            assert asker.topic(READ, bank, OTHER) is expected
            assert asker.any_topic(READ, OTHER) is expected

    run(test, "allow.everyone.if.no.acl.found=true")


def test_no_topic_of_a_home_takes_the_place_of_a_neighbours() -> None:
    async def test(world: World) -> None:
        root = await world.login("root")
        await make(root, "shop.eu.orders")
        # one of its own, from before there was such a namespace
        await world.gateway.broker.create_topic("shop.eu.old", 1, {})
        for name in ("etl", "mallory"):
            await world.user(name)
        await world.allow("etl", WRITE, name="orders", namespace=EU)
        await world.allow("etl", WRITE, name="*", namespace=DEFAULT)
        for operation in (CREATE, READ, WRITE):
            await world.allow(
                "mallory", operation, name="shop.", namespace=DEFAULT, pattern=PatternType.PREFIXED
            )
        await world.allow("mallory", READ, kind=GROUP, name="*", namespace=DEFAULT)
        etl, mallory = await world.login("etl"), await world.login("mallory")
        assert await put(etl, "shop.eu.orders", b"1") == 0
        for name in ("shop.eu.orders", "shop.eu.coming", "public.default.x"):
            if name.startswith("shop"):
                assert (await make(mallory, name))[0] == FORBIDDEN
            asked = messages.MetadataRequest.MetadataRequestTopic(name=name)
            request = messages.MetadataRequest(topics=[asked], allow_auto_topic_creation=True)
            await mallory.ask(ApiKey.METADATA, 12, request)
            assert not world.has(name)
        # nor as one that letters are written to
        letters = {"pulsar__dead__letter__topic": "shop.eu.coming"}
        assert (await make(mallory, "shop.x", **letters))[0] != 0
        assert await put(etl, "shop.eu.orders", b"2") == 0
        (read,) = [each for each in [await get(root, "shop.eu.orders")] if not each[0]]
        assert b"2" in read[1]
        # what is there is said to be there
        assert (await make(mallory, "shop.eu.old"))[0] == Error.TOPIC_ALREADY_EXISTS
        assert (await make(mallory, "shop.x"))[0] == (await make(mallory, "shop.no.where"))[0] == 0

    run(test)
