"""Every verb, called by everybody: who gets an answer, and that nothing changes where one is refused."""

from __future__ import annotations

import json

import pytest

from gateway.admin import roles
from gateway.admin.asker import asker_of
from gateway.admin.exchange import LOOKUP, ROOT, Call, RefusedError
from gateway.admin.routes import VERBS, Key, key_of
from gateway.broker.broker import Broker
from gateway.peer import NOBODY, Identity
from semantics.access.acl import Operation, ResourceType
from semantics.group_names import scoped
from semantics.names import Namespace
from store.api import Family
from tests.gateway.admin.secured import Granted, Secured, furnish, serve_secured

EU = Namespace("shop", "eu")
ANYBODY = {
    ("GET", "clusters", ""), ("GET", "brokers", "version"), ("GET", "brokers", "ready"), ("GET", "tenants", ""),
    ("GET", "magnetar", "kafka"), ("GET", "magnetar", "lag"), ("GET", "magnetar", "hash"),
    ("GET", "magnetar", "subscriptions"), ("GET", "magnetar", "attention"),
    ("GET", "magnetar", "jobs"), ("GET", "magnetar", "jobs/*"), ("POST", "magnetar", "jobs/*/stop"),
    ("GET", "magnetar", "transactions"),
}  # fmt: skip
"""What each that has logged in is told."""

SUPER_USERS = {
    *(key for key in VERBS if key[1] in ("clusters", "brokers", "broker-stats") and key not in ANYBODY),
    *(key for key in VERBS if key[1] == "tenants" and key[0] != "GET"),
    ("GET", "magnetar", "audit"), ("GET", "magnetar", "series"),
    *(key for key in VERBS if key[2].startswith(("users", "resourcegroups")) or key[1] == "resourcegroups"),
    ("POST", "namespace", "resourcegroup/*"), ("DELETE", "namespace", "resourcegroup"),
}  # fmt: skip
"""Pulsar's brokers ask for a super-user as well (validateSuperUserAccess)."""

USERS = {
    ("GET", "domain", ""), ("GET", "domain", "partitioned"), ("GET", "namespace", "topics"),
    ("GET", "namespace", "bundles"),
    ("GET", "topic", "partitions"), ("GET", "topic", "properties"), ("GET", "topic", "stats"),
    ("GET", "topic", "partitioned-stats"), ("GET", "topic", "internalStats"),
    ("GET", "topic", "partitioned-internalStats"),
    ("GET", "topic", "internal-info"), ("GET", "topic", "lag"), ("GET", "topic", "hash"), ("GET", "lookup", ""),
}  # fmt: skip
"""Who may produce or consume (TopicOperation LOOKUP, GET_STATS, GET_METADATA; NamespaceOperation GET_TOPICS)."""

CONSUMERS = {
    *(key for key in VERBS if key[1] == "subscription"),
    ("GET", "entry", ""), ("GET", "topic", "lastMessageId"), ("GET", "topic", "messageid/*"),
    ("PUT", "topic", "backlogSize"),
    ("POST", "topic", "all_subscription/expireMessages/*"), ("GET", "topic", "subscriptions"),
    ("GET", "topic", "examinemessage"), ("GET", "topic", "magnetar/records"),
    ("GET", "topic", "magnetar/trace"), ("POST", "namespace", "clearBacklog"),
    ("POST", "namespace", "clearBacklog/*"),
    ("POST", "namespace", "unsubscribe/*"),
}  # fmt: skip
"""Who may consume (TopicOperation PEEK_MESSAGES, SKIP, RESET_CURSOR, …; NamespaceOperation CLEAR_BACKLOG)."""

NOBODYS = {("PUT", "magnetar", "queues/*")}
"""Any tenant's admin gets as far as the verb, which asks whose it is: see the test below."""

STARS = {"clusters": "standalone", "brokers": "standalone", "tenants": "shop"}


