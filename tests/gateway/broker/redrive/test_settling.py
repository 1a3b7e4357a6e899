"""Letters are sent and settled as one: by two jobs at once, through commits that fail, among letters of others."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import uvloop

from gateway.broker.redrive import jobs, reading
from gateway.broker.redrive.jobs import Redrive
from gateway.wire import records
from store.api import Family, Outcome, Put, Refused, StoreError, Unknown, Write
from tests.gateway.admin.billing import EARLIEST, ack, made, take
from tests.gateway.admin.conftest import Admin, running
from tests.gateway.admin.test_replaying import DLQ, RETRY, Q, buried, dead, did, listed, post, stored


def run(test: Callable[[Admin], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with running() as admin:
            await test(admin)

    uvloop.run(main())


def states(admin: Admin) -> dict[bytes, bytes]:
    return dict(admin.broker.durable.scan(Family.LETTER))


def test_two_jobs_at_once_send_each_letter_once() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 300)
        jobs = await asyncio.gather(did(admin, "replay"), did(admin, "replay"), did(admin, "replay"))
        assert sum(job["done"] for job in jobs) == 300
        assert Counter(each.value for each in await stored(admin, RETRY)) == Counter(
            b"m%d" % n for n in range(300)
        )

    run(test)


def test_another_process_finds_what_was_settled() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 5)
        await did(admin, "replay", filter={"ids": ["0:1", "0:2"]})
        # what a process begins with
        admin.broker.redrive = Redrive(admin.broker, admin.broker.subscriptions)
        assert [each["id"] for each in await listed(admin)] == ["0:0", "0:3", "0:4"]
        assert (await admin.ask("GET", "/admin/v2/magnetar/jobs")).json["jobs"][0]["done"] == 2

    run(test)


@pytest.mark.parametrize(("kind", "written"), [(Refused, False), (Unknown, False), (Unknown, True)])
def test_what_a_commit_could_not_store_is_sent_again_and_only_that(
    kind: type[StoreError], written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody knows whether it was, and it was."""
    monkeypatch.setattr("gateway.broker.redrive.jobs.AGAIN_S", 0.001)

    async def test(admin: Admin) -> None:
        await dead(admin, 200)
        await post(admin, "replay", dryRun=True)
        store = admin.broker.durable
        commit = store.commit
        fails = [True, False, True]

        def failing(
            writes: Sequence[Write], durability: Any, done: Callable[[Outcome], None], *more: Any
        ) -> None:
            letters = any(isinstance(each, Put) and each.family is Family.LETTER for each in writes)
            if not letters or not fails or not fails.pop(0):
                return commit(writes, durability, done, *more)
            error = kind("the disk is tired")
            if written:
                return commit(writes, durability, lambda _: done(error), *more)
            admin.broker.loop.call_soon(done, error)
            return None

        monkeypatch.setattr(store, "commit", failing)
        job = await did(admin, "replay")
        assert job["state"] == "done"
        assert not fails
        sent = Counter(each.value for each in await stored(admin, RETRY))
        assert sent == Counter(b"m%d" % n for n in range(200))
        assert await listed(admin) == []

    run(test)


def test_a_read_that_fails_for_now_ends_no_job_whose_letters_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.broker.redrive.jobs.AGAIN_S", 0.001)

    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        reads = reading.read
        fails = 2

        def failing(node: Any, at: Any, first: int, end: int) -> Any:
            nonlocal fails
            # they are taken: what is read now is what died again
            if fails and states(admin):
                fails -= 1
                raise Refused("the disk is tired")
            return reads(node, at, first, end)

        monkeypatch.setattr(jobs, "read", failing)
        job = await did(admin, "replay")
        assert (fails, job["state"], job["done"], job["diedAgain"]) == (0, "done", 3, 0)

    run(test)


def test_letters_of_another_subscription_in_the_same_topic_are_not_meant() -> None:
    async def test(admin: Admin) -> None:
        await made(admin, count=2)
        await admin.plain("payments")
        await admin.produce("payments", 0, [b"p0", b"p1"])
        same = json.dumps({"pulsar.dead.letter.topic": "graves"})
        for topic, name in (("orders", "billing"), ("orders", "stock"), ("payments", "billing")):
            path = f"P/{topic}/subscription/{name}"
            if (topic, name) != ("orders", "billing"):
                assert (await admin.ask("PUT", f"{path}?type=shared", EARLIEST)).status == 204
            assert (await admin.ask("PUT", f"{path}/properties", same)).status == 204
            found = admin.broker.subscriptions.get(name, topic)
            assert found is not None
            at = found.partition(0)
            at.attach("c")
            await admin.broker.write([])
            at.fetch("c", 10, 1 << 20, 10)
            assert at.acknowledge("c", [(0, 1, b"\3")]) == 0
            await admin.broker.write([])
        async with asyncio.timeout(30):
            while (graves := admin.broker.catalog.get("graves")) is None or (
                admin.broker.partition(graves, 0).high_watermark < 6
            ):
                await asyncio.sleep(0)
        # a client has put one there itself, and does not say whose it is
        await admin.produce("graves", 0, [b"own"])
        values = [each["value"] for each in await listed(admin)]
        assert values == ["m0", "m1", "own"]
        assert (await did(admin, "replay"))["done"] == 3
        assert [each.value for each in await stored(admin, RETRY)] == [b"m0", b"m1", b"own"]
        others = (await admin.ask("GET", "P/orders/subscription/stock/magnetar/deadletters")).json["letters"]
        assert [each["value"] for each in others] == ["m0", "m1"]

    run(test)


