"""The age of the oldest message in a backlog."""

from __future__ import annotations

import pytest

from gateway.admin.batch_times import BatchTimes
from gateway.wire import records
from store.api import Trim
from tests.gateway.admin.billing import Serve
from tests.gateway.admin.conftest import Admin


def test_times_of_many_batches_are_remembered_in_bounds(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setattr(BatchTimes, "KEPT", 2)

    async def test(admin: Admin) -> None:
        times = BatchTimes()
        for name in "abc":
            await admin.plain(name)
            await admin.produce(name, 0, [b"x"])
            topic = admin.broker.catalog.get(name)
            assert topic is not None
            number = topic.partitions[0]
            assert await times.of(admin.broker.store, number, 0) > 0
            assert await times.of(admin.broker.store, number, 1) == -1
        assert len(times._found) <= 2
        assert await times.of(admin.broker.store, 10**6, 0) == -1

    serve(test)


def test_the_time_is_that_of_the_batchs_first_record_and_the_batch_is_read_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        topic = admin.broker.catalog.get("orders")
        assert topic is not None
        number, at = topic.partitions[0], admin.broker.partition(topic, 0)
        for made in (1_000, 2_000):
            batch = records.build_batch([records.Record(n, made + n, None, b"x", []) for n in range(3)])
            at.append(batch, records.header(batch), 5_000)
        await admin.broker.write([])
        times, store = BatchTimes(), admin.broker.store
        assert [await times.of(store, number, offset) for offset in range(6)] == [1_000] * 3 + [2_000] * 3
        assert await times.of(store, number, 6) == -1
        with monkeypatch.context() as closed:
            closed.setattr(store, "log", lambda _: None)
            # the last one is remembered, for every offset that it holds
            assert [await times.of(store, number, offset) for offset in (3, 4, 5)] == [2_000] * 3
        # what retention took: the backlog begins with what is left
        await admin.broker.write([Trim(number, 3)])
        again = BatchTimes()
        assert await again.of(store, number, 0) == 2_000
        monkeypatch.delattr(type(store.log(number)), "read")
        assert [await again.of(store, number, offset) for offset in (0, 2, 5)] == [2_000] * 3

    serve(test)
