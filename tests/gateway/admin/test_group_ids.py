"""The admin API of a namespace with a listener of its own: names go in, ids are kept, names come out."""

from __future__ import annotations

import json
import re

import pytest

from gateway.admin import scrape
from gateway.admin.exchange import RESULT, Call, RefusedError
from gateway.admin.group_ids import inward
from gateway.broker.namespaces import NamespaceRow, TenantRow
from gateway.config import Settings
from semantics.group_names import SEPARATOR, scoped
from semantics.names import Namespace
from tests.gateway.admin.billing import EARLIEST, Serve, World
from tests.gateway.admin.conftest import Admin
from tests.gateway.broker.queues.reading import Client

EU, US = Namespace("shop", "eu"), Namespace("shop", "us")
KEPT = scoped(EU, "billing")
TOPIC = "/admin/v2/persistent/shop/eu/orders"


async def at_home(admin: Admin) -> None:
    """shop/eu is there, with a listener of its own and a topic that keeps two messages."""
    await admin.broker.tenancy.create_tenant("shop", TenantRow())
    await admin.broker.tenancy.create(EU, NamespaceRow())
    admin.broker.catalog.namespaces.homes = frozenset({EU})
    assert (await admin.ask("PUT", TOPIC, "{}")).status == 204
    await admin.produce("shop/eu/orders", 0, [b"a", b"b"])


