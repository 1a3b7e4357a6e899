"""Share sessions of several tenants: what one has leaves room for others."""

from __future__ import annotations

import pytest

from gateway.broker import share_sessions
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.homes_asking import share_fetch
from tests.gateway.serving import Client
from tests.gateway.tenants import Tenants, run


async def opened(client: Client, member: str, topic_id: bytes, epoch: int = 0) -> int:
    """The error of a fetch that opens a session, or with -1 ends one."""
    request = share_fetch("g", topic_id, epoch)
    request.member_id = member
    if epoch < 0:
        request.topics = []
    code: int = (await client.ask(ApiKey.SHARE_FETCH, 2, request)).error_code
    return code


def test_a_tenant_has_its_share_of_sessions() -> None:
    async def test(tenants: Tenants) -> None:
        boss, other = await tenants.login("shop.boss"), await tenants.login("other.boss")
        topics = [await tenants.topic(each, "orders") for each in (boss, other)]
        codes = [await opened(boss, f"m{each}", topics[0]) for each in range(3)]
        assert codes == [0, 0, Error.SHARE_SESSION_LIMIT_REACHED]
        # also its second connection
        again = await tenants.login("shop.boss")
        assert await opened(again, "m9", topics[0]) == Error.SHARE_SESSION_LIMIT_REACHED
        assert await opened(other, "m0", topics[1]) == 0
        # one that is opened anew is the same one, and one that ends leaves room
        assert await opened(boss, "m0", topics[0]) == 0
        assert await opened(boss, "m0", topics[0], -1) == 0
        assert await opened(boss, "m2", topics[0]) == 0

    run(test, "group.share.max.share.sessions=8", "group.share.max.size=8")


def test_a_tenant_has_its_share_of_the_partitions_in_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 4)

    async def test(tenants: Tenants) -> None:
        boss, other = await tenants.login("shop.boss"), await tenants.login("other.boss")
        topics = [await tenants.topic(each, "orders") for each in (boss, other)]
        codes = [await opened(boss, f"m{each}", topics[0]) for each in range(2)]
        assert codes == [0, Error.SHARE_SESSION_LIMIT_REACHED]
        assert await opened(other, "m0", topics[1]) == 0

    run(test)