def path_of(key: Key, place: str = "shop/eu") -> str:
    """A call that is this row."""
    _, kind, tail = key
    topic = f"persistent/{place}/orders"
    start = {
        "topic": topic,
        "subscription": f"{topic}/subscription/billing",
        "entry": f"{topic}/ledger/0/entry/0",
        "domain": f"persistent/{place}",
        "namespace": f"namespaces/{place}",
        "tenant": f"namespaces/{place.split('/')[0]}",
        "anti-affinity": "namespaces/standalone/antiAffinity/group",
        "lookup": topic,
    }.get(kind, kind)
    star = place.split("/")[0] if kind == "tenants" else STARS.get(kind, "1")
    # rows of ACLs are of a namespace
    rest = tail.replace("*/*", place) if tail.startswith("acls/") else tail.replace("*", star)
    query = f"?property={place.split('/')[0]}" if kind == "anti-affinity" else ""
    return f"{LOOKUP if kind == 'lookup' else ROOT}/{start}" + (f"/{rest}" if rest else "") + query


def may(key: Key, who: str) -> bool:
    """What Pulsar would say."""
    if key in ANYBODY or who == "root":
        return True
    if key in SUPER_USERS:
        return False
    if key in NOBODYS:
        return who in ("ada", "eve")
    if who == "ada" or (key in USERS and who in ("pat", "cora")):
        return True
    return key in CONSUMERS and who == "cora"


def rows_of(broker: Broker) -> dict[tuple[Family, bytes], bytes]:
    """All that is kept."""
    return {(family, key): value for family in Family for key, value in broker.durable.scan(family, b"")}


CALLERS = ("root", "ada", "eve", "pat", "cora", None)


def test_every_verb_has_a_row_and_every_row_a_verb() -> None:
    assert set(roles.NEEDS) == set(VERBS)


@pytest.mark.parametrize("who", CALLERS)
def test_who_may_call_which_verb(who: str | None) -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        broker = at.admin.broker
        for key in VERBS:
            path = path_of(key)
            allowed = who is not None and may(key, who)
            if allowed and key[0] != "GET":
                # a write would change what comes next
                call = call_of(key[0], path)
                asker = asker_of(broker, Identity(f"User:{who}", "Basic"), "127.0.0.1")
                await roles.check(broker, key_of(call), call._replace(asker=asker))
                continue
            # an answer before may have made a cursor, which is written when it is first looked at
            await broker.write([])
            before = rows_of(broker)
            answer = await at.ask(who, key[0], path, "{}" if key[0] in ("PUT", "POST") else None)
            if allowed:
                assert answer.status not in (401, 403, 500), (key, answer)
            else:
                assert answer.status == (401 if who is None else 403), (key, answer)
                assert rows_of(broker) == before, key

    serve_secured(test)


@pytest.mark.parametrize("who", ["eve", "pat", "cora"])
def test_a_refusal_does_not_tell_what_is_there(who: str) -> None:
    """In a tenant of others, in a namespace that is not there, in a tenant that is not: one answer."""

    async def test(at: Secured) -> None:
        await furnish(at)
        place = "shop/eu" if who == "eve" else "other/eu"
        for key in VERBS:
            if key in ANYBODY or key in SUPER_USERS or key in NOBODYS:
                continue
            body = "{}" if key[0] in ("PUT", "POST") else None
            told = [
                await at.ask(who, key[0], path_of(key, each), body)
                for each in (place, place.replace("eu", "nope"), "nope/nope")
            ]
            assert {answer.status for answer in told} == {403}, key
            assert len({answer.body for answer in told}) == 1, (key, told)

    serve_secured(test)


def call_of(method: str, path: str) -> Call:
    root = LOOKUP if path.startswith(LOOKUP) else ROOT
    bare, _, query = path.removeprefix(root + "/").partition("?")
    asked = dict([query.split("=")]) if query else {}
    return Call(method, tuple(bare.split("/")), asked, root=root)


def test_a_path_in_public_default_names_no_topic_of_another_namespace() -> None:
    """Kafka's name for it, `shop.eu.orders`, is a name as any other there: it tells nothing of shop/eu."""

    async def test(at: Secured) -> None:
        await furnish(at)
        made = await at.ask("root", "POST", "/admin/v2/tenants/public", '{"adminRoles": ["mona"]}')
        assert made.status == 204
        for method in ("DELETE", "GET"):
            for topic in ("shop.eu.orders", "shop.eu.nobodys"):
                path = f"P/{topic}/partitions"
                assert (await at.ask("mona", method, path + "?force=true")).status == 404
                assert (await at.ask("ada", method, path + "?force=true")).status == 403
        assert at.admin.broker.catalog.get("shop/eu/orders") is not None
        # nor does one come to be there in its place, save by who may do everything
        for name, topic, status in (
            ("mona", "shop.eu.orders", 412),
            ("mona", "shop.no.orders", 204),
            ("root", "shop.eu.orders", 204),
        ):
            assert (await at.ask(name, "PUT", f"P/{topic}")).status == status, topic
        over = json.dumps({"pattern": "persistent://public/default/ord.*"})
        for queue, status in (("shop.eu.g", 412), ("shop.no.g", 204)):
            path = f"/admin/v2/magnetar/queues/{queue}?lanes=1"
            assert (await at.ask("mona", "PUT", path, over)).status == status, queue

    serve_secured(test)


