"""Clients whose quotas are used up: told to wait, not read meanwhile; their fetches empty, their topics not made."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from gateway.client_bounds import ClientBounds
from gateway.connection_state import THROTTLED
from gateway.server import Gateway
from gateway.wire import codec, messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis.quota_asking import Parts, alter, entry
from tests.gateway.broker.held import part, run, until
from tests.gateway.broker.share_asking import ACCEPT, ack_errors, acquired, share_fetch, topic
from tests.gateway.login_client import handshake, plain, say
from tests.gateway.rings import Rings
from tests.gateway.serving import Client, batch, create, fetch_body, produce_body
from tests.gateway.tenants import PASSWORD, Tenants
from tests.gateway.tenants import run as tenants_run

# the tests' clients are all of one user
EVERYBODY: Parts = [("user", "ANONYMOUS")]
WINDOWS = ("quota.window.num=2", "quota.window.size.seconds=1")
"""What one second brings may be used up at once."""


async def publish(client: Client, topic: str = "t", size: int = 100, acks: int = -1) -> Any:
    body = produce_body(topic, batch(b"x" * size), acks=acks, timeout_ms=30_000)
    return await client.ask(ApiKey.PRODUCE, 9, body)


def held_back(gateway: Gateway) -> int:
    """Connections that are not read because they were throttled."""
    (listener,) = gateway.listeners
    return sum(bool(each._paused & THROTTLED) for each in listener.connections)


def throttled(gateway: Gateway, why: str) -> float:
    return gateway.broker.metrics._throttled.labels(why).value


def test_who_publishes_too_fast_is_answered_told_to_wait_and_not_read() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        rings = Rings(gateway)
        admin = await Client.connect(gateway, "admin")
        await alter(admin, entry([("client-id", "test")], producer_byte_rate=1000.0))
        assert (await publish(client)).throttle_time_ms == 0
        answer = await publish(client, size=3000)
        assert part(answer).error_code == 0
        assert 2000 < answer.throttle_time_ms < 4000
        assert held_back(gateway) == 1
        coming = asyncio.ensure_future(publish(client))
        # others are served, and are not bound by it
        assert (await publish(admin, size=3000)).throttle_time_ms == 0
        rings.ring(answer.throttle_time_ms - 1)
        assert (await publish(admin)).throttle_time_ms == 0
        assert not coming.done()
        rings.ring(1)
        # what it owed is paid, and nothing is saved up yet
        assert 100 < (await coming).throttle_time_ms < 400
        assert throttled(gateway, "produce") == 2
        admin.close()

    run(test, *WINDOWS)


def pipeline(client: Client, *sizes: int) -> list[int]:
    """Produces that come with one read."""
    return [client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * size))) for size in sizes]


def bounds_of(gateway: Gateway) -> ClientBounds:
    """Of the one connection."""
    (connection,) = gateway.listeners[0].connections
    found = connection.peer.quotas
    assert found is not None
    return found


def test_of_what_comes_together_the_first_that_is_too_much_is_told_and_nothing_behind_it_is_taken() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        pipeline(client, 10, 10, 10, 2000, 10)
        told = [(await client.receive())[1].throttle_time_ms for _ in range(4)]
        assert told[:3] == [0, 0, 0]
        # each has a hundred bytes and some of its own
        assert 1300 < told[3] < 2000
        partition = gateway.broker.partition_of(gateway.broker.at_home(b"t"), 0)  # type: ignore[arg-type]
        assert (partition.high_watermark, held_back(gateway)) == (4, 1)
        rings.ring(told[3])
        assert (await client.receive())[1].throttle_time_ms > 50
        assert partition.high_watermark == 5

    run(test, *WINDOWS)


def test_of_what_comes_together_all_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=100_000.0, request_percentage=100.0))
        await publish(client, size=100)
        bounds = bounds_of(gateway)
        assert bounds.produced is not None
        assert bounds.work is not None
        one = 100_000 - bounds.produced.level
        before = bounds.work.level
        assert one > 100
        for expected in pipeline(client, *[100] * 50):
            answered, answer = await client.receive()
            assert (answered, answer.throttle_time_ms) == (expected, 0)
        assert 100_000 - bounds.produced.level == 51 * one
        assert bounds.work.level < before
        assert (bounds.at_once, bounds.since) == (None, 0)

    run(test, *WINDOWS)


@pytest.mark.parametrize("code", [Error.MESSAGE_TOO_LARGE, Error.CORRUPT_MESSAGE])
def test_what_is_refused_counts_as_well(code: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t", max__message__bytes="100" if code == Error.MESSAGE_TOO_LARGE else "10000")
        Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        sent = bytearray(batch(b"x" * 3000))
        sent[-1] ^= code == Error.CORRUPT_MESSAGE
        answer = await client.ask(ApiKey.PRODUCE, 9, produce_body("t", bytes(sent)))
        assert part(answer).error_code == code
        assert answer.throttle_time_ms > 2000
        assert held_back(gateway) == 1

    run(test, *WINDOWS)


def test_who_calls_itself_otherwise_in_one_read_pays_for_what_it_did_before() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        of_both = {"producer_byte_rate": 100_000.0, "request_percentage": 100.0}
        for name in ("one", "two"):
            await alter(client, entry([("client-id", name)], **of_both))
        found = []
        for name in ("two", "one"):
            client.client_id = name
            await publish(client)
            found.append(bounds_of(gateway))
        two, one = found
        assert one.work is not None
        assert two.produced is not None
        before, left = one.work.level, two.produced.level
        pipeline(client, *[100] * 20)
        client.client_id = "two"
        pipeline(client, 100)
        for _ in range(21):
            assert (await client.receive())[1].throttle_time_ms == 0
        assert one.work.level < before
        assert (one.at_once, one.since) == (None, 0)
        assert two.produced.level < left

    run(test, *WINDOWS)


def test_the_work_of_a_fetch_on_the_short_way_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        await publish(client, size=3000)
        Rings(gateway)
        await alter(client, entry(EVERYBODY, request_percentage=100.0))
        body = fetch_body("t", 0)
        body.topics[0].topic_id = topic_id
        bounds = bounds_of(gateway)
        assert bounds.work is not None
        before = bounds.work.level
        assert part(await client.ask(ApiKey.FETCH, 16, body)).records
        assert bounds.work.level < before

    run(test, *WINDOWS)


def test_clients_of_one_quota_share_its_bucket_whichever_connection_they_come_by() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        other = await Client.connect(gateway, "other")
        assert (await publish(client)).throttle_time_ms == 0
        assert (await publish(other, size=3000)).throttle_time_ms > 2000
        assert (await publish(client)).throttle_time_ms > 2000
        other.close()

    run(test, *WINDOWS)


def test_who_closes_a_connection_and_comes_back_owes_what_it_did() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        partition = gateway.broker.partition_of(gateway.broker.at_home(b"t"), 0)  # type: ignore[arg-type]
        first = await Client.connect(gateway)
        owed = (await publish(first, size=3000)).throttle_time_ms
        assert owed > 2000
        first.close()
        # it is not read by another connection, whatever it calls itself; others than produces are served
        back, third = await Client.connect(gateway, "again"), await Client.connect(gateway)
        assert (await third.ask(ApiKey.FETCH, 12, fetch_body("t", 0))).throttle_time_ms == 0
        coming = [asyncio.ensure_future(publish(each, size=3000)) for each in (back, third)]
        # the first is not read, and nobody has seen that it was closed
        await until(lambda: held_back(gateway) == 3)
        rings.ring(owed - 1)
        assert (partition.high_watermark, [each.done() for each in coming]) == (1, [False, False])
        rings.ring(1)
        # both have waited for what was owed as they came, and owe what the other has sent, too
        waits = sorted([answer.throttle_time_ms for answer in await asyncio.gather(*coming)])
        assert partition.high_watermark == 3
        assert 3000 < waits[0] < 3200 < 6000 < waits[1]
        back.close()
        third.close()

    run(test, *WINDOWS)


def test_a_quota_counts_for_who_is_there_and_no_longer_when_it_is_taken_back() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        rings = Rings(gateway)
        admin = await Client.connect(gateway, "admin")
        await publish(client)
        test: Parts = [("client-id", "test")]
        await alter(admin, entry(test, producer_byte_rate=1.0))
        answer = await publish(client)
        assert answer.throttle_time_ms == 25_000
        await alter(admin, entry(test, producer_byte_rate=None))
        rings.ring(25_000)
        assert (await publish(client)).throttle_time_ms == 0
        assert gateway.broker.client_quotas.kept == 1
        admin.close()

    run(test, *WINDOWS)


def test_the_longest_wait_counts() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "slow", pulsar__publish__rate__bytes="100")
        await create(client, "t")
        Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        other = await Client.connect(gateway)
        assert (await publish(other, "t", size=10)).throttle_time_ms == 0
        assert (await publish(client, "slow", size=1500)).throttle_time_ms > 9_000
        assert 500 < (await publish(other, "t")).throttle_time_ms < 2000
        other.close()

    run(test, *WINDOWS)


def test_who_is_told_nothing_is_held_back_all_the_same() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        await alter(client, entry(EVERYBODY, producer_byte_rate=1000.0))
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"x" * 3000), acks=0))
        await until(lambda: held_back(gateway) == 1)

    run(test, *WINDOWS)


@pytest.mark.parametrize("version", [4, 7, 12])
def test_who_has_fetched_too_much_gets_nothing_and_is_told_to_wait(version: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await publish(client, size=3000)
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, consumer_byte_rate=1000.0))
        first = await client.ask(ApiKey.FETCH, version, fetch_body("t", 0))
        assert (first.throttle_time_ms, bool(part(first).records)) == (0, True)
        empty = await client.ask(ApiKey.FETCH, version, fetch_body("t", 0, max_wait=10_000))
        assert empty.responses == []
        assert 2000 < empty.throttle_time_ms < 3000
        assert held_back(gateway) == 1
        rings.ring(empty.throttle_time_ms)
        again = await client.ask(ApiKey.FETCH, version, fetch_body("t", 0))
        assert (again.throttle_time_ms, bool(part(again).records)) == (0, True)
        assert throttled(gateway, "fetch") == 1

    run(test, *WINDOWS)


def test_the_short_way_of_a_fetch_counts_and_is_not_for_who_owes() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        await publish(client, size=3000)
        Rings(gateway)
        await alter(client, entry(EVERYBODY, consumer_byte_rate=1000.0))
        body = fetch_body("t", 0)
        body.topics[0].topic_id = topic_id
        first = await client.ask(ApiKey.FETCH, 16, body)
        assert (first.throttle_time_ms, bool(part(first).records)) == (0, True)
        empty = await client.ask(ApiKey.FETCH, 16, body)
        assert (bool(empty.throttle_time_ms), empty.responses) == (True, [])

    run(test, *WINDOWS)


def test_the_short_way_of_a_fetch_counts_what_it_gives() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await create(client, "t")
        await publish(client, size=3000)
        Rings(gateway)
        # more than the request asks for at most
        await alter(client, entry(EVERYBODY, consumer_byte_rate=10_000_000.0))
        body = fetch_body("t", 0)
        body.topics[0].topic_id = topic_id
        (connection,) = gateway.listeners[0].connections
        bounds = connection.peer.quotas
        assert bounds is not None
        assert bounds.fetched is not None
        now = gateway.broker.clock.monotonic_ms()
        # as in a read, which the request is then
        bounds.since = 1.0
        assert bounds.lets_fetch(int(bounds.fetched.most))
        bounds.settle(1.0)
        assert bounds.fetched.full(now)
        assert part(await client.ask(ApiKey.FETCH, 16, body)).records
        assert not bounds.fetched.full(now)

    run(test, *WINDOWS)


def test_who_comes_is_bound_from_its_first_request_on() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        await alter(client, entry([("client-id", "late")], producer_byte_rate=1000.0))
        late = await Client.connect(gateway, "late")
        assert (await publish(late, size=3000)).throttle_time_ms > 2000
        late.close()

    run(test, *WINDOWS)


def test_a_fetch_session_goes_on_behind_an_empty_answer_and_none_is_opened_by_one() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        await publish(client, size=3000)
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, consumer_byte_rate=1000.0))
        opened = await client.ask(ApiKey.FETCH, 12, fetch_body("t", 0, session=(0, 0)))
        assert opened.session_id
        empty = await client.ask(ApiKey.FETCH, 12, fetch_body("t", 0, session=(opened.session_id, 1)))
        assert (empty.session_id, empty.error_code, empty.responses) == (opened.session_id, 0, [])
        assert empty.throttle_time_ms
        rings.ring(empty.throttle_time_ms)
        goes_on = await client.ask(ApiKey.FETCH, 12, fetch_body("t", -1, session=(opened.session_id, 2)))
        assert part(goes_on).records
        none = await client.ask(ApiKey.FETCH, 12, fetch_body("t", 0, session=(0, 0)))
        assert (none.session_id, none.error_code, none.responses) == (0, 0, [])
        assert none.throttle_time_ms

    run(test, *WINDOWS)


def test_one_answer_has_no_more_than_may_be_used_up_at_once() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        for _ in range(10):
            await publish(client, size=300)
        await alter(client, entry(EVERYBODY, consumer_byte_rate=1000.0))
        answer = await client.ask(ApiKey.FETCH, 12, fetch_body("t", 0))
        assert 300 < len(part(answer).records) <= 1000

    run(test, *WINDOWS)


def test_a_share_fetch_acknowledges_and_acquires_nothing_while_something_is_owed() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        for size in (3000, 10):
            await publish(client, size=size)
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, consumer_byte_rate=1000.0))
        first = await share_fetch(client, "m", 0, topic_id, [0])
        assert (first.throttle_time_ms, acquired(first)) == (0, {0: {0: 1}})
        second = await share_fetch(client, "m", 1, acks={0: [(0, 0, ACCEPT)]}, topic_id=topic_id)
        assert 2000 < second.throttle_time_ms < 3000
        assert (ack_errors(second), acquired(second)) == ({0: 0}, {})
        assert held_back(gateway) == 1
        rings.ring(second.throttle_time_ms)
        third = await share_fetch(client, "m", 2)
        assert (third.throttle_time_ms, acquired(third)) == (0, {0: {1: 1}})

    run(test, *WINDOWS)


def creating(name: str, partitions: int) -> Any:
    request = messages.CreateTopicsRequest
    return request(
        topics=[request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)],
        timeout_ms=1000,
    )


@pytest.mark.parametrize(
    ("version", "refused"), [(5, Error.REQUEST_TIMED_OUT), (6, Error.THROTTLING_QUOTA_EXCEEDED)]
)
def test_who_makes_partitions_too_fast_is_refused(version: int, refused: int) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, controller_mutation_rate=1.0))
        first = await client.ask(ApiKey.CREATE_TOPICS, version, creating("a", 6))
        # it was taken whole, and is owed; as in Kafka who can be refused need not wait before that
        assert (first.topics[0].error_code, first.throttle_time_ms) == (0, 0 if version >= 6 else 5000)
        other = await Client.connect(gateway)
        answer = await other.ask(ApiKey.CREATE_TOPICS, version, creating("b", 1))
        assert (answer.topics[0].error_code, bool(answer.throttle_time_ms)) == (refused, True)
        # also who does not know the error, as it came by another connection
        assert gateway.broker.catalog.get("b") is None
        assert held_back(gateway) == (1 if version >= 6 else 2)
        rings.ring(25_000)
        again = await other.ask(ApiKey.CREATE_TOPICS, version, creating("c", 1))
        assert (again.topics[0].error_code, again.throttle_time_ms) == (0, 0)
        other.close()

    run(test, *WINDOWS)


def test_partitions_that_are_added_or_deleted_count_as_well() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        for name in "ab":
            await create(client, name, 4)
        rings = Rings(gateway)
        await alter(client, entry(EVERYBODY, controller_mutation_rate=1.0))
        grow = messages.CreatePartitionsRequest
        grown = grow(
            topics=[grow.CreatePartitionsTopic(name="a", count=6, assignments=None)],
            timeout_ms=1000,
            validate_only=False,
        )
        answer = await client.ask(ApiKey.CREATE_PARTITIONS, 2, grown)
        assert (answer.results[0].error_code, answer.throttle_time_ms) == (0, 1000)
        rings.ring(1000)
        deleted = messages.DeleteTopicsRequest(topic_names=["b"], timeout_ms=1000)
        answer = await client.ask(ApiKey.DELETE_TOPICS, 4, deleted)
        assert (answer.responses[0].error_code, answer.throttle_time_ms) == (0, 4000)
        rings.ring(3999)
        other = await Client.connect(gateway)
        refused = messages.DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000)
        answer = await other.ask(ApiKey.DELETE_TOPICS, 5, refused)
        assert (answer.responses[0].error_code, answer.throttle_time_ms) == (
            Error.THROTTLING_QUOTA_EXCEEDED,
            1,
        )
        grown.topics[0].count = 7
        again = await Client.connect(gateway)
        answer = await again.ask(ApiKey.CREATE_PARTITIONS, 3, grown)
        assert answer.results[0].error_code == Error.THROTTLING_QUOTA_EXCEEDED
        again.close()
        other.close()

    run(test, *WINDOWS)


def test_topics_that_are_made_for_who_asks_for_them_count() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        Rings(gateway)
        await alter(client, entry(EVERYBODY, controller_mutation_rate=1.0))
        asked = messages.MetadataRequest
        both = [asked.MetadataRequestTopic(name=name) for name in ("a", "b", "c")]
        answer = await client.ask(ApiKey.METADATA, 8, asked(topics=both, allow_auto_topic_creation=True))
        assert [topic.error_code for topic in answer.topics] == [0, 0, 0]
        assert answer.throttle_time_ms == 2000

    run(test, *WINDOWS)


def test_what_makes_nothing_is_not_counted() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "a", 4)
        Rings(gateway)
        await alter(client, entry(EVERYBODY, controller_mutation_rate=1.0))
        checked = creating("b", 40)
        checked.validate_only = True
        for asked in (checked, creating("a", 40)):
            assert (await client.ask(ApiKey.CREATE_TOPICS, 7, asked)).throttle_time_ms == 0

    run(test, *WINDOWS)


def test_work_of_the_loop_counts_whatever_is_asked() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        await create(client, "t")
        Rings(gateway)
        # a ten thousandth of a percent: a tenth of a microsecond in a second
        await alter(client, entry(EVERYBODY, request_percentage=0.00001))
        other = await Client.connect(gateway)
        asked = messages.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await other.ask(ApiKey.METADATA, 8, asked)
        # no longer than a window at a time
        assert (answer.throttle_time_ms, len(answer.topics)) == (1000, 1)
        for key, version, body in (
            (ApiKey.PRODUCE, 9, produce_body("t", batch(b"x"))),
            (ApiKey.FETCH, 12, fetch_body("t", 0)),
            (ApiKey.LIST_GROUPS, 3, messages.ListGroupsRequest()),
        ):
            another = await Client.connect(gateway)
            assert (await another.ask(key, version, body)).throttle_time_ms == 1000
            another.close()
        other.close()
        acknowledge = messages.ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1)
        another = await Client.connect(gateway)
        assert (await another.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, acknowledge)).throttle_time_ms == 1000
        another.close()

    run(test, *WINDOWS)


def test_what_of_logins_is_out_of_place_counts_as_work_and_a_new_login_is_not_held_back() -> None:
    async def test(tenants: Tenants) -> None:
        gateway = tenants.gateway
        rings = Rings(gateway)
        await tenants.user("ada")
        root, ada = await tenants.login("root"), await tenants.login("ada")
        await alter(root, entry([("user", "ada")], request_percentage=0.00001))
        assert (await plain(ada, "ada", PASSWORD)).error_code == 0
        assert held_back(gateway) == 0
        # a login has just begun, and none is under way
        for told in (handshake(ada, "PLAIN"), say(ada, b"x")):
            assert (await told).error_code == Error.ILLEGAL_SASL_STATE
            assert held_back(gateway) == 1
            rings.ring(1000)
            assert held_back(gateway) == 0

    tenants_run(test, *WINDOWS)


@pytest.mark.parametrize("acknowledges", [True, False])
def test_a_share_fetch_that_ends_its_session_counts_as_work(acknowledges: bool) -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client, 1)
        opened = await share_fetch(client, "m", 0, topic_id, [0])
        assert acquired(opened) == {0: {0: 1}}
        Rings(gateway)
        other = await Client.connect(gateway)
        await alter(other, entry(EVERYBODY, request_percentage=0.00001))
        # what it costs is owed by all connections of the client
        assert (await share_fetch(other, "n", 7, topic_id, [0])).throttle_time_ms == 0
        said: dict[str, Any] = {"acks": {0: [(0, 0, ACCEPT)]}, "topic_id": topic_id} if acknowledges else {}
        ended = await share_fetch(client, "m", -1, **said)
        assert (ended.error_code, ended.throttle_time_ms) == (0, 1000)
        assert len(gateway.broker.share_sessions) == 0
        assert held_back(gateway) == 1
        other.close()

    run(test, *WINDOWS)


def test_share_fetches_that_are_refused_count_as_work() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        topic_id = await topic(gateway, client)
        Rings(gateway)
        await alter(client, entry(EVERYBODY, request_percentage=0.00001))
        told = []
        for _ in range(2):
            other = await Client.connect(gateway)
            answer = await share_fetch(other, "m", 7, topic_id, [0])
            assert answer.error_code == Error.SHARE_SESSION_NOT_FOUND
            told.append(answer.throttle_time_ms)
            other.close()
        # what the first one cost is told with the second
        assert told == [0, 1000]

    run(test, *WINDOWS)


def test_versions_that_are_asked_for_in_a_version_that_is_not_served_count_as_work() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        Rings(gateway)
        await alter(client, entry(EVERYBODY, request_percentage=0.00001))
        other = await Client.connect(gateway)
        header = codec.encode_request_header(ApiKey.API_VERSIONS, 3, 7, "test")
        frame = bytearray(struct.pack(">i", len(header)) + header)
        frame[6:8] = struct.pack(">h", 99)
        before = held_back(gateway)
        other.writer.write(bytes(frame))
        await other.reader.readexactly(4)
        assert held_back(gateway) == before + 1
        other.close()

    run(test, *WINDOWS)


def test_batches_of_a_transaction_that_its_client_may_not_use_count() -> None:
    async def test(tenants: Tenants) -> None:
        Rings(tenants.gateway)
        await tenants.user("ada")
        root, ada = await tenants.login("root"), await tenants.login("ada")
        await create(root, "t")
        await alter(root, entry([("user", "ada")], producer_byte_rate=1000.0))
        request = produce_body("t", batch(b"x" * 3000, transactional=True, producer_id=1, base_sequence=0))
        request.transactional_id = "not-hers"
        answer = await ada.ask(ApiKey.PRODUCE, 9, request)
        assert part(answer).error_code == Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert 2000 < answer.throttle_time_ms < 3000
        assert held_back(tenants.gateway) == 1

    tenants_run(test, *WINDOWS)


def test_an_address_opens_no_more_connections_than_it_may() -> None:
    async def test(gateway: Gateway, client: Client) -> None:
        rings = Rings(gateway)
        await alter(client, entry([("ip", "127.0.0.1")], connection_creation_rate=2.0))
        # two are there at first, and one more is owed
        come = [await Client.connect(gateway, f"c{each}") for each in range(3)]
        for each in come:
            await alter(each)
        refused = await Client.connect(gateway)
        assert await refused.at_end()
        rings.ring(500)
        again = await Client.connect(gateway)
        await alter(again)
        for each in (*come, refused, again):
            each.close()

    run(test, *WINDOWS)
