"""How `topics consume --share` reads: each record is accepted, released or rejected, by rule or by key press."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote
from typing import Any

import click

from gateway.cli import admin_kafka as kafka_side
from gateway.cli.admin_client import AdminError
from gateway.cli.admin_reading import AT_ONCE, Reader, Write, check, partitions_of, queue_of, record_of
from gateway.cli.admin_records import Record

COMMIT_SECONDS = 30.0

ACCEPT, RELEASE, REJECT = "accepted", "released", "rejected"
UNCONFIRMED = "not confirmed"
_TYPES = {ACCEPT: "ACCEPT", RELEASE: "RELEASE", REJECT: "REJECT"}
_KEYS = {"a": ACCEPT, "r": RELEASE, "x": REJECT}


@dataclass
class Rules:
    """What becomes of a record. Patterns are searched for in its value."""

    reject: re.Pattern[bytes] | None = None
    release: re.Pattern[bytes] | None = None
    reject_every: int | None = None
    release_every: int | None = None
    ask: bool = False
    seen: int = 0

    @property
    def any(self) -> bool:
        return self.ask or any(
            each is not None for each in (self.reject, self.release, self.reject_every, self.release_every)
        )

    def decide(self, record: Record, press: Callable[[], str]) -> str | None:
        """accepted, released or rejected; None when the person has had enough."""
        self.seen += 1
        if self.ask:
            return asked(press)
        value = record.value or b""
        if (self.reject is not None and self.reject.search(value)) or _nth(self.seen, self.reject_every):
            return REJECT
        if (self.release is not None and self.release.search(value)) or _nth(self.seen, self.release_every):
            return RELEASE
        return ACCEPT


def _nth(seen: int, every: int | None) -> bool:
    return every is not None and seen % every == 0


def asked(press: Callable[[], str]) -> str | None:
    """Until a key has a meaning. None to quit, also at the end of the input."""
    click.echo("  accept [a], release [r], reject [x], quit [q]? ", err=True, nl=False)
    while True:
        key = press()
        if key in ("", "q", "\x04"):
            click.echo("quit", err=True)
            return None
        if key == "\x03":
            raise KeyboardInterrupt
        decided = _KEYS.get(key.lower())
        if decided is not None:
            click.echo(decided, err=True)
            return decided


def pressed() -> str:
    """One key, or one character of an input that is no terminal."""
    stream = sys.stdin
    if not stream.isatty():
        return stream.read(1)
    try:
        return click.getchar()
    except EOFError:
        return ""
    except KeyboardInterrupt:
        # the question's line ends here
        click.echo(err=True)
        raise


def by_share_group(reader: Reader, group: str, start: str | None, rules: Rules, write: Write) -> None:
    """As a member of a share group. A record is settled once it is written; what is not written goes back.

    Raises AdminError.
    """
    kafka = kafka_side.library()
    # a consumer's look-up makes no topic
    looking = reader.client("Consumer", {"group.id": group})
    try:
        partitions_of(looking, reader)
        queue = queue_of(looking, reader, group)
    finally:
        looking.close()
    if start is not None:
        kafka_side.begin_at(reader.bootstrap, group, start, reader.timeout)
    at_once = 1 if rules.ask else min(reader.count or AT_ONCE, AT_ONCE)
    member = reader.client(
        "ShareConsumer",
        {"group.id": group, "share.acknowledgement.mode": "explicit", "max.poll.records": at_once},
    )
    try:
        member.subscribe([reader.topic])
        reader.waiting_since = time.monotonic()
        while not reader.done and reader.patient:
            messages = member.poll(kafka_side.STEP_SECONDS)
            reader.polled(bool(len(messages)))
            if not _settle(reader, member, messages, rules, write):
                break
        else:
            reader.check_complete()
    except kafka.KafkaException as error:
        said = kafka_side.reason(error)
        taken = kafka.KafkaError(kafka.KafkaError.GROUP_ID_NOT_FOUND).str()
        hint = (
            f" If {group} is a consumer group, read with --group, or take another name."
            if taken in said
            else ""
        )
        if reader.topic.endswith("-QUEUE"):
            queue = reader.topic
        if queue is not None:
            hint = (
                f" If lanes serve {group}, read the queue topic as a consumer group instead: magnetar-admin topics "
                f"consume {queue} --group {group}"
            )
        raise AdminError(f"{group} cannot go on: {said}.{hint}") from None
    finally:
        member.close()
    if not reader.shown and not reader.follow:
        # this read has given a new group its place: --from comes too late for the next
        why = (
            "A new share group begins at the end"
            if start is None
            else f"--from counts where {group} has not begun"
        )
        reader.hint = (
            f"Nothing came for {reader.wait:g} s. {why}:"
            f" `magnetar-admin topics reset-cursor {reader.topic} -s {quote(group)} -m earliest` has it begin again."
            f" `magnetar-admin topics explain {reader.topic} -s {quote(group)} --offset 0` tells why a message does not"
            " come."
        )


def _settle(reader: Reader, member: Any, messages: Any, rules: Rules, write: Write) -> bool:
    """Write and settle what one poll brought. False when the person has had enough."""
    kafka = kafka_side.library()
    open_ones = []
    for message in messages:
        error = message.error()
        if error is not None:
            check(error, reader)
            continue
        open_ones.append(message)
    # of those that are no longer open: (partition, what was decided)
    settled: list[tuple[int, str]] = []
    going_on = True
    try:
        while open_ones:
            message = open_ones[0]
            if not going_on or reader.done:
                break
            record = record_of(message)
            record.deliveries = message.delivery_count()
            reader.show(record, write)
            decided = rules.decide(record, pressed)
            if decided is None:
                going_on = False
                decided = RELEASE
            member.acknowledge(message, getattr(kafka.AcknowledgeType, _TYPES[decided]))
            settled.append((message.partition(), decided))
            open_ones.pop(0)
            reader.waiting_since = time.monotonic()
    except (KeyboardInterrupt, OSError):
        # nobody has said what shall become of the first, or nobody has seen it
        _give_back(reader, member, open_ones, settled)
        raise
    if len(messages):
        _give_back(reader, member, open_ones, settled)
    return going_on


def _give_back(reader: Reader, member: Any, messages: list[Any], settled: list[tuple[int, str]]) -> None:
    """Release what is open, and have everything confirmed. Counts what the gateway took, and tells what it did not."""
    kafka = kafka_side.library()
    for message in messages:
        member.acknowledge(message, kafka.AcknowledgeType.RELEASE)
    # of partitions for which there is no answer nothing is known
    confirmed: set[int] = set()
    try:
        for place, error in (member.commit_sync(COMMIT_SECONDS) or {}).items():
            if error is None:
                confirmed.add(place.partition)
                continue
            late = kafka_side.code(error) == kafka.KafkaError.INVALID_RECORD_STATE
            held = " that was held too long (share.record.lock.duration.ms)" if late else " without an answer"
            click.echo(
                f"Partition {place.partition}: not all was settled ({kafka_side.reason(error)})."
                f" A message{held} comes again.",
                err=True,
            )
    finally:
        for partition, decided in settled:
            what = decided if partition in confirmed else UNCONFIRMED
            reader.settled[what] = reader.settled.get(what, 0) + 1