def test_a_letter_goes_to_the_partition_that_it_came_from() -> None:
    """So that the order in its key holds among those that are sent."""

    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        for index in range(3):
            await admin.produce("orders", index, [b"%d" % index])
        assert (await admin.ask("PUT", "P/orders/subscription/billing?type=shared", EARLIEST)).status == 204
        found = admin.broker.subscriptions.get("billing", "orders")
        assert found is not None
        for index in range(3):
            at = found.partition(index)
            at.attach("c")
            await admin.broker.write([])
            at.fetch("c", 10, 1 << 20, 10)
            assert at.acknowledge("c", [(0, 0, b"\3")]) == 0
        await admin.broker.write([])
        async with asyncio.timeout(30):
            while len(await listed(admin) if admin.broker.catalog.get(DLQ) else []) < 3:
                await asyncio.sleep(0)
        assert (await did(admin, "replay"))["done"] == 3
        topic = admin.broker.catalog.get(RETRY)
        assert topic is not None
        for index in range(3):
            at_retry = admin.broker.partition(topic, index)
            read = at_retry.read(0, 1 << 20)
            data = b"".join(read if isinstance(read, list) else await read)
            assert [each.value for each in records.records(data)] == [b"%d" % index]

    run(test)


def test_states_go_with_the_topic() -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 3)
        await did(admin, "replay")
        assert len(states(admin)) == 1
        assert (await admin.ask("DELETE", f"P/{DLQ}?force=true")).status == 204
        assert states(admin) == {}
        assert await listed(admin) == []
        # another one of that name knows nothing of them
        await admin.produce("orders", 0, [b"new"])
        offsets = await take(admin, "c1")
        await ack(admin, "c1", offsets[0], offsets[-1], kind=3)
        await buried(admin, 1)
        assert [each["id"] for each in await listed(admin)] == ["0:0"]

    run(test)


def test_retention_takes_letters_whatever_they_are_and_their_states() -> None:
    """An open letter holds nothing up, and one that was settled is not deleted for it."""

    async def test(admin: Admin) -> None:
        await dead(admin, 4)
        await did(admin, "replay", filter={"ids": ["0:0", "0:3"]})
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        at = admin.broker.partition(topic, 0)
        await admin.broker.topics.delete_records(at, 3)
        assert await listed(admin) == []
        counts = (await admin.ask("GET", f"{Q}/deadletters?state=any")).json["counts"]
        assert counts == {"open": 0, "replayed": 1, "edited": 0, "discarded": 0}

    run(test)


def test_letters_in_memory_are_sent_in_memory() -> None:
    async def test(admin: Admin) -> None:
        root = "/admin/v2/non-persistent/public/default"
        assert (await admin.ask("PUT", f"{root}/orders", "{}")).status == 204
        path = f"{root}/orders/subscription/billing"
        assert (await admin.ask("PUT", f"{path}?type=shared", EARLIEST)).status == 204
        # what nobody waits for is dropped
        await take(admin, "c1")
        await admin.produce("orders", 0, [b"m0", b"m1"])
        first, last = await take(admin, "c1")
        await ack(admin, "c1", first, last, kind=3)
        async with asyncio.timeout(30):
            while len((await admin.ask("GET", f"{path}/magnetar/deadletters")).json["letters"]) < 2:
                await asyncio.sleep(0)
        answer = await admin.ask("POST", f"{path}/magnetar/replay", json.dumps({"filter": {}, "wait": 10}))
        assert (answer.status, answer.json["state"], answer.json["done"]) == (200, "done", 2), answer
        assert [each.value for each in await stored(admin, RETRY)] == [b"m0", b"m1"]
        assert states(admin) == {}

    run(test)


def test_a_replay_across_stores_is_refused_and_sends_nothing() -> None:
    """It could not be one commit."""

    async def test(admin: Admin) -> None:
        await dead(admin, 2)
        root = "/admin/v2/non-persistent/public/default"
        assert (await admin.ask("PUT", f"{root}/fleeting", "{}")).status == 204
        job = await did(admin, "replay", to="fleeting")
        assert (job["state"], "same store" in job["why"]) == ("failed", True)
        assert len(await listed(admin)) == 2
        assert await stored(admin, "fleeting") == []

    run(test)


def test_a_job_whose_letters_are_deleted_says_so_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        await dead(admin, 40)
        monkeypatch.setattr(jobs, "AGAIN_S", 0)
        begun = await post(admin, "replay", rate=1)
        assert begun.json["state"] == "running"
        assert (await admin.ask("DELETE", f"P/{DLQ}?force=true")).status == 204
        # what waits for the rate goes on
        admin.broker.redrive._jobs[begun.json["id"]].woken.set()
        await admin.broker.redrive.wait(begun.json["id"], 30)
        job = (await admin.ask("GET", f"/admin/v2/magnetar/jobs/{begun.json['id']}")).json
        assert (job["state"], job["why"]) == ("failed", f"{DLQ}, where the letters were, was deleted")

    run(test)