def test_where_kafkas_clients_come_in_is_told_of_topics_that_the_caller_may_see() -> None:
    """By the name that Kafka's clients have for a topic of another namespace, whether it is there or not."""

    async def test(at: Secured) -> None:
        await furnish(at)
        at.admin.broker.endpoints["PLAINTEXT"] = ("127.0.0.1", 9092)
        path = "/admin/v2/magnetar/kafka?topic=shop.eu."
        for topic in ("orders", "nobodys"):
            assert (await at.ask("eve", "GET", path + topic)).status == 403
            assert (await at.ask("ada", "GET", path + topic)).status == 200
        assert (await at.ask("cora", "GET", path + "orders")).status == 200

    serve_secured(test)


def test_letters_stay_in_the_namespace_that_an_admin_sets_them_for() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/orders/subscription/mine"
        queues = "/admin/v2/magnetar/queues/work?lanes=2"
        for letters, status in (
            ("bills", 412),
            ("other.eu.bills", 412),
            ("other/eu/bills", 412),
            ("shop.eu.bills", 204),
        ):
            properties = {"pulsar.dead.letter.topic": letters}
            assert (await at.ask("ada", "PUT", path, json.dumps({"properties": properties}))).status == status
            over = {"pattern": "persistent://shop/eu/ord.*", "properties": properties}
            assert (await at.ask("ada", "PUT", queues, json.dumps(over))).status == status
        row = at.admin.broker.subscriptions.row(scoped(EU, "mine"), "shop/eu/orders")
        assert row is not None
        assert row.properties["pulsar.dead.letter.topic"] == "shop/eu/bills"
        assert (
            await at.ask("ada", "PUT", path + "/properties", '{"pulsar.dead.letter.topic": "bills"}')
        ).status == 412
        # who may do everything may have them anywhere
        assert (
            await at.ask("root", "PUT", path + "/properties", '{"pulsar.dead.letter.topic": "bills"}')
        ).status == 204

    serve_secured(test)


def test_a_partition_is_asked_for_as_its_topic() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        at.rows.rows[:] = [
            Granted("User:cora", ResourceType.TOPIC, Operation.READ, "orders"),
            Granted("User:cora", ResourceType.GROUP, Operation.READ, "billing"),
        ]
        topic = "/admin/v2/persistent/shop/eu/orders"
        assert (await at.ask("cora", "GET", f"{topic}-partition-1/stats")).status == 200
        assert (await at.ask("cora", "GET", f"{topic}-partition-2/stats")).status == 403
        skipped = f"{topic}-partition-1/subscription/%s/skip_all"
        assert (await at.ask("cora", "POST", skipped % "billing")).status == 204
        assert (await at.ask("cora", "POST", skipped % "ledger")).status == 403

    serve_secured(test)


