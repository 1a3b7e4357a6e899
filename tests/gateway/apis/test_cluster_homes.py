"""What of the gateway as a whole clients are told that are at home in one namespace."""

from __future__ import annotations

from typing import Any

from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.tenants import Tenants, run


def test_the_folder_and_the_disk_are_not_told_to_tenants() -> None:
    async def test(tenants: Tenants) -> None:
        tenants.broker.disk = lambda: ("/var/lib/magnetar", 100, 50)  # type: ignore[method-assign]
        boss, root = await tenants.login("shop.boss"), await tenants.login("root")
        await tenants.topic(boss, "orders")
        told: list[Any] = []
        for client in (boss, root):
            asked = messages.DescribeLogDirsRequest(topics=None)
            (found,) = (await client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, asked)).results
            told.append((found.log_dir, found.total_bytes, found.usable_bytes))
            if client is boss:
                assert [each.name for each in found.topics] == ["orders"]
        assert told == [("data", -1, -1), ("/var/lib/magnetar", 100, 50)]

    run(test)
