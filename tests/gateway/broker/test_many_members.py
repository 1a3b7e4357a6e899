"""Ten thousand members of one group on one partition: a subscription has no bound on its consumers (seed 1)."""

from __future__ import annotations

import asyncio
from collections import Counter

from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    GROUP,
    acquired,
    put,
    serving,
    share_acknowledge_body,
    share_fetch_body,
    topic,
)
from tests.gateway.broker.share_members import beat_body, describe
from tests.gateway.serving import Client

MEMBERS = 10_000
CONNECTIONS = 20
HOUR = 3_600_000  # nobody is out, however slow the machine is


def test_each_of_ten_thousand_members_gets_and_acknowledges_its_record() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        clients = [await Client.connect(gateway) for _ in range(CONNECTIONS)]
        mine = [
            [f"m{number}" for number in range(start, MEMBERS, CONNECTIONS)] for start in range(CONNECTIONS)
        ]
        got: Counter[str] = Counter()

        async def joins(connection: Client, members: list[str]) -> None:
            for member in members:
                answer = await connection.ask(
                    ApiKey.SHARE_GROUP_HEARTBEAT, 1, beat_body(GROUP, member, 0, "t")
                )
                assert answer.error_code == 0
                opened = await connection.ask(
                    ApiKey.SHARE_FETCH, 2, share_fetch_body(member, 0, topic_id, [0], max_records=1)
                )
                assert not acquired(opened)

        async def works(connection: Client, members: list[str]) -> None:
            for member in members:
                found = await connection.ask(
                    ApiKey.SHARE_FETCH,
                    2,
                    share_fetch_body(member, 1, max_records=1, max_wait=FOR_LONG, mode=1),
                )
                offsets = acquired(found)[0]
                got[member] += len(offsets)
                acks = {0: [(offset, offset, ACCEPT) for offset in offsets]}
                settled = await connection.ask(
                    ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body(member, 2, topic_id, acks)
                )
                assert settled.responses[0].partitions[0].error_code == 0

        await asyncio.gather(*map(joins, clients, mine))
        (group,) = await describe(client, GROUP)
        assert len(group.members) == MEMBERS
        for _ in range(MEMBERS // 500):
            await put(client, *[b"v"] * 500)
        await asyncio.gather(*map(works, clients, mine))
        assert got == dict.fromkeys((member for members in mine for member in members), 1)
        assert serving(gateway).ready().start == MEMBERS
        for each in clients:
            each.close()

    run(test, f"group.share.max.session.timeout.ms={HOUR}", f"group.share.session.timeout.ms={HOUR}")
