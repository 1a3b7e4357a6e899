"""Retention in whole gateways, the time passed in; burials that a stop left. What goes: semantics/test_retention.py."""

from __future__ import annotations

import pytest

from gateway.broker import housekeeping
from gateway.broker.clock_watch import KEEP_MS
from gateway.broker.housekeeping import jobs_of
from gateway.broker.subscriptions.left_dying import LeftDying
from gateway.server import Gateway
from gateway.wire import records
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store import memory
from store.api import StoreError
from tests.gateway.broker.asking import errors, fetch, list_offsets, told
from tests.gateway.broker.held import Clock, HeldStore, part, run, run_held, until
from tests.gateway.serving import Client, create, produce_body


async def put(client: Client, topic: str, timestamp: int, key: bytes | None = None) -> None:
    one = records.build_batch([records.Record(0, timestamp, key, b"x" * 100, [])])
    assert part(await client.ask(ApiKey.PRODUCE, 9, produce_body(topic, one))).error_code == 0


async def spans(client: Client, topic: str) -> tuple[int, int]:
    (earliest,) = await list_offsets(client, topic, (0, -2))
    (latest,) = await list_offsets(client, topic, (0, -1))
    return earliest.offset, latest.offset


def test_retention_by_time_and_size_end_to_end() -> None:
    clock = Clock()
    small = {"internal__segment__bytes": "150"}

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "time", 1, retention__ms="1000", **small)
        await create(client, "size", 1, retention__ms="-1", retention__bytes="400", **small)
        await create(
            client, "keep", 1, cleanup__policy="compact", retention__ms="1000", retention__bytes="1", **small
        )
        await create(client, "both", 1, cleanup__policy="compact,delete", retention__ms="1000", **small)
        await create(client, "ever", 1, retention__ms="-1", **small)
        for _ in range(5):
            for topic in ("time", "size", "keep", "both", "ever"):
                await put(client, topic, clock.now, b"k")
            clock.now += 400
        await gateway.broker.retention.apply()
        assert await spans(client, "time") == (3, 5)
        assert await spans(client, "size") == (2, 5), "three are enough for 400 bytes"
        assert await spans(client, "both") == (3, 5)
        assert await spans(client, "keep") == (0, 5), "compacted topics lose nothing"
        assert await spans(client, "ever") == (0, 5)
        assert errors(await fetch(client, {"time": {0: 2}})) == {0: Error.OFFSET_OUT_OF_RANGE}
        clock.now += 10_000
        await gateway.broker.retention.apply()
        assert await spans(client, "time") == (5, 5), "the active segment goes too"
        await put(client, "time", clock.now)
        assert await spans(client, "time") == (5, 6)

    run(test, clock=clock, store=memory.open(clock=clock.wall_ms))


def test_a_parked_fetch_hears_of_a_log_start_that_retention_moved() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", retention__ms="1000")
        await put(client, "t", clock.now)
        first = await fetch(client, {"t": {0: 1}}, session=(0, 0))
        clock.now += 5000
        await gateway.broker.retention.apply()
        second = await fetch(client, session=(first.session_id, 1), max_wait=60_000, min_bytes=0)
        assert told(second)[0].log_start_offset == 1

    run(test, clock=clock, store=memory.open(clock=clock.wall_ms))


def test_retention_leaves_a_topic_alone_that_is_being_deleted() -> None:
    import asyncio

    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t", retention__ms="1")
        await put(client, "t", 1000)
        store.holding = True
        deleting = asyncio.ensure_future(gateway.broker.delete_topic("t"))
        await store.has(1)
        retention = asyncio.ensure_future(gateway.broker.retention.apply())
        await asyncio.sleep(0)
        gateway.broker.in_use.release_idle()
        gateway.broker.in_use.release_idle()
        assert gateway.broker.topic(b"t") is not None
        assert len(store.queued) == 1
        store.release()
        await deleting
        await retention
        assert gateway.broker.topic(b"t") is None

    run_held(test)


def test_burials_that_a_stop_left_begin_with_the_gateway_and_again_when_the_disk_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[LeftDying] = []

    async def bury(self: LeftDying) -> int:
        asked.append(self)
        if len(asked) == 1:
            raise StoreError("the disk is away")
        return 1

    monkeypatch.setattr(housekeeping, "BURY_MS", 1)
    monkeypatch.setattr(LeftDying, "bury", bury)

    async def test(gateway: Gateway, client: Client) -> None:
        await until(lambda: len(asked) == 2)

    run(test)


def test_what_a_gateway_does_by_time_and_how_often() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        jobs = jobs_of(gateway.broker, gateway.listeners)
        assert {job.name: job.interval_ms for job in jobs} == {
            "audit": 1000,
            "unfinished requests": 1000,
            "connections": 1000,
            "compaction": 15_000,
            "log": 1000,
            "clock": 1000,
            "time of use": KEEP_MS,
            "time to live": 30_000,
            "times to live that end": 1000,
            "retention": 11_000,
            "producers": 12_000,
            "groups": 13_000,
            "open transactions": 10_000,
            "transactional ids": 3_600_000,
            "idle transactional ids": 60_000,
            "queues": 10_000,
            "series": 10_000,
            "stuck consumers": 1000,
            "suspects": 1000,
            "lanes that nobody has": 1000,
            "idle quotas": 60_000,
            "idle groups": 60_000,
            "idle internal topics": 60_000,
            "idle topics": 60_000,
            "unused topics": 30_000,
            "unused subscriptions": 30_000,
            "burials": 1000,
            "jobs that were interrupted": 1000,
        }
        assert {job.name for job in jobs if job.first_ms == 0} == {"time of use", "groups"}
        assert {job.name for job in jobs if job.once} == {"burials", "jobs that were interrupted"}

    run(
        test,
        "log.retention.check.interval.ms=11000",
        "producer.id.expiration.check.interval.ms=12000",
        "offsets.retention.check.interval.ms=13000",
    )


def test_every_job_can_run() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for job in jobs_of(gateway.broker, gateway.listeners):
            if (rest := job.run()) is not None:
                await rest

    run(test)
