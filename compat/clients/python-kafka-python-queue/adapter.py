"""kafka-python's KafkaConsumer, as the cases of queue topics use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from common import Record
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata
from queue_topics.library import NO_ANSWER, Counted, Delivery, Member, RefusedError
from security import kafka_python

# kafka-python forgets a join that is under way when a short poll ends just then, and never joins again. A poll
# comes back as soon as there are records, so a long one costs nothing.
LONG_POLL = 3.0


class Reader:
    """See `queue_topics.library.Consumer`."""

    def __init__(self, member: Member) -> None:
        settings: dict[str, Any] = {
            **kafka_python(member.bootstrap),
            "group_id": member.group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": member.auto_commit is not None,
            "auto_commit_interval_ms": member.auto_commit or 5_000,
            "session_timeout_ms": member.session,
            "heartbeat_interval_ms": 300,
            "fetch_max_wait_ms": 100,
            "reconnect_backoff_max_ms": 500,
        }
        self._topic = member.topic
        self._auto = member.auto_commit is not None
        self._client = KafkaConsumer(**{**settings, **member.settings})
        if member.topic.startswith("^"):
            self._client.subscribe(pattern=member.topic)
        else:
            self._client.subscribe([member.topic])

    def poll(self, seconds: float, most: int = 500) -> list[Delivery]:
        try:
            found = self._client.poll(max(seconds, LONG_POLL) * 1000, max_records=most)
        except KafkaConnectionError:
            # the server is restarted; the client comes again by itself
            return []
        return [
            Delivery(
                one.topic, one.partition, one.offset, one.key, one.value, list(one.headers), one.timestamp
            )
            for batch in found.values()
            for one in batch
        ]

    def commit(self, places: Mapping[int, tuple[int, str]]) -> None:
        offsets = {
            TopicPartition(self._topic, lane): OffsetAndMetadata(offset, metadata, -1)
            for lane, (offset, metadata) in places.items()
        }
        try:
            self._client.commit(offsets)
        except KafkaError as error:
            raise _refused(error) from error

    def seek(self, lane: int, offset: int) -> None:
        self._client.seek(TopicPartition(self._topic, lane), offset)

    def lanes(self) -> set[int]:
        return {place.partition for place in self._client.assignment()}

    def close(self) -> None:
        self._client.close(autocommit=self._auto, timeout_ms=3000)


class KafkaPython:
    """See `queue_topics.library.Library`."""

    name = "kafka-python"
    counted = Counted(in_work=0, second=1, closed=2)
    pattern_finds_queues = False
    seeks_where_it_stands = False
    works_on = False

    def create(self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        with _Admin(bootstrap) as admin:
            admin.create_topics({topic: options})

    def grow(self, bootstrap: str, topic: str, partitions: int) -> None:
        with _Admin(bootstrap) as admin:
            admin.create_partitions({topic: partitions})

    def delete(self, bootstrap: str, topic: str) -> None:
        with _Admin(bootstrap) as admin:
            admin.delete_topics([topic])

    def topics(self, bootstrap: str) -> dict[str, int]:
        with _Admin(bootstrap) as admin:
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], partition: int | None = None
    ) -> None:
        producer = KafkaProducer(**kafka_python(bootstrap), max_block_ms=15_000, linger_ms=5)
        try:
            futures = [
                producer.send(topic, one.value, one.key, headers=list(one.headers), partition=partition)
                for one in records
            ]
            producer.flush(timeout=30)
            for future in futures:
                future.get(timeout=5)
        except KafkaError as error:
            raise _refused(error) from error
        except ValueError as error:
            raise RefusedError(NO_ANSWER, str(error)) from error
        finally:
            producer.close(timeout=5)

    def committed(self, bootstrap: str, group: str, topic: str, lane: int) -> tuple[int, str]:
        client, where = (
            KafkaConsumer(**kafka_python(bootstrap), group_id=group),
            TopicPartition(topic, lane),
        )
        try:
            found = client.committed(where, metadata=True)
        finally:
            client.close(autocommit=False, timeout_ms=3000)
        return found.offset, found.metadata

    def consumer(self, member: Member) -> Reader:
        return Reader(member)


class _Admin:
    """A client for one question; what it raises is a refusal."""

    def __init__(self, bootstrap: str) -> None:
        self._client = KafkaAdminClient(**kafka_python(bootstrap), request_timeout_ms=15_000)

    def __enter__(self) -> KafkaAdminClient:
        return self._client

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise _refused(error) from error


def _refused(error: KafkaError) -> RefusedError:
    # errors of its own have numbers below 0, or none
    return RefusedError(max(getattr(error, "errno", NO_ANSWER), NO_ANSWER), str(error))


LIBRARY = KafkaPython()
