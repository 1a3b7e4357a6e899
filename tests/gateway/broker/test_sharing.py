"""Share fetches at work: order, and waiting for records."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.subscriptions.hashing import slot_of
from tests.gateway.broker.asking import delete_topic
from tests.gateway.broker.held import run
from tests.gateway.broker.share_asking import (
    ACCEPT,
    FOR_LONG,
    GROUP,
    RELEASE,
    acquired,
    alter_group,
    errors,
    parked,
    put,
    serving,
    share_acknowledge,
    share_acknowledge_body,
    share_fetch,
    share_fetch_body,
    told,
    topic,
)
from tests.gateway.broker.share_members import beat
from tests.gateway.serving import Client, batch, produce_body

# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_records() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, partitions=2)
        producer = await Client.connect(gateway)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0, 1], max_wait=FOR_LONG))
        await parked(gateway)
        await put(producer, b"v", partition=1)
        _, answer = await client.receive()
        assert acquired(answer) == {1: {0: 1}}
        assert set(told(answer)) == {0, 1}, "the first answer tells of all partitions"
        await parked(gateway, 0)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=FOR_LONG))
        await parked(gateway)
        await put(producer, b"v")
        assert list(told((await client.receive())[1])) == [0], "a later one only of what is new"
        producer.close()

    run(test)


def test_a_fetch_that_found_nothing_ends_after_max_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0], max_wait=20)) == {}
        assert acquired(await share_fetch(client, "m", 1)) == {}
        await put(client, b"v")
        assert acquired(await share_fetch(client, "m", 2, max_wait=20)) == {0: {0: 1}}
        await parked(gateway, 0)

    run(test)


@pytest.mark.parametrize("behind", ["acknowledge", "fetch", "other"])
def test_the_next_request_ends_the_wait(behind: str) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=FOR_LONG))
        await parked(gateway)
        if behind == "acknowledge":
            body = share_acknowledge_body("m", 2, topic_id, {0: [(0, 0, ACCEPT)]})
            client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, body)
        elif behind == "fetch":
            client.send(
                ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 2, topic_id, acks={0: [(0, 0, RELEASE)]})
            )
        else:
            client.send(ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest())
        assert acquired((await client.receive())[1]) == {}
        _, answer = await client.receive()
        assert answer.error_code == 0
        if behind == "fetch":
            assert acquired(answer) == {0: {0: 2}}

    run(test)


def test_one_record_goes_to_who_waits_longest() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        waiting = [await Client.connect(gateway) for _ in range(3)]
        for number, each in enumerate(waiting):
            body = share_fetch_body(f"m{number}", 0, topic_id, [0], max_wait=FOR_LONG)
            each.send(ApiKey.SHARE_FETCH, 2, body)
            await parked(gateway, number + 1)
        for number, each in enumerate(waiting):
            await put(client, b"v")
            assert acquired((await each.receive())[1]) == {0: {number: 1}}
        for each in waiting:
            each.close()

    run(test)


def test_a_client_that_went_away_waits_no_more() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        other = await Client.connect(gateway)
        other.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        other.close()
        await parked(gateway, 0)
        assert not serving(gateway).parked
        await put(client, b"v")
        assert acquired(await share_fetch(client, "n", 0, topic_id, [0])) == {0: {0: 1}}

    run(test)


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_while_it_is_waited_for(again: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        other = await Client.connect(gateway)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], max_wait=FOR_LONG))
        await parked(gateway)
        assert await delete_topic(other, "t") == 0
        # on its way out: look again
        assert errors((await client.receive())[1]) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        assert errors(await share_fetch(client, "m", 1, max_wait=FOR_LONG)) == {0: Error.UNKNOWN_TOPIC_ID}
        if again:
            new_id = await topic(gateway, other, 1)
            answer = await share_fetch(client, "m", 2, new_id, [0], max_wait=FOR_LONG)
            (gone,), (found,) = [each.partitions for each in answer.responses]
            assert gone.error_code == Error.UNKNOWN_TOPIC_ID
            assert [(each.first_offset, each.delivery_count) for each in found.acquired_records] == [(0, 1)]
        other.close()

    run(test)


def test_key_shared_gives_each_member_its_keys_and_waits_for_who_holds_one() -> None:
    """Two members: what one may not have wakes the other, and a key that is in hand keeps its next record back."""

    async def test(gateway: Gateway, client: Client) -> None:
        await alter_group(client, **{"pulsar.subscription.type": "key_shared"})
        topic_id = await topic(gateway, client)
        other, producer = await Client.connect(gateway), await Client.connect(gateway)
        members = {"m": client, "n": other}
        for member, each in members.items():
            await share_fetch(each, member, 0, topic_id, [0])
        for member, each in members.items():
            each.send(ApiKey.SHARE_FETCH, 2, share_fetch_body(member, 1, max_wait=FOR_LONG))
        await parked(gateway, 2)
        for _ in range(2):
            for number in range(20):
                one = produce_body("t", batch(b"v", key=b"key%d" % number))
                await producer.ask(ApiKey.PRODUCE, 9, one)
        epochs = dict.fromkeys(members, 1)
        seen: dict[str, list[int]] = {"m": [], "n": []}
        for member, each in members.items():
            answer = (await each.receive())[1]
            while held := acquired(answer).get(0, {}):
                keys = [offset % 20 for offset in held]
                assert len(keys) == len(set(keys)), "one record of a key at a time"
                seen[member] += list(held)
                epochs[member] += 1
                acks: dict[int, Any] = {0: [(offset, offset, ACCEPT) for offset in sorted(held)]}
                answer = await share_fetch(each, member, epochs[member], topic_id, acks=acks)
        assert sorted(seen["m"] + seen["n"]) == list(range(40))
        assert not {offset % 20 for offset in seen["m"]} & {offset % 20 for offset in seen["n"]}
        assert seen["m"], "both have work"
        assert seen["n"], "both have work"
        for offsets in seen.values():
            for first in range(20):
                if first in offsets:
                    assert offsets.index(first) < offsets.index(first + 20)
        other.close()
        producer.close()

    run(test)


def test_sticky_ranges_are_found_by_the_client_id() -> None:
    """A range's owner may be named by its client id, "test" here; the other half of the slots waits."""

    async def test(gateway: Gateway, client: Client) -> None:
        sticky = {
            "pulsar.subscription.type": "key_shared",
            "pulsar.key.shared.mode": "sticky",
            "pulsar.key.shared.ranges": "test:0-32767,absent:32768-65535",
        }
        await alter_group(client, **sticky)
        topic_id = await topic(gateway, client)
        assert (await beat(client, GROUP, "m", 0, "t")).error_code == 0
        for number in range(20):
            await client.ask(ApiKey.PRODUCE, 9, produce_body("t", batch(b"v", key=b"key%d" % number)))
        slots = [slot_of(b"key%d" % number, None, 0) for number in range(20)]
        mine = {number: 1 for number, slot in enumerate(slots) if slot < 32768}
        assert 0 < len(mine) < 20
        answer = await share_fetch(client, "m", 0, topic_id, [0], max_wait=FOR_LONG)
        assert acquired(answer)[0] == mine

    run(test)


