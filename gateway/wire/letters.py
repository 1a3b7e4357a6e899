"""Dead letters and retry letters: what stands in the headers of records that a subscription gave up, or tries again.

A dead letter has the key, the value and the headers of the record it was, and after them

| header | value | from |
|---|---|---|
| `REAL_TOPIC`, `REAL_SUBSCRIPTION` | where the message was first read; as they are where the record has them | Pulsar |
| `ORIGIN_MESSAGE_ID` | `ledger:entry:partition:batch-index` there; likewise | Pulsar |
| `__dlq.errors.topic`, `.partition`, `.offset` | where the record was read, numbers as decimal text | KIP-1191 |
| `__dlq.errors.group` | the share group | KIP-1191 |
| `__dlq.errors.delivery.count` | how often it was delivered | KIP-1191 |
| `__dlq.errors.message` | why, for a person | KIP-1191 |
| `pulsar-dead-letter-reason` | why, for a program: REJECTED, MAX_DELIVERIES or CORRUPT | ours |

So a dead letter that was on a retry letter topic names, by Pulsar's headers, the topic and the id it had at first. Its
timestamp is that of the burial, so that retention counts from there.

Pulsar's client writes the headers of retry letters itself; here the server completes them when the record is produced
(`complete`), since a Kafka client only copies the record and says a delay. Sources: Pulsar 4.2, ConsumerImpl and
RetryMessageUtil; seed 1, "Retry letter topic"; KIP-1191 and Kafka's ShareGroupDLQStateManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.wire import properties
from gateway.wire.batch import HEADER_SIZE, BatchError, Buffer, assemble, header
from gateway.wire.errors import Error
from gateway.wire.opened import LIMIT, Found
from gateway.wire.records import Headers, Record, build_batch, records

REJECTED = "REJECTED"
MAX_DELIVERIES = "MAX_DELIVERIES"
CORRUPT = "CORRUPT"
RETRY = "RETRY"
"""of a retry letter"""

REASON = "pulsar-dead-letter-reason"
_ERRORS = "__dlq.errors."
TOPIC = _ERRORS + "topic"
PARTITION = _ERRORS + "partition"
OFFSET = _ERRORS + "offset"
GROUP = _ERRORS + "group"
DELIVERY_COUNT = _ERRORS + "delivery.count"
MESSAGE = _ERRORS + "message"

_SENTENCES = {
    REJECTED: b"A consumer rejected the record, or an administrator did by an act.",
    MAX_DELIVERIES: b"The record was delivered as often as it may be and not acknowledged.",
}
_EARLIEST = -(2**63)

WHOLE = "cannot be opened; it is here whole."
"""How `__dlq.errors.message` ends where the letter is a whole batch."""


class Source(NamedTuple):
    """Where dead letters come from. `real_topic` is Pulsar's full name of the topic the subscription is on (for a retry
    letter topic, of the topic whose records are tried again there)."""

    topic: str
    partition: int
    group: str
    real_topic: str


class Letter(NamedTuple):
    """A dead letter to be."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str


def letter(source: Source, found: Found, deliveries: int, reason: str, message_id: str | None) -> Letter:
    """The dead letter of a record; `message_id` as Pulsar prints it, None where it is not known."""
    headers: Headers = []
    for name, value in found.headers:
        if name == REASON or name.startswith(_ERRORS):
            # of an earlier death
            continue
        if name == properties.DELIVER_AFTER:
            # would begin to count again here; as a time it says the same, and is over
            due = properties.deliver_at([(name, value)], found.timestamp)
            if due is not None:
                name, value = properties.DELIVER_AT, b"%d" % due
        headers.append((name, value))
    sentence = _SENTENCES.get(reason, reason.encode())
    _sign(headers, source, found.offset, deliveries, reason, sentence, message_id)
    return Letter(found.key, found.value, headers, reason)


def unreadable_letter(
    source: Source, batch: Buffer, deliveries: int, reason: str, message_id: str | None
) -> Letter:
    """The dead letter of a batch that cannot be opened: its bytes as they are stored, the value of one record.

    `__dlq.errors.offset` is the batch's first. Raises BatchError for less than a batch's header.
    """
    found = header(batch)
    sentence = f"The batch of offsets {found.base_offset} to {found.last_offset} {WHOLE}"
    headers: Headers = []
    _sign(headers, source, found.base_offset, deliveries, reason, sentence.encode(), message_id)
    return Letter(None, bytes(batch[: found.size]), headers, reason)


def covered(value: bytes | None, message: bytes) -> tuple[int, int] | None:
    """The first and last offset of a letter that is a whole batch, by its value and `__dlq.errors.message`; None for
    the letter of one record.
    """
    if value is None or not message.endswith(WHOLE.encode()) or len(value) < HEADER_SIZE:
        return None
    found = header(value)
    return found.base_offset, found.last_offset


def _sign(
    headers: Headers,
    source: Source,
    offset: int,
    deliveries: int,
    reason: str,
    sentence: bytes,
    message_id: str | None,
) -> None:
    present = {name for name, value in headers if value is not None}
    if properties.REAL_TOPIC not in present:
        headers.append((properties.REAL_TOPIC, source.real_topic.encode()))
        # a record that names another topic has its id there, or none: this one's would send people astray
        if properties.ORIGIN_MESSAGE_ID not in present and message_id is not None:
            headers.append((properties.ORIGIN_MESSAGE_ID, message_id.encode()))
    if properties.REAL_SUBSCRIPTION not in present:
        headers.append((properties.REAL_SUBSCRIPTION, source.group.encode()))
    headers += (
        (TOPIC, source.topic.encode()),
        (PARTITION, b"%d" % source.partition),
        (OFFSET, b"%d" % offset),
        (GROUP, source.group.encode()),
        (DELIVERY_COUNT, b"%d" % deliveries),
        (MESSAGE, sentence),
        (REASON, reason.encode()),
    )


