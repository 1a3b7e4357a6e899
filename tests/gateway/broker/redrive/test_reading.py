"""Letters are read to the end, whatever retention takes and the store refuses while a job is at it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.redrive import jobs, reading
from gateway.broker.redrive.letter import REPLAY_JOB
from gateway.wire import records
from store.api import Refused
from tests.gateway.admin.billing import Serve, made
from tests.gateway.admin.conftest import Admin
from tests.gateway.admin.conftest import serve as serve
from tests.gateway.admin.test_replaying import DLQ, dead, listed, post


async def begun(admin: Admin, verb: str) -> int:
    """A job that has done one letter, and waits for its rate before the next."""
    number: int = (await post(admin, verb, rate=1)).json["id"]
    async with asyncio.timeout(30):
        while (row := admin.broker.redrive.row(number)) is None or row.done < 1:
            await asyncio.sleep(0)
    return number


async def ended(admin: Admin, number: int) -> dict[str, Any]:
    """That job, which waits no longer."""
    admin.broker.redrive._jobs[number].woken.set()
    await admin.broker.redrive.wait(number, 30)
    found: dict[str, Any] = (await admin.ask("GET", f"/admin/v2/magnetar/jobs/{number}")).json
    return found


def test_what_retention_takes_meanwhile_ends_no_walk(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    # one batch at a time
    monkeypatch.setattr(reading, "STRETCH", 1)

    async def test(admin: Admin) -> None:
        await dead(admin, 6)
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        at = admin.broker.partition(topic, 0)
        met: list[int] = []
        async for letters, _, _ in reading.read(admin.broker, at, 0, at.high_watermark):
            met += [each.offset for each in letters]
            if met == [0]:
                await admin.broker.topics.delete_records(at, 3)
        assert met == [0, 3, 4, 5]

    serve(test)


def test_a_job_goes_on_behind_what_retention_takes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "STRETCH", 1)

    async def test(admin: Admin) -> None:
        await dead(admin, 6)
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        number = await begun(admin, "discard")
        await admin.broker.topics.delete_records(admin.broker.partition(topic, 0), 4)
        job = await ended(admin, number)
        assert job["state"] == "done"
        assert await listed(admin) == []
        assert [each["id"] for each in await listed(admin, "?state=discarded")] == ["0:4", "0:5"]

    serve(test)


def test_what_died_again_is_counted_though_the_next_partition_cannot_be_read_for_now(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "AGAIN_S", 0)

    async def test(admin: Admin) -> None:
        await made(admin)
        await admin.partitioned(DLQ, 2)
        for index in range(2):
            await admin.produce(DLQ, index, [b"letter"])
        number = await begun(admin, "replay")
        topic = admin.broker.catalog.get(DLQ)
        assert topic is not None
        now = admin.broker.clock.wall_ms()
        for index in range(2):
            again = records.Record(0, now, b"k", b"letter", [(REPLAY_JOB, b"%d" % number)])
            batch = records.build_batch([again])
            admin.broker.partition(topic, index).append(batch, records.header(batch), now)
        await admin.broker.write([])
        read, fails = reading.read, 1

        def failing(node: Any, at: Any, first: int, end: int) -> Any:
            nonlocal fails
            if fails and (at.index, first) == (1, 1):
                fails -= 1
                raise Refused("the disk is tired")
            return read(node, at, first, end)

        monkeypatch.setattr(jobs, "read", failing)
        job = await ended(admin, number)
        assert (fails, job["state"], job["done"], job["diedAgain"]) == (0, "done", 2, 2)

    serve(test)
