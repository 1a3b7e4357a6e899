"""How share sessions end, and what becomes of the records that were in hand."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker import share_sessions
from gateway.broker.stood_still import HEARD_MS, STOOD_STILL_MS
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import Clock, run, until
from tests.gateway.broker.share_asking import (
    GROUP,
    acquired,
    alter_group,
    errors,
    half_filled,
    serving,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    told,
    topic,
)
from tests.gateway.broker.share_members import beat
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, produce_body

FINAL = -1


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
def test_the_final_epoch_acknowledges_first_and_gives_the_rest_back_counted(by: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0])) == {0: dict.fromkeys(range(4), 1)}
        acks = {0: [(0, 0, 1), (2, 2, 2)]}
        if by == "fetch":
            answer = await share_fetch(client, "m", FINAL, topic_id, [0], acks=acks, max_wait=60_000)
            assert told(answer)[0].acknowledge_error_code == 0
            assert not acquired(answer), "a session that ends fetches nothing"
        else:
            answer = await share_acknowledge(client, "m", FINAL, topic_id, acks)
            assert errors(answer) == {0: 0}
        assert (await share_fetch(client, "m", FINAL)).error_code == Error.SHARE_SESSION_NOT_FOUND
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: dict.fromkeys((1, 2, 3), 2)}

    run(test)


@pytest.mark.parametrize("how", ["opens anew", "goes on"])
def test_a_member_keeps_what_it_holds_while_a_connection_of_it_is_there(how: str) -> None:
    """Its fetch connection idled and was closed; it heartbeats on the other one and works on its records."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        beats, fetches = await Client.connect(gateway), await Client.connect(gateway)
        assert (await beat(beats, GROUP, "m", 0, "t")).error_code == 0
        await share_fetch(fetches, "m", 0, topic_id, [0], max_records=2)
        fetches.close()
        await until(lambda: len(gateway.listeners[0].connections) == 2)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {2: 1, 3: 1}}
        again = await Client.connect(gateway)
        if how == "opens anew":
            assert acquired(await share_fetch(again, "m", 0, topic_id, [0])) == {}
        acked = await share_acknowledge(again, "m", 1, topic_id, {0: [(0, 0, 1)]})
        assert errors(acked) == {0: 0}
        beats.close()
        await until(lambda: len(gateway.listeners[0].connections) == 2)
        assert acquired(await share_fetch(client, "n", 1)) == {}, "a fetch connection is left"
        again.close()
        assert acquired(await share_fetch(client, "n", 2, max_wait=60_000)) == {0: {1: 2}}
        assert gateway.broker.share_sessions.get(GROUP, "m") is None

    run(test)


def test_a_member_that_has_only_a_heart_left_and_loses_it_has_crashed() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        beats, fetches = await Client.connect(gateway), await Client.connect(gateway)
        await beat(beats, GROUP, "m", 0, "t")
        await share_fetch(fetches, "m", 0, topic_id, [0])
        fetches.close()
        await until(lambda: len(gateway.listeners[0].connections) == 2)
        beats.close()
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0], max_wait=60_000)) == {
            0: dict.fromkeys(range(4), 2)
        }

    run(test)


def test_a_member_that_is_silent_for_too_long_is_gone_whatever_connections_it_has() -> None:
    clock = Clock()

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        # the lock lasts longer
        await alter_group(client, **{"pulsar.ack.timeout.ms": "600000"})
        await beat(client, GROUP, "m", 0, "t")
        await share_fetch(client, "m", 0, topic_id, [0])
        clock.now += 45_000
        gateway.broker.share_groups._wake()
        await until(lambda: gateway.broker.share_sessions.get(GROUP, "m") is None)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: dict.fromkeys(range(4), 2)}
        assert (await share_fetch(client, "m", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test, clock=clock)


def test_nothing_is_remembered_of_members_that_are_gone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        sessions = gateway.broker.share_sessions
        for number in range(3):
            await share_fetch(client, f"m{number}", 0, topic_id, [0])
            await share_fetch(client, f"m{number}", FINAL)
        await beat(client, GROUP, "b", 0, "t")
        await beat(client, GROUP, "b", FINAL)
        assert not sessions._named
        assert not sessions._by_connection

    run(test)


def test_a_lost_connection_ends_its_sessions_at_once_and_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        other = await Client.connect(gateway)
        await share_fetch(other, "m", 0, topic_id, [0])
        # somebody else waits for what it holds
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("n", 0, topic_id, [0], max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        other.close()
        _, answer = await client.receive()
        assert acquired(answer) == {0: dict.fromkeys(range(4), 2)}
        assert (await share_fetch(client, "m", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


def test_a_connection_that_did_not_open_a_session_does_not_end_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        other = await Client.connect(gateway)
        assert acquired(await share_fetch(other, "m", 1, max_records=1)) == {0: {1: 1}}
        other.close()
        await until(lambda: len(gateway.listeners[0].connections) == 1)
        assert acquired(await share_fetch(client, "m", 2, max_records=1)) == {0: {2: 1}}

    run(test)


def test_a_member_that_the_group_lost_has_no_session() -> None:
    """Fenced while its fetch is parked: the fetch ends, the next request is told."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        subscriptions = gateway.broker.subscriptions
        await share_fetch(client, "m", 0, topic_id, [0])
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        subscriptions.member_gone(GROUP, "m", graceful=False)
        _, answer = await client.receive()
        assert acquired(answer) == {}
        assert (await share_fetch(client, "m", 2)).error_code == Error.SHARE_SESSION_NOT_FOUND
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: dict.fromkeys(range(4), 2)}
        subscriptions.member_gone(GROUP, "nobody", graceful=True)

    run(test)


def test_a_member_that_left_may_still_acknowledge_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's last acknowledgements come by another connection than its goodbye to the group, and later."""
    monkeypatch.setattr(share_sessions, "LAST_WORDS", 60)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await half_filled(gateway, client, 3)
        await share_fetch(client, "m", 0, topic_id, [0, 1])
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=True)
        assert acquired((await client.receive())[1]) == {}
        assert list(serving(gateway).consumers) == ["m"], "it holds records"
        assert not serving(gateway, 1).consumers
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"new")))
        answer = await share_fetch(client, "m", 2, topic_id, max_wait=60_000)
        assert acquired(answer) == {}, "it gets nothing more"
        assert errors(await share_acknowledge(client, "m", FINAL, topic_id, {0: [(0, 1, 1)]})) == {0: 0}
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {2: 2, 3: 1}}

    run(test)


