"""How `topics consume` reads: partitions by themselves, or as a member of a consumer group."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import click

from gateway.cli import admin_kafka as kafka_side
from gateway.cli.admin_client import AdminError, Misused
from gateway.cli.admin_options import counted
from gateway.cli.admin_records import Record, moment_ms, span_ms

MOST_RECEIVED = 1_000_000_000
"""Bytes of an answer, and of what a batch unfolds to. What begins with HTTP in its place is read as a larger number."""

AT_ONCE = 500
"""Records that are taken from the client at once, and committed together."""

OUTAGE_SECONDS = 1.0
"""A gateway that is away for less is not worth a line."""

_OFFSET = re.compile(r"[0-9]{1,12}")

Write = Callable[[Record], None]


@dataclass
class Reader:
    """What is read, and how long."""

    bootstrap: str
    settings: tuple[str, ...]
    topic: str
    count: int | None
    follow: bool
    wait: float
    timeout: float
    shown: int = 0
    interrupted: bool = False
    # by accepted, released, rejected
    settled: dict[str, int] = field(default_factory=dict)
    # what may help somebody who sees nothing
    hint: str = ""
    waiting_since: float = field(default_factory=time.monotonic)
    # of the last client that was made
    watch: kafka_side.Watch = field(default_factory=kafka_side.Watch)
    _told_of_outage: bool = False

    @property
    def left(self) -> int:
        """How many more may be shown; many when nobody has said."""
        return AT_ONCE if self.count is None else self.count - self.shown

    @property
    def done(self) -> bool:
        return self.count is not None and self.shown >= self.count

    @property
    def patient(self) -> bool:
        """False when nothing has come for as long as a group's member waits."""
        return self.follow or time.monotonic() - self.waiting_since < self.wait

    def show(self, record: Record, write: Write) -> None:
        # first: a Ctrl-C may come between a record that is out and the next line here
        self.shown += 1
        write(record)
        self.waiting_since = time.monotonic()

    def client(self, make: str, own: dict[str, Any]) -> Any:
        """A Consumer or ShareConsumer. Raises AdminError."""
        self.watch = kafka_side.Watch()
        config = kafka_side.configuration(
            self.bootstrap,
            {**self.watch.settings(), "receive.message.max.bytes": MOST_RECEIVED, **own},
            self.settings,
        )
        return kafka_side.made(getattr(kafka_side.library(), make), config)

    def polled(self, came: bool) -> None:
        """Tell when the gateway goes away, and when it is back. Raises AdminError for one that stays away, unless the
        reader follows.
        """
        if came:
            self.watch.heard()
        since = self.watch.down_since
        if since is None:
            if self._told_of_outage:
                click.echo(f"{self.bootstrap} answers again.", err=True)
            self._told_of_outage = False
            return
        away = time.monotonic() - since
        if not self.follow and away >= self.timeout:
            raise self.gone()
        if not self._told_of_outage and away >= OUTAGE_SECONDS:
            self._told_of_outage = True
            patience = "until Ctrl-C" if self.follow else f"for {self.timeout:g} s"
            click.echo(f"{self.bootstrap} does not answer any more. Trying {patience}.", err=True)

    def check_complete(self) -> None:
        """Raises AdminError when nothing came because the gateway is away."""
        if not self.done and self.watch.down_since is not None:
            raise self.gone()

    def gone(self) -> AdminError:
        return AdminError(
            f"{self.bootstrap} does not answer any more ({self.watch.why}):"
            f" {counted(self.shown)} of {self.topic} came, and there may be more."
        )


def record_of(message: Any) -> Record:
    """A message of the client library."""
    kind, timestamp = message.timestamp()
    return Record(
        message.value(),
        message.key(),
        [
            (name, value.encode() if isinstance(value, str) else value)
            for name, value in message.headers() or []
        ],
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp if kind else -1,
    )


