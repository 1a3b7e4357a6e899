"""The right to read in a group, taken away from a member whose join waits for the others."""

from __future__ import annotations

from typing import Any

from gateway.apis.rights_table import Kind
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation
from tests.gateway.apis.rights_double import RightsDouble, changed
from tests.gateway.apis.test_rights import run
from tests.gateway.serving import Client, create

FORBIDDEN = Error.GROUP_AUTHORIZATION_FAILED


def join(member: str = "") -> messages.JoinGroupRequest:
    protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return messages.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member,
        protocol_type="consumer",
        protocols=[protocol],
    )


def sync(joined: Any) -> messages.SyncGroupRequest:
    return messages.SyncGroupRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=[]
    )


def test_a_join_that_waits_leads_to_nothing_once_the_right_is_gone() -> None:
    async def test(gateway: Gateway, admin: Client, client: Client, double: RightsDouble) -> None:
        await create(admin, "t")
        first = await admin.ask(ApiKey.JOIN_GROUP, 3, join())
        await admin.ask(ApiKey.SYNC_GROUP, 2, sync(first))
        double.granted = {(Kind.GROUP, Operation.READ, "g")}
        client.send(ApiKey.JOIN_GROUP, 3, join())
        await client.writer.drain()
        beat = messages.HeartbeatRequest(
            group_id="g", generation_id=first.generation_id, member_id=first.member_id
        )
        # the other member is asked to come again: so the join has come, and waits

        async def asked() -> int:
            code: int = (await admin.ask(ApiKey.HEARTBEAT, 2, beat)).error_code
            return code

        while await asked() != Error.REBALANCE_IN_PROGRESS:
            pass
        double.granted = set()
        changed(gateway)
        admin.send(ApiKey.JOIN_GROUP, 3, join(first.member_id))
        _, joined = await client.receive()
        # whether it is told now or by its next request, it gets no partition
        if joined.error_code == Error.NONE:
            synced = await client.ask(ApiKey.SYNC_GROUP, 2, sync(joined))
            assert (synced.error_code, synced.assignment) == (FORBIDDEN, b"")
        else:
            assert joined.error_code == FORBIDDEN
        again = await client.ask(ApiKey.JOIN_GROUP, 3, join())
        assert again.error_code == FORBIDDEN

    run(test)