@pytest.mark.parametrize("heard", [True, False])
def test_what_a_member_that_left_has_said_while_the_process_stood_still_is_heard(heard: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        rings = Rings(gateway)
        gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=True)
        rings.ring(round(share_sessions.LAST_WORDS * 1000) + STOOD_STILL_MS)
        if heard:
            said = await share_acknowledge(client, "m", FINAL, topic_id, {0: [(0, 0, 1)]})
            assert errors(said) == {0: 0}
        rings.ring(HEARD_MS)
        assert len(gateway.broker.share_sessions) == 0
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == ({} if heard else {0: {0: 2}})

    run(test)


@pytest.mark.parametrize("by", ["time", "connection"])
def test_what_a_member_that_left_says_nothing_of_goes_back_counted(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "LAST_WORDS", 0.02 if by == "time" else 60)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        other = await Client.connect(gateway)
        await share_fetch(other, "m", 0, topic_id, [0])
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("n", 0, topic_id, [0], max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=True)
        if by == "connection":
            other.close()
        assert acquired((await client.receive())[1]) == {0: dict.fromkeys(range(4), 2)}
        other.close()

    run(test)


def test_a_member_that_left_and_fetches_again_has_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "LAST_WORDS", 0.02)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=True)
        assert acquired(await share_fetch(client, "m", 1, topic_id, [0], max_records=1)) == {0: {1: 1}}
        # longer than its last words may take
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0], max_records=2)) == {0: {2: 1, 3: 1}}
        assert acquired(await share_fetch(client, "n", 1, max_wait=60)) == {}
        assert errors(await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 1, 1)]})) == {0: 0}

    run(test)


def test_a_record_that_makes_its_member_leave_is_a_dead_letter_after_its_last_delivery() -> None:
    """It throws, its consumer closes, and another one begins: not for ever."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        counts = []
        for number in range(5):
            answer = await share_fetch(client, f"m{number}", 0, topic_id, [0], max_records=1)
            counts.append(acquired(answer))
            await share_acknowledge(client, f"m{number}", FINAL, topic_id, {})
        assert counts == [{0: {0: count}} for count in range(1, 6)]
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {1: 1}}
        letters = gateway.broker.catalog.get(f"t-{GROUP}-DLQ")
        assert letters is not None
        assert gateway.broker.log_of(letters, 0).end_offset == 1

    run(test)


def test_where_leaves_do_not_count_what_was_in_hand_keeps_its_count() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await alter_group(client, **{"pulsar.leave.counts": "false"})
        for number in range(8):
            answer = await share_fetch(client, f"m{number}", 0, topic_id, [0])
            assert acquired(answer) == {0: {0: 1}}
            await share_fetch(client, f"m{number}", FINAL)

    run(test)


def test_what_a_member_forgot_goes_back_when_its_session_ends() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await share_fetch(client, "m", 0, topic_id, [0])
        await share_fetch(client, "m", 1, topic_id, forget=[0])
        await share_fetch(client, "m", FINAL)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {0: 2, 1: 2}}

    run(test)


def test_a_gateway_that_stops_lets_its_sessions_go_uncounted() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        await share_fetch(client, "m", 0, topic_id, [0])
        partition = serving(gateway)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=60_000))
        await until(lambda: gateway.broker.metrics.fetches_parked.value == 1)
        await asyncio.wait_for(gateway.listeners[0].stop(10), 10)
        cursor = partition.ready()
        assert (cursor.look(0).state, cursor.look(0).count) == ("AVAILABLE", 0)

    run(test)


@pytest.mark.parametrize("back", [True, False])
def test_a_member_whose_fetch_connection_idled_may_name_itself_again(
    back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka drops the connection of its heartbeats with the one that idled, and makes both anew."""
    monkeypatch.setattr(share_sessions, "BACK_AGAIN", 60 if back else 0.02)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        beats, fetches = await Client.connect(gateway), await Client.connect(gateway)
        epoch = (await beat(beats, GROUP, "m", 0, "t")).member_epoch
        await share_fetch(fetches, "m", 0, topic_id, [0])
        session = gateway.broker.share_sessions.get(GROUP, "m")
        assert session is not None
        (idle,) = [each for each in gateway.listeners[0].connections if each.id == session.connection]
        idle.idled = True
        idle.close("idle")
        assert await fetches.at_end()
        beats.close()
        await until(lambda: len(gateway.listeners[0].connections) == 1)
        if not back:
            assert acquired(await share_fetch(client, "n", 0, topic_id, [0], max_wait=60_000)) == {0: {0: 2}}
            return
        again = await Client.connect(gateway)
        assert (await beat(again, GROUP, "m", epoch)).error_code == 0
        assert acquired(await share_fetch(again, "m", 0, topic_id, [0])) == {}
        assert errors(await share_acknowledge(again, "m", 1, topic_id, {0: [(0, 0, 1)]})) == {0: 0}
        again.close()

    run(test)
