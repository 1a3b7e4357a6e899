"""Which transactions are open, whose they are, who waits for them: on a real broker."""

from __future__ import annotations

from typing import Any

from semantics.transactions.events import AddOffsets, EndTxn, Init
from semantics.transactions.states import Producer
from tests.gateway.admin.billing import Serve, cursor_of, explain, made, take
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.secured import Secured, furnish, serve_secured
from tests.gateway.broker.transacted import put

PATH = "/admin/v2/magnetar/transactions"


async def begun(admin: Admin, name: str, timeout_ms: int = 60_000) -> Producer:
    """A transactional id with an open transaction of a group's offsets."""
    answer: Any = await admin.broker.transactions.run(name, Init(None, timeout_ms))
    assert answer.error == 0
    added = await admin.broker.transactions.run(name, AddOffsets(None, answer.producer, f"g-{name}"))
    assert added.error == 0
    who: Producer = answer.producer
    return who


async def ended(admin: Admin, name: str, who: Producer, *, committed: bool) -> None:
    answer = await admin.broker.transactions.run(name, EndTxn(None, who, committed, False))
    assert answer.error == 0


async def listed(admin: Admin, query: str = "") -> dict[str, Any]:
    answer = await admin.ask("GET", f"{PATH}?{query}")
    assert answer.status == 200, answer
    found: dict[str, Any] = answer.json
    return found


def test_an_open_one_says_whose_it_is_and_where_readers_wait_for_it(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("payments", 2)
        who = await begun(admin, "tx-a")
        topic = admin.broker.catalog.get("payments")
        assert topic is not None
        at = admin.broker.partition(topic, 0)
        await admin.produce("payments", 0, [b"before"])
        put(at, b"a", b"b", producer_id=who.id, epoch=who.epoch, implicit=True)
        await admin.broker.write([])
        await admin.produce("payments", 0, [b"behind"])
        found = await listed(admin)
        (one,) = found["transactions"]
        assert found["of"] == 1
        assert (one["transactionalId"], one["state"], one["timeoutMs"]) == ("tx-a", "Ongoing", 60_000)
        assert (one["producerId"], one["producerEpoch"], one["groups"]) == (*who, ["g-tx-a"])
        assert one["partitions"] == [
            {
                "topic": "persistent://public/default/payments",
                "partition": 0,
                "firstOffset": 1,
                "waitsAt": 1,
                "heldBack": 3,
            }
        ]
        assert one["started"] < one["abortsAt"]
        # another one behind it in the partition holds nobody up yet
        other = await begun(admin, "tx-b")
        put(at, b"c", producer_id=other.id, epoch=other.epoch, implicit=True)
        await admin.broker.write([])
        second = (await listed(admin))["transactions"][1]
        assert second["partitions"][0]["firstOffset"] == 4
        assert "waitsAt" not in second["partitions"][0]
        await ended(admin, "tx-a", who, committed=False)
        (left,) = (await listed(admin))["transactions"]
        assert (left["transactionalId"], left["partitions"][0]["waitsAt"]) == ("tx-b", 4)

    serve(test)


def test_what_became_of_all_of_them_a_page_at_a_time(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        assert await listed(admin) == {"transactions": [], "of": 0}
        for number in range(5):
            who = await begun(admin, f"tx-{number}")
            if number < 2:
                await ended(admin, f"tx-{number}", who, committed=number == 0)
        for state, names in (("any", [0, 1, 2, 3, 4]), ("open", [2, 3, 4])):
            seen: list[str] = []
            after = ""
            while True:
                page = await listed(admin, f"state={state}&limit=2&after={after}")
                seen += [each["transactionalId"] for each in page["transactions"]]
                after = page.get("next", "")
                if not after:
                    break
                assert len(page["transactions"]) == 2
            assert sorted(seen) == [f"tx-{number}" for number in names]
        states = {
            each["transactionalId"]: each["state"]
            for each in (await listed(admin, "state=any"))["transactions"]
        }
        assert [states[f"tx-{number}"] for number in range(3)] == [
            "CompleteCommit",
            "CompleteAbort",
            "Ongoing",
        ]
        for query in ("state=some", "after=x", "state=any&after=x", "limit=0"):
            assert (await admin.ask("GET", f"{PATH}?{query}")).status == 400

    serve(test)


def test_who_may_not_see_a_transactional_id_is_not_told_of_it() -> None:
    async def test(at: Secured) -> None:
        await furnish(at)
        await begun(at.admin, "tx")
        for who, count in (("root", 1), ("cora", 0)):
            for query in ("", "?state=any"):
                answer = await at.ask(who, "GET", PATH + query)
                assert answer.status == 200, answer
                assert len(answer.json["transactions"]) == count

    serve_secured(test)


def test_what_an_open_one_holds_back_says_so_of_each_kind_of_subscription(serve: Serve) -> None:
    """Of a share group that is given what is committed; of others that is not why."""

    async def test(admin: Admin) -> None:
        await made(admin, count=1)
        await admin.commit("readers", "orders", 0, 0)
        strict = {"share.isolation.level": "read_committed"}
        await admin.broker.group_configs.alter("billing", lambda old: {**old, **strict})
        assert await take(admin, "c1") == [0]
        who = await begun(admin, "tx-a")
        put(cursor_of(admin).partition, b"a", producer_id=who.id, epoch=who.epoch, implicit=True)
        await admin.broker.write([])
        await admin.produce("orders", 0, [b"behind"])
        assert await take(admin, "c1") == []
        for offset in (1, 2):
            said = (await explain(admin, offset))["explanation"]
            assert said.startswith(
                "It waits for a transaction that is open, which has records from offset 1 on"
            )
            path = f"P/orders/subscription/readers/explain?offset={offset}"
            said = (await admin.ask("GET", path)).json["explanation"]
            assert "Who reads only what is committed waits at offset 1" in said
        path = "P/orders/subscription/readers/explain?offset=0"
        assert "waits at offset" not in (await admin.ask("GET", path)).json["explanation"]
        causes = (await admin.ask("GET", "P/orders/subscription/billing/magnetar/causes")).json["causes"]
        assert [(each["cause"], each["holdsUp"]) for each in causes] == [("uncommitted", 2), ("in-hand", 0)]
        await ended(admin, "tx-a", who, committed=False)
        await admin.broker.write([])
        assert await take(admin, "c1") == [2]
        assert " of a transaction that was aborted, or " in (await explain(admin, 1))["explanation"]

    serve(test)
