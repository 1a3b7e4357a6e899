"""aiokafka's AIOKafkaConsumer, as the cases of queue topics use it: all of it in one loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError, for_code
from common import Record
from queue_topics.library import NO_ANSWER, Counted, Delivery, Member, RefusedError
from security import aiokafka

Result = TypeVar("Result")

ILLEGAL_GENERATION = 22
"""Also for what aiokafka says by itself of lanes that are another's by now, without the server's code."""

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, name="aiokafka", daemon=True).start()


def done(work: Coroutine[Any, Any, Result]) -> Result:
    """Its result, worked out in the loop. Raises RefusedError where aiokafka raises what the server said."""
    try:
        return asyncio.run_coroutine_threadsafe(work, LOOP).result()
    except KafkaError as error:
        raise _refused(error) from error


class Reader:
    """See `queue_topics.library.Consumer`."""

    def __init__(self, member: Member) -> None:
        self._topic = member.topic
        self._client: AIOKafkaConsumer = done(self._start(member))

    async def _start(self, member: Member) -> AIOKafkaConsumer:
        settings: dict[str, Any] = {
            **aiokafka(member.bootstrap),
            "group_id": member.group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": member.auto_commit is not None,
            "auto_commit_interval_ms": member.auto_commit or 5_000,
            "session_timeout_ms": member.session,
            "heartbeat_interval_ms": 300,
            "fetch_max_wait_ms": 100,
        }
        client = AIOKafkaConsumer(**{**settings, **member.settings})
        await client.start()
        if member.topic.startswith("^"):
            client.subscribe(pattern=member.topic)
        else:
            client.subscribe([member.topic])
        return client

    def poll(self, seconds: float, most: int = 500) -> list[Delivery]:
        found = done(self._client.getmany(timeout_ms=round(seconds * 1000), max_records=most))
        return [
            Delivery(
                one.topic, one.partition, one.offset, one.key, one.value, list(one.headers), one.timestamp
            )
            for batch in found.values()
            for one in batch
        ]

    def commit(self, places: Mapping[int, tuple[int, str]]) -> None:
        offsets = {TopicPartition(self._topic, lane): place for lane, place in places.items()}
        done(self._client.commit(offsets))

    def seek(self, lane: int, offset: int) -> None:
        LOOP.call_soon_threadsafe(self._client.seek, TopicPartition(self._topic, lane), offset)

    def lanes(self) -> set[int]:
        return {place.partition for place in self._client.assignment()}

    def close(self) -> None:
        done(self._client.stop())


class Aiokafka:
    """See `queue_topics.library.Library`."""

    name = "aiokafka"
    counted = Counted(in_work=1, second=2, closed=2)
    pattern_finds_queues = False
    seeks_where_it_stands = True
    works_on = True

    def create(self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        async def work() -> None:
            async with _admin(bootstrap) as admin:
                asked = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
                for _, code, message in (await admin.create_topics([asked])).topic_errors:
                    if code:
                        raise for_code(code)(message)

        done(work())

    def grow(self, bootstrap: str, topic: str, partitions: int) -> None:
        async def work() -> None:
            async with _admin(bootstrap) as admin:
                await admin.create_partitions({topic: NewPartitions(partitions)})

        done(work())

    def delete(self, bootstrap: str, topic: str) -> None:
        async def work() -> None:
            async with _admin(bootstrap) as admin:
                await admin.delete_topics([topic])

        done(work())

    def topics(self, bootstrap: str) -> dict[str, int]:
        async def work() -> dict[str, int]:
            async with _admin(bootstrap) as admin:
                return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}

        return done(work())

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], partition: int | None = None
    ) -> None:
        async def work() -> None:
            async with AIOKafkaProducer(**aiokafka(bootstrap), linger_ms=5) as producer:
                futures = [
                    await producer.send(
                        topic, one.value, one.key, partition=partition, headers=list(one.headers)
                    )
                    for one in records
                ]
                for future in futures:
                    await future

        done(work())

    def committed(self, bootstrap: str, group: str, topic: str, lane: int) -> tuple[int, str]:
        async def work() -> tuple[int, str]:
            async with _admin(bootstrap) as admin:
                where = TopicPartition(topic, lane)
                found = (await admin.list_consumer_group_offsets(group, partitions=[where]))[where]
                return found.offset, found.metadata

        return done(work())

    def consumer(self, member: Member) -> Reader:
        return Reader(member)


@asynccontextmanager
async def _admin(bootstrap: str) -> Any:
    admin = AIOKafkaAdminClient(**aiokafka(bootstrap), request_timeout_ms=15_000)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _refused(error: KafkaError) -> RefusedError:
    # IllegalStateError: it has no such lane any more, and asks nobody, however often the commit is repeated
    if isinstance(error, CommitFailedError | IllegalStateError):
        return RefusedError(ILLEGAL_GENERATION, str(error))
    # errors of its own have numbers below 0, or none
    return RefusedError(max(getattr(error, "errno", NO_ANSWER), NO_ANSWER), str(error))


LIBRARY = Aiokafka()
