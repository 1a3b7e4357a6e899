"""Jobs that ended by themselves and transactions that hold readers up need attention: on a real broker."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.broker.redrive import job_rows
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured
from tests.gateway.admin.test_open_transactions import begun, ended
from tests.gateway.admin.test_replaying import DLQ, dead, did, post
from tests.gateway.broker.transacted import put

ATTENTION = "/admin/v2/magnetar/attention"


async def told(admin: Admin, rule: str, query: str = "") -> list[dict[str, Any]]:
    answer = await admin.ask("GET", f"{ATTENTION}?{query}")
    assert answer.status == 200, answer
    return [each for each in answer.json["findings"] if each["rule"] == rule]


async def restarted(admin: Admin) -> None:
    """The first job is one that a stop of the gateway has ended."""
    broker = admin.broker
    row = broker.redrive.row(1)
    assert row is not None
    await broker.write([job_rows.write(msgspec.structs.replace(row, state=job_rows.RUNNING, ended=0))])
    broker.redrive._rows = None


def test_a_job_that_did_not_do_all_until_another_is_begun(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await did(admin, "discard", filter={"ids": ["0:0"]})
        assert await told(admin, "job") == [], "it did what it was to do"
        await restarted(admin)
        (found,) = await told(admin, "job")
        assert found["sentence"].startswith(
            "The discard of dead letters of billing on orders, job 1, was interrupted after 1 of 1: the gateway was"
        )
        assert found["sentence"].endswith(" 2 are open.")
        assert found["where"] == {
            "topic": "persistent://public/default/orders", "subscription": "billing", "job": 1,
        }  # fmt: skip
        assert found["cli"] == "magnetar-admin jobs show 1"
        assert (await admin.ask("GET", found["path"])).json["id"] == 1
        assert await told(admin, "job", "topic=other") == []
        await did(admin, "discard", filter={"ids": ["0:1"]})
        assert await told(admin, "job") == []

    serve(test)


def test_what_a_job_left_in_a_topic_that_others_may_have_is_told_of_that(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await did(admin, "discard", filter={"ids": ["0:0"]})
        await restarted(admin)
        await admin.broker.group_configs.alter(
            "billing", lambda old: {**old, "pulsar.dead.letter.topic": DLQ}
        )
        await admin.ask("GET", "/admin/v2/magnetar/subscriptions")
        (found,) = await told(admin, "job")
        assert found["sentence"].endswith(f" 2 are open in {DLQ}.")

    serve(test)


def test_a_job_that_somebody_stopped_is_seen_to(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        begun_ = (await post(admin, "replay", rate=1)).json
        assert (await admin.ask("POST", f"/admin/v2/magnetar/jobs/{begun_['id']}/stop")).json[
            "state"
        ] == "stopped"
        assert await told(admin, "job") == []

    serve(test)


def test_a_transaction_that_holds_readers_up_for_long(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("payments", 2)
        who = await begun(admin, "tx a", 900_000)
        topic = admin.broker.catalog.get("payments")
        assert topic is not None
        at = admin.broker.partition(topic, 1)
        put(at, b"a", b"b", producer_id=who.id, epoch=who.epoch, implicit=True)
        await admin.broker.write([])
        await admin.produce("payments", 1, [b"behind"])
        # of one that holds nobody up nothing is told, however long it is open
        other = await begun(admin, "tx-b", 900_000)
        put(at, b"c", producer_id=other.id, epoch=other.epoch, implicit=True)
        await admin.broker.write([])
        assert await told(admin, "transaction") == []
        began = admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(admin.broker.clock), "wall_ms", lambda self: began + 12 * 60_000)
        (found,) = await told(admin, "transaction")
        assert found["where"] == {
            "topic": "persistent://public/default/payments", "partition": 1, "transactionalId": "tx a",
        }  # fmt: skip
        assert (found["number"], found["cli"]) == (4, "magnetar-admin transactions list -q 'tx a'")
        (one,) = (await admin.ask("GET", found["path"])).json["transactions"]
        assert one["transactionalId"] == "tx a"
        assert await told(admin, "transaction", "topic=orders") == []
        assert len(await told(admin, "transaction", "topic=payments")) == 1
        await ended(admin, "tx a", who, committed=False)
        (found,) = await told(admin, "transaction")
        assert found["where"]["transactionalId"] == "tx-b", "it is the first in the partition now"
        await ended(admin, "tx-b", other, committed=True)
        assert await told(admin, "transaction") == []

    serve(test)


def test_who_may_not_see_a_transactional_id_is_not_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        who = await begun(at.admin, "tx", 900_000)
        topic = at.admin.broker.catalog.get("shop/eu/orders")
        assert topic is not None
        partition = at.admin.broker.partition(topic, 0)
        put(partition, b"a", producer_id=who.id, epoch=who.epoch, implicit=True)
        await at.admin.broker.write([])
        began = at.admin.broker.clock.wall_ms()
        monkeypatch.setattr(type(at.admin.broker.clock), "wall_ms", lambda self: began + 12 * 60_000)
        for name, count in (("root", 1), ("cora", 0)):
            answer = await at.ask(name, "GET", ATTENTION)
            assert answer.status == 200, answer
            assert [each["rule"] for each in answer.json["findings"]].count("transaction") == count, name

    serve_secured(test)