def build(letters: Sequence[Letter], now: int) -> tuple[bytes, int]:
    """(one batch of these letters in their order, its largest timestamp); `now` in ms since 1970."""
    listed = [Record(number, now, each.key, each.value, each.headers) for number, each in enumerate(letters)]
    return build_batch(listed), now


# -- retry letters -------------------------------------------------------------------------------------------------


RETRIES_AT_ONCE = 10_000
"""Retry letters in one batch, as many as librdkafka puts into one by default: each is taken apart and built anew, which
takes some 40 µs, and others wait meanwhile."""


def complete(batch: bytes, real_topic: str, retry_topic: str, subscription: str, limit: int = LIMIT) -> bytes:
    """A producer's batch for a retry letter topic with the headers of its records completed.

    What is missing of REAL_TOPIC, REAL_SUBSCRIPTION and RETRY_TOPIC is added, with Pulsar's full names of topics.
    RECONSUMETIMES is counted: a client may copy all headers of what it was delivered and count or not; the server's
    own `pulsar-reconsume-times` tells how often the message was there before, so what is stored is the larger of the
    client's number and of one more than the server's. DELAY_TIME takes the place of `pulsar-deliver-at` and `-after`,
    which may be the original's; "0" where the record says nothing.

    Codec, producer id, epoch and sequence, the number of records and the largest timestamp stay, so deduplication works
    on it; the same batch gives the same bytes. Raises BatchError as `records` does, MESSAGE_TOO_LARGE also for more
    than RETRIES_AT_ONCE records.
    """
    found = header(batch)
    if found.count > RETRIES_AT_ONCE:
        raise BatchError(
            Error.MESSAGE_TOO_LARGE,
            f"{found.count:,} retry letters in one batch are too many: {RETRIES_AT_ONCE:,} is the most.",
        )
    added = (
        (properties.REAL_TOPIC, real_topic.encode()),
        (properties.REAL_SUBSCRIPTION, subscription.encode()),
        (properties.RETRY_TOPIC, retry_topic.encode()),
    )
    completed = [
        Record(
            delta,
            max(_EARLIEST, min(timestamp, properties.FOR_EVER)),
            key,
            value,
            _completed(headers, timestamp, added),
        )
        for delta, timestamp, key, value, headers in records(batch, limit)
    ]
    if not completed:
        return batch
    made = build_batch(
        completed,
        found.base_offset,
        found.codec,
        leader_epoch=found.leader_epoch,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=found.base_sequence,
        transactional=found.transactional,
        last_offset_delta=found.last_offset_delta,
    )
    after = header(made)
    if after.max_timestamp != found.max_timestamp:
        # what the producer says, and what its place in the time index was taken from
        after.max_timestamp = found.max_timestamp
        made = assemble(after, made[HEADER_SIZE:])
    return made


def retry_letter(
    source: Source, retry_topic: str, found: Found, delay_ms: int, message_id: str | None
) -> Letter:
    """The retry letter of a record, to be delivered so many ms after it is built. `retry_topic`: Pulsar's full name of
    where it goes; `message_id` as Pulsar prints it, None where it is not known.
    """
    headers = [each for each in found.headers if each[0] not in _REPLACED]
    served, said = properties.reconsume_times(found.headers)
    times = max(served or 0, said or 0) + 1
    present = {name for name, value in headers if value is not None}
    if properties.REAL_TOPIC not in present:
        headers.append((properties.REAL_TOPIC, source.real_topic.encode()))
        if properties.ORIGIN_MESSAGE_ID not in present and message_id is not None:
            headers.append((properties.ORIGIN_MESSAGE_ID, message_id.encode()))
    if properties.REAL_SUBSCRIPTION not in present:
        headers.append((properties.REAL_SUBSCRIPTION, source.group.encode()))
    if properties.RETRY_TOPIC not in present:
        headers.append((properties.RETRY_TOPIC, retry_topic.encode()))
    headers += (
        (properties.RECONSUME_TIMES, b"%d" % times),
        (properties.RECONSUME_TIMES_SERVED, b"%d" % times),
        (properties.DELAY_TIME, b"%d" % delay_ms),
    )
    return Letter(found.key, found.value, headers, RETRY)


_REPLACED = frozenset(
    (
        properties.RECONSUME_TIMES,
        properties.RECONSUME_TIMES_SERVED,
        properties.DELAY_TIME,
        properties.DELIVER_AT,
        properties.DELIVER_AFTER,
    )
)


def _completed(headers: Headers, timestamp: int, added: Sequence[tuple[str, bytes]]) -> Headers:
    served, said = properties.reconsume_times(headers)
    times = max(said or 0, (served or 0) + 1)
    due = properties.deliver_at(headers, timestamp, retry=True)
    delay = 0 if due is None else max(0, due - timestamp)
    kept = [each for each in headers if each[0] not in _REPLACED]
    present = {name for name, value in kept if value is not None}
    kept += [each for each in added if each[0] not in present]
    kept += (
        (properties.RECONSUME_TIMES, b"%d" % times),
        (properties.RECONSUME_TIMES_SERVED, b"%d" % times),
        (properties.DELAY_TIME, b"%d" % min(delay, properties.FOR_EVER)),
    )
    return kept
