"""A record of a dead letter topic as a letter, and the record that is sent again for it.

What the death has added is taken away then (`__dlq.errors.*`, the reason), with it an old delay, and RECONSUMETIMES
begins anew. What Pulsar's clients know a message by stays: REAL_TOPIC, REAL_SUBSCRIPTION, ORIGIN_MESSAGE_ID.

| header | value |
|---|---|
| `pulsar-replay-count` | how often the message was replayed, this time counted |
| `pulsar-replay-job` | the job that did it |

Source: Pulsar's RetryMessageUtil for names; KIP-1191 for what a dead letter has.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.wire import letters, properties
from semantics.console.letter_filter import DeadLetter
from semantics.console.replay import Edit

REPLAY_COUNT = "pulsar-replay-count"
REPLAY_JOB = "pulsar-replay-job"
ERRORS = "__dlq.errors."

TAKEN_AWAY = frozenset(
    (
        letters.REASON,
        REPLAY_COUNT,
        REPLAY_JOB,
        properties.RECONSUME_TIMES,
        properties.RECONSUME_TIMES_SERVED,
        properties.DELAY_TIME,
        properties.DELIVER_AT,
        properties.DELIVER_AFTER,
        properties.RETRY_TOPIC,
    )
)
"""Headers of a letter that its replay does not have, or has anew."""

OURS = frozenset(
    (properties.REAL_TOPIC, properties.REAL_SUBSCRIPTION, properties.ORIGIN_MESSAGE_ID, *TAKEN_AWAY)
)
"""Headers that say where a letter comes from and how it goes on; and those that begin with ERRORS."""

_WHOLE = letters.WHOLE.encode()

UNKNOWN = "UNKNOWN"
"""The reason of a letter that says none: a client has written it."""


class Origin(NamedTuple):
    """Where a letter was read last, and which message it was at first, as its headers say; -1 and "" for unknown."""

    topic: str
    partition: int
    offset: int
    group: str
    real_topic: str
    real_subscription: str
    message_id: str
    deliveries: int
    message: str


def dead_letter(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> DeadLetter:
    """A record of a dead letter topic."""
    reason, replays, failed, message = UNKNOWN, 0, 0, b""
    given = list[bytes]()
    for name, said in headers:
        if name == letters.REASON and said is not None:
            reason = said.decode("utf-8", "replace")[:100]
        elif name == REPLAY_COUNT:
            replays = min(properties.number(said) or 0, 2**31)
        elif name == letters.DELIVERY_COUNT:
            failed = min(properties.number(said) or 0, 2**31)
        elif name == letters.MESSAGE and said is not None:
            message = said
        elif said is not None and name not in OURS and not name.startswith(ERRORS):
            given.append(said)
    # its value may be anything, also where a client has written this
    whole = message.endswith(_WHOLE)
    return DeadLetter(
        partition,
        offset,
        timestamp,
        key,
        value,
        headers,
        reason,
        replays,
        whole,
        max(failed, 0),
        tuple(given),
    )


def origin(letter: DeadLetter) -> Origin:
    """Where it came from."""
    said = {name: value for name, value in letter.headers if value is not None}

    def text(name: str) -> str:
        return said.get(name, b"").decode("utf-8", "replace")

    def number(name: str) -> int:
        found = properties.number(said.get(name))
        return -1 if found is None else found

    return Origin(
        text(letters.TOPIC),
        number(letters.PARTITION),
        number(letters.OFFSET),
        text(letters.GROUP),
        text(properties.REAL_TOPIC),
        text(properties.REAL_SUBSCRIPTION),
        text(properties.ORIGIN_MESSAGE_ID),
        number(letters.DELIVERY_COUNT),
        text(letters.MESSAGE),
    )


def again(letter: DeadLetter, edit: Edit | None, job: int, retry_topic: str | None) -> letters.Letter:
    """What is sent again. `retry_topic`: Pulsar's full name of it, where it goes to one."""
    headers = [
        each for each in letter.headers if each[0] not in TAKEN_AWAY and not each[0].startswith(ERRORS)
    ]
    value = letter.value
    if edit is not None:
        headers = edit.apply(headers)
        value = edit.value if edit.has_value else value
    if retry_topic is not None:
        headers.append((properties.RETRY_TOPIC, retry_topic.encode()))
    headers += ((REPLAY_COUNT, b"%d" % (letter.replays + 1)), (REPLAY_JOB, b"%d" % job))
    return letters.Letter(letter.key, value, headers, letter.reason)


def job_of(letter: DeadLetter) -> int | None:
    """The job that has sent it before it died again."""
    return properties.number(letter.header(REPLAY_JOB))
