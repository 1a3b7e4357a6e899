"""Acknowledgements of share groups: which are refused, when they are told, what an answer to them carries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.broker.acknowledging import refusal
from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from store.api import Durability, StoreError
from tests.gateway.broker.held import HeldStore, run, run_held
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    GROUP,
    RELEASE,
    RENEW,
    ack_errors,
    acquired,
    alter_group,
    errors,
    put,
    share_acknowledge,
    share_acknowledge_body,
    share_fetch,
    share_fetch_body,
    told,
    topic,
)
from tests.gateway.serving import Client, create

# -- what is wrong with acknowledgements by themselves ---------------------------------------------------------------


@pytest.mark.parametrize(
    "acks",
    [
        [(0, 0, b"\1")],
        [(0, 2, b"\1"), (3, 3, b"\2"), (7, 9, b"\0\1\3")],
        [(5, 5, b"\0")],
    ],
)
def test_acknowledgements_that_are_in_order(acks: list[tuple[int, int, bytes]]) -> None:
    assert refusal(acks, renewing=False) == Error.NONE


@pytest.mark.parametrize(
    ("acks", "error"),
    [
        ([(1, 0, b"\1")], Error.INVALID_REQUEST),
        ([(5, 6, b"\1"), (2, 3, b"\1")], Error.INVALID_REQUEST),
        ([(0, 3, b"\1"), (2, 4, b"\1")], Error.INVALID_REQUEST),
        ([(0, 3, b"\1"), (3, 4, b"\1")], Error.INVALID_RECORD_STATE),
        ([(-5, 0, b"\1")], Error.INVALID_REQUEST),
        ([(0, 0, b"")], Error.INVALID_REQUEST),
        ([(0, 2, b"\1\1")], Error.INVALID_REQUEST),
        ([(0, 0, b"\1\1")], Error.INVALID_REQUEST),
        ([(0, 0, b"\4")], Error.INVALID_REQUEST),
        ([(0, 0, b"\5")], Error.INVALID_REQUEST),
        ([(0, 0, b"\xff")], Error.INVALID_REQUEST),
        ([(0, 0, b"\1"), (1, 2, b"\1\4")], Error.INVALID_REQUEST),
    ],
)
def test_acknowledgements_that_are_not(acks: list[tuple[int, int, bytes]], error: Error) -> None:
    assert refusal(acks, renewing=False) == error


def test_renewing_has_to_be_said_and_to_be_known() -> None:
    acks = [(0, 1, b"\4\1")]
    assert refusal(acks, renewing=True) == Error.NONE
    assert refusal(acks, renewing=False) == Error.INVALID_REQUEST
    assert refusal([(0, 0, b"\5")], renewing=True) == Error.INVALID_REQUEST
    assert refusal([(0, 0, b"\1")], renewing=True) == Error.NONE


# -- acknowledgements ------------------------------------------------------------------------------------------------


def test_what_is_acknowledged_is_told_by_partition() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3, partitions=2)
        await share_fetch(client, "m", 0, topic_id, [0, 1])
        answer = await share_fetch(
            client, "m", 1, topic_id, acks={0: [(0, 0, RELEASE), (1, 2, ACCEPT)], 1: [(1, 0, ACCEPT)]}
        )
        # what was released comes back with the same answer
        assert acquired(answer) == {0: {0: 2}}
        assert ack_errors(answer) == {0: 0, 1: Error.INVALID_REQUEST}
        acked = await share_acknowledge(
            client, "m", 2, topic_id, {0: [(1, 1, ACCEPT)], 1: [(0, 2, [1, 2, 3])], 7: [(0, 0, 1)]}
        )
        assert errors(acked) == {0: Error.INVALID_RECORD_STATE, 1: 0, 7: Error.UNKNOWN_TOPIC_OR_PARTITION}
        assert told(acked)[0].error_message
        acked = await share_acknowledge(client, "m", 3, topic_id, {0: [], 1: []})
        assert errors(acked) == {0: 0, 1: 0}, "a client counts on every partition that it named"

    run(test)


@pytest.mark.parametrize("wrong", [None, (150, 150, ACCEPT), (3, 3, ACCEPT), (70, 70, RELEASE)])
def test_many_acknowledgements_of_key_shared_are_all_taken_or_none(
    wrong: tuple[int, int, int] | None,
) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        topic_id = await topic(gateway, client)
        await put(client, *[b"%d" % number for number in range(200)])
        await share_fetch(client, "m", 0, topic_id, [0])
        answer = await share_fetch(client, "m", 1, max_records=120)
        held = sorted(acquired(answer)[0])
        assert len(held) == 120
        counts = gateway.broker.metrics.share_acks
        before = counts.value
        said = [(at, at, ACCEPT) for at in held]
        if wrong is not None:
            said = sorted([*(each for each in said if each[0] != wrong[0]), wrong])
            if wrong[0] == 3:
                # not in this member's hands any more
                await share_acknowledge(client, "m", 2, topic_id, {0: [(3, 3, ACCEPT)]})
                before += 1
        epoch = 3 if wrong is not None and wrong[0] == 3 else 2
        acked = await share_acknowledge(client, "m", epoch, topic_id, {0: said})
        taken = wrong is None or wrong[2] == RELEASE
        assert errors(acked) == {0: 0 if taken else Error.INVALID_RECORD_STATE}
        assert counts.value - before == ((120 if wrong is None else 119) if taken else 0)
        # the rest, and what was released
        answer = await share_fetch(client, "m", epoch + 1, max_records=500)
        again = sorted(acquired(answer)[0])
        assert (70 in again) == (wrong is not None and wrong[2] == RELEASE)
        assert not set(again) & (set(held) - {70})

    run(test)


@pytest.mark.parametrize("version", [1, 2])
def test_renewing(version: int) -> None:
    """KIP-1222: the request says so, and fetches nothing."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 3)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=2)
        acks = {0: [(0, 0, RENEW)]}
        answer = await share_acknowledge(client, "m", 1, topic_id, acks, version=version)
        assert errors(answer) == {0: Error.INVALID_REQUEST}
        if version == 1:
            answer = await share_fetch(client, "m", 2, acks=acks, version=1, topic_id=topic_id)
            assert ack_errors(answer) == {0: Error.INVALID_REQUEST}
            return
        assert errors(await share_acknowledge(client, "m", 2, topic_id, acks, renew=True)) == {0: 0}
        nothing = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        for name in nothing:
            asked: dict[str, Any] = {**nothing, name: 1}
            answer = await share_fetch(client, "m", 3, topic_id, acks=acks, renew=True, **asked)
            assert answer.error_code == Error.INVALID_REQUEST, name
        answer = await share_fetch(client, "m", 3, topic_id, acks=acks, renew=True, **nothing)
        assert (ack_errors(answer), acquired(answer)) == ({0: 0}, {})
        answer = await share_fetch(client, "m", 4)
        assert acquired(answer) == {0: {2: 1}}

    run(test)