def test_lists_show_what_may_be_seen() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        for name, body in (("bills", "{}"), ("secret", "{}"), ("secret-parts/partitions", "1")):
            assert (await at.ask("ada", "PUT", f"/admin/v2/persistent/shop/eu/{name}", body)).status == 204
        at.rows.rows[:] = [
            Granted("User:cora", ResourceType.TOPIC, Operation.READ, each) for each in ("orders", "bills")
        ]
        bills = "persistent://shop/eu/bills"
        seen = [bills, *(f"persistent://shop/eu/orders-partition-{each}" for each in range(2))]
        for path in ("persistent/shop/eu", "namespaces/shop/eu/topics"):
            assert (await at.ask("cora", "GET", f"/admin/v2/{path}")).json == seen
            assert len((await at.ask("ada", "GET", f"/admin/v2/{path}")).json) == 5
        assert (await at.ask("cora", "GET", "/admin/v2/persistent/shop/eu/partitioned")).json == [
            "persistent://shop/eu/orders"
        ]
        page = "/admin/v2/magnetar/lag?limit=1"
        first = (await at.ask("cora", "GET", page)).json
        assert [each["topic"] for each in first["topics"]] == [bills]
        second = (await at.ask("cora", "GET", f"{page}&after={first['next']}")).json
        assert [each["topic"] for each in second["topics"]] == ["persistent://shop/eu/orders"]
        third = (await at.ask("cora", "GET", f"{page}&after={second['next']}")).json
        assert third == {"topics": [], "next": None}
        for who, count in (("cora", 1), ("ada", 1), ("eve", 0), ("root", 1)):
            for query in ("", "?topic=shop/eu/orders"):
                listed = await at.ask(who, "GET", f"/admin/v2/magnetar/subscriptions{query}")
                assert len(listed.json["subscriptions"]) == count, who
            assert (await at.ask(who, "GET", "/admin/v2/magnetar/attention")).json["findings"] == []
        hidden = await at.ask("eve", "GET", "/admin/v2/magnetar/subscriptions?namespace=shop/eu")
        assert hidden.status == 403
        assert (await at.ask("ada", "GET", "/admin/v2/tenants")).json == ["shop"]
        assert (await at.ask("cora", "GET", "/admin/v2/tenants")).json == []
        assert (await at.ask("root", "GET", "/admin/v2/tenants")).json == ["other", "public", "shop"]

    serve_secured(test)


def test_a_subscription_is_of_the_namespace_of_its_topic() -> None:
    """So is its group, though shop/eu has no listener of its own."""

    async def test(at: Secured) -> None:
        await furnish(at)
        skip = "/admin/v2/persistent/shop/eu/orders/subscription/billing/skip_all"
        topic = Granted("User:cora", ResourceType.TOPIC, Operation.READ)
        group = Granted("User:cora", ResourceType.GROUP, Operation.READ, "billing")
        at.rows.rows[:] = [topic, group._replace(namespace=Namespace("public", "default"))]
        assert (await at.ask("cora", "POST", skip)).status == 403
        at.rows.rows[:] = [topic, group]
        assert (await at.ask("cora", "POST", skip)).status == 204
        kept = at.admin.broker.subscriptions
        assert [row.topic for row in kept.of_group(scoped(EU, "billing"))] == ["shop/eu/orders"]
        assert kept.of_group("billing") == []

    serve_secured(test)


def test_an_admin_of_a_tenant_changes_no_group_of_others() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        broker = at.admin.broker
        jobs, its = "/admin/v2/persistent/public/default/jobs", "/admin/v2/persistent/shop/eu/orders"
        assert (await at.ask("root", "PUT", jobs, "{}")).status == 204
        assert (await at.ask("root", "PUT", f"{jobs}/subscription/payroll", "{}")).status == 204
        made = await at.ask("ada", "PUT", f"{its}/subscription/payroll?type=exclusive", "{}")
        assert made.status == 204, made
        assert broker.group_configs.own("payroll") == {}
        exclusive = {"pulsar.subscription.type": "exclusive"}
        assert broker.group_configs.own(scoped(EU, "payroll")) == exclusive
        for who, tenant in (("ada", "shop"), ("eve", "other")):
            over = json.dumps({"pattern": f"persistent://{tenant}/eu/.*"})
            assert (await at.ask(who, "PUT", "/admin/v2/magnetar/queues/work?lanes=2", over)).status == 204
        groups = [topic.queue.subscription for topic in broker.catalog.over_patterns() if topic.queue]
        assert sorted(groups) == [scoped(Namespace(tenant, "eu"), "work") for tenant in ("other", "shop")]

    serve_secured(test)


def test_an_exclusive_subscription_that_is_refused_leaves_its_group_as_it_was() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/orders/subscription/billing?type=exclusive"
        other = "/admin/v2/persistent/shop/eu/more"
        assert (await at.ask("ada", "PUT", f"{other}/partitions", "1")).status == 204
        # a share group has that name
        refused = await at.ask("ada", "PUT", f"{other}/subscription/billing?type=exclusive", "{}")
        assert refused.status == 409, refused
        assert (await at.ask("ada", "PUT", path, "{}")).status == 409
        assert at.admin.broker.group_configs.own(scoped(EU, "billing")) == {}

    serve_secured(test)


