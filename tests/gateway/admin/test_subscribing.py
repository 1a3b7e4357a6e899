"""Subscriptions over HTTP: listed, made, configured, on a real broker."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.admin.exchange import RESULT
from semantics.policies import POLICIES
from store.api import Family
from tests.gateway.admin.billing import EARLIEST, Serve, made, take
from tests.gateway.admin.conftest import Admin, Answer


def test_a_subscription_is_made_listed_and_deleted(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == ["billing"]
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 409
        assert await take(admin, "c1") == [0, 1, 2, 3, 4]
        assert (await admin.ask("DELETE", "P/orders/subscription/billing")).status == 204
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert (await admin.ask("GET", "P/orders/subscription/billing/explain?offset=0")).status == 404

    serve(test)


def test_a_subscription_begins_where_it_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.produce("orders", 0, [b"c"])
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        at = admin.broker.partition(topic, 0).log.position_of(2)
        body = json.dumps({"ledgerId": at.ledger, "entryId": at.entry})
        for name, sent, backlog in (("a", EARLIEST, 3), ("b", body, 1), ("c", "", 0)):
            assert (await admin.ask("PUT", f"P/orders/subscription/{name}", sent)).status == 204
            found = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"][name]
            assert (found["msgBacklog"], found["type"]) == (backlog, "Shared")

    serve(test)


def test_what_is_made_here_behaves_as_with_pulsars_clients_unless_the_group_says_otherwise(
    serve: Serve,
) -> None:
    """Seed 1: no ack timeout, a minute after a nack. It is the subscription's affair, not its group's."""

    async def test(admin: Admin) -> None:
        await made(admin)
        config = admin.broker.subscriptions.configs.on("billing", "orders").subscription
        assert (config.nack_delay_ms, config.lock_ms) == (60_000, 2**31 - 1)
        assert admin.broker.group_configs.own("billing") == {}
        group = admin.broker.group_configs.get("billing").subscription
        assert (group.nack_delay_ms, group.lock_ms) == (0, 30_000)
        own = {"pulsar.nack.delay.ms": "5", "share.record.lock.duration.ms": "15000"}
        await admin.broker.group_configs.alter("own", lambda old: {**old, **own})
        assert (await admin.ask("PUT", "P/orders/subscription/own?type=key_shared", EARLIEST)).status == 204
        config = admin.broker.subscriptions.configs.on("own", "orders").subscription
        assert (config.nack_delay_ms, config.lock_ms, config.type) == (5, 15_000, "key_shared")

    serve(test)


def test_a_subscription_elsewhere_changes_nothing_of_one_that_is_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("payments")
        await made(admin, kind="key_shared")
        assert await take(admin, "c1") == [0]
        assert (await admin.ask("PUT", "P/payments/subscription/billing", EARLIEST)).status == 204
        again = await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        assert again.status == 409
        kinds = {
            topic: (await admin.ask("GET", f"P/{topic}/stats")).json["subscriptions"]["billing"]["type"]
            for topic in ("orders", "payments")
        }
        assert kinds == {"orders": "Key_Shared", "payments": "Shared"}

    serve(test)


def test_properties_are_kept_shown_listed_and_replaced(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        body = {"ledgerId": -1, "entryId": -1, "properties": {"pulsar.nack.delay.ms": "1000", "team": "blue"}}
        assert (await admin.ask("PUT", "P/orders/subscription/billing", json.dumps(body))).status == 204
        path = "P/orders/subscription/billing/properties"
        assert (await admin.ask("GET", path)).json == body["properties"]
        for name, key in (("orders", "partitioned-stats"), ("orders-partition-1", "stats")):
            found = (await admin.ask("GET", f"P/{name}/{key}")).json["subscriptions"]["billing"]
            assert found["subscriptionProperties"] == body["properties"]
            assert found["magnetar"]["overrides"] == {
                "pulsar.nack.delay.ms": "1000",
                "pulsar.ack.timeout.ms": "0",
            }
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert told == [
            {
                "subscription": "billing",
                "type": "Shared",
                "overrides": {"pulsar.nack.delay.ms": "1000", "pulsar.ack.timeout.ms": "0"},
                "properties": body["properties"],
            }
        ]
        assert (
            await admin.ask("PUT", "P/orders/subscription/new", '{"properties": {"a": "b"}}')
        ).status == 204
        assert (await admin.ask("PUT", path, '{"team": "red"}')).status == 204
        assert (await admin.ask("GET", path)).json == {"team": "red"}
        assert (await admin.ask("PUT", path, "{}")).status == 204
        assert (await admin.ask("GET", path)).json == {}

    serve(test)


def test_wrong_properties_are_refused_and_nothing_is_made(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        path = "P/orders/subscription/billing"
        for properties, status, said in (
            ({"pulsar.nack.delay.ms": "soon"}, 412, "pulsar.nack.delay.ms"),
            ({"share.isolation.level": "read_committed"}, 412, "belongs to the group"),
            ({"team": 7}, 400, "object with texts"),
            (["team"], 400, "object with texts"),
        ):
            body = json.dumps({"ledgerId": -1, "entryId": -1, "properties": properties})
            refused = await admin.ask("PUT", path, body)
            assert (refused.status, said in refused.json["reason"]) == (status, True), refused.json
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert admin.broker.share_groups.get("billing") is None
        contradiction = json.dumps({"ledgerId": -1, "entryId": -1,
                                    "properties": {"pulsar.subscription.type": "key_shared"}})  # fmt: skip
        assert (await admin.ask("PUT", f"{path}?type=shared", contradiction)).status == 400
        assert (await admin.ask("GET", f"{path}/properties")).status == 404
        assert (await admin.ask("PUT", f"{path}/properties", "{}")).status == 404

    serve(test)


def test_a_consumer_groups_subscription_keeps_no_properties(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        path = "P/orders/subscription/billing"
        body = json.dumps({"ledgerId": -1, "entryId": -1, "properties": {"team": "blue"}})
        assert (await admin.ask("PUT", f"{path}?type=failover", body)).status == 501
        assert (await admin.ask("PUT", f"{path}?type=failover", EARLIEST)).status == 204
        assert (await admin.ask("GET", f"{path}/properties")).json == {}
        assert (await admin.ask("PUT", f"{path}/properties", '{"team": "blue"}')).status == 501
        told = (await admin.ask("GET", "P/orders/subscriptions?details=true")).json
        assert [one["type"] for one in told] == ["Failover"]

    serve(test)


def test_the_retry_topic_is_made_with_the_subscription_when_asked_for(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        assert (await admin.ask("PUT", "P/orders/subscription/billing?enableRetry=true")).status == 204
        made = await admin.ask("GET", "P/orders-billing-RETRY/partitions")
        assert made.json["partitions"] == 3
        assert (await admin.ask("GET", "P/orders-billing-RETRY/subscriptions")).json == ["billing"]
        # another subscription finds the one that somebody else made
        await admin.partitioned("orders-late-RETRY", 3)
        assert (await admin.ask("PUT", "P/orders/subscription/late?enableRetry=true")).status == 204
        assert (await admin.ask("GET", "P/orders-late-RETRY/subscriptions")).json == ["late"]

    serve(test)


def no_group(admin: Admin, name: str) -> bool:
    """Whether a consumer group may have the name."""
    return (
        admin.broker.group_kinds.owner(name) is None
        and admin.broker.store.get(Family.GROUP, name.encode()) is None
    )


@pytest.mark.parametrize(
    ("policy", "value", "words"),
    [
        ("max.subscriptions", "1", "may have no more than 1 subscriptions"),
        ("subscription.types.enabled", "Key_Shared", "takes no Shared subscriptions"),
    ],
)
def test_one_that_a_policy_refuses_leaves_no_share_group(
    serve: Serve, policy: str, value: str, words: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.broker.topics.configure("orders", lambda old: {**old, f"pulsar.{policy}": value})
        refused = await admin.ask("PUT", "P/orders/subscription/fresh", EARLIEST)
        assert (refused.status, words in refused.json["reason"]) == (412, True)
        assert no_group(admin, "fresh")
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == ["billing"]
        # the group that is there stays
        assert (await admin.ask("PUT", "P/orders/subscription/billing")).status == 409
        assert not no_group(admin, "billing")

    serve(test)


def test_a_failover_subscription_is_a_consumer_group_which_no_limit_counts(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        said = {"pulsar.max.subscriptions": "1", "pulsar.subscription.types.enabled": "Shared"}
        await admin.broker.topics.configure("orders", lambda old: {**old, **said})
        for name in ("first", "second"):
            assert (await admin.ask("PUT", f"P/orders/subscription/{name}?type=failover")).status == 204
        assert (await admin.ask("PUT", "P/orders/subscription/shared")).status == 204
        assert (await admin.ask("PUT", "P/orders/subscription/third?type=failover")).status == 204
        assert (await admin.ask("PUT", "P/orders/subscription/more")).status == 412
        # and whoever asks what the limit does is told so
        for name in said:
            assert "Failover subscriptions are consumer groups here" in POLICIES[name].doc

    serve(test)


@pytest.mark.parametrize(("query", "most"), [("", 2), ("&lanes=2", 4)])
def test_one_whose_retry_topic_is_refused_leaves_nothing(serve: Serve, query: str, most: int) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        limit = "/admin/v2/namespaces/public/default/maxTopicsPerNamespace"
        # lanes alone would fit
        assert (await admin.ask("POST", limit, str(most))).status == 204
        refused = await admin.ask("PUT", f"P/orders/subscription/fresh?enableRetry=true{query}", EARLIEST)
        assert (refused.status, f"may have {most} topics" in refused.json["reason"]) == (412, True)
        assert no_group(admin, "fresh")
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert [topic.name for topic in admin.broker.catalog.topics()] == ["orders"]

    serve(test)


def test_one_that_its_retry_topic_refuses_leaves_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.plain("orders-fresh-RETRY")
        only = {"pulsar.subscription.types.enabled": "Key_Shared"}
        await admin.broker.topics.configure("orders-fresh-RETRY", lambda old: {**old, **only})
        refused = await admin.ask("PUT", "P/orders/subscription/fresh?enableRetry=true", EARLIEST)
        assert (refused.status, "takes no Shared" in refused.json["reason"]) == (412, True)
        assert no_group(admin, "fresh")
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []

    serve(test)


def test_two_that_come_at_once_for_the_last_place_leave_one_group(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.broker.topics.configure("orders", lambda old: {**old, "pulsar.max.subscriptions": "1"})
        answers = await asyncio.gather(
            *(admin.ask("PUT", f"P/orders/subscription/{name}", EARLIEST) for name in ("one", "two"))
        )
        assert sorted(each.status for each in answers) == [204, 412]
        there = (await admin.ask("GET", "P/orders/subscriptions")).json
        assert [name for name in ("one", "two") if not no_group(admin, name)] == there

    serve(test)


def test_one_that_has_the_name_of_a_consumer_group_is_refused(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.plain("payments")
        assert (await admin.ask("PUT", "P/payments/subscription/billing?type=failover")).status == 204
        refused = await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)
        assert (refused.status, "is a consumer group" in refused.json["reason"]) == (409, True)
        assert admin.broker.subscriptions.get("billing", "orders") is None

    serve(test)


# -- lanes -----------------------------------------------------------------------------------------------------------


def test_a_subscription_is_made_with_its_queue_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        properties = json.dumps(
            {**json.loads(EARLIEST), "properties": {"team": "blue", "pulsar.nack.delay.ms": "7"}}
        )
        line = "P/orders/subscription/billing?type=key_shared&lanes=3"
        assert (await admin.ask("PUT", line, properties)).status == 204
        topic = admin.broker.topics.get("orders-billing-QUEUE")
        assert (len(topic.partitions), topic.internal) == (3, True)
        found = admin.broker.subscriptions.get("billing", "orders")
        assert found is not None
        config = found.config.subscription
        assert (config.type, config.lanes, config.nack_delay_ms) == ("key_shared", True, 7)
        assert found.row.properties == {"team": "blue", "pulsar.nack.delay.ms": "7"}
        # it begins where it was told, and is no share group
        assert (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]["msgBacklog"] == 2
        assert admin.broker.share_groups.look("billing") is None
        skipped = await admin.ask("POST", "P/orders-billing-QUEUE/subscription/billing/skip_all")
        assert (skipped.status, "serves the one of orders" in skipped.json["reason"]) == (404, True)
        assert (await admin.ask("PUT", line, EARLIEST)).status == 409

    serve(test)


def test_a_subscription_that_is_there_is_served_by_lanes_and_stays_what_it_is(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b"])
        line = "P/orders/subscription/billing?type=key_shared"
        assert (await admin.ask("PUT", line, EARLIEST)).status == 204
        assert (await admin.ask("PUT", line, EARLIEST)).status == 409
        other = await admin.ask("PUT", "P/orders/subscription/billing?type=shared&lanes=2", EARLIEST)
        assert (other.status, "its configs are others" in other.json["reason"]) == (412, True)
        more = json.dumps({**json.loads(EARLIEST), "properties": {"team": "blue"}})
        assert (await admin.ask("PUT", f"{line}&lanes=2", more)).status == 409
        assert admin.broker.catalog.get("orders-billing-QUEUE") is None
        # it stands where it stood, though the body says nothing of that
        served = await admin.ask("PUT", f"{line}&lanes=2")
        assert (served.status, served.json) == (200, {"kept": True})
        its = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
        assert (its["type"], its["msgBacklog"], len(its["magnetar"]["queue"]["lanes"])) == (
            "Key_Shared",
            2,
            2,
        )
        assert admin.broker.share_groups.look("billing") is None
        assert (await admin.ask("PUT", f"{line}&lanes=2")).status == 409
        failover = await admin.ask("PUT", "P/orders/subscription/other?type=failover&lanes=2", EARLIEST)
        assert (failover.status, "shared or key_shared" in failover.json["reason"]) == (400, True)

    serve(test)


def test_a_consumer_group_goes_on_by_lanes_where_it_stands(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        await admin.commit("billing", "orders", 0, 1)
        line = "P/orders/subscription/billing?type=shared"
        assert (await admin.ask("PUT", line, EARLIEST)).status == 409
        served = await admin.ask("PUT", f"{line}&lanes=2", EARLIEST)
        assert (served.status, served.json) == (200, {"kept": True})
        its = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["billing"]
        assert (its["type"], its["msgBacklog"]) == ("Shared", 2)

    serve(test)


def test_a_number_of_lanes_that_cannot_be_makes_nothing(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for lanes in ("0", "1001", "-1", "many", "1.5"):
            answer = await admin.ask("PUT", f"P/orders/subscription/billing?lanes={lanes}", EARLIEST)
            assert (answer.status, "from 1 to 1000" in answer.json["reason"]) == (400, True)
        assert (await admin.ask("GET", "P/orders/subscriptions")).json == []
        assert (await admin.ask("PUT", "P/orders/subscription/billing?lanes=", EARLIEST)).status == 204
        assert admin.broker.catalog.get("orders-billing-QUEUE") is None

    serve(test)


def test_lanes_and_a_retry_topic_are_made_together(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        line = "P/orders/subscription/billing?lanes=2&enableRetry=true"
        assert (await admin.ask("PUT", line, EARLIEST)).status == 204
        queue = admin.broker.queues.of(admin.broker.topics.get("orders-billing-QUEUE"))
        assert len(queue.sources) == 2
        retries = admin.broker.subscriptions.get("billing", "orders-billing-RETRY")
        assert retries is not None
        assert retries.config.subscription.lanes

    serve(test)


def test_a_queue_topic_has_no_subscriptions_of_its_own(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        assert (await admin.ask("PUT", "P/orders/subscription/billing?lanes=2", EARLIEST)).status == 204
        for more in ("", "?lanes=2"):
            answer = await admin.ask("PUT", f"P/orders-billing-QUEUE/subscription/other{more}", EARLIEST)
            assert (answer.status, "is a queue topic" in answer.json["reason"]) == (412, True)
        stats = await admin.ask("GET", "P/orders-billing-QUEUE/partitioned-stats")
        assert (stats.status, stats.json["subscriptions"]) == (200, {})

    serve(test)


async def over(admin: Admin, query: str = "lanes=2", **body: object) -> Answer:
    """The subscription billing over all topics orders-..."""
    return await admin.ask(
        "PUT", f"/admin/v2/magnetar/queues/billing?{query}", json.dumps({"pattern": "orders-.*", **body})
    )


def test_a_subscription_over_a_pattern_is_made_with_its_queue_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for name in ("orders-a", "orders-b", "bills"):
            await admin.plain(name)
            await admin.produce(name, 0, [b"a", b"b"])
        properties = {"pulsar.nack.delay.ms": "7"}
        answer = await over(admin, "lanes=3&type=key_shared", position="earliest", properties=properties)
        assert (answer.status, json.loads(answer.headers[RESULT])) == (
            204,
            {"queue": "billing-QUEUE", "topics": 2},
        )
        assert len(admin.broker.topics.get("billing-QUEUE").partitions) == 3
        for name in ("orders-a", "orders-b"):
            (subscription,) = (await admin.ask("GET", f"P/{name}/subscriptions?details=true")).json
            assert (subscription["subscription"], subscription["type"]) == ("billing", "Key_Shared")
            assert subscription["overrides"]["pulsar.nack.delay.ms"] == "7"
            its = (await admin.ask("GET", f"P/{name}/stats")).json["subscriptions"]["billing"]
            assert its["msgBacklog"] == 2
            assert its["magnetar"]["queue"]["topic"] == "billing-QUEUE"
            # it is one of many
            answer = await admin.ask("DELETE", f"P/{name}/subscription/billing")
            assert (answer.status, "delete 'billing-QUEUE' first" in answer.json["reason"]) == (412, True)
        assert (await admin.ask("GET", "P/bills/subscriptions")).json == []
        queue = (await admin.ask("GET", "P/billing-QUEUE/partitioned-stats")).json["magnetar"]["queue"]
        assert (queue["pattern"], queue["baseTopics"]) == ("orders-.*", ["orders-a", "orders-b"])
        assert [lane["lane"] for lane in queue["lanes"]] == [0, 1, 2]
        explained = await admin.ask("GET", "P/orders-a/subscription/billing/explain?offset=1")
        assert "lane" in explained.json["explanation"]
        assert (await admin.ask("DELETE", "P/billing-QUEUE/partitions")).status == 204
        assert (await admin.ask("DELETE", "P/orders-a/subscription/billing")).status == 204
        assert (await admin.ask("GET", "P/orders-b/subscriptions")).json == ["billing"]

    serve(test)


def test_what_cannot_be_over_a_pattern_is_told(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders-a")
        for query, body, status, why in (
            ("lanes=2", {"pattern": ""}, 400, "over which topics"),
            ("lanes=2", {"pattern": 7}, 400, "over which topics"),
            ("", {}, 400, "say how many"),
            ("lanes=0", {}, 400, "from 1 to 1000"),
            ("lanes=2&type=failover", {}, 400, "shared or key_shared"),
            ("lanes=2", {"position": "17:3"}, 400, "earliest or latest"),
            ("lanes=2", {"properties": {"team": "blue"}}, 412, "'team' is none"),
            (
                "lanes=2&type=shared",
                {"properties": {"pulsar.subscription.type": "key_shared"}},
                400,
                "another",
            ),
            ("lanes=2", {"pattern": "orders-("}, 412, "a ')' is missing"),
        ):
            answer = await over(admin, query, **body)
            assert (answer.status, why in answer.json["reason"]) == (status, True), answer
        assert (await admin.ask("GET", "P/orders-a/subscriptions")).json == []
        assert admin.broker.catalog.get("billing-QUEUE") is None

    serve(test)


def test_a_consumer_group_of_that_name_is_told_of_lanes(serve: Serve) -> None:
    """A subscription is a topic and a name; who reads another topic by that name has the group all the same."""

    async def test(admin: Admin) -> None:
        for name in ("orders", "other"):
            await admin.plain(name)
        await admin.join("billing", "other")
        refused = await admin.ask("PUT", "P/orders/subscription/billing", "{}")
        assert refused.status == 409
        assert "With --lanes N" in refused.json["reason"]
        assert (await admin.ask("PUT", "P/orders/subscription/billing?lanes=2", "{}")).status == 204
        again = await admin.ask("PUT", "P/orders/subscription/billing?lanes=2", '{"properties": {"a": "b"}}')
        assert (again.status, "Leave properties" in again.json["reason"]) == (409, True)

    serve(test)
