"""Queue topics over a pattern, as clients of listeners make and read them: a pattern is over topics of their home."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.group_names import scoped
from tests.gateway.apis.homes_asking import EU, run
from tests.gateway.broker.asking import fetch, told
from tests.gateway.broker.held import until
from tests.gateway.broker.queues.reading import parts
from tests.gateway.serving import Client, batch, create, produce_body, serving

QUEUE = "billing-QUEUE"


async def make(client: Client, name: str, pattern: str, *, validate_only: bool = False) -> Any:
    """What CreateTopics says of a queue topic with two lanes, whose subscriptions begin at the first record."""
    request = messages.CreateTopicsRequest
    said = {"pulsar.queue.pattern": pattern, "pulsar.max.redeliver.count": "0"}
    asked = request.CreatableTopic(
        name=name,
        num_partitions=2,
        replication_factor=-1,
        configs=[request.CreatableTopicConfig(name=key, value=value) for key, value in said.items()],
    )
    whole = request(topics=[asked], timeout_ms=1_000, validate_only=validate_only)
    (made,) = (await client.ask(ApiKey.CREATE_TOPICS, 7, whole)).topics
    return made


async def values(client: Client, topic: str, count: int, *, partitions: int = 2) -> set[bytes]:
    """So many values of a topic, by fetches that wait."""
    at = dict.fromkeys(range(partitions), 0)
    found: set[bytes] = set()
    while len(found) < count:
        for index, part in told(await fetch(client, {topic: at}, max_wait=5_000)).items():
            assert part.error_code == 0
            for offset, value in parts([part.records or b""]).items():
                # a batch comes whole
                if offset >= at[index]:
                    found.add(value or b"")
                    at[index] = offset + 1
    return found


async def committed(client: Client, topic: str, lanes: dict[int, int], metadata: str = "") -> None:
    """What the group billing commits of lanes."""
    request = messages.OffsetCommitRequest
    part = request.OffsetCommitRequestPartition
    answer = await client.ask(
        ApiKey.OFFSET_COMMIT,
        9,
        request(
            group_id="billing",
            member_id="",
            generation_id_or_member_epoch=-1,
            topics=[
                request.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        part(partition_index=lane, committed_offset=offset, committed_metadata=metadata)
                        for lane, offset in lanes.items()
                    ],
                )
            ],
        ),
    )
    assert [each.error_code for each in answer.topics[0].partitions] == [0] * len(lanes)


async def produce(client: Client, topic: str, *said: bytes) -> None:
    await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(*said)))


@pytest.mark.parametrize("pattern", ["orders-.*", "persistent://shop/eu/orders-.*"])
def test_a_client_of_a_namespace_makes_one_over_its_topics_and_reads_it(pattern: str) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, eu, us):
            await create(client, "orders-a")
        made = await make(eu, QUEUE, pattern, validate_only=True)
        assert (made.error_code, gateway.broker.catalog.get(f"shop/eu/{QUEUE}")) == (0, None)
        made = await make(eu, QUEUE, pattern)
        assert (made.name, made.error_code, made.num_partitions) == (QUEUE, 0, 2), made.error_message
        # another of that name at another home
        assert (await make(us, QUEUE, "orders-.*")).error_code == 0
        for client in (at_home, eu, us):
            await create(client, "orders-b")
        for client, value in ((at_home, b"home"), (eu, b"eu"), (us, b"us")):
            for topic in ("orders-a", "orders-b"):
                await produce(client, topic, value + topic[-2:].encode())
        assert await values(eu, QUEUE, 2) == {b"eu-a", b"eu-b"}
        assert await values(us, QUEUE, 2) == {b"us-a", b"us-b"}
        # as clients of public/default call it
        assert await values(at_home, f"shop.eu.{QUEUE}", 2) == {b"eu-a", b"eu-b"}
        assert {row.topic for row in gateway.broker.subscriptions.of_group(scoped(EU, "billing"))} == {
            "shop/eu/orders-a",
            "shop/eu/orders-b",
        }
        assert gateway.broker.subscriptions.of_group("billing") == []
        again = await make(eu, QUEUE, pattern)
        assert again.error_code == Error.TOPIC_ALREADY_EXISTS
        assert again.error_message.startswith(
            f"Topic '{QUEUE}' already exists. It is over 'persistent://shop/eu/orders"
        )

    run(test)


def test_what_its_group_gives_back_dies_in_the_namespace() -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        await create(eu, "orders-a")
        assert (await make(eu, QUEUE, "orders-.*")).error_code == 0
        await produce(eu, "orders-a", b"dead")
        assert await values(eu, QUEUE, 1) == {b"dead"}
        lane = next(
            index
            for index, part in told(await fetch(eu, {QUEUE: {0: 0, 1: 0}})).items()
            if part.high_watermark == 1
        )
        await committed(eu, QUEUE, {lane: 1}, "ack1;d=0")
        await until(lambda: gateway.broker.catalog.get("shop/eu/orders-a-billing-DLQ") is not None)
        assert await values(eu, "orders-a-billing-DLQ", 1, partitions=1) == {b"dead"}
        listed = await us.ask(ApiKey.METADATA, 9, messages.MetadataRequest(topics=None))
        assert listed.topics == []
        # its letters and its queue topic are none that the pattern is over
        assert [row.topic for row in gateway.broker.subscriptions.of_group(scoped(EU, "billing"))] == [
            "shop/eu/orders-a"
        ]
        # the group stands there, and is told of no other topic
        offsets = messages.OffsetFetchRequest
        group = offsets.OffsetFetchRequestGroup(group_id="billing", topics=None)
        answer = await eu.ask(ApiKey.OFFSET_FETCH, 9, offsets(groups=[group]))
        assert {each.name for each in answer.groups[0].topics} == {QUEUE, "orders-a"}

    run(test)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("persistent://public/default/orders-.*", "not over those of public/default"),
        ("persistent://shop/us/orders-.*", "not over those of shop/us"),
        ("persistent://no/where/orders-.*", "not over those of no/where"),
        ("shop.us.orders-.*", "not over those of shop/us"),
        (r"^public\.default\.orders-.*", "not over those of public/default"),
        ("shop.us.*", "all topics of shop/us are persistent://shop/us/.*"),
        ("shop.us.a|public.default.b", "has a '|' outside of groups"),
        ("non-persistent://shop/eu/orders-.*", "persistent topics"),
        ("orders-(", "a ')' is missing"),
    ],
)
def test_a_client_of_a_namespace_reaches_no_other_by_a_pattern(
    pattern: str, why: str, validate_only: bool
) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, eu, us):
            await create(client, "orders-a")
        made = await make(eu, QUEUE, pattern, validate_only=validate_only)
        assert made.error_code == Error.INVALID_CONFIG
        assert why in made.error_message
        assert [topic.name for topic in gateway.broker.catalog.over_patterns()] == []
        for name in ("orders-a", "shop/eu/orders-a", "shop/us/orders-a"):
            assert gateway.broker.subscriptions.of_topic(gateway.broker.topics.get(name).topic_id) == []

    run(test)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("name", "pattern", "why"),
    [
        ("shop.eu.g-QUEUE", "persistent://shop/eu/orders-.*", None),
        ("shop.eu.g-QUEUE", "shop.eu.orders-.*", None),
        ("shop.eu.g-QUEUE", r"shop\.eu\.orders-.*", None),
        ("g-QUEUE", "orders-.*", None),
        ("shop.eu.g-QUEUE", "orders-.*", "write persistent://shop/eu/ before the pattern"),
        ("g-QUEUE", "persistent://shop/eu/orders-.*", "Call it 'shop.eu.<subscription>-QUEUE'"),
        ("shop.us.g-QUEUE", "shop.eu.orders-.*", "Call it 'shop.eu.<subscription>-QUEUE'"),
        ("no.where.g-QUEUE", "persistent://no/where/orders-.*", "would be a topic of public/default"),
    ],
)
def test_other_clients_say_of_which_namespace_it_is(
    name: str, pattern: str, why: str | None, validate_only: bool
) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        for client in (at_home, eu, us):
            await create(client, "orders-a")
        made = await make(at_home, name, pattern, validate_only=validate_only)
        kept = name.replace("shop.eu.", "shop/eu/")
        there = gateway.broker.catalog.get(kept)
        if why is None:
            assert (made.error_code, there is None) == (0, validate_only), made.error_message
            if there is not None:
                (base,) = [
                    gateway.broker.catalog.by_id(each)
                    for each in gateway.broker.queues.patterned.bases(there)
                ]
                assert base is not None
                assert base.name == kept.removesuffix("g-QUEUE") + "orders-a"
        else:
            assert (made.error_code, there) == (Error.INVALID_CONFIG, None)
            assert why in made.error_message

    run(test)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("a/b-QUEUE", Error.INVALID_TOPIC_EXCEPTION),
        ("shop.eu.g", Error.INVALID_REQUEST),
        ("shop.eu.-QUEUE", Error.INVALID_REQUEST),
    ],
)
def test_a_name_that_says_no_subscription_is_refused(name: str, code: int) -> None:
    async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
        made = await make(at_home, name, "shop.eu.orders-.*")
        assert made.error_code == code, made.error_message

    run(test)


def test_where_the_namespace_is_not_there_a_client_is_told_what_makes_it() -> None:

    async def main() -> None:
        flag = "listener.name.eu.pulsar.namespace=shop/eu"
        async with serving(flag, listeners="127.0.0.1:0,EU://127.0.0.1:0") as gateway:
            client = await Client.connect(gateway, listener="EU")
            made = await make(client, QUEUE, "orders-.*")
            assert made.error_code == Error.INVALID_TOPIC_EXCEPTION
            assert "magnetar-admin namespaces create shop/eu" in made.error_message
            client.close()

    uvloop.run(main())
