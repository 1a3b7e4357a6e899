"""A partition that another owner has now: its clients are sent there, and nothing in memory outlives it."""

from __future__ import annotations

from gateway.server import Gateway
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from gateway.wire.messages import MetadataRequest
from store import memory
from store.api import Fenced
from tests.gateway.broker.asking import errors, fetch
from tests.gateway.broker.held import HeldStore, part, run, run_held
from tests.gateway.broker.produced import numbered, put, read
from tests.gateway.broker.share_asking import acquired, share_acknowledge_body, share_fetch, topic
from tests.gateway.broker.share_asking import errors as shared_errors
from tests.gateway.serving import Client, batch, create, produce_body


async def values(client: Client, name: str) -> list[bytes | None]:
    return [record.value for record in await read(client, name)]


async def epoch_of(client: Client, name: str) -> int:
    body = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)])
    (topic,) = (await client.ask(ApiKey.METADATA, 12, body)).topics
    return int(topic.partitions[0].leader_epoch)


def test_producers_are_told_to_look_for_the_leader_until_it_is_this_one_again() -> None:
    store = memory.open(epoch=3)

    async def test(gateway: Gateway, client: Client) -> None:
        for name in ("t", "other"):
            await create(client, name)
        assert await put(client, numbered(0)) == (0, 0)
        log = gateway.broker.topics.get("t").partitions[0]
        store.fence(log)
        for count in range(2):
            assert await put(client, numbered(1)) == (Error.NOT_LEADER_OR_FOLLOWER, -1)
            assert await put(client, batch(b"v"), "other") == (0, count), "this one is still here"
        assert not gateway.broker.failing, "the store takes writes"
        assert await values(client, "t") == [b"0"]
        store.take(log)
        assert await put(client, numbered(2)) == (Error.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), "1 is missing"
        assert await put(client, numbered(1)) == (Error.NOT_LEADER_OR_FOLLOWER, -1), (
            "read before it came back"
        )
        assert await put(client, numbered(1)) == (0, 1)
        assert await put(client, numbered(2)) == (0, 2)
        assert await values(client, "t") == [b"0", b"1", b"2"]
        epoch = await epoch_of(client, "t")
        assert epoch > await epoch_of(client, "other") == 3
        assert errors(await fetch(client, {"t": {0: 0}}, epoch=3)) == {0: Error.FENCED_LEADER_EPOCH}
        assert errors(await fetch(client, {"t": {0: 0}}, epoch=epoch)) == {0: 0}

    run(test, store=store)


def test_what_was_on_its_way_while_the_log_changed_hands_is_fenced() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        store.holding = True
        client.send(ApiKey.PRODUCE, 9, produce_body("t", batch(b"late")))
        await store.has(1)
        log = gateway.broker.topics.get("t").partitions[0]
        store.inner.fence(log)
        store.inner.take(log)
        store.release()
        assert part((await client.receive())[1]).error_code == Error.NOT_LEADER_OR_FOLLOWER
        assert await put(client, batch(b"again")) == (0, 0)
        assert await values(client, "t") == [b"again"]

    run_held(test)


def test_acknowledgements_are_not_taken_and_the_records_are_dealt_again() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        topic_id = await topic(gateway, client, records=2)
        assert acquired(await share_fetch(client, "m", 0, topic_id, [0])) == {0: {0: 1, 1: 1}}
        store.holding = True
        client.send(ApiKey.SHARE_ACKNOWLEDGE, 2, share_acknowledge_body("m", 1, topic_id, {0: [(0, 0, 1)]}))
        await store.has(1)
        store.fail(Fenced("another owner has log 1"))
        store.release()
        assert shared_errors((await client.receive())[1]) == {0: Error.NOT_LEADER_OR_FOLLOWER}
        dealt = [acquired(await share_fetch(client, "n", epoch, topic_id, [0])) for epoch in range(2)]
        assert dealt == [{0: {0: 1}}, {0: {1: 1}}], "as if they had never been"

    run_held(test)


def test_groups_are_told_to_look_for_their_coordinator() -> None:
    async def test(gateway: Gateway, client: Client, store: HeldStore) -> None:
        await create(client, "t")
        store.holding = True
        asked = messages.OffsetCommitRequest
        one = asked.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_metadata=None
        )
        body = asked(group_id="g", topics=[asked.OffsetCommitRequestTopic(name="t", partitions=[one])])
        client.send(ApiKey.OFFSET_COMMIT, 8, body)
        await store.has(1)
        store.fail(Fenced("another owner has log 1"))
        store.release()
        (found,) = (await client.receive())[1].topics
        assert found.partitions[0].error_code == Error.COORDINATOR_NOT_AVAILABLE

    run_held(test)