def partitions_of(consumer: Any, reader: Reader) -> list[int]:
    """The topic's partitions. A consumer's look-up makes no topic. Raises AdminError."""
    kafka = kafka_side.library()

    def ask(seconds: float) -> Any:
        # has the watch told
        consumer.poll(0)
        return consumer.list_topics(reader.topic, timeout=seconds).topics[reader.topic]

    try:
        found = kafka_side.answered(ask, reader.timeout)
    except kafka.KafkaException:
        raise reader.watch.no_kafka(reader.bootstrap) from None
    reader.watch.heard()
    if found.error is not None:
        if found.error.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise AdminError(
                f"There is no topic {reader.topic} at {reader.bootstrap}: `magnetar-admin topics list` shows them."
            )
        raise AdminError(f"{reader.topic} cannot be read: {kafka_side.reason(found.error)}.")
    return sorted(found.partitions)


def queue_of(consumer: Any, reader: Reader, group: str) -> str | None:
    """The queue topic whose lanes serve a group's subscription on the topic, if there is one. A consumer's look-up
    makes no topic.
    """
    queue = f"{reader.topic}-{group}-QUEUE"
    if reader.topic.endswith("-QUEUE") or len(queue) > kafka_side.MAX_NAME:
        return None
    try:
        found = consumer.list_topics(queue, timeout=kafka_side.LOOK_SECONDS).topics[queue]
    except kafka_side.library().KafkaException:
        # it only makes a sentence better
        return None
    return queue if found.error is None else None


def by_nobody(reader: Reader, start: str, partitions: Iterable[int], write: Write) -> None:
    """Every record from `start` on, to where the partitions ended when this began, or for ever. Raises AdminError."""
    kafka = kafka_side.library()
    consumer = reader.client(
        "Consumer",
        {
            # librdkafka wants a group; this one is never joined and commits nothing
            "group.id": "magnetar-admin",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        },
    )
    try:
        there = partitions_of(consumer, reader)
        wanted = list(partitions) or there
        for number in wanted:
            if number not in there:
                has = "one partition, 0" if there == [0] else f"{len(there)} partitions, counted from 0"
                raise AdminError(f"{reader.topic} has {has}: there is no {number}.")
        begin, ends = _starts(consumer, reader, wanted, start)
        least = int(start) if _OFFSET.fullmatch(start) else 0
        _tell_of_offsets_to_come(reader, least, ends)
        unfinished = {number for number in wanted if begin[number] < ends[number]}
        if not unfinished and not reader.follow:
            return
        places = [kafka.TopicPartition(reader.topic, number, begin[number]) for number in wanted]
        consumer.assign(places)
        while not reader.done and (reader.follow or unfinished):
            messages = consumer.consume(min(reader.left, AT_ONCE), kafka_side.STEP_SECONDS)
            reader.polled(bool(messages))
            for message in messages:
                error = message.error()
                if error is not None:
                    check(error, reader)
                    unfinished.discard(message.partition())
                    continue
                number = message.partition()
                if not reader.follow and message.offset() >= ends[number]:
                    # it came while we read
                    unfinished.discard(number)
                    continue
                if message.offset() < least:
                    # where the partition ended when this began
                    continue
                reader.show(record_of(message), write)
                if message.offset() + 1 >= ends[number]:
                    unfinished.discard(number)
    except kafka.KafkaException as error:
        raise AdminError(f"{reader.topic} cannot be read: {kafka_side.reason(error)}.") from None
    finally:
        consumer.close()


def _tell_of_offsets_to_come(reader: Reader, least: int, ends: dict[int, int]) -> None:
    early = [number for number, end in ends.items() if end < least]
    if reader.follow and early:
        which = f"partition {early[0]}" if len(early) == 1 else f"{len(early)} partitions"
        last = max(ends[number] for number in early)
        click.echo(
            f"Waiting for offset {least:,} of {which}: {reader.topic} has none from {last:,} on yet.",
            err=True,
        )