def test_a_group_may_have_no_renewing() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2, partitions=2)
        await alter_group(client, **{"share.renew.acknowledge.enable": "false"})
        await share_fetch(client, "m", 0, topic_id, [0, 1])
        acks: dict[int, Any] = {0: [(0, 1, [ACCEPT, RENEW])], 1: [(0, 1, ACCEPT)]}
        answer = await share_acknowledge(client, "m", 1, topic_id, acks, renew=True)
        assert errors(answer) == {0: Error.INVALID_RECORD_STATE, 1: 0}

    run(test)


def test_an_answer_to_acknowledgements_leaves_when_they_are_stored_and_not_before() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 3)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=2)
        store.holding = True
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, topic_id, acks={0: [(0, 1, ACCEPT)]}))
        client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 2, topic_id, {0: [(2, 2, 1)]}))
        answered = asyncio.ensure_future(client.receive())
        await store.has(1)
        assert store.queued[0][1] is Durability.OS
        other = await Client.connect(gateway)
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not answered.done()
        assert len(store.queued) == 1, "the next request waits"
        store.land()
        _, answer = await answered
        assert (ack_errors(answer), acquired(answer)) == ({0: 0}, {0: {2: 1}})
        answered = asyncio.ensure_future(client.receive())
        await store.has(1)
        await other.ask(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert not answered.done()
        store.land()
        assert errors((await answered)[1]) == {0: 0}
        other.close()

    run_held(test)


def test_what_comes_while_acknowledgements_are_stored_leaves_with_their_answer() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 2)
        other = await Client.connect(gateway)
        await share_fetch(client, "m", 0, topic_id, [0], max_records=1)
        await share_fetch(other, "n", 0, topic_id, [0])
        store.holding = True
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, topic_id, acks={0: [(0, 0, ACCEPT)]}))
        await store.has(1)
        other.send(
            ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("n", 1, topic_id, {0: [(1, 1, RELEASE)]})
        )
        await store.has(2)
        store.land()
        # its count is told when that is stored too
        await store.has(2)
        store.release()
        _, answer = await client.receive()
        assert (ack_errors(answer), acquired(answer)) == ({0: 0}, {0: {1: 2}})
        other.close()

    run_held(test)


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
def test_acknowledgements_that_could_not_be_stored_are_told_so_and_nothing_is_delivered(by: str) -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 3, partitions=2)
        await share_fetch(client, "m", 0, topic_id, [0, 1], max_records=2)
        store.holding = True
        acks: dict[int, Any] = {0: [(0, 1, ACCEPT)], 1: [(0, 0, ACCEPT)]}
        if by == "fetch":
            client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, topic_id, acks=acks))
        else:
            client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 1, topic_id, acks))
        await store.has(1)
        store.holding = False
        store.fail(StoreError("no"))
        _, answer = await client.receive()
        # of the other partition nothing was delivered
        refused = {0: Error.KAFKA_STORAGE_ERROR, 1: Error.INVALID_REQUEST}
        if by == "fetch":
            assert (ack_errors(answer), acquired(answer)) == (refused, {})
        else:
            assert errors(answer) == refused

    run_held(test)


