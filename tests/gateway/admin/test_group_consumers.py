"""Who is there in an Exclusive or Failover subscription, and who is active, in Pulsar's stats."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.broker.consumer_groups import Beating
from gateway.broker.errors import KafkaError
from gateway.broker.machines import Caller
from gateway.coordinators.classic_events import Join, Sync
from gateway.wire.errors import Error
from tests.gateway.admin.billing import Serve, cursor_of, explain, made, stats, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.coordinators.mixed_bench import metadata

TYPE = "pulsar.subscription.type"
EARLIEST = '{"ledgerId": -1, "entryId": -1}'


def caller() -> Caller:
    return Caller(lambda answer: answer)


async def answered(answer: Any) -> Any:
    return await answer if isinstance(answer, Awaitable) else answer


async def join(admin: Admin, member: str, topic: str, instance: str | None = None) -> Any:
    """A classic consumer joins the group billing, and leads it if it is let in."""
    protocols = (("range", metadata((topic,))),)
    joining = Join(
        *(caller(), "", member, instance, "client", "/127.0.0.1", 30_000, 30_000, "consumer", protocols),
        id_required=False,
    )
    answer = await answered(admin.broker.groups.run("billing", joining))
    if not answer.error:
        nothing = {member: b"\0\1\0\0\0\0\xff\xff\xff\xff"}
        syncing = Sync(caller(), member, answer.generation, instance, assignments=nothing)
        await answered(admin.broker.groups.run("billing", syncing))
    return answer


async def beat(admin: Admin, member: str, topic: str, instance: str | None = None) -> Any:
    beating = Beating(
        *("billing", member, 0, instance, None, 30_000, (topic,), None, None, frozenset()),
        ("/127.0.0.1", "client"),
        caller(),
    )
    return await answered(admin.broker.consumer_groups.heartbeat(beating))


def test_an_exclusive_one_is_made_by_its_type_and_has_one_consumer(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        assert (
            await admin.ask("PUT", "P/orders/subscription/billing?type=exclusive", EARLIEST)
        ).status == 204
        assert (await join(admin, "m1", "orders", "desk")).error == Error.NONE
        assert (await join(admin, "m2", "orders")).error == Error.GROUP_MAX_SIZE_REACHED
        billing = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
        assert (billing["type"], billing["activeConsumerName"]) == ("Exclusive", None), (
            "its leader gave it nothing"
        )
        assert billing["consumers"] == [
            {
                "consumerName": "desk",
                "address": "/127.0.0.1",
                "clientVersion": "",
                "metadata": {"memberId": "m1", "clientId": "client", "instanceId": "desk"},
            }
        ]
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert [one["type"] for one in told] == ["Exclusive"]
        refused = await admin.ask("PUT", "P/orders/subscription/shipping?type=exclusive&lanes=2", EARLIEST)
        assert refused.status == 400
        # another type is not taken while it is there
        await admin.plain("other")
        refused = await admin.ask("PUT", "P/other/subscription/billing?type=failover", EARLIEST)
        assert "cannot become failover while it has consumers (1)" in refused.json["reason"]

    serve(test)


def test_a_failover_one_tells_who_is_active_on_each_partition(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.plain("other")
        path = "P/orders/subscription/billing?type=failover"
        assert (await admin.ask("PUT", path, EARLIEST)).status == 204
        await beat(admin, "m2", "orders", "b")
        stats = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        assert stats["subscriptions"]["billing"]["activeConsumerName"] == "b"
        assert stats["subscriptions"]["billing"]["type"] == "Failover"
        await beat(admin, "m1", "orders", "a")
        await beat(admin, "m3", "other", "c")
        stats = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        each = {
            name.rpartition("-")[2]: its["subscriptions"]["billing"]
            for name, its in stats["partitions"].items()
        }
        # a waits until b has given its partition up
        assert [each[index]["activeConsumerName"] for index in "01"] == ["b", "b"]
        assert [one["consumerName"] for one in each["0"]["consumers"]] == ["a", "b"]
        group = admin.broker.consumer_groups.get("billing")
        assert group is not None
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        for member in ("m2", "m2", "m1"):
            its = group.members[member]
            owned = frozenset([(topic.topic_id, 1)]) if member == "m2" else frozenset()
            beating = Beating(
                *("billing", member, its.epoch, its.instance_id, None, -1, None, None, None, owned),
                ("/127.0.0.1", "client"),
                caller(),
            )
            await answered(admin.broker.consumer_groups.heartbeat(beating))
        stats = (await admin.ask("GET", "P/orders/partitioned-stats")).json
        each = {
            name.rpartition("-")[2]: its["subscriptions"]["billing"]
            for name, its in stats["partitions"].items()
        }
        assert [each[index]["activeConsumerName"] for index in "01"] == ["a", "b"]
        whole = stats["subscriptions"]["billing"]
        assert (whole["activeConsumerName"], len(whole["consumers"])) == (None, 2)

    serve(test)


def test_a_group_and_its_subscription_do_not_say_two_things(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        with pytest.raises(KafkaError, match="The subscription is shared and its group exclusive"):
            await admin.broker.group_configs.alter("billing", lambda old: {**old, TYPE: "exclusive"})
        path = "P/orders/subscription/other"
        await admin.broker.group_configs.alter("other", lambda old: {TYPE: "exclusive"})
        refused = await admin.ask("PUT", f"{path}?type=key_shared", EARLIEST)
        assert (refused.status, "its group exclusive" in refused.json["reason"]) == (412, True)
        await admin.broker.group_configs.alter("other", lambda old: {})
        assert (await admin.ask("PUT", f"{path}?type=key_shared", EARLIEST)).status == 204

    serve(test)


def test_a_classic_failover_group_has_what_the_coordinator_gave(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.plain("other")
        for topic in ("orders", "other"):
            answer = await admin.ask("PUT", f"P/{topic}/subscription/billing?type=failover", EARLIEST)
            assert answer.status == 204
        await join(admin, "m1", "orders")
        billing = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
        assert (billing["activeConsumerName"], len(billing["consumers"])) == ("client", 1)
        # of a topic that nobody reads there are none
        billing = (await admin.ask("GET", "P/other/stats")).json["subscriptions"]["billing"]
        assert (billing["activeConsumerName"], billing["consumers"]) == (None, [])

    serve(test)


def test_a_share_group_of_type_failover_says_for_whom_a_record_waits(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.broker.group_configs.alter("billing", lambda old: {**old, TYPE: "failover"})
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"1", b"2", b"3"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        assert await take(admin, "b", 1) == [0]
        cursor_of(admin).attach("a")
        found = await stats(admin)
        assert (found["type"], found["activeConsumerName"]) == ("Failover", "b")
        assert [one["consumerName"] for one in found["consumers"]] == ["b", "a"]
        assert (await explain(admin, 1))["explanation"] == (
            "It is for b, the active consumer, when that asks: the others stand by."
        )
        # who comes first is before it from now on
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.failover.priorities": "b=1"}
        )
        assert (await stats(admin))["activeConsumerName"] == "a"
        assert (await explain(admin, 1))["explanation"] == (
            "It is for a, the active consumer, when those before it have nothing more in hand."
        )
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert [one["type"] for one in told] == ["Failover"]
        lag = (await admin.ask("GET", "P/orders/lag")).json
        assert [one["type"] for one in lag["subscriptions"]] == ["Failover"]

    serve(test)


def test_the_type_of_an_exclusive_share_group(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await take(admin, "c", 1)
        assert "activeConsumerName" not in await stats(admin)
        await admin.broker.group_configs.alter("other", lambda old: {**old, TYPE: "exclusive"})
        assert (await admin.ask("PUT", "P/orders/subscription/other", EARLIEST)).status == 204
        found = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["other"]
        assert (found["type"], found["consumers"]) == ("Exclusive", [])
        subscription = admin.broker.subscriptions.get("other", "orders")
        assert subscription is not None
        subscription.partition(0).attach("c")
        found = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["other"]
        assert found["activeConsumerName"] == "c"

    serve(test)