def test_who_may_not_consume_from_all_topics_clears_no_namespace() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        at.rows.rows[:] = [
            Granted("User:cora", ResourceType.TOPIC, Operation.READ),
            Granted("User:cora", ResourceType.GROUP, Operation.READ, "billing"),
        ]
        clear = "/admin/v2/namespaces/shop/eu/clearBacklog"
        expire = "/admin/v2/persistent/shop/eu/orders/all_subscription/expireMessages/1"
        assert (await at.ask("cora", "POST", clear)).status == 204
        assert (await at.ask("cora", "POST", expire)).status == 204
        other = "/admin/v2/persistent/shop/eu/orders/subscription/ledger"
        assert (await at.ask("ada", "PUT", other, "{}")).status == 204
        assert (await at.ask("cora", "POST", clear)).status == 403
        assert (await at.ask("cora", "POST", expire)).status == 403
        assert (await at.ask("cora", "POST", f"{clear}/billing")).status == 204
        at.rows.rows[0] = at.rows.rows[0]._replace(name="bills")
        assert (await at.ask("cora", "POST", f"{clear}/billing")).status == 403

    serve_secured(test)


def test_a_consumer_makes_subscriptions_and_nothing_beside_them() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/orders/subscription/mine"
        for query in ("lanes=2", "type=exclusive", "enableRetry=true"):
            assert (await at.ask("cora", "PUT", f"{path}?{query}", "{}")).status == 403
        config = json.dumps({"properties": {"pulsar.dead.letter.topic": "bills"}})
        assert (await at.ask("cora", "PUT", path, config)).status == 403
        assert (await at.ask("cora", "PUT", path, '{"properties": {"team": "a"}}')).status == 204
        properties = path + "/properties"
        assert (
            await at.ask("cora", "PUT", properties, '{"pulsar.dead.letter.topic": "bills"}')
        ).status == 403
        assert (
            await at.ask("ada", "PUT", properties, '{"pulsar.dead.letter.topic": "shop.eu.bills"}')
        ).status == 204

    serve_secured(test)


def test_a_queue_over_a_pattern_takes_an_admin_of_where_its_topics_are() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/magnetar/queues/work?lanes=2"
        body = json.dumps({"pattern": "persistent://shop/eu/ord.*"})
        before = at.admin.broker.catalog.names()
        assert (await at.ask("eve", "PUT", path, body)).status == 403
        assert at.admin.broker.catalog.names() == before
        assert (await at.ask("ada", "PUT", path, body)).status == 204

    serve_secured(test)


def test_a_verb_without_a_row_takes_a_super_user() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        broker = at.admin.broker
        key = ("GET", "magnetar", "not there")
        call = Call("GET", ("magnetar", "not there"))
        ada = asker_of(broker, Identity("User:ada", "Basic"), "127.0.0.1")
        with pytest.raises(RefusedError) as refused:
            await roles.check(broker, key, call._replace(asker=ada))
        assert refused.value.status == 403
        root = asker_of(broker, Identity("User:root", "Basic"), "127.0.0.1")
        await roles.check(broker, key, call._replace(asker=root))

    serve_secured(test)


def test_where_only_logins_are_asked_for_each_that_is_known_may_do_all() -> None:
    async def test(at: Secured) -> None:
        assert (await at.ask(None, "PUT", "/admin/v2/tenants/shop", "{}")).status == 401
        assert (await at.ask("pat", "PUT", "/admin/v2/tenants/shop", "{}")).status == 204

    serve_secured(test, "authorization=false", "admin.authentication=true")


def test_who_need_not_log_in_is_anonymous_and_has_its_rights() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        path = "/admin/v2/persistent/shop/eu/orders"
        refused = await at.ask(None, "GET", f"{path}/partitions")
        # it may say who it is
        assert refused.status == 401
        assert "WWW-Authenticate" in refused.headers
        at.rows.rows.append(Granted(NOBODY.principal, ResourceType.TOPIC, Operation.DESCRIBE))
        assert (await at.ask(None, "GET", f"{path}/partitions")).json["partitions"] == 2
        assert (await at.ask(None, "DELETE", f"{path}/partitions")).status == 401
        assert (await at.ask("ada", "DELETE", f"{path}/partitions?force=true")).status == 204

    serve_secured(test, "admin.authentication=false")
