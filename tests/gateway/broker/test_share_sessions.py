"""Share sessions on the wire: epochs, who may open and close them, and what ends them (KIP-932)."""

from __future__ import annotations

import time
import uuid

import pytest

from gateway.broker import share_sessions
from gateway.broker.share_sessions import MAX_EPOCH
from gateway.server import Gateway
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.broker.held import run, until
from tests.gateway.broker.share_asking import (
    GROUP,
    acquired,
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
from tests.gateway.serving import Client, batch, produce_body

FINAL = -1


def test_epoch_0_opens_a_session_and_each_request_goes_one_further() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
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
        topic_id = await topic(gateway, client, 4)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        session = gateway.broker.share_sessions.get(GROUP, "m")
        assert session is not None
        session.epoch = MAX_EPOCH
        assert acquired(await share_fetch(client, "m", MAX_EPOCH, max_records=1))
        assert acquired(await share_fetch(client, "m", 1, max_records=1))

    run(test)


def test_only_a_fetch_opens_a_session() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
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
        topic_id = await topic(gateway, client, 4)
        answer = await share_fetch(client, member, 0, topic_id, [0], group=group)
        assert answer.error_code == Error.INVALID_REQUEST
        assert answer.error_message
        answer = await share_acknowledge(client, member, 1, topic_id, {0: [(0, 0, 1)]}, group=group)
        assert answer.error_code == Error.INVALID_REQUEST

    run(test)


def test_a_session_cannot_begin_with_acknowledgements() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        answer = await share_fetch(client, "m", 0, topic_id, [0], acks={0: [(0, 0, 1)]})
        assert answer.error_code == Error.INVALID_REQUEST
        assert (await share_fetch(client, "m", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


def test_a_session_of_one_group_is_none_of_another() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        answer = await share_fetch(client, "m", 1, group="h")
        assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
        assert (await share_fetch(client, "n", 1)).error_code == Error.SHARE_SESSION_NOT_FOUND

    run(test)


def test_a_member_that_opens_again_finds_what_it_holds() -> None:
    """As in Kafka. What it fetches no more is its own until it has said what became of it."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await half_filled(gateway, client, 4)
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


def test_a_stranger_that_names_a_member_neither_goes_on_with_its_session_nor_replaces_nor_ends_it() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
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
        topic_id = await topic(gateway, client, 4)
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
        topic_id = await topic(gateway, client, 4)
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


def test_there_are_no_more_sessions_than_may_be_and_who_is_refused_waits_first() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 4)
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
        topic_id = await topic(gateway, client, 4)
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


def test_what_is_forgotten_is_fetched_no_more_but_can_be_acknowledged() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await half_filled(gateway, client, 2)
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
