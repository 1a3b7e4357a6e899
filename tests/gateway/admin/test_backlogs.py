"""Backlogs as wholes over HTTP: expired, measured, cleared for a namespace; ids of messages; on a real broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.admin.exchange import RESULT
from gateway.broker.errors import KafkaError
from gateway.wire import records
from tests.gateway.admin.billing import EARLIEST, Serve, ack, made, stats, take
from tests.gateway.admin.conftest import Admin, Answer

SUB = "P/orders/subscription/billing"


def did(answer: Answer) -> int:
    """How many messages a write says that it was about."""
    assert answer.status == 204, answer
    found: int = json.loads(answer.headers["X-Magnetar-Result"])["messages"]
    return found


async def old(admin: Admin, *ages: int, topic: str = "orders", index: int = 0) -> list[dict[str, Any]]:
    """A batch of one record each, sent so many seconds ago; the ids of these."""
    found = admin.broker.catalog.get(topic)
    assert found is not None
    partition = admin.broker.partition(found, index)
    now = admin.broker.clock.wall_ms()
    ids = []
    for age in ages:
        batch = records.build_batch([records.Record(0, now - age * 1000, b"k", b"v" * 10, [])])
        base = partition.append(batch, records.header(batch), now)
        await admin.broker.write([])
        ledger, entry, _ = partition.log.position_of(base)
        ids.append({"ledgerId": ledger, "entryId": entry, "partitionIndex": -1, "batchIndex": 0})
    return ids


# -- expired ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shared", "key_shared"])
def test_messages_expire_by_age_for_one_subscription(serve: Serve, kind: str) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.ask("PUT", f"{SUB}?type={kind}", EARLIEST)
        await admin.ask("PUT", "P/orders/subscription/other?type=shared", EARLIEST)
        await old(admin, 500, 400, 50, 0)
        assert did(await admin.ask("POST", f"{SUB}/expireMessages/1000")) == 0
        assert did(await admin.ask("POST", f"{SUB}/expireMessages/100")) == 2
        billing = await stats(admin)
        assert (billing["msgBacklog"], billing["totalMsgExpired"]) == (2, 2)
        others = (await admin.ask("GET", "P/orders/stats")).json["subscriptions"]["other"]
        assert (others["msgBacklog"], others["totalMsgExpired"]) == (4, 0)
        assert did(await admin.ask("POST", "P/orders/all_subscription/expireMessages/10")) == 1 + 3

    serve(test)


def test_messages_expire_up_to_an_id(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.ask("PUT", f"{SUB}?type=shared", EARLIEST)
        ids = await old(admin, 0, 0, 0, 0)
        assert await take(admin, "c", 2) == [0, 1]
        await ack(admin, "c", 1, 1)
        # what is in hand goes as well, and what was acknowledged counts once
        body = json.dumps({**ids[2], "isExcluded": True})
        assert did(await admin.ask("POST", f"{SUB}/expireMessages", body)) == 1
        assert did(await admin.ask("POST", f"{SUB}/expireMessages", json.dumps(ids[2]))) == 1
        assert did(await admin.ask("POST", f"{SUB}/expireMessages", json.dumps(ids[0]))) == 0
        billing = await stats(admin)
        assert (billing["msgBacklog"], billing["totalMsgExpired"], billing["unackedMessages"]) == (1, 2, 0)
        assert await take(admin, "c") == [3]

    serve(test)


def test_a_consumer_group_is_moved_behind_what_is_old(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        ids = await old(admin, 500, 400, 50, 0)
        await admin.commit("readers", "orders", 0, 1)
        path = "P/orders/subscription/readers"
        assert did(await admin.ask("POST", f"{path}/expireMessages/100")) == 1
        # it never goes back
        assert did(await admin.ask("POST", f"{path}/expireMessages/450")) == 0
        assert did(await admin.ask("POST", f"{path}/expireMessages", json.dumps(ids[0]))) == 0
        assert did(await admin.ask("POST", f"{path}/expireMessages", json.dumps(ids[2]))) == 1
        assert (await admin.ask("GET", f"{path}/position/2")).status == 404
        await admin.join("readers", "orders")
        refused = await admin.ask("POST", f"{path}/expireMessages", json.dumps(ids[3]))
        assert (refused.status, "members" in refused.json["reason"]) == (412, True)
        # with others, one that cannot be moved stays
        await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)
        assert did(await admin.ask("POST", "P/orders/all_subscription/expireMessages/100")) == 2

    serve(test)


def test_messages_of_one_partition_expire(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.ask("PUT", f"{SUB}?type=shared", EARLIEST)
        for index in range(2):
            await old(admin, 500, 0, index=index)
        one = "P/orders-partition-1/subscription/billing"
        assert did(await admin.ask("POST", f"{one}/expireMessages/100")) == 1
        assert did(await admin.ask("POST", f"{SUB}/expireMessages/100")) == 1
        refused = await admin.ask("POST", f"{SUB}/expireMessages", EARLIEST)
        assert (refused.status, "is for one" in refused.json["reason"]) == (405, True)

    serve(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/expireMessages/0", None, 412, "expire at 1 to"),
        ("/expireMessages/x", None, 400, "A whole number"),
        ("/expireMessages/9999999999", None, 412, "expire at 1 to"),
        ("/expireMessages", None, 400, "by the message id in the body"),
        ("/expireMessages", '{"ledgerId": 7}', 400, "ledgerId and an entryId"),
        ("/expireMessages", '{"ledgerId": 777, "entryId": 0}', 404, "There is no message"),
    ],
)
def test_what_says_nothing_expires_nothing(
    serve: Serve, path: str, body: str | None, status: int, words: str
) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        answer = await admin.ask("POST", SUB + path, body)
        assert (answer.status, words in answer.json["reason"]) == (status, True), answer
        assert (await stats(admin))["msgBacklog"] == 5

    serve(test)


# -- ids and sizes ---------------------------------------------------------------------------------------------------


def test_the_last_id_and_the_first_at_a_time(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        nothing = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1}
        assert (await admin.ask("GET", "P/orders/lastMessageId")).json == nothing
        assert (await admin.ask("GET", "P/orders/messageid/0")).json == nothing
        ids = await old(admin, 500, 400, 50)
        now = admin.broker.clock.wall_ms()
        assert (await admin.ask("GET", "P/orders/lastMessageId")).json == ids[2]
        for ago, found in ((1000, 0), (450, 1), (60, 2), (0, 2)):
            answer = await admin.ask("GET", f"P/orders/messageid/{now - ago * 1000}")
            assert answer.json == ids[found], ago
        assert (await admin.ask("GET", "P/orders/messageid/soon")).status == 400
        await admin.partitioned("parted", 2)
        assert (await admin.ask("GET", "P/parted/lastMessageId")).status == 405
        one = await admin.ask("GET", "P/parted-partition-1/lastMessageId")
        assert one.json["partitionIndex"] == 1

    serve(test)


def test_the_bytes_behind_an_id(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        ids = await old(admin, 0, 0, 0)
        size = (await admin.ask("GET", "P/orders/stats")).json["storageSize"]
        for wanted, part in ((EARLIEST, 3), *((json.dumps(each), 3 - n) for n, each in enumerate(ids))):
            assert (await admin.ask("PUT", "P/orders/backlogSize", wanted)).json == size * part // 3
        assert (await admin.ask("PUT", "P/orders/backlogSize")).json == 0, "from the latest on"

    serve(test)


# -- namespaces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bundle", ["", "/0x00000000_0xffffffff"])
def test_backlogs_of_a_namespace_are_cleared(serve: Serve, bundle: str) -> None:
    async def test(admin: Admin) -> None:
        home, away = "/admin/v2/namespaces/public/default", "/admin/v2/namespaces/shop/eu"
        for path in ("tenants/shop", "namespaces/shop/eu"):
            await admin.ask("PUT", f"/admin/v2/{path}")
        names = {
            "orders": "P/orders",
            "other": "P/other",
            "shop/eu/orders": "/admin/v2/persistent/shop/eu/orders",
        }
        for name, path in names.items():
            assert (await admin.ask("PUT", path)).status == 204
            await old(admin, 0, 0, topic=name)
            for group in ("billing", "packing"):
                answer = await admin.ask("PUT", f"{path}/subscription/{group}?type=shared", EARLIEST)
                assert answer.status == 204
            await admin.commit("readers", name, 0, 0)
        # lanes hold a backlog of their own
        await admin.ask("PUT", "P/orders/subscription/lanes?type=shared&lanes=2", EARLIEST)
        assert did(await admin.ask("POST", f"{away}{bundle}/clearBacklog/billing")) == 2
        assert did(await admin.ask("POST", f"{home}{bundle}/clearBacklog/billing")) == 4
        assert did(await admin.ask("POST", f"{home}{bundle}/clearBacklog")) == 4 + 4 + 2
        assert did(await admin.ask("POST", f"{home}{bundle}/clearBacklog")) == 0
        assert did(await admin.ask("POST", f"{away}{bundle}/clearBacklog")) == 2 + 2
        assert (await admin.ask("POST", "/admin/v2/namespaces/shop/us/clearBacklog")).status == 404

    serve(test)


def test_a_subscription_is_deleted_from_all_topics_of_a_namespace(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        home = "/admin/v2/namespaces/public/default"
        for name in ("a", "b", "c"):
            await admin.plain(name)
        for name in ("a", "b"):
            await admin.ask("PUT", f"P/{name}/subscription/billing?type=shared", EARLIEST)
        await admin.commit("readers", "c", 0, 0)
        for name, had in (("billing", 2), ("readers", 1)):
            answer = await admin.ask("POST", f"{home}/unsubscribe/{name}")
            assert (answer.status, json.loads(answer.headers[RESULT])) == (204, {"topics": had})
        for name in ("a", "b", "c"):
            assert (await admin.ask("GET", f"P/{name}/subscriptions")).json == []
        answer = await admin.ask("POST", f"{home}/unsubscribe/billing")
        assert (answer.status, json.loads(answer.headers[RESULT])) == (204, {"topics": 0})

    serve(test)


# -- the rest --------------------------------------------------------------------------------------------------------


def test_what_there_is_nothing_to_do_for_is_done(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        home = "/admin/v2/namespaces/public/default"
        for path in ("P/orders/unload", f"{home}/unload", f"{home}/0x00000000_0xffffffff/unload"):
            assert (await admin.ask("PUT", path)).status == 204
        for path in ("P/nothing/unload", "/admin/v2/namespaces/public/nothing/unload"):
            assert (await admin.ask("PUT", path)).status == 404
        assert (await admin.ask("GET", "P/orders/compaction")).json == {"status": "NOT_RUN", "lastError": ""}
        assert (await admin.ask("GET", "P/nothing/compaction")).status == 404
        info = (await admin.ask("GET", "P/orders/internal-info")).json
        (ledger,) = info["ledgers"]
        assert (ledger["entries"], ledger["size"] > 0, list(info["cursors"])) == (1, True, ["billing"])
        assert info["creationDate"] == info["modificationDate"]

    serve(test)


def test_a_queue_topic_has_no_backlog_of_its_own(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.ask("PUT", "P/orders/subscription/lanes?type=shared&lanes=1", EARLIEST)
        queue = "P/orders-lanes-QUEUE"
        for method, path in (
            ("POST", "all_subscription/expireMessages/9"),
            ("GET", "lastMessageId"),
            ("GET", "messageid/9"),
            ("PUT", "backlogSize"),
        ):
            answer = await admin.ask(method, f"{queue}/{path}")
            assert (answer.status, "is a queue topic" in answer.json["reason"]) == (412, True), answer

    serve(test)


# -- ended -----------------------------------------------------------------------------------------------------------


def test_a_plain_topic_is_ended_and_tells_its_last_id(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        last = (await old(admin, 5, 0))[-1]
        answer = await admin.ask("POST", "P/orders/terminate")
        assert (answer.status, answer.json) == (200, last)
        assert (await admin.ask("POST", "P/orders/terminate")).json == last
        with pytest.raises(KafkaError, match="is terminated: it takes no more messages"):
            await old(admin, 0)
        assert (await admin.ask("GET", "P/orders/internalStats")).json["state"] == "Terminated"
        assert (await admin.ask("GET", "P/orders/lastMessageId")).json == last
        answer = await admin.ask("POST", "P/orders/terminate/partitions")
        assert (answer.status, answer.json["reason"]) == (405, answer.json["reason"])
        assert (await admin.ask("POST", "P/none/terminate")).status == 404

    serve(test)


def test_partitions_are_ended_one_by_one_or_all(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.ask("PUT", "P/parted/partitions", "3")
        assert (await admin.ask("POST", "P/parted/terminate")).status == 405
        none = {"ledgerId": -1, "entryId": -1, "partitionIndex": 1, "batchIndex": -1}
        assert (await admin.ask("POST", "P/parted-partition-1/terminate")).json == none
        with pytest.raises(KafkaError):
            await old(admin, 0, topic="parted", index=1)
        (last,) = await old(admin, 0, topic="parted", index=2)
        answer = await admin.ask("POST", "P/parted/terminate/partitions")
        assert sorted(answer.json) == ["0", "1", "2"]
        assert answer.json["2"] == {**last, "partitionIndex": 2}
        assert (await admin.ask("POST", "P/parted-partition-1/terminate/partitions")).status >= 400

    serve(test)
