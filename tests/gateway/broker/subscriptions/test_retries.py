"""Retry letter topics: what the server adds to their records, when they are delivered, and where they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.gateway.broker.subscriptions.world import REJECT, Headers, World, run


async def retry(world: World, value: bytes, delay_ms: int, headers: Headers | None = None) -> int:
    """What a consumer does to have a record again later: produce it with a delay."""
    delayed = [*(headers or []), ("DELAY_TIME", b"%d" % delay_ms)]
    return await world.produce(value, topic="t-g-RETRY", headers=delayed)


def test_a_retry_is_delivered_when_due_counted_up_and_dead_past_the_limit(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("t-g-RETRY")
        # deliveries are another matter
        await world.configure("g", pulsar__max__reconsume__count="2", pulsar__max__redeliver__count="0")
        await world.subscribe()
        at = await world.subscribe(topic="t-g-RETRY")
        headers: Headers = [("mine", b"1")]
        for times in (1, 2):
            offset = await retry(world, b"again", 10_000, headers)
            assert await world.fetch(at) == {}
            await world.pass_time(9_999)
            assert await world.fetch(at) == {}
            await world.pass_time(1)
            assert await world.fetch(at) == {offset: (b"again", 1)}
            assert not await world.ack(at, offset)
            found = (await world.read("t-g-RETRY"))[offset]
            # a Kafka consumer gives back what it was given
            headers = [each for each in found.headers if each[0] != "DELAY_TIME"]
            known = dict(headers)
            assert known["RECONSUMETIMES"] == b"%d" % times
            assert known["REAL_TOPIC"] == b"persistent://public/default/t"
            assert known["RETRY_TOPIC"] == b"persistent://public/default/t-g-RETRY"
            assert known["mine"] == b"1"
        await retry(world, b"again", 10_000, headers)
        assert await world.fetch(at) == {}
        await world.settled()
        (letter,) = await world.read("t-g-DLQ")
        assert letter.value == b"again"
        assert dict(letter.headers)["pulsar-dead-letter-reason"] == b"MAX_DELIVERIES"
        assert dict(letter.headers)["REAL_TOPIC"] == b"persistent://public/default/t"
        await world.pass_time(20_000)
        assert await world.fetch(at) == {}

    run(test, folder)


def test_a_retry_that_is_rejected_is_a_dead_letter_of_the_base_topic(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic(partitions=2)
        await world.topic("t-g-RETRY")
        at = await world.subscribe(topic="t-g-RETRY")
        await retry(world, b"bad", 0)
        await retry(world, b"known", 0, [("ORIGIN_MESSAGE_ID", b"1:2:3:4")])
        assert list(await world.fetch(at)) == [0, 1]
        assert not await world.ack(at, 0, kind=REJECT)
        assert not await world.ack(at, 1, kind=REJECT)
        bad, known = await world.read("t-g-DLQ")
        assert (bad.value, known.value) == (b"bad", b"known")
        # its own id would be taken for that of the message it repeats
        assert "ORIGIN_MESSAGE_ID" not in dict(bad.headers)
        assert dict(known.headers)["ORIGIN_MESSAGE_ID"] == b"1:2:3:4"
        assert world.broker.catalog.get("t-g-RETRY-g-DLQ") is None

    run(test, folder)


def test_a_retry_topic_may_have_a_name_of_its_own_and_others_read_it_as_any_topic(
    folder: Path | None,
) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("later")
        await world.subscribe()
        at = await world.subscribe(topic="later")
        await world.produce(b"before", topic="later", headers=[("DELAY_TIME", b"1000")])
        assert list(await world.fetch(at)) == [0], "an ordinary topic"
        await world.configure("g", pulsar__retry__letter__topic="later")
        at = world.at(topic="later")
        await world.produce(b"after", topic="later", headers=[("DELAY_TIME", b"1000")])
        assert await world.fetch(at) == {}
        other = await world.subscribe("other", "later")
        assert list(await world.fetch(other)) == [0, 1]
        await world.pass_time(1000)
        assert list(await world.fetch(at)) == [1]
        assert not await world.ack(at, 1, kind=REJECT)
        assert [each.value for each in await world.read("t-g-DLQ")] == [b"after"]

    run(test, folder)


def test_an_idempotent_producers_retry_is_stored_once(folder: Path | None) -> None:
    async def test(world: World) -> None:
        await world.topic()
        await world.topic("t-g-RETRY")
        options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        for _ in range(2):
            assert await world.produce(b"x", topic="t-g-RETRY", **options) == 0
        assert len(await world.read("t-g-RETRY")) == 1

    run(test, folder)
