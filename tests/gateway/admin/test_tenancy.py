"""Tenants and namespaces over HTTP, on a real broker: made, changed, deleted, and what their topics are called."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.broker.errors import KafkaError
from gateway.config import Settings
from gateway.wire.errors import Error
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin

V2 = "/admin/v2"
EU = f"{V2}/persistent/shop/eu"


async def put(admin: Admin, path: str, body: object = None) -> int:
    answer = await admin.ask("PUT", f"{V2}/{path}", None if body is None else json.dumps(body))
    return answer.status


async def made(admin: Admin) -> None:
    """Tenant shop with the namespaces shop/eu and shop/us."""
    for path in ("tenants/shop", "namespaces/shop/eu", "namespaces/shop/us"):
        assert await put(admin, path) == 204


async def reason(admin: Admin, method: str, path: str, status: int, body: object = None) -> str:
    """Of a call that is refused with this status."""
    answer = await admin.ask(method, f"{V2}/{path}", None if body is None else json.dumps(body))
    assert answer.status == status, answer
    text: str = answer.json["reason"]
    return text


def test_tenants_are_made_changed_and_deleted(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        said = {"adminRoles": ["bob", "ada"], "allowedClusters": ["standalone"]}
        assert await put(admin, "tenants/shop", said) == 204
        assert await put(admin, "tenants/bank") == 204
        assert (await admin.ask("GET", f"{V2}/tenants")).json == ["bank", "public", "shop"]
        assert (await admin.ask("GET", f"{V2}/tenants/shop")).json == {**said, "adminRoles": ["ada", "bob"]}
        everything = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert (await admin.ask("GET", f"{V2}/tenants/bank")).json == everything
        # what is not said stays
        changed = await admin.ask("POST", f"{V2}/tenants/shop", '{"adminRoles": ["eve"]}')
        assert changed.status == 204
        assert (await admin.ask("GET", f"{V2}/tenants/shop")).json == {**said, "adminRoles": ["eve"]}
        assert (await admin.ask("DELETE", f"{V2}/tenants/bank")).status == 204
        assert (await admin.ask("GET", f"{V2}/tenants")).json == ["public", "shop"]

    serve(test)


@pytest.mark.parametrize(
    ("method", "path", "status", "words", "body"),
    [
        ("GET", "tenants/nosuch", 404, "no tenant 'nosuch'", None),
        ("POST", "tenants/nosuch", 404, "no tenant", None),
        ("DELETE", "tenants/nosuch", 404, "no tenant", None),
        ("PUT", "tenants/shop", 409, "there already", None),
        ("PUT", "tenants/a.b", 412, "cannot be a tenant", None),
        ("PUT", "tenants/", 412, "A tenant's name cannot be empty.", None),
        ("PUT", f"tenants/{'t' * 246}", 412, "it has 246 characters, and with more than 245 no topic", None),
        (
            "PUT",
            f"namespaces/shop/{'n' * 243}",
            412,
            "it has 247 characters, and with more than 246 no topic",
            None,
        ),
        ("PUT", "tenants/x", 412, "no cluster 'moon'", {"allowedClusters": ["moon"]}),
        ("PUT", "tenants/x", 400, "list of names", {"adminRoles": "ada"}),
        ("PUT", "tenants/x", 412, "holds no control character", {"adminRoles": ["a\nb"]}),
        ("PUT", "tenants/x", 412, "at most 1019 characters", {"adminRoles": ["a" * 1020]}),
        ("PUT", "tenants/x", 400, "JSON object", [1]),
        ("DELETE", "tenants/public", 412, "stays", None),
        ("DELETE", "tenants/shop", 409, "namespaces, such as shop/eu", None),
        ("GET", "namespaces/nosuch", 404, "no tenant", None),
        ("GET", "namespaces/shop/nosuch", 404, "no namespace shop/nosuch", None),
        ("GET", "persistent/shop/nosuch", 404, "no namespace", None),
        ("PUT", "persistent/shop/nosuch/orders", 404, "no namespace", {}),
        ("PUT", "namespaces/nosuch/eu", 404, "no tenant 'nosuch'", None),
        ("PUT", "namespaces/shop/eu", 409, "there already", None),
        ("PUT", "namespaces/shop/e.u", 412, "cannot be a namespace", None),
        ("PUT", "namespaces/shop/x", 412, "no cluster", {"replication_clusters": ["moon"]}),
        ("DELETE", "namespaces/shop/nosuch", 404, "no namespace", None),
        ("DELETE", "namespaces/public/default", 412, "home of Kafka clients", None),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(
    serve: Serve, method: str, path: str, status: int, words: str, body: object
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert words in await reason(admin, method, path, status, body)
        assert (await admin.ask("GET", f"{V2}/tenants")).json == ["public", "shop"]
        assert (await admin.ask("GET", f"{V2}/namespaces/shop")).json == ["shop/eu", "shop/us"]
        assert (await admin.ask("GET", f"{V2}/namespaces/public")).json == ["public/default"]

    serve(test)


def test_topics_of_a_namespace_are_its_own_and_kafka_calls_them_with_dots(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.plain("orders")
        assert (await admin.ask("PUT", f"{EU}/orders", "{}")).status == 204
        assert (await admin.ask("PUT", f"{EU}/parts/partitions", "2")).status == 204
        # a Kafka client makes one, too
        await admin.broker.create_topic("shop/us/orders", 1, {})
        assert admin.broker.catalog.names() == ["orders", "shop/eu/orders", "shop/eu/parts", "shop/us/orders"]
        full = "persistent://shop/eu/"
        listed = (await admin.ask("GET", f"{V2}/namespaces/shop/eu/topics")).json
        assert listed == [f"{full}orders", f"{full}parts-partition-0", f"{full}parts-partition-1"]
        assert (await admin.ask("GET", f"{EU}/partitioned")).json == [f"{full}parts"]
        assert (await admin.ask("GET", "P")).json == ["persistent://public/default/orders"]
        assert (await admin.ask("GET", f"{V2}/persistent/shop/us")).json == [
            "persistent://shop/us/orders-partition-0"
        ]
        await admin.produce("shop/eu/orders", 0, [b"a", b"b"])
        assert (await admin.ask("GET", f"{EU}/orders/stats")).json["msgInCounter"] == 2
        assert (await admin.ask("GET", "P/orders/stats")).json["msgInCounter"] == 0
        for namespace, names in (
            ("shop/eu", [f"{full}orders", f"{full}parts"]),
            ("public/default", ["persistent://public/default/orders"]),
        ):
            lag = (await admin.ask("GET", f"{V2}/magnetar/lag?namespace={namespace}")).json
            assert ([topic["topic"] for topic in lag["topics"]], lag["next"]) == (names, None)
        pages = [
            (await admin.ask("GET", f"{V2}/magnetar/lag?namespace=shop/eu&limit=1{more}")).json
            for more in ("", "&after=shop/eu/orders", "&after=shop/eu/parts")
        ]
        assert [page["next"] for page in pages] == ["shop/eu/orders", "shop/eu/parts", None]
        assert [len(page["topics"]) for page in pages] == [1, 1, 0]
        assert (await admin.ask("GET", f"{V2}/magnetar/lag?namespace=shop/nosuch")).status == 404
        labels = 'cluster="standalone",namespace="shop/eu",topic="persistent://shop/eu/orders"'
        scrape = (await admin.ask("GET", "/metrics")).body.decode()
        assert f"pulsar_storage_size{{{labels}}}" in scrape
        for namespace, count in (("public/default", 1), ("shop/eu", 3), ("shop/us", 1)):
            assert f'pulsar_topics_count{{cluster="standalone",namespace="{namespace}"}} {count}' in scrape

    serve(test)


def test_a_namespace_comes_beside_topics_that_are_called_like_its_own(serve: Serve) -> None:
    """What a name of public/default means is not changed by a neighbour, who learns nothing of it."""

    async def test(admin: Admin) -> None:
        assert await put(admin, "tenants/com") == 204
        await admin.plain("com.acme.orders")
        assert await put(admin, "namespaces/com/acme") == 204
        assert (await admin.ask("GET", "P")).json == ["persistent://public/default/com.acme.orders"]
        assert (await admin.ask("GET", f"{V2}/persistent/com/acme")).json == []
        assert (await admin.ask("GET", "P/com.acme.orders/stats")).status == 200
        # where public/default has none, such a name is one of its topics, written as Kafka clients do
        assert (await admin.ask("PUT", "P/com.acme.parts", "{}")).status == 204
        assert (await admin.ask("GET", "P/com.acme.parts/stats")).status == 200
        assert (await admin.ask("GET", "P")).json == ["persistent://public/default/com.acme.orders"]
        assert (await admin.ask("GET", f"{V2}/persistent/com/acme")).json == ["persistent://com/acme/parts"]
        # both have one
        assert (await admin.ask("PUT", f"{V2}/persistent/com/acme/orders", "{}")).status == 204
        for name in ("com.acme.orders", "com/acme/orders", "com/acme/parts"):
            await admin.produce(name, 0, [b"a"])
        scrape = (await admin.ask("GET", "/metrics")).body.decode()
        lines = [line for line in scrape.splitlines() if line.startswith("kafka_topic_partitions{")]
        assert len(set(lines)) == len(lines) == 3
        told = (await admin.ask("GET", f"{V2}/persistent/com/acme/orders/stats")).json
        assert told["magnetar"]["kafkaTopic"] == "com.acme.orders"

    serve(test)


@pytest.mark.parametrize("setting", ["authorization=true", "admin.authentication=true"])
def test_where_rights_are_asked_for_a_path_says_of_which_namespace_a_topic_is(
    serve: Serve, setting: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{EU}/orders", "{}")).status == 204
        settings = admin.broker.settings
        admin.broker.settings = Settings.load(["store.driver=memory", setting], None, {})
        assert (await admin.ask("GET", "P/shop.eu.orders/stats")).status == 404
        admin.broker.settings = settings
        assert (await admin.ask("GET", "P/shop.eu.orders/stats")).status == 200

    serve(test)


def test_a_topic_may_be_called_like_one_of_another_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{EU}/shop.us.x", "{}")).status == 204
        assert (await admin.ask("GET", f"{V2}/persistent/shop/eu")).json == ["persistent://shop/eu/shop.us.x"]
        assert (await admin.ask("GET", f"{V2}/persistent/shop/us")).json == []

    serve(test)


def test_a_namespace_with_topics_goes_by_force_and_takes_them_along(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        for name in ("orders", "parts"):
            assert (await admin.ask("PUT", f"{EU}/{name}", "{}")).status == 204
        assert "has topics" in await reason(admin, "DELETE", "namespaces/shop/eu", 409)
        assert (await admin.ask("PUT", f"{EU}/more", "{}")).status == 204
        assert (await admin.ask("DELETE", f"{V2}/namespaces/shop/eu?force=true")).status == 204
        assert admin.broker.catalog.names() == []
        assert (await admin.ask("GET", f"{V2}/namespaces/shop")).json == ["shop/us"]
        # a topic of that name is one of the home's now
        assert (await admin.ask("PUT", "P/shop.eu.orders", "{}")).status == 204
        assert (await admin.ask("GET", "P")).json == ["persistent://public/default/shop.eu.orders"]
        assert "There is no namespace" in await reason(admin, "PUT", "persistent/shop/eu/orders", 404, {})
        assert (await admin.ask("DELETE", f"{V2}/tenants/shop?force=true")).status == 204
        assert (await admin.ask("GET", f"{V2}/tenants")).json == ["public"]

    serve(test)


def test_a_namespace_whose_deletion_was_cut_off_takes_no_topics_and_can_be_deleted_again(
    serve: Serve,
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{EU}/orders", "{}")).status == 204
        real = admin.broker.topics.delete

        async def dies(name: str) -> None:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, "no space")

        admin.broker.topics.delete = dies  # type: ignore[assignment, method-assign]
        assert "no space" in await reason(admin, "DELETE", "namespaces/shop/eu?force=true", 503)
        admin.broker.topics.delete = real  # type: ignore[method-assign]
        assert "being deleted" in await reason(admin, "PUT", "persistent/shop/eu/more", 412, {})
        assert (await admin.ask("GET", f"{V2}/namespaces/shop/eu")).json["deleted"] is True
        assert (await admin.ask("DELETE", f"{V2}/namespaces/shop/eu?force=true")).status == 204
        assert (await admin.ask("GET", f"{V2}/namespaces/shop")).json == ["shop/us"]

    serve(test)


def test_what_is_kept_with_a_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        place = "namespaces/shop/eu"
        assert await put(admin, f"{place}/properties", {"team": "a", "cost": "7"}) == 204
        assert await put(admin, f"{place}/property/team/b%2Fc") == 204
        assert (await admin.ask("GET", f"{V2}/{place}/properties")).json == {"team": "b/c", "cost": "7"}
        assert (await admin.ask("GET", f"{V2}/{place}/property/team")).json == "b/c"
        assert (await admin.ask("GET", f"{V2}/{place}/property/nosuch")).json is None
        assert (await admin.ask("DELETE", f"{V2}/{place}/property/team")).json == "b/c"
        assert (await admin.ask("GET", f"{V2}/{place}/properties")).json == {"cost": "7"}
        assert (await admin.ask("DELETE", f"{V2}/{place}/properties")).status == 204
        assert (await admin.ask("GET", f"{V2}/{place}/properties")).json == {}
        assert "texts" in await reason(admin, "PUT", f"{place}/properties", 400, {"a": 1})
        assert (await admin.ask("POST", f"{V2}/{place}/replication", '["standalone"]')).status == 204
        assert (await admin.ask("GET", f"{V2}/{place}/replication")).json == ["standalone"]
        assert "no cluster" in await reason(
            admin, "POST", f"{place}/replication", 412, ["standalone", "moon"]
        )
        # of others nothing changed
        assert (await admin.ask("GET", f"{V2}/namespaces/shop/us/properties")).json == {}

    serve(test)


def test_letters_and_subscriptions_lie_in_the_namespace_of_their_topic(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        assert (await admin.ask("PUT", f"{EU}/orders", "{}")).status == 204
        await admin.produce("shop/eu/orders", 0, [b"a", b"b"])
        earliest = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
        path = f"{EU}/orders/subscription/billing"
        made_it = await admin.ask("PUT", f"{path}?type=shared&enableRetry=true", earliest)
        assert made_it.status == 204
        subscription = admin.broker.subscriptions.get("billing", "shop/eu/orders")
        assert subscription is not None
        at = subscription.partition(0)
        at.attach("c")
        await admin.broker.write([])
        at.fetch("c", 10, 1 << 20, 10)
        assert at.acknowledge("c", [(0, 0, b"\3")]) == 0
        async with asyncio.timeout(30):
            while admin.broker.catalog.get("shop/eu/orders-billing-DLQ") is None:
                await admin.broker.write([])
        listed = (await admin.ask("GET", f"{V2}/persistent/shop/eu")).json
        names = {name.removeprefix("persistent://shop/eu/").split("-partition-")[0] for name in listed}
        assert names == {"orders", "orders-billing-DLQ", "orders-billing-RETRY"}
        found = (await admin.ask("GET", f"{path}/explain?offset=0")).json
        assert found["deadLetter"]["topic"] == "shop.eu.orders-billing-DLQ"
        example = f"{EU}/orders-billing-DLQ/examinemessage?initialPosition=earliest&messagePosition=1"
        letter = await admin.ask("GET", example)
        assert letter.status == 200, letter
        kept = json.loads(letter.headers["X-Pulsar-PROPERTY"])
        assert kept["REAL_TOPIC"] == "persistent://shop/eu/orders"

    serve(test)


def test_names_that_differ_in_dots_and_underscores_collide_within_a_namespace_only(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        for path in ("tenants/a", "namespaces/a/b", "namespaces/a/b_c"):
            assert await put(admin, path) == 204
        for name in ("a/b/c_d", "a/b_c/d", "public/default/a_b_c_d"):
            assert await put(admin, f"persistent/{name}", {}) == 204
        assert "collides" in await reason(admin, "PUT", "persistent/a/b/c.d", 412, {})
        assert (await admin.ask("DELETE", f"{V2}/persistent/a/b/c_d")).status == 204
        assert await put(admin, "persistent/a/b/c.d", {}) == 204

    serve(test)


@pytest.mark.parametrize("suffix", ["DLQ", "QUEUE"])
def test_what_belongs_to_a_subscription_does_not_stray_into_another_namespace(
    serve: Serve, suffix: str
) -> None:
    """orders and the subscription x/y/z give orders-x/y/z-DLQ: a topic of the namespace orders-x/y."""

    async def test(admin: Admin) -> None:
        for path in ("tenants/orders-x", "namespaces/orders-x/y"):
            assert await put(admin, path) == 204
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a"])
        if suffix == "QUEUE":
            said = await reason(
                admin, "PUT", "persistent/public/default/orders/subscription/x%2Fy%2Fz?lanes=1", 400
            )
            assert "would be a topic of orders-x/y" in said
            return
        earliest = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}
        assert (
            await put(admin, "persistent/public/default/orders/subscription/x%2Fy%2Fz?type=shared", earliest)
            == 204
        )
        subscription = admin.broker.subscriptions.get("x/y/z", "orders")
        assert subscription is not None
        at = subscription.partition(0)
        at.attach("c")
        await admin.broker.write([])
        at.fetch("c", 10, 1 << 20, 10)
        assert at.acknowledge("c", [(0, 0, b"\3")]) == 0
        async with asyncio.timeout(30):
            while "would be a topic of orders-x/y" not in (at.ready().look(0).reason or ""):
                await admin.broker.write([])
        assert (await admin.ask("GET", f"{V2}/persistent/orders-x/y")).json == []

    serve(test)


class Held:
    """A store whose commits wait until they are let go."""

    def __init__(self, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[tuple[Any, Any, Any]] = []
        self._commit = admin.broker.durable.commit
        self._monkeypatch, self._store = monkeypatch, admin.broker.durable
        monkeypatch.setattr(self._store, "commit", lambda *each: self.waiting.append(each))

    async def some(self) -> None:
        async with asyncio.timeout(30):
            while not self.waiting:
                await asyncio.sleep(0)

    def let_go(self) -> None:
        self._monkeypatch.setattr(self._store, "commit", self._commit)
        for each in self.waiting:
            self._commit(*each)


def test_a_topic_that_was_begun_before_goes_with_its_namespace(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        held = Held(admin, monkeypatch)
        making = asyncio.ensure_future(admin.broker.create_topic("shop/eu/late", 1, {}))
        await held.some()
        deleting = asyncio.ensure_future(admin.ask("DELETE", f"{V2}/namespaces/shop/eu?force=true"))
        async with asyncio.timeout(30):
            while len(held.waiting) < 2:
                await asyncio.sleep(0)
        held.let_go()
        await making
        assert (await deleting).status == 204
        assert admin.broker.catalog.names() == []

    serve(test)


def test_the_home_is_listed_once_though_something_is_kept_with_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        assert await put(admin, "namespaces/public/default/property/team/a") == 204
        assert await put(admin, "namespaces/public/other") == 204
        listed = (await admin.ask("GET", f"{V2}/namespaces/public")).json
        assert listed == ["public/default", "public/other"]
        assert (await admin.ask("GET", f"{V2}/namespaces/public/default/properties")).json == {"team": "a"}

    serve(test)
