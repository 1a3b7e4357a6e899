"""Changes in the topic of the audit: what a record has, who sees it, and that it is kept from users."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

import pytest
import uvloop

from gateway.broker.audit_log import Act
from gateway.broker.errors import KafkaError
from gateway.wire import records
from semantics.names import AUDIT
from tests.gateway.admin.billing import made
from tests.gateway.admin.conftest import Admin, running
from tests.gateway.admin.secured import Secured, furnish, serve_secured

RECORDS = f"P/{AUDIT}/magnetar/records?dir=newer"
AT = "/admin/v2/magnetar/audit"


def serve(test: Callable[[Admin], Coroutine[Any, Any, None]], *settings: str) -> None:
    async def main() -> None:
        async with running(settings) as admin:
            await test(admin)

    uvloop.run(main())


async def kept(admin: Admin) -> list[dict[str, Any]]:
    """The records of the topic, the oldest first."""
    await admin.broker.audit_log.ready()
    await admin.broker.write([])
    found = (await admin.ask("GET", RECORDS)).json["records"]
    return [each["value"]["decoded"] for each in found]


def test_a_change_is_a_record_with_its_counts_its_line_and_why() -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=3)
        said = {"X-Magnetar-Command": "topics clear-backlog orders -s billing", "X-Magnetar-Why": "a test"}
        answer = await admin.ask("POST", "P/orders/subscription/billing/skip_all", **said)
        assert answer.status == 204
        assert (await admin.ask("DELETE", "P/nope")).status == 404
        await admin.ask("GET", "P/orders/stats")
        found = await kept(admin)
        assert [(each["what"], each["target"], each.get("outcome")) for each in found] == [
            ("PUT", "persistent/public/default/orders", None),
            ("PUT", "persistent/public/default/orders/subscription/billing", None),
            ("POST", "persistent/public/default/orders/subscription/billing/skip_all", None),
            ("DELETE", "persistent/public/default/nope", "HTTP 404"),
        ]
        assert found[2]["counts"] == {"messages": 3}
        assert found[2]["command"] == "topics clear-backlog orders -s billing"
        assert found[2]["why"] == "a test"
        assert {each["who"] for each in found} == {"User:ANONYMOUS"}

    serve(test, "audit.topic=true")


def test_what_was_refused_is_there_as_such() -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.ask("DELETE", "P/nope")
        await kept(admin)
        for kind, targets in ("refused", ["nope"]), ("change", ["billing", "orders"]), ("login", []):
            found = (await admin.ask("GET", f"{AT}?who=ANONYMOUS&kind={kind}")).json
            assert [each["target"].rpartition("/")[2] for each in found] == targets
            assert {each["kind"] for each in found} <= {kind}

    serve(test, "audit.topic=true")


def test_what_an_act_appends_goes_into_its_commit() -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        broker = admin.broker
        await broker.audit_log.ready()
        audit, orders = broker.audit_log.topic, broker.catalog.get("orders")
        assert audit is not None
        assert orders is not None
        before = broker.partition(audit, 0).high_watermark
        batch = records.build_batch([records.Record(0, 1, None, b"x", [])])
        broker.partition(orders, 0).append(batch, records.header(batch), broker.clock.wall_ms())
        broker.audit_log.append(
            Act(1, "User:ada", "h", "replay", "orders", counts={"messages": 1}, plan="p1")
        )
        # neither is there before the turn is over, and both come with it: a turn is one commit
        assert [broker.partition(each, 0).high_watermark for each in (audit, orders)] == [before, 0]
        broker.turn.end()
        await broker.write([])
        assert [broker.partition(each, 0).high_watermark for each in (audit, orders)] == [before + 1, 1]
        assert (await kept(admin))[-1]["plan"] == "p1"

    serve(test, "audit.topic=true")


def test_the_name_of_a_certificate_is_found_as_it_is() -> None:
    async def test(admin: Admin) -> None:
        who = 'User:CN=Smith\\, "Ada",O=shop'
        await admin.broker.audit_log.ready()
        admin.broker.audit_log.append(Act(1000, who, "h", "PUT", "t0"))
        await admin.broker.write([])
        found = (await admin.ask("GET", f"{AT}?who={quote(who, safe='')}")).json
        assert [each["target"] for each in found] == ["t0"]

    serve(test, "audit.topic=true")


def test_who_and_since_are_answered_from_the_topic() -> None:
    async def test(admin: Admin) -> None:
        broker = admin.broker
        await broker.audit_log.ready()
        for number in range(5):
            broker.audit_log.append(
                Act(1000 + number, ("User:ada", "User:adam")[number % 2], "h", "PUT", f"t{number}")
            )
        await broker.write([])
        broker.audit.refused("CreateTopics", "User:ada", "h", "kafka", "nope")
        ada = (await admin.ask("GET", f"{AT}?who=ada")).json
        assert [(each["kind"], each["target"]) for each in ada] == [
            ("refused", "nope"), ("change", "t4"), ("change", "t2"), ("change", "t0"),
        ]  # fmt: skip
        assert (await admin.ask("GET", f"{AT}?who=User:ada")).json == ada
        since = (await admin.ask("GET", f"{AT}?since=1970-01-01T00:00:01.003Z&kind=change")).json
        assert [each["target"] for each in since] == ["t4", "t3"]
        assert [each["target"] for each in (await admin.ask("GET", f"{AT}?since=1&limit=2&kind=change")).json] == [
            "t4", "t3",
        ]  # fmt: skip
        assert (await admin.ask("GET", f"{AT}?since=yesterday")).status == 400

    serve(test, "audit.topic=true")


def test_a_change_that_memory_has_too_is_told_once() -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await kept(admin)
        found = (await admin.ask("GET", f"{AT}?since=1")).json
        assert [each["target"] for each in found] == ["persistent/public/default/orders"]

    serve(test, "audit.topic=true")


def test_nobody_else_writes_changes_or_deletes_it() -> None:
    async def test(admin: Admin) -> None:
        assert (await admin.ask("PUT", f"P/{AUDIT}", "{}")).status >= 400
        assert admin.broker.catalog.get(AUDIT) is None or admin.broker.audit_log.topic is not None
        await admin.plain("orders")
        count = len(await kept(admin))
        assert count > 0
        for method, path in (
            ("DELETE", f"P/{AUDIT}"), ("DELETE", f"P/{AUDIT}/truncate"), ("PUT", f"P/{AUDIT}/properties"),
        ):  # fmt: skip
            assert (await admin.ask(method, path, "{}")).status >= 400, (method, path)
        batch = records.build_batch([records.Record(0, 1, None, b"forged", [])])
        with pytest.raises(KafkaError):
            _partition(admin).append(batch, records.header(batch), 1)
        assert b"forged" not in str(await kept(admin)).encode()
        listed = (await admin.ask("GET", "/admin/v2/persistent/public/default")).json
        assert listed == ["persistent://public/default/orders"]

    serve(test, "audit.topic=true")


def _partition(admin: Admin) -> Any:
    topic = admin.broker.audit_log.topic
    assert topic is not None
    return admin.broker.partition(topic, 0)


def test_it_shows_to_super_users_only() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        admin = at.admin
        roles = json.dumps({"adminRoles": ["pat"], "allowedClusters": ["standalone"]})
        assert (await at.ask("root", "POST", "/admin/v2/tenants/public", roles)).status == 204
        assert (await at.ask("pat", "PUT", "/admin/v2/persistent/public/default/orders", "{}")).status == 204
        await at.ask("root", "PUT", "/admin/v2/tenants/other", "{}")
        await admin.broker.audit_log.ready()
        await admin.broker.write([])
        path = f"/admin/v2/persistent/public/default/{AUDIT}"
        for call in ("stats", "magnetar/records", "examinemessage", "subscriptions"):
            # an administrator of the tenant that it is in is no super-user
            assert (await at.ask("pat", "GET", f"{path}/{call}")).status == 403, call
            assert (await at.ask("root", "GET", f"{path}/{call}")).status == 200, call
        assert (await at.ask("pat", "PUT", f"{path}/subscription/mine")).status == 403
        assert (await at.ask("pat", "GET", f"{path}/permissions")).status == 403

    serve_secured(test, "audit.topic=true")


def test_a_topic_of_this_name_that_somebody_has_is_left_alone() -> None:
    async def test(admin: Admin) -> None:
        # from before there was an audit's topic
        await admin.broker.topics.create(AUDIT, 1, {}, internal=True)
        row = admin.broker.catalog.get(AUDIT)
        assert row is not None
        row.internal = False
        await admin.plain("orders")
        await admin.broker.audit_log.ready()
        assert admin.broker.audit_log.topic is None
        assert admin.broker.partition(row, 0).high_watermark == 0

    serve(test, "audit.topic=true")


def test_where_nobody_wants_it_there_is_none() -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.broker.audit_log.ready()
        assert admin.broker.catalog.get(AUDIT) is None
        # memory is asked all the same
        found = (await admin.ask("GET", f"{AT}?since=1&who=ANONYMOUS")).json
        assert [each["target"] for each in found] == ["persistent/public/default/orders"]

    serve(test)
