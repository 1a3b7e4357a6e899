"""What share groups have made before their members are told of topics: subscriptions and RETRY topics."""

from __future__ import annotations

from unittest import mock

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import HeldStore, run, run_held, until
from tests.gateway.broker.share_members import assigned, beat, beat_body
from tests.gateway.serving import Client, batch, create, produce_body


async def produce(client: Client, topic: str, count: int) -> None:
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, batch(*[b"x"] * count)))
    assert answer.responses[0].partition_responses[0].error_code == 0


def start_of(gateway: Gateway, group: str, topic: str) -> int | None:
    """Where the group's subscription begins in partition 0, None without one."""
    subscription = gateway.broker.subscriptions.get(group, topic)
    return subscription.partition(0).ready().start if subscription is not None else None


class TestSubscriptions:
    def test_the_answer_that_assigns_comes_when_the_subscription_is_there(self) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            topic = await create(client, "t", 2)
            store.holding = True
            client.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body("g", "m", 0, "t"))
            await store.has(1)
            assert gateway.broker.subscriptions.get("g", "t") is None
            store.release()
            _, answer = await client.receive()
            assert assigned(answer) == {topic: [0, 1]}
            assert gateway.broker.subscriptions.get("g", "t") is not None

        run_held(test)

    def test_where_it_begins_is_the_groups_config(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await produce(client, "t", 5)
            await gateway.broker.group_configs.alter(
                "early", lambda old: {**old, "share.auto.offset.reset": "earliest"}
            )
            await beat(client, "late", "m", 0, "t")
            await beat(client, "early", "m", 0, "t")
            assert (start_of(gateway, "late", "t"), start_of(gateway, "early", "t")) == (5, 0)

        run(test)

    def test_it_stays_when_members_go_and_come(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            await beat(client, "g", "m", -1)
            await produce(client, "t", 3)
            await beat(client, "g", "m", 0, "t")
            assert start_of(gateway, "g", "t") == 0

        run(test)

    def test_where_nobody_knows_whether_it_was_deleted_whoever_joins_next_has_one(self) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            topic = await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            await beat(client, "g", "m", -1)
            store.holding = True
            drop = messages.DeleteShareGroupOffsetsRequest
            one = drop.DeleteShareGroupOffsetsRequestTopic(topic_name="t")
            client.send(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, drop(group_id="g", topics=[one]))
            await store.has(1)
            store.land_unknown()
            store.release()
            _, answer = await client.receive()
            assert [each.error_code for each in answer.responses] == [Error.KAFKA_STORAGE_ERROR]
            assert gateway.broker.subscriptions.get("g", "t") is None
            assert assigned(await beat(client, "g", "m", 0, "t")) == {topic: [0]}
            assert gateway.broker.subscriptions.get("g", "t") is not None

        run_held(test)

    def test_topics_made_later_get_theirs_with_the_next_heartbeat(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            answer = await beat(client, "g", "m", 0, "t")
            assert assigned(answer) == {}
            topic = await create(client, "t")
            await produce(client, "t", 3)
            answer = await beat(client, "g", "m", answer.member_epoch)
            assert assigned(answer) == {topic: [0]}
            assert start_of(gateway, "g", "t") == 0, "nothing of it was published before the group subscribed"

        run(test)

    def test_a_retry_topic_that_a_member_names_is_made_when_its_base_is_there(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            base = await create(client, "t", 2)
            answer = await beat(client, "g", "m", 0, "t", "t-g-RETRY", "t-other-RETRY", "u-g-RETRY")
            made = gateway.broker.catalog.get("t-g-RETRY")
            assert made is not None
            assert assigned(answer) == {base: [0, 1], made.topic_id: [0, 1]}
            assert start_of(gateway, "g", "t-g-RETRY") == 0
            for name in ("t-other-RETRY", "u-g-RETRY"):
                assert gateway.broker.catalog.get(name) is None

        run(test)

    def test_who_is_no_member_makes_no_retry_topic(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            for epoch in (7, -1):
                answer = await beat(client, "g", "m", epoch, "t", "t-g-RETRY")
                assert answer.error_code
            await beat(client, "g", "m", 0, "t")
            answer = await beat(client, "g", "stranger", 7, "t", "t-g-RETRY")
            assert answer.error_code == Error.UNKNOWN_MEMBER_ID
            assert gateway.broker.catalog.get("t-g-RETRY") is None

        run(test)

    def test_a_topic_made_anew_is_another(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            epoch = (await beat(client, "g", "m", 0, "t")).member_epoch
            await gateway.broker.delete_topic("t")
            again = await create(client, "t", 2)
            await produce(client, "t", 3)
            answer = await beat(client, "g", "m", epoch)
            assert assigned(answer) == {again: [0, 1]}
            assert gateway.broker.subscriptions.by_id("g", again) is not None
            assert start_of(gateway, "g", "t") == 0

        run(test)

    def test_a_topic_that_was_there_before_begins_at_its_end_also_when_tried_twice(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await produce(client, "t", 3)
            with mock.patch.object(
                gateway.broker.subscriptions, "ensure", side_effect=KafkaError(Error.UNKNOWN_SERVER_ERROR)
            ):
                await beat(client, "g", "m", 0, "t")
            await beat(client, "g", "m", 2)
            assert start_of(gateway, "g", "t") == 3

        run(test)

    def test_partitions_added_are_assigned(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t")
            epoch = (await beat(client, "g", "m", 0, "t")).member_epoch
            await gateway.broker.create_partitions("t", 3)
            assert assigned(await beat(client, "g", "m", epoch)) == {topic: [0, 1, 2]}

        run(test)

    def test_without_one_the_member_is_told_to_try_again(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            topic = await create(client, "t")
            failure = KafkaError(Error.KAFKA_STORAGE_ERROR, "no")
            with mock.patch.object(gateway.broker.subscriptions, "ensure", side_effect=failure):
                answer = await beat(client, "g", "m", 0, "t")
            assert answer.error_code == Error.COORDINATOR_NOT_AVAILABLE
            assert assigned(await beat(client, "g", "m", 0, "t")) == {topic: [0]}
            assert gateway.broker.subscriptions.get("g", "t") is not None

        run(test)

    def test_two_who_join_at_once_make_it_once(self) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            topic = await create(client, "t")
            other = await Client.connect(gateway)
            with mock.patch.object(
                gateway.broker.subscriptions, "ensure", wraps=gateway.broker.subscriptions.ensure
            ) as ensure:
                store.holding = True
                client.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body("g", "m1", 0, "t"))
                await store.has(1)
                other.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body("g", "m2", 0, "t"))
                await until(lambda: gateway.broker.share_groups.members("g") == 2)
                store.release()
                answers = [(await each.receive())[1] for each in (client, other)]
                assert [assigned(answer) for answer in answers] == [{topic: [0]}] * 2
                assert ensure.call_count == 1
                await beat(client, "g", "m1", 2)
                assert ensure.call_count == 1, "not again with every heartbeat"
            other.close()

        run_held(test)