def _starts(
    consumer: Any, reader: Reader, wanted: list[int], start: str
) -> tuple[dict[int, int], dict[int, int]]:
    """Where to begin and where the partitions end, by partition."""
    kafka = kafka_side.library()
    first: dict[int, int] = {}
    ends: dict[int, int] = {}
    for number in wanted:
        place = kafka.TopicPartition(reader.topic, number)
        first[number], ends[number] = kafka_side.answered(
            partial(consumer.get_watermark_offsets, place), reader.timeout
        )
    if start == "earliest":
        return first, ends
    if start == "latest":
        return dict(ends), ends
    if re.fullmatch(r"-[0-9]+", start):
        return {number: max(first[number], ends[number] + int(start)) for number in wanted}, ends
    if _OFFSET.fullmatch(start):
        return {number: min(max(int(start), first[number]), ends[number]) for number in wanted}, ends
    since = _since(start)
    asked = [kafka.TopicPartition(reader.topic, number, since) for number in wanted]
    found = kafka_side.answered(partial(consumer.offsets_for_times, asked), reader.timeout)
    return {each.partition: each.offset if each.offset >= 0 else ends[each.partition] for each in found}, ends


def _since(text: str) -> int:
    """A time, in ms since 1970. Raises AdminError."""
    try:
        ago = span_ms(text)
    except AdminError:
        try:
            return moment_ms(text)
        except AdminError:
            raise Misused(
                f"{text!r} is no place to begin: write earliest, latest, an offset, -10 for the last ten,"
                " 2026-01-31T12:00:00Z or 2h."
            ) from None
    return int(time.time() * 1000) - ago


def by_group(reader: Reader, group: str, start: str | None, write: Write) -> None:
    """As a member of a consumer group. What is shown is committed, nothing else. Raises AdminError."""
    kafka = kafka_side.library()
    consumer = reader.client(
        "Consumer",
        {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": start or "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
        },
    )
    at_end: set[int] = set()
    assigned: set[int] = set()

    def given(_: Any, places: list[Any]) -> None:
        assigned.clear()
        assigned.update(place.partition for place in places)
        at_end.clear()

    try:
        partitions_of(consumer, reader)
        queue = queue_of(consumer, reader, group)
        consumer.subscribe([reader.topic], on_assign=given)
        reader.waiting_since = time.monotonic()
        while not reader.done and reader.patient:
            last: dict[int, int] = {}
            try:
                messages = consumer.consume(min(reader.left, AT_ONCE), kafka_side.STEP_SECONDS)
                reader.polled(bool(messages))
                for message in messages:
                    error = message.error()
                    if error is not None:
                        check(error, reader)
                        at_end.add(message.partition())
                        continue
                    at_end.discard(message.partition())
                    reader.show(record_of(message), write)
                    last[message.partition()] = message.offset() + 1
            finally:
                # also after Ctrl-C and a closed pipe: what was seen is seen
                if last:
                    places = [
                        kafka.TopicPartition(reader.topic, number, offset) for number, offset in last.items()
                    ]
                    consumer.commit(offsets=places, asynchronous=False)
            if not reader.follow and assigned and at_end >= assigned:
                break
        reader.check_complete()
        if queue is not None:
            reader.hint = (
                f"Lanes serve {group} on {reader.topic}, so nothing was acknowledged here: magnetar-admin topics "
                f"consume {queue} --group {group}"
            )
        elif not assigned:
            reader.hint = (
                f"{group} gave this member no partition: others have them all, or --wait is too short."
            )
    except kafka.KafkaException as error:
        raise AdminError(f"{group} cannot go on: {kafka_side.reason(error)}.") from None
    finally:
        consumer.close()


def check(error: Any, reader: Reader) -> None:
    """Raises AdminError for anything but the end of a partition."""
    kafka = kafka_side.library()
    if error.code() == kafka.KafkaError._PARTITION_EOF:
        return
    hint = ""
    if error.code() in (kafka.KafkaError._BAD_COMPRESSION, kafka.KafkaError._BAD_MSG):
        hint = " If it is larger than the client takes, `-X receive.message.max.bytes=2000000000` lets it take more."
    if error.code() == kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL:
        hint = (
            " The name is a share group's (read it with --share), or other members share partitions out differently"
            " (-X partition.assignment.strategy=..., or -X group.protocol=consumer)."
        )
    raise AdminError(f"{reader.topic} cannot be read: {kafka_side.reason(error)}.{hint}")
