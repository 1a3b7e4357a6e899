"""Who may join a share group."""

from __future__ import annotations

import asyncio

from gateway.server import Gateway
from gateway.wire.errors import Error
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_members import alter, beat
from tests.gateway.serving import Client, create


def test_nobody_joins_while_it_is_being_deleted() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        await beat(client, "g", "m", 0, "t")
        await beat(client, "g", "m", -1)
        store.holding = True
        deletion = asyncio.ensure_future(gateway.broker.share_groups.delete("g"))
        await store.has(1)
        answer = await beat(client, "g", "m", 0, "t")
        assert answer.error_code == Error.COORDINATOR_NOT_AVAILABLE
        store.release()
        await deletion
        assert (await beat(client, "g", "m", 0, "t")).error_code == 0
        assert gateway.broker.subscriptions.get("g", "t") is not None

    run_held(test)


class TestSticky:
    """Seed 1, "Sticky": who brings no ranges, or those of another, is as if it never tried."""

    STICKY = {
        "pulsar__subscription__type": "key_shared",
        "pulsar__key__shared__mode": "sticky",
        "pulsar__key__shared__ranges": "test:0-9,named:10-65535",
    }

    def test_only_those_with_ranges(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await alter(gateway, "g", **self.STICKY)
            # by its client id, which is "test"; by its member id
            assert (await beat(client, "g", "m1", 0, "t")).error_code == 0
            assert (await beat(client, "g", "named", 0, "t")).error_code == 0
            assert (await beat(client, "g", "m1", 0, "t")).error_code == 0, "again"
            refused = await beat(client, "g", "m2", 0, "t")
            assert refused.error_code == Error.INVALID_REQUEST
            assert "those of member m1 already" in refused.error_message
            await beat(client, "g", "m1", -1)
            assert (await beat(client, "g", "m2", 0, "t")).error_code == 0

        run(test)

    def test_none(self) -> None:
        async def test(gateway: Gateway, client: Client) -> None:
            await alter(gateway, "g", **{**self.STICKY, "pulsar__key__shared__ranges": "other:0-65535"})
            refused = await beat(client, "g", "m", 0, "t")
            assert refused.error_code == Error.INVALID_REQUEST
            assert "has none for member m or client test" in refused.error_message

        run(test)
