"""confluent-kafka's Consumer, as the cases of queue topics use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from common import Record
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from queue_topics.library import NO_ANSWER, Counted, Delivery, Member, RefusedError
from security import librdkafka


class Reader:
    """See `queue_topics.library.Consumer`."""

    def __init__(self, member: Member) -> None:
        settings: dict[str, Any] = {
            **librdkafka(member.bootstrap),
            "group.id": member.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": member.auto_commit is not None,
            "auto.commit.interval.ms": member.auto_commit or 5_000,
            "session.timeout.ms": member.session,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
        }
        self._topic = member.topic
        # a member may say that it has no such setting
        all_settings = {**settings, **member.settings}
        self._client = Consumer({name: value for name, value in all_settings.items() if value is not None})
        self._client.subscribe([member.topic])

    def poll(self, seconds: float, most: int = 500) -> list[Delivery]:
        first = self._client.poll(seconds)
        found = [first] if first is not None else []
        if found and most > 1:
            found += self._client.consume(most - 1, 0)
        # what is no record is an event, such as a connection that was lost; it comes back by itself
        return [_delivery(message) for message in found if not message.error()]

    def commit(self, places: Mapping[int, tuple[int, str]]) -> None:
        offsets = [TopicPartition(self._topic, lane, *place) for lane, place in places.items()]
        try:
            self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            raise _refused(error.args[0]) from error

    def seek(self, lane: int, offset: int) -> None:
        self._client.seek(TopicPartition(self._topic, lane, offset))

    def lanes(self) -> set[int]:
        return {place.partition for place in self._client.assignment()}

    def close(self) -> None:
        self._client.close()


class ConfluentKafka:
    """See `queue_topics.library.Library`."""

    name = "confluent-kafka"
    counted = Counted(in_work=1, second=2, closed=2)
    pattern_finds_queues = True
    seeks_where_it_stands = True
    works_on = False

    def create(self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        admin = _admin(bootstrap)
        _answer(admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs))])[topic])

    def grow(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin = _admin(bootstrap)
        _answer(admin.create_partitions([NewPartitions(topic, partitions)])[topic])

    def delete(self, bootstrap: str, topic: str) -> None:
        admin = _admin(bootstrap)
        _answer(admin.delete_topics([topic])[topic])

    def topics(self, bootstrap: str) -> dict[str, int]:
        found = _admin(bootstrap).list_topics(timeout=15).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record], partition: int | None = None
    ) -> None:
        producer = Producer({**librdkafka(bootstrap), "linger.ms": 5, "message.timeout.ms": 20_000})
        errors: list[KafkaError] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error:
                errors.append(error)

        where = {} if partition is None else {"partition": partition}
        for record in records:
            producer.produce(
                topic, record.value, record.key, headers=list(record.headers), on_delivery=report, **where
            )
            producer.poll(0)
        producer.flush(30)
        if errors:
            raise _refused(errors[0])

    def committed(self, bootstrap: str, group: str, topic: str, lane: int) -> tuple[int, str]:
        client = Consumer({**librdkafka(bootstrap), "group.id": group})
        try:
            (found,) = client.committed([TopicPartition(topic, lane)], timeout=15)
        finally:
            client.close()
        return found.offset, found.metadata or ""

    def consumer(self, member: Member) -> Reader:
        return Reader(member)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({**librdkafka(bootstrap)})


def _answer(future: Future[Any]) -> None:
    try:
        future.result(20)
    except KafkaException as error:
        raise _refused(error.args[0]) from error


def _refused(error: KafkaError) -> RefusedError:
    # librdkafka's own errors have numbers below 0
    return RefusedError(max(error.code(), NO_ANSWER), error.str())


def _delivery(message: Message) -> Delivery:
    return Delivery(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.headers() or [],
        message.timestamp()[1],
    )


LIBRARY = ConfluentKafka()