def test_acknowledgements_are_as_safe_as_their_topic() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await create(client, "t", durability="fsync")
        await gateway.broker.subscriptions.ensure(GROUP, "t")
        await put(client, b"v")
        await share_fetch(client, "m", 0, topic_id, [0])
        store.holding = True
        client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 1, topic_id, {0: [(0, 0, 1)]}))
        await store.has(1)
        assert store.queued[0][1] is Durability.FSYNC

    run_held(test)


def test_acknowledgements_that_change_nothing_wait_for_nothing() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        store.holding = True
        answer = await share_acknowledge(client, "m", 1, topic_id, {0: [(3, 3, ACCEPT)]})
        assert errors(answer) == {0: Error.INVALID_REQUEST}
        assert not store.queued

    run_held(test)


def test_an_acknowledgement_never_waits_for_records() -> None:
    """Kafka keeps its answer back for max_wait."""

    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        answer = await share_fetch(client, "m", 1, topic_id, acks={0: [(0, 0, ACCEPT)]}, max_wait=FOR_LONG)
        assert (ack_errors(answer), acquired(answer)) == ({0: 0}, {})

    run(test)


def test_what_is_wrong_in_itself_is_so_wherever_it_is_sent_to() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, records=1)
        await share_fetch(client, "m", 0, topic_id, [0])
        nowhere = bytes(range(16))
        for epoch, (place, index) in enumerate(((topic_id, 7), (nowhere, 0)), 1):
            answer = await share_acknowledge(client, "m", epoch, place, {index: [(5, 3, ACCEPT)]})
            assert set(errors(answer).values()) == {Error.INVALID_REQUEST}

    run(test)
