"""Share sessions on the wire: epochs, who may open and close them, and what ends them (KIP-932)."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest

from gateway.broker import share_sessions
from gateway.broker.share_sessions import MAX_EPOCH
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import Clock, run, until
from tests.gateway.broker.share_asking import (
    GROUP,
    acquired,
    alter_group,
    errors,
    serving,
    share_acknowledge,
    share_fetch,
    share_fetch_body,
    told,
)
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, batch, create, produce_body

FINAL = -1


async def topic(gateway: Gateway, client: Client, records: int = 4, partitions: int = 1) -> bytes:
    """A topic that the group reads, with so many records in partition 0, each a batch; its id."""
    topic_id = await create(client, "t", partitions)
    await gateway.broker.subscriptions.ensure(GROUP, "t")
    for index in range(records):
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"%d" % index)))
    return topic_id


def test_epoch_0_opens_a_session_and_each_request_goes_one_further() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        answer = await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        assert answer.acquisition_lock_timeout_ms == 30_000
        assert acquired(answer) == {0: {0: 1}}
        # the session knows what is fetched
        assert acquired(await share_fetch(client, "m", 1, max_records=1)) == {0: {1: 1}}
        for epoch in (1, 3, 0x7FFFFFFF):
            answer = await share_fetch(client, "m", epoch)
            assert answer.error_code == Error.INVALID_SHARE_SESSION_EPOCH
            assert (answer.acquisition_lock_timeout_ms, answer.responses) == (0, [])
        acked = await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 0, 1)]})
        assert (errors(acked), acked.acquisition_lock_timeout_ms) == ({0: 0}, 30_000)
        answer = await share_acknowledge(client, "m", 2, topic_id, {0: [(1, 1, 1)]})
        assert answer.error_code == Error.INVALID_SHARE_SESSION_EPOCH
        assert acquired(await share_fetch(client, "m", 3, max_records=1)) == {0: {2: 1}}

    run(test)


def test_epochs_go_round_to_1() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        session = gateway.broker.share_sessions.get(GROUP, "m")
        assert session is not None
        session.epoch = MAX_EPOCH
        assert acquired(await share_fetch(client, "m", MAX_EPOCH, max_records=1))
        assert acquired(await share_fetch(client, "m", 1, max_records=1))

    run(test)


def test_only_a_fetch_opens_a_session() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        for epoch in (1, 7, FINAL):
            assert (await share_fetch(client, "m", epoch)).error_code == Error.SHARE_SESSION_NOT_FOUND
            answer = await share_acknowledge(client, "m", epoch, topic_id, {0: [(0, 0, 1)]})
            assert (answer.error_code, answer.responses) == (Error.SHARE_SESSION_NOT_FOUND, [])
        answer = await share_acknowledge(client, "m", 0, topic_id, {0: [(0, 0, 1)]})
        assert answer.error_code == Error.INVALID_SHARE_SESSION_EPOCH
        assert len(gateway.broker.share_sessions) == 0

    run(test)


@pytest.mark.parametrize(("group", "member"), [(None, "m"), ("g", None), ("g", ""), ("g", "x" * 37)])
def test_who_has_no_proper_name_is_refused(group: str | None, member: str | None) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        answer = await share_fetch(client, member, 0, topic_id, [0], group=group)
        assert answer.error_code == Error.INVALID_REQUEST
        assert answer.error_message
        answer = await share_acknowledge(client, member, 1, topic_id, {0: [(0, 0, 1)]}, group=group)
        assert answer.error_code == Error.INVALID_REQUEST

    run(test)


def test_a_session_cannot_begin_with_acknowledgements() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        answer = await share_fetch(client, "m", 0, topic_id, [0], acks={0: [(0, 0, 1)]})
        assert answer.error_code == Error.INVALID_REQUEST
        assert (await share_fetch(client, "m", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


def test_a_session_of_one_group_is_none_of_another() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        answer = await share_fetch(client, "m", 1, group="h")
        assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
        assert (await share_fetch(client, "n", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
def test_the_final_epoch_acknowledges_first_and_gives_the_rest_back_counted(by: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
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


def test_a_member_that_opens_again_finds_what_it_holds() -> None:
    """As in Kafka. What it fetches no more is its own until it has said what became of it."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, partitions=2)
        await share_fetch(client, "m", 0, topic_id, [0, 1], max_records=2)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [1])) == {}
        assert list(serving(gateway).consumers) == ["m"]
        sessions = gateway.broker.share_sessions
        assert (len(sessions), sessions.total) == (1, 2)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {2: 1, 3: 1}}
        assert errors(await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 1, 1)]})) == {0: 0}
        assert list(serving(gateway).consumers) == ["n"]
        assert acquired(await share_fetch(client, "m", 2)) == {}

    run(test)


