"""The table of a connection's states, and what each means to a client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.connection import Connection
from gateway.connection_state import BUSY, ENDED, LEGAL, MEMORY, STOPPING, UNREAD, State
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.broker.held import HeldStore, run, until
from tests.gateway.large import filled
from tests.gateway.large import run as run_on_disk
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """The states that connections went into."""
    states: list[State] = []
    plain = Connection._enter

    def enter(self: Connection, state: State) -> None:
        plain(self, state)
        states.append(state)

    monkeypatch.setattr(Connection, "_enter", enter)
    return states


def reachable(start: State) -> set[State]:
    found = {start}
    while more := {after for each in found for after in LEGAL[each]} - found:
        found |= more
    return found


def test_every_state_can_be_reached_and_ends() -> None:
    assert set(LEGAL) == reachable(State.OPEN) == set(State)
    assert all(State.CLOSED in reachable(each) for each in State)
    assert not LEGAL[State.CLOSED]
    assert not any(each in after for each, after in LEGAL.items())


def test_reasons_can_be_summed() -> None:
    assert BUSY | UNREAD | MEMORY | STOPPING | ENDED == BUSY + UNREAD + MEMORY + STOPPING + ENDED


@pytest.mark.parametrize("state", [each for each in State if each not in LEGAL[State.OPEN]])
def test_what_the_table_does_not_have_is_a_fault(state: State) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        (connection,) = gateway.listeners[0].connections
        with pytest.raises(AssertionError, match=state.name):
            connection._enter(state)
        assert connection.idle

    run(test)


def test_quick_requests_leave_it_open(walked: list[State]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await client.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert walked == []

    run(test)


def test_a_fetch_parks_and_gives_way(walked: list[State]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        walked.clear()
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await until(lambda: walked)
        assert walked == [State.PARKED]
        client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        await client.receive()
        await client.receive()
        assert walked == [State.PARKED, State.OPEN]
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await until(lambda: walked[2:])
        client.close()
        await until(lambda: walked[3:])
        assert walked[2:] == [State.PARKED, State.CLOSED]

    run(test)


def test_what_waits_for_the_store_works_and_is_not_cut_short_by_its_client(walked: list[State]) -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        store.holding = True
        creating = asyncio.ensure_future(create(client, "t"))
        await store.has(1)
        assert walked == [State.WORKING]
        store.release()
        await creating
        assert walked == [State.WORKING, State.OPEN]
        store.holding = True
        creating = asyncio.ensure_future(create(client, "u"))
        await store.has(1)
        client.close()
        await until(lambda: walked[3:])
        assert walked[2:] == [State.WORKING, State.CLOSED]
        store.release()
        await until(lambda: gateway.broker.topic(b"u"))
        with pytest.raises(asyncio.IncompleteReadError):
            await creating
        assert walked[4:] == []

    run(test, store=store)


def test_a_stop_waits_for_what_works_and_not_for_who_joins_or_is_parked(walked: list[State]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        walked.clear()
        protocol = messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        join = messages.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        client.send(ApiKey.JOIN_GROUP, 2, join)
        await until(lambda: walked)
        assert walked == [State.JOINING]
        parked = await Client.connect(gateway)
        parked.send(ApiKey.FETCH, 11, fetch_body("t", 0, max_wait=60_000))
        await until(lambda: walked[1:])
        assert walked[1:] == [State.PARKED]
        for connection in list(gateway.listeners[0].connections):
            connection.shutdown()
        assert await client.at_end()
        _, answer = await parked.receive()
        assert answer.error_code == 0
        assert await parked.at_end()
        assert sorted(each.name for each in walked[2:]) == ["CLOSED", "CLOSED", "OPEN"]
        parked.close()

    run(test, "group.initial.rebalance.delay.ms=30000")


def test_a_large_answer_is_sent_and_closing_waits_for_it(tmp_path: Path, walked: list[State]) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await filled(client)
        walked.clear()
        await client.ask(ApiKey.FETCH, 11, fetch_body("t", 0))
        await until(lambda: walked[1:])
        assert walked == [State.SENDING, State.OPEN]
        (connection,) = gateway.listeners[0].connections
        client.send(ApiKey.FETCH, 11, fetch_body("t", 0))
        await until(lambda: connection._state is State.SENDING)
        connection.close("for a test")
        connection.close("once more")
        assert connection._state is State.CLOSING
        _, answer = await client.receive()
        assert answer.responses[0].partitions[0].records
        assert await client.at_end()
        assert walked[2:] == [State.SENDING, State.CLOSING, State.CLOSED]

    run_on_disk(tmp_path, test)


def test_produce_requests_on_their_way_are_not_idleness() -> None:
    store = HeldStore()

    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        (connection,) = gateway.listeners[0].connections
        assert connection.idle
        store.holding = True
        for _ in range(3):
            client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v")))
        await store.has(1)
        assert not connection.idle
        connection.shutdown()
        assert not connection.closed, "they are answered first"
        store.release()
        for _ in range(3):
            await client.receive()
        assert await client.at_end()

    run(test, store=store)
