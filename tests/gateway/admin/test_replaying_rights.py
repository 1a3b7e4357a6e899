"""Who may look at dead letters, send them where, and end whose jobs; what the audit tells of it."""

from __future__ import annotations

import json
from typing import Any

from semantics.access.acl import Operation, ResourceType
from tests.gateway.admin.secured import Granted, Secured, bury, furnish, serve_secured

Q = "/admin/v2/persistent/shop/eu/orders/subscription/billing"


async def dead(at: Secured) -> None:
    """A dead letter of orders and billing, which Cora may consume."""
    await furnish(at)
    await bury(at)


async def letters(at: Secured, who: str) -> Any:
    return await at.ask(who, "GET", f"{Q}/magnetar/deadletters")


async def replay(at: Secured, who: str, **body: Any) -> Any:
    return await at.ask(who, "POST", f"{Q}/magnetar/replay", json.dumps({"filter": {}, "wait": 10, **body}))


def test_who_may_consume_replays_to_itself_and_who_may_produce_to_others() -> None:
    async def test(at: Secured) -> None:
        await dead(at)
        assert len((await letters(at, "cora")).json["letters"]) == 1
        assert (await letters(at, "pat")).status == 403
        # the last is nowhere, and nobody is told so
        for to in ("topic", "shop/eu/orders", "other/eu/secret"):
            refused = await replay(at, "cora", to=to)
            assert (refused.status, "produce" in refused.json["reason"]) == (403, True), to
        assert (await replay(at, "cora")).json["done"] == 1

    serve_secured(test)


def test_letters_in_a_topic_of_choice_take_the_right_to_it() -> None:
    """Whoever names a topic in a property does not get to read it by that."""

    async def test(at: Secured) -> None:
        await furnish(at)
        body = json.dumps({"pulsar.dead.letter.topic": "shop/eu/graves"})
        assert (await at.ask("ada", "PUT", f"{Q}/properties", body)).status == 204
        assert (await letters(at, "cora")).status == 200
        narrow = ("orders", "billing")
        coras = [row for row in at.rows.rows if row.principal == "User:cora"]
        at.rows.rows = [row._replace(name=name) for row in coras for name in narrow]
        refused = await letters(at, "cora")
        assert (refused.status, "graves" in refused.json["reason"]) == (403, True)

    serve_secured(test)


def test_jobs_show_to_who_may_see_the_topic_and_end_by_who_began_them() -> None:
    async def test(at: Secured) -> None:
        await dead(at)
        started = (await replay(at, "cora", wait=0, rate=1)).json
        path = f"/admin/v2/magnetar/jobs/{started['id']}"
        for who, sees in (("root", True), ("ada", True), ("cora", True), ("pat", True), ("eve", False)):
            assert (await at.ask(who, "GET", path)).status == (200 if sees else 404)
            assert bool((await at.ask(who, "GET", "/admin/v2/magnetar/jobs")).json["jobs"]) is sees
        assert (await at.ask("pat", "POST", path + "/stop")).status == 403
        assert (await at.ask("eve", "POST", path + "/stop")).status == 404
        assert (await at.ask("cora", "POST", path + "/stop")).status in (200, 409)

    serve_secured(test)


def test_who_may_only_produce_is_not_told_who_reads_there() -> None:
    async def test(at: Secured) -> None:
        await dead(at)
        earliest = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
        await at.ask("ada", "PUT", "/admin/v2/persistent/shop/eu/elsewhere", "{}")
        there = "/admin/v2/persistent/shop/eu/elsewhere/subscription/stock"
        assert (await at.ask("ada", "PUT", there, earliest)).status == 204
        seen = (await replay(at, "ada", dryRun=True, to="shop/eu/elsewhere")).json
        assert seen["otherSubscriptions"] == ["stock"]
        assert (await replay(at, "cora", dryRun=True, to="shop/eu/elsewhere")).status == 403
        narrow = [
            row._replace(name="orders") if row.kind is ResourceType.TOPIC else row for row in at.rows.rows
        ]
        writes = Granted("User:cora", ResourceType.TOPIC, Operation.WRITE, "elsewhere")
        at.rows.rows = [*narrow, writes]
        seen = (await replay(at, "cora", dryRun=True, to="shop/eu/elsewhere")).json
        assert (seen["letters"], seen["otherSubscriptions"]) == (1, None)

    serve_secured(test)


def test_a_dry_run_changes_nothing_and_the_audit_tells_of_none() -> None:
    async def test(at: Secured) -> None:
        await dead(at)
        before = len(at.admin.broker.audit.last(1000))
        assert (await replay(at, "root", dryRun=True)).json["letters"] == 1
        assert len(at.admin.broker.audit.last(1000)) == before
        assert (await replay(at, "root")).json["done"] == 1
        newest = at.admin.broker.audit.last(1)[0]
        assert newest.target.endswith("billing/magnetar/replay")

    serve_secured(test)


def test_a_trace_tells_of_subscriptions_that_one_may_consume_by() -> None:
    async def test(at: Secured) -> None:
        await dead(at)
        (letter,) = (await letters(at, "root")).json["letters"]
        path = f"{Q.partition('/subscription/')[0]}/magnetar/trace?id={letter['origin']['messageId']}"

        async def told(who: str) -> list[str]:
            return [each["subscription"] for each in (await at.ask(who, "GET", path)).json["subscriptions"]]

        assert await told("cora") == ["billing"]
        # of the topic, and no more by any group
        at.rows.rows = [row for row in at.rows.rows if row.kind is not ResourceType.GROUP]
        assert await told("cora") == []

    serve_secured(test)