@pytest.mark.parametrize("how", ["opens anew", "goes on"])
def test_a_member_keeps_what_it_holds_while_a_connection_of_it_is_there(how: str) -> None:
    """Its fetch connection idled and was closed; it heartbeats on the other one and works on its records."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
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


def test_a_stranger_that_names_a_member_neither_goes_on_with_its_session_nor_replaces_nor_ends_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        stranger = await Client.connect(gateway, client_id="stranger")
        await beat(client, GROUP, "m", 0, "t")
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        for epoch in (0, 1, FINAL):
            answer = await share_fetch(
                stranger, "m", epoch, topic_id if not epoch else b"", [0] if not epoch else []
            )
            assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
        for epoch in (1, FINAL):
            acked = await share_acknowledge(stranger, "m", epoch, topic_id, {0: [(0, 0, 1)]})
            assert acked.error_code == Error.SHARE_SESSION_NOT_FOUND
        for epoch in (0, 1, FINAL):
            answer = await beat(stranger, GROUP, "m", epoch, *(["t"] if not epoch else []))
            assert answer.error_code == Error.FENCED_MEMBER_EPOCH
        assert acquired(await share_fetch(client, "m", 1, max_records=1)) == {0: {1: 1}}
        stranger.close()

    run(test)


def test_a_stranger_that_is_quicker_does_not_lock_a_member_out() -> None:
    """Before the member's first fetch, or after a restart of the gateway, the member has no session."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        stranger = await Client.connect(gateway, client_id="stranger")
        await beat(client, GROUP, "m", 0, "t")
        assert acquired(await share_fetch(stranger, "m", 0, topic_id, [0])) == {0: dict.fromkeys(range(4), 1)}
        # what the stranger was given counts as delivered
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0])) == {0: dict.fromkeys(range(4), 2)}
        for epoch in (0, 1, FINAL):
            answer = await share_fetch(stranger, "m", epoch)
            assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
        stranger.close()
        await until(lambda: len(gateway.listeners[0].connections) == 1)
        acked = await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 3, 1)]})
        assert errors(acked) == {0: 0}

    run(test)


def test_a_stranger_that_names_a_member_does_not_keep_it_alive() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        stranger = await Client.connect(gateway, client_id="stranger")
        beats, fetches = await Client.connect(gateway), await Client.connect(gateway)
        epoch = (await beat(beats, GROUP, "m", 0, "t")).member_epoch
        await share_fetch(fetches, "m", 0, topic_id, [0])
        beats.close()
        await until(lambda: len(gateway.listeners[0].connections) == 3)
        assert (await beat(stranger, GROUP, "m", epoch)).error_code == Error.FENCED_MEMBER_EPOCH
        fetches.close()
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0], max_wait=60_000)) == {
            0: dict.fromkeys(range(4), 2)
        }
        stranger.close()

    run(test)


def test_nothing_is_remembered_of_members_that_are_gone() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client, 3, partitions=2)
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


@pytest.mark.parametrize("by", ["time", "connection"])
def test_what_a_member_that_left_says_nothing_of_goes_back_counted(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "LAST_WORDS", 0.02 if by == "time" else 60)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
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
        topic_id = await topic(gateway, client)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        gateway.broker.subscriptions.member_gone(GROUP, "m", graceful=True)
        assert acquired(await share_fetch(client, "m", 1, topic_id, [0], max_records=1)) == {0: {1: 1}}
        # longer than its last words may take
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0], max_records=2)) == {0: {2: 1, 3: 1}}
        assert acquired(await share_fetch(client, "n", 1, max_wait=60)) == {}
        assert errors(await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 1, 1)]})) == {0: 0}

    run(test)


def test_there_are_no_more_sessions_than_may_be_and_who_is_refused_waits_first() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await share_fetch(client, "a", 0, topic_id, [0], max_records=1)
        await share_fetch(client, "b", 0, topic_id, [0], max_records=1)
        began = time.monotonic()
        answer = await share_fetch(client, "c", 0, topic_id, [0], max_wait=50)
        assert answer.error_code == Error.SHARE_SESSION_LIMIT_REACHED
        assert time.monotonic() - began >= 0.045
        # the next request ends the wait
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("c", 0, topic_id, [0], max_wait=60_000))
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("a", 0, topic_id, [0], max_records=1))
        assert (await client.receive())[1].error_code == Error.SHARE_SESSION_LIMIT_REACHED
        assert acquired((await client.receive())[1]), "its own session makes room for its new one"
        await share_fetch(client, "b", FINAL)
        assert acquired(await share_fetch(client, "c", 0, topic_id, [0]))
        assert gateway.broker.metrics.share_sessions.value == 2

    run(test, "group.share.max.share.sessions=2", "group.share.max.size=2")