def test_min_bytes_are_waited_for() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 2)
        producer = await Client.connect(gateway)
        # of records that nobody has read yet it guesses that they take 512 bytes
        wanted: dict[str, Any] = {"min_bytes": 4 * 512 + 1, "max_wait": FOR_LONG}
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 0, topic_id, [0], **wanted))
        await parked(gateway)
        for number in range(3):
            assert gateway.broker.metrics.fetches_parked.value == 1
            assert not serving(gateway).holds("m"), "nothing is acquired that is not sent"
            await put(producer, b"%d" % number)
        _, answer = await client.receive()
        assert acquired(answer) == {0: dict.fromkeys(range(5), 1)}
        # or max_wait, with what there is
        await put(producer, b"v")
        assert acquired(await share_fetch(client, "m", 1, min_bytes=4096, max_wait=20)) == {0: {5: 1}}
        producer.close()

    run(test)


def test_two_fetches_of_one_session_cannot_both_wait() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        await share_fetch(client, "m", 0, topic_id, [0])
        other = await Client.connect(gateway)
        client.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 1, max_wait=FOR_LONG))
        await parked(gateway)
        other.send(ApiKey.SHARE_FETCH, 2, share_fetch_body("m", 2, max_wait=FOR_LONG))
        assert acquired((await client.receive())[1]) == {}
        await put(client, b"v")
        assert acquired((await other.receive())[1]) == {0: {0: 1}}
        assert not serving(gateway).parked
        other.close()

    run(test)


# -- among other requests --------------------------------------------------------------------------------------------


def test_requests_are_measured_under_their_names() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        await share_fetch(client, "m", 0, topic_id, [0])
        await share_acknowledge(client, "m", 1, topic_id, {0: [(0, 0, ACCEPT)]})
        text = gateway.broker.metrics.render().decode()
        assert 'magnetar_request_seconds_count{api="ShareFetch"} 1\n' in text
        assert 'magnetar_request_seconds_count{api="ShareAcknowledge"} 1\n' in text
        assert 'magnetar_request_seconds_count{api="Produce"} 1\n' in text, "acknowledgements are none"

    run(test)
