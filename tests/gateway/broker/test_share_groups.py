"""Share groups at work: durable before they are told, over restarts and beside others."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from gateway.broker.errors import KafkaError
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import Family, Put, Refused
from tests.gateway.apis.homes_asking import run as run_homes
from tests.gateway.apis.homes_asking import share_heartbeat
from tests.gateway.broker.held import Clock, HeldStore, run, run_held, serving_on, until
from tests.gateway.broker.share_members import alter, assigned, beat, beat_body, delete, describe
from tests.gateway.serving import Client, create

SESSION = 45_000


class TestMembers:
    def test_who_sends_a_pattern_as_a_name_is_told_so_once(self, caplog: pytest.LogCaptureFixture) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "orders-eu")
            for member in ("m1", "m2"):
                answer = await beat(client, "g", member, 0, "orders-.*", "orders-eu", "not-yet")
                assert answer.error_code == 0
                await beat(client, "g", member, 1, "orders-.*", "orders-eu")
            found = [
                each.getMessage() for each in caplog.records if "is no topic's name" in each.getMessage()
            ]
            (said,) = found
            assert said.startswith("member m1 of share group g subscribes to 'orders-.*'")
            assert "create-subscription --pattern 'orders-.*' -s g --lanes" in said

        run(test)

    def test_a_pattern_of_a_client_of_a_namespace_is_told_as_one_over_its_topics(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def test(gateway: Gateway, at_home: Client, eu: Client, us: Client) -> None:
            answer = await eu.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, share_heartbeat("g", "orders-.*"))
            assert answer.error_code == 0
            (said,) = [
                each.getMessage() for each in caplog.records if "is no topic's name" in each.getMessage()
            ]
            assert said.startswith("member m of share group shop/eu//g subscribes to 'orders-.*'")
            assert "create-subscription --pattern 'persistent://shop/eu/orders-.*' -s g --lanes" in said

        run_homes(test)

    def test_who_leaves_and_who_is_silent(self) -> None:
        clock = Clock()

        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            for member in ("left", "silent"):
                await beat(client, "g", member, 0, "t")
            with mock.patch.object(gateway.broker.subscriptions, "member_gone") as gone:
                await beat(client, "g", "left", -1)
                assert gone.call_args_list == [mock.call("g", "left", graceful=True)]
                clock.now += SESSION
                gateway.broker.share_groups._wake()
                await until(lambda: gone.call_count == 2)
                assert gone.call_args == mock.call("g", "silent", graceful=False)
            assert (await describe(client, "g"))[0].group_state == "Empty"

        run(test, clock=clock)

    def test_go_on_after_a_restart_until_their_session_would_have_run_out(self) -> None:
        async def main() -> None:
            store, clock = memory.open(), Clock()
            async with serving_on(store, clock=clock) as gateway:
                client = await Client.connect(gateway)
                topic = await create(client, "t")
                for member in ("m1", "m2"):
                    await beat(client, "g", member, 0, "t")
                client.close()
            again = memory.open()
            again._rows, again._keys = store._rows, store._keys
            async with serving_on(again, clock=clock) as gateway:
                client = await Client.connect(gateway)
                clock.now += SESSION - 1
                # not before the sweep has taken the group into memory
                await until(lambda: gateway.broker.share_groups.look("g") is not None)
                answer = await beat(client, "g", "m1", 2)
                assert answer.member_epoch == 3
                assert assigned(answer) in ({topic: [0]}, None)
                clock.now += SESSION
                gateway.broker.share_groups._wake()
                await until(lambda: gateway.broker.share_groups.members("g") == 0)
                client.close()

        asyncio.run(main())

    def test_nobody_is_told_an_epoch_that_is_not_stored(self) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            await create(client, "t")
            await beat(client, "g", "m1", 0, "t")
            store.holding = True
            client.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body("g", "m2", 0, "t"))
            await store.has(1)
            store.fail(Refused("no"))
            store.release()
            _, answer = await client.receive()
            assert answer.error_code == Error.COORDINATOR_NOT_AVAILABLE
            (group,) = await describe(client, "g")
            assert [member.member_id for member in group.members] == ["m1"]
            assert (await beat(client, "g", "m1", 2)).member_epoch == 2

        run_held(test)

    def test_no_room(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await beat(client, "g", "m1", 0, "t")
            assert (await beat(client, "g", "m2", 0, "t")).error_code == Error.GROUP_MAX_SIZE_REACHED

        run(test, "group.share.max.size=1")

    def test_the_groups_own_times(self) -> None:
        clock = Clock()

        async def test(gateway: Gateway, client: Client) -> None:
            await alter(
                gateway, "g", share__session__timeout__ms="50000", share__heartbeat__interval__ms="7000"
            )
            assert (await beat(client, "g", "m", 0, "t")).heartbeat_interval_ms == 7000
            clock.now += 49_999
            gateway.broker.share_groups._wake()
            assert gateway.broker.share_groups.members("g") == 1
            clock.now += 1
            gateway.broker.share_groups._wake()
            assert gateway.broker.share_groups.members("g") == 0

        run(test, clock=clock)

    def test_the_type_of_the_subscription_stays_while_they_are_there(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await beat(client, "g", "m", 0, "t")
            with pytest.raises(
                KafkaError, match=r"Group g is shared and cannot .* while it has consumers \(1\)"
            ):
                await alter(gateway, "g", pulsar__subscription__type="key_shared")
            await beat(client, "g", "m", -1)
            await alter(gateway, "g", pulsar__subscription__type="key_shared")

        run(test)


def test_an_id_is_taken_as_soon_as_somebody_joins() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        store.holding = True
        client.send(ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body("g", "m", 0, "t"))
        await store.has(1)
        with pytest.raises(KafkaError) as caught:
            gateway.broker.groups.get("g")
        assert caught.value.code == Error.INCONSISTENT_GROUP_PROTOCOL
        store.release()
        _, answer = await client.receive()
        assert answer.error_code == 0

    run_held(test)


class TestAdministrators:
    def test_a_group_goes_with_its_subscriptions(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            assert await delete(client, "g") == {"g": Error.NON_EMPTY_GROUP}
            assert gateway.broker.subscriptions.get("g", "t") is not None
            await beat(client, "g", "m", -1)
            assert await delete(client, "g") == {"g": 0}
            assert gateway.broker.subscriptions.get("g", "t") is None
            assert list(gateway.broker.store.scan(Family.GROUP)) == []
            assert (await describe(client, "g"))[0].error_code == Error.GROUP_ID_NOT_FOUND

        run(test)

    @pytest.mark.parametrize("retries", [None, "t-g-RETRY"])
    def test_one_that_is_made_beside_its_subscription_is_stored_with_it_or_not_at_all(
        self, retries: str | None
    ) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            await create(client, "t")
            broker = gateway.broker

            def making() -> asyncio.Future[bool]:
                made = broker.subscriptions.make(
                    "g",
                    "t",
                    [0],
                    {},
                    {},
                    retries,
                    beside=lambda: answers.append(broker.share_groups.made("g")),
                )
                return asyncio.ensure_future(made)

            answers: list[Any] = []
            store.holding = True
            asked = making()
            await store.has(1)
            (held,) = store.queued
            assert {Family.GROUP, Family.SUBSCRIPTION} <= {
                write.family for write in held[0] if type(write) is Put
            }
            store.fail(Refused("no"))
            with pytest.raises(KafkaError):
                await asked
            assert (await answers[0]).error == Error.COORDINATOR_NOT_AVAILABLE
            assert broker.group_kinds.owner("g") is None
            store.holding = False
            assert await making()
            assert not (await answers[1]).error
            assert broker.group_kinds.owner("g") is broker.share_groups

        run_held(test)

    def test_one_whose_subscription_gets_lanes_gives_way(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            broker = gateway.broker
            await create(client, "t")
            await beat(client, "g", "m", 0, "t")
            with pytest.raises(KafkaError) as caught:
                await broker.queues.make("t", "g", 2)
            assert caught.value.code == Error.NON_EMPTY_GROUP
            await beat(client, "g", "m", -1)
            await broker.queues.make("t", "g", 2)
            assert broker.group_kinds.owner("g") is None, "a group of consumers may have the id"
            assert broker.subscriptions.get("g", "t") is not None
            answer = await beat(client, "g", "m", 0, "t")
            assert answer.error_code == Error.INVALID_REQUEST
            assert "lanes of t-g-QUEUE" in answer.error_message
            await broker.delete_topic("t-g-QUEUE")
            assert (await beat(client, "g", "m", 0, "t")).error_code == 0

        run(test)

    def test_made_empty_once(self) -> None:
        async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
            await gateway.broker.share_groups.make("g")
            count = len(store.commits)
            await gateway.broker.share_groups.make("g")
            assert len(store.commits) == count
            assert (await describe(client, "g"))[0].group_state == "Empty"

        run_held(test)

    def test_an_idle_group_is_a_row(self) -> None:
        clock = Clock()

        async def test(gateway: Gateway, client: Client) -> None:
            groups = gateway.broker.share_groups
            await gateway.broker.share_groups.make("g")
            for _ in range(2):
                gateway.broker.group_kinds.release_idle()
            assert groups.look("g") is None
            assert groups.get("g") is not None

        run(test, clock=clock)