def test_sessions_remember_only_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 5)

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        sessions = gateway.broker.share_sessions
        await share_fetch(client, "a", 0, topic_id, [0, 1, 2])
        answer = await share_fetch(client, "b", 0, topic_id, [0, 1, 2])
        assert answer.error_code == Error.SHARE_SESSION_LIMIT_REACHED
        assert (await share_fetch(client, "b", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND
        assert (len(sessions), sessions.total) == (1, 3)
        await share_fetch(client, "a", 1, topic_id, forget=[1, 2])
        assert errors(await share_fetch(client, "b", 0, topic_id, range(4)))
        # one too many: its session ends, what it held goes back
        answer = await share_fetch(client, "a", 2, topic_id, [9])
        assert answer.error_code == Error.SHARE_SESSION_LIMIT_REACHED
        assert acquired(await share_fetch(client, "b", 1)) == {0: dict.fromkeys(range(4), 1)}, "not its doing"
        await share_fetch(client, "b", FINAL)
        assert sessions.total == 0

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


def test_what_is_forgotten_is_fetched_no_more_but_can_be_acknowledged() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=2)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0, 1])) == {0: {0: 1, 1: 1}}
        await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"2"), batch(b"0")))
        answer = await share_fetch(client, "m", 1, topic_id, forget=[0])
        assert acquired(answer) == {1: {0: 1}}
        partition = serving(gateway)
        assert list(partition.consumers) == ["m"], "it still holds records"
        assert errors(await share_acknowledge(client, "m", 2, topic_id, {0: [(0, 0, 1)]})) == {0: 0}
        assert list(partition.consumers) == ["m"]
        assert errors(await share_acknowledge(client, "m", 3, topic_id, {0: [(1, 1, 1)]})) == {0: 0}
        assert not partition.consumers
        # wanted again
        assert acquired(await share_fetch(client, "m", 4, topic_id, [0])) == {0: {2: 1}}
        answer = await share_fetch(client, "m", 5, topic_id, [0], forget=[0, 1, 9])
        assert answer.responses == []
        assert (await share_fetch(client, "m", 6, max_wait=60_000)).responses == [], "nothing to wait for"

    run(test)


def test_what_a_member_forgot_goes_back_when_its_session_ends() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        await share_fetch(client, "m", 0, topic_id, [0])
        await share_fetch(client, "m", 1, topic_id, forget=[0])
        await share_fetch(client, "m", FINAL)
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {0: 2, 1: 2}}

    run(test)


def test_topics_and_partitions_that_are_not_there() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        unknown = uuid.uuid4().bytes
        answer = await share_fetch(client, "m", 0, unknown, [0], max_wait=60_000)
        assert errors(answer) == {0: Error.UNKNOWN_TOPIC_ID}
        # told until it is forgotten
        answer = await share_fetch(client, "m", 1, topic_id, [0, 7], max_wait=60_000)
        (gone,), (found, missing) = [topic.partitions for topic in answer.responses]
        assert (gone.error_code, found.error_code) == (Error.UNKNOWN_TOPIC_ID, 0)
        assert missing.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
        await share_fetch(client, "m", 2, unknown, forget=[0])
        answer = await share_fetch(client, "m", 3, topic_id, forget=[7])
        assert answer.responses == []
        for asked, index, code in [
            (unknown, 0, Error.UNKNOWN_TOPIC_ID),
            (topic_id, 7, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ]:
            session = gateway.broker.share_sessions.get(GROUP, "m")
            assert session is not None
            acked = await share_acknowledge(client, "m", session.epoch, asked, {index: [(0, 0, 1)]})
            assert errors(acked) == {index: code}

    run(test)


def test_a_group_that_does_not_read_the_topic() -> None:
    """As in Kafka: no better code for a fetch; and told where an acknowledgement fails."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        answer = await share_fetch(client, "m", 0, topic_id, [0], group="stranger", max_wait=60_000)
        assert errors(answer) == {0: Error.UNKNOWN_SERVER_ERROR}
        assert "stranger has no subscription to t" in told(answer)[0].error_message
        acked = await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 0, 1)]}, group="stranger")
        assert errors(acked) == {0: Error.UNKNOWN_TOPIC_OR_PARTITION}

    run(test)


def test_a_gateway_that_stops_lets_its_sessions_go_uncounted() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
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