def test_a_subscription_is_kept_as_the_groups_and_called_by_its_name(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        assert (await admin.ask("PUT", f"{TOPIC}/subscription/billing", EARLIEST)).status == 204
        assert [row.topic for row in admin.broker.subscriptions.of_group(KEPT)] == ["shop/eu/orders"]
        assert admin.broker.subscriptions.of_group("billing") == []
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == ["billing"]
        stats = (await admin.ask("GET", f"{TOPIC}/stats")).json["subscriptions"]
        assert {name: its["msgBacklog"] for name, its in stats.items()} == {"billing": 2}
        lag = (await admin.ask("GET", f"{TOPIC}/lag?subscription=billing")).json
        assert [each["name"] for each in lag["subscriptions"]] == ["billing"]
        everywhere = (await admin.ask("GET", "/admin/v2/magnetar/lag?subscription=billing")).json
        assert [each["subscriptions"][0]["name"] for each in everywhere["topics"]] == ["billing"]
        again = await admin.ask("PUT", f"{TOPIC}/subscription/billing", EARLIEST)
        assert again.status == 409
        assert "subscription billing already" in again.json["reason"]
        metrics = (await admin.ask("GET", "/metrics")).body.decode()
        assert 'subscription="billing"' in metrics
        assert "\x1f" not in metrics
        cleared = await admin.ask("POST", "/admin/v2/namespaces/shop/eu/clearBacklog/billing")
        assert cleared.status == 204
        stats = (await admin.ask("GET", f"{TOPIC}/stats")).json["subscriptions"]
        assert stats["billing"]["msgBacklog"] == 0
        gone = await admin.ask("POST", "/admin/v2/namespaces/shop/eu/unsubscribe/billing")
        assert gone.status == 204
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == []

    serve(test)


def test_a_topic_that_is_called_as_kafka_clients_call_it_has_the_same_subscriptions(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        dotted = "/admin/v2/persistent/public/default/shop.eu.orders"
        assert (await admin.ask("PUT", f"{dotted}/subscription/billing", EARLIEST)).status == 204
        assert [row.topic for row in admin.broker.subscriptions.of_group(KEPT)] == ["shop/eu/orders"]
        assert (await admin.ask("PUT", f"{TOPIC}/subscription/billing", EARLIEST)).status == 409
        lag = (await admin.ask("GET", f"{dotted}/lag?subscription=billing")).json
        assert [each["msgBacklog"] for each in lag["subscriptions"]] == [2]
        assert (await admin.ask("POST", f"{dotted}/subscription/billing/skip_all")).status == 204
        lag = (await admin.ask("GET", f"{dotted}/lag?subscription=billing")).json
        assert [each["msgBacklog"] for each in lag["subscriptions"]] == [0]
        assert (await admin.ask("DELETE", f"{dotted}/subscription/billing")).status == 204
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == []

    serve(test)


@pytest.mark.parametrize("homed", [True, False])
def test_a_queue_topic_over_a_pattern_is_told_by_names_of_its_namespace(serve: Serve, homed: bool) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        if not homed:
            admin.broker.catalog.namespaces.homes = frozenset()
        body = {"pattern": "persistent://shop/eu/ord.*", "position": "earliest"}
        path = "/admin/v2/magnetar/queues/billing?lanes=2"
        made = await admin.ask("PUT", path, json.dumps(body))
        assert (made.status, json.loads(made.headers[RESULT])) == (
            204,
            {"queue": "shop.eu.billing-QUEUE", "topics": 1},
        )
        group = KEPT if homed else "billing"
        assert [row.topic for row in admin.broker.subscriptions.of_group(group)] == ["shop/eu/orders"]
        queue = f"{TOPIC.removesuffix('orders')}billing-QUEUE"
        its = (await admin.ask("GET", f"{queue}/partitioned-stats")).json["magnetar"]["queue"]
        assert (its["subscription"], its["pattern"], its["baseTopics"]) == (
            "billing",
            "persistent://shop/eu/ord.*",
            ["shop.eu.orders"],
        )
        stats = (await admin.ask("GET", f"{TOPIC}/stats")).json["subscriptions"]
        assert stats["billing"]["magnetar"]["queue"]["topic"] == "shop.eu.billing-QUEUE"
        await Client(World(admin), 0, name="shop/eu/billing-QUEUE").read()  # type: ignore[arg-type]
        explained = (await admin.ask("GET", f"{TOPIC}/subscription/billing/explain?offset=1")).json
        assert "lane 0 of shop.eu.billing-QUEUE" in explained["explanation"]
        for status, *ask in (
            (409, "PUT", path, json.dumps(body)),
            (412, "DELETE", f"{TOPIC}/subscription/billing"),
            (400, "PUT", f"{TOPIC}/subscription/billing?lanes=2", "{}"),
        ):
            refused = await admin.ask(*ask)
            assert refused.status == status, refused.json
            assert "shop.eu.billing-QUEUE" in refused.json["reason"]
            assert SEPARATOR not in refused.json["reason"]
        listed = await admin.ask("GET", "/admin/v2/persistent/shop/eu/partitioned?includeSystemTopic=true")
        assert listed.json == ["persistent://shop/eu/billing-QUEUE"]
        assert (await admin.ask("DELETE", f"{queue}/partitions")).status == 204
        assert (await admin.ask("DELETE", f"{TOPIC}/subscription/billing")).status == 204

    serve(test)


async def series(admin: Admin) -> list[str]:
    """Lines of /metrics without their values: each may be there once, or Prometheus takes none of them."""
    lines = (await admin.ask("GET", "/metrics")).body.decode().splitlines()
    return [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("homed", [True, False])
def test_no_two_groups_are_one_in_metrics(serve: Serve, monkeypatch: pytest.MonkeyPatch, homed: bool) -> None:
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.0)

    async def test(admin: Admin) -> None:
        await at_home(admin)
        assert (await admin.ask("PUT", f"{TOPIC}/subscription/shared", EARLIEST)).status == 204
        for group in ("reader", "shop/eu/reader", "shop/eu//reader", "public/default//reader"):
            await admin.commit(group, "shop/eu/orders", 0, 1)
        for name in ("reader", "shop/eu/reader", "shop/eu//reader", "public/default//reader"):
            await admin.commit(scoped(EU, name), "shop/eu/orders", 0, 1)
        if not homed:
            # the listener is no more, and its groups' offsets stay
            admin.broker.catalog.namespaces.homes = frozenset()
        found = await series(admin)
        assert sorted(found) == sorted(set(found))
        groups = {match for each in found for match in re.findall(r'consumergroup="([^"]*)"', each)}
        assert {"reader", "shop/eu/reader", "shop/eu//reader", "public/default//shop/eu//reader"} < groups
        subscriptions = {
            match
            for each in found
            if each.startswith("pulsar_subscription_back_log{")
            for match in re.findall(r'subscription="([^"]*)"', each)
        }
        if homed:
            # of the home, and by the names that its clients say
            assert subscriptions == {
                "shared",
                "reader",
                "shop/eu/reader",
                "shop/eu//shop/eu//reader",
                "shop/eu//public/default//reader",
            }
        else:
            assert {"reader", "shop/eu/reader", "shop/eu//reader", "shop/eu//shared"} < subscriptions
            assert len(subscriptions) == 9

    serve(test)


LEFT = "shop/eu//billing"
"""What is called so was of a listener that is no more. `QUOTED` is how it stands in a path."""
QUOTED = LEFT.replace("/", "%2F")


async def left_behind(admin: Admin, *, shared: bool) -> None:
    """`billing` of a listener for shop/eu, that is no more, beside two of the general listener."""
    await at_home(admin)
    if shared:
        assert (await admin.ask("PUT", f"{TOPIC}/subscription/billing", EARLIEST)).status == 204
    else:
        await admin.commit(KEPT, "shop/eu/orders", 0, 1)
    admin.broker.catalog.namespaces.homes = frozenset()
    for group in ("billing", "shop/eu/billing"):
        await admin.commit(group, "shop/eu/orders", 0, 0)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("whole_namespace", [True, False])
def test_what_a_listener_has_left_is_shown_by_a_name_that_deletes_it(
    serve: Serve, shared: bool, whole_namespace: bool
) -> None:
    async def test(admin: Admin) -> None:
        await left_behind(admin, shared=shared)
        names = ["billing", "shop/eu/billing", LEFT]
        for path in (
            f"{TOPIC}/subscriptions",
            f"{TOPIC}/stats",
            f"{TOPIC}/lag",
            "/admin/v2/magnetar/lag",
            f"{TOPIC}/internalStats",
        ):
            answer = await admin.ask("GET", path)
            assert answer.status == 200
            assert b"\x1f" not in answer.body
            assert b"u001f" not in answer.body
            assert answer.body.count(f'"{LEFT}"'.encode()) == 1, answer.body
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == sorted(names)
        for path in (f"{TOPIC}/lag", "/admin/v2/magnetar/lag"):
            for name, backlog in (("billing", 2), ("shop/eu/billing", 2), (LEFT, 2 if shared else 1)):
                found = (await admin.ask("GET", f"{path}?subscription={name}")).json
                (topic,) = found.get("topics", [found])
                assert [(each["name"], each["msgBacklog"]) for each in topic["subscriptions"]] == [
                    (name, backlog)
                ]
        made = await admin.ask("PUT", f"{TOPIC}/subscription/{QUOTED}", EARLIEST)
        assert (made.status, LEFT in made.json["reason"]) == (412, True)
        cleared = await admin.ask("POST", f"{TOPIC}/subscription/{QUOTED}/skip_all")
        assert json.loads(cleared.headers[RESULT]) == {"messages": 2 if shared else 1}
        if whole_namespace:
            gone = await admin.ask("POST", f"/admin/v2/namespaces/shop/eu/unsubscribe/{QUOTED}")
        else:
            gone = await admin.ask("DELETE", f"{TOPIC}/subscription/{QUOTED}")
        assert gone.status == 204
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == sorted(names[:2])
        for name in names[:2]:
            quoted = name.replace("/", "%2F")
            assert (await admin.ask("DELETE", f"{TOPIC}/subscription/{quoted}")).status == 204
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == []
        missing = await admin.ask("DELETE", f"{TOPIC}/subscription/{QUOTED}")
        assert (missing.status, LEFT in missing.json["reason"]) == (404, True)

    serve(test)


def test_messages_are_told_as_they_are(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        value = b"x shop/eu/\x1f y"
        await admin.produce("shop/eu/orders", 0, [value])
        await admin.ask("PUT", f"{TOPIC}/subscription/billing", EARLIEST)
        peeked = await admin.ask("GET", f"{TOPIC}/subscription/billing/position/3")
        assert (peeked.status, value in peeked.body) == (200, True)

    serve(test)


def test_groups_of_public_default_that_read_there_are_no_subscriptions_of_the_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        await admin.commit("reader", "shop/eu/orders", 0, 1)
        await admin.commit(scoped(EU, "reader"), "shop/eu/orders", 0, 2)
        assert (await admin.ask("GET", f"{TOPIC}/subscriptions")).json == ["reader"]
        answer = await admin.ask("GET", f"{TOPIC}/stats")
        # once: an object with one name twice would be one with whichever comes last
        assert answer.body.count(b'"reader":') == 1
        assert answer.json["subscriptions"]["reader"]["msgBacklog"] == 0
        lag = (await admin.ask("GET", f"{TOPIC}/lag")).json["subscriptions"]
        assert [(each["name"], each["msgBacklog"]) for each in lag] == [("reader", 0)]
        metrics = (await admin.ask("GET", "/metrics")).body.decode()
        for group in ("reader", "shop/eu//reader"):
            assert f'kafka_consumergroup_members{{consumergroup="{group}"}} 0' in metrics

    serve(test)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (("persistent", "shop", "eu", "orders", "subscription", "billing", "skip_all"), KEPT),
        (("persistent", "public", "default", "orders", "subscription", "billing"), "billing"),
        (("persistent", "public", "default", "shop.eu.orders", "subscription", "billing"), KEPT),
        (("persistent", "public", "default", "shop.us.orders", "subscription", "billing"), "billing"),
        (("persistent", "public", "default", "..", "subscription", "billing"), "billing"),
        (("namespaces", "shop", "eu", "clearBacklog", "billing"), KEPT),
        (("namespaces", "shop", "us", "clearBacklog", "billing"), "billing"),
        (("persistent", "shop", "eu", "billing"), "billing"),
        (("persistent", "shop", "us", "orders", "subscription", LEFT, "skip_all"), LEFT),
        (("persistent", "shop", "us", "orders", "subscription", "shop/us//billing"), scoped(US, "billing")),
        (("persistent", "shop", "eu", "orders", "subscription", LEFT), scoped(EU, LEFT)),
        (
            ("persistent", "public", "default", "orders", "subscription", "public/default//a"),
            "public/default//a",
        ),
    ],
)
def test_names_of_subscriptions_are_translated_and_no_others(
    serve: Serve, path: tuple[str, ...], kept: str
) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        assert set(inward(admin.broker, Call("GET", path)).path) - set(path) <= {kept}
        assert kept in inward(admin.broker, Call("GET", path)).path

    serve(test)


def test_nobody_says_the_id_that_is_kept(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await at_home(admin)
        path = ("persistent", "public", "default", "orders", "subscription", KEPT)
        with pytest.raises(RefusedError):
            inward(admin.broker, Call("PUT", path))

    serve(test)


def test_commands_that_speak_kafka_come_in_where_their_protocol_is_spoken(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        said = [
            "listeners=ALL://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2,EU://127.0.0.1:3",
            "listener.security.protocol.map=ALL:PLAINTEXT,EU:SSL",
            "listener.name.eu.pulsar.namespace=shop/eu",
        ]
        admin.broker.settings = Settings.load(said)
        ports = {"ALL": ("127.0.0.1", 1), "SASL_PLAINTEXT": ("127.0.0.1", 2), "EU": ("127.0.0.1", 3)}
        admin.broker.endpoints |= ports
        await at_home(admin)
        for topic, protocol, told in (
            ("orders", "plaintext", {"bootstrap": "127.0.0.1:1"}),
            ("orders", "SASL_PLAINTEXT", {"bootstrap": "127.0.0.1:2"}),
            ("shop.eu.orders", "SSL", {"bootstrap": "127.0.0.1:3", "topic": "orders"}),
            # its own listener does not speak that
            ("shop.eu.orders", "SASL_PLAINTEXT", {"bootstrap": "127.0.0.1:2"}),
        ):
            answer = await admin.ask("GET", f"/admin/v2/magnetar/kafka?topic={topic}&protocol={protocol}")
            assert answer.json == told
        answer = await admin.ask("GET", "/admin/v2/magnetar/kafka?topic=orders&protocol=SASL_SSL")
        assert answer.status == 404
        assert "speaks SASL_SSL; what is spoken is PLAINTEXT, SASL_PLAINTEXT" in answer.json["reason"]

    serve(test)


def test_commands_that_speak_kafka_come_in_where_all_namespaces_are(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        bound = "listener.name.eu.pulsar.namespace=shop/eu"
        listeners = "listeners=EU://127.0.0.1:1,ALL://127.0.0.1:2"
        admin.broker.settings = Settings.load([listeners, bound])
        admin.broker.endpoints |= {"EU": ("127.0.0.1", 1), "ALL": ("127.0.0.1", 2)}
        answer = await admin.ask("GET", "/admin/v2/magnetar/kafka")
        assert answer.json == {"bootstrap": "127.0.0.1:2"}
        await at_home(admin)
        for topic, told in (
            ("shop.eu.orders", {"bootstrap": "127.0.0.1:1", "topic": "orders"}),
            ("shop.us.orders", {"bootstrap": "127.0.0.1:2"}),
            ("orders", {"bootstrap": "127.0.0.1:2"}),
        ):
            answer = await admin.ask("GET", f"/admin/v2/magnetar/kafka?topic={topic}")
            assert answer.json == told
        del admin.broker.endpoints["ALL"]
        answer = await admin.ask("GET", "/admin/v2/magnetar/kafka")
        assert answer.status == 503

    serve(test)
