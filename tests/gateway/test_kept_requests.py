"""Large requests that wait behind one that may take long count in what clients may have in memory together."""

from __future__ import annotations

from typing import Any

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import part, run, until
from tests.gateway.serving import Client, batch, create, produce_body

KB = 1024
SIZE = 600 * KB


def join(client: Client) -> int:
    request = messages.JoinGroupRequest
    body = request(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=600_000,
        member_id="",
        protocol_type="consumer",
        protocols=[request.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return client.send(ApiKey.JOIN_GROUP, 3, body)


async def behind_a_join(gateway: Gateway) -> tuple[Client, str, Client]:
    """The first member of a group and its id, and one that waits for it, with a large Produce behind."""
    first, second = await Client.connect(gateway), await Client.connect(gateway)
    join(first)
    _, joined = await first.receive()
    await second.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
    join(second)
    second.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * SIZE)))
    return first, joined.member_id, second


async def leave(client: Client, member_id: str) -> Any:
    return await client.ask(
        ApiKey.LEAVE_GROUP, 2, messages.LeaveGroupRequest(group_id="g", member_id=member_id)
    )


def test_a_large_request_behind_a_join_counts_until_it_is_served() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        receiving = gateway.broker.receiving
        first, member, second = await behind_a_join(gateway)
        # all of it has come, and nothing is unfinished
        await until(lambda: any(each._frames.more for each in gateway.listeners[0].connections))
        assert SIZE < receiving.total < SIZE + KB
        await leave(first, member)
        await second.receive()
        assert part((await second.receive())[1]).error_code == 0
        assert receiving.total == 0
        first.close()
        second.close()

    run(test, "group.initial.rebalance.delay.ms=0")


def test_it_is_closed_when_others_wait_for_its_memory() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        receiving = gateway.broker.receiving
        _, _, second = await behind_a_join(gateway)
        await until(lambda: receiving.total > SIZE)
        other = await Client.connect(gateway)
        await other.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        other.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 900 * KB)))
        await until(lambda: receiving._held != {})
        for _ in range(12):
            receiving.second()
        assert await second.at_end()
        assert part((await other.receive())[1]).error_code == 0
        other.close()

    run(test, "group.initial.rebalance.delay.ms=0", "memory.max.bytes=1048576")
