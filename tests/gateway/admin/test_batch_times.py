"""The age of the oldest message in a backlog."""

from __future__ import annotations

import pytest

from gateway.admin.batch_times import BatchTimes
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
