"""Pulsar's message properties as Kafka record headers: their names, and what their values say.

| header | value |
|---|---|
| `pulsar-deliver-at` | when to deliver, ms since 1970: decimal text, or 8 bytes big-endian |
| `pulsar-deliver-after` | how long after the record's timestamp to deliver, ms: decimal text |
| `pulsar-ordering-key` | what Key_Shared goes by in place of the key |
| `DELAY_TIME` | on a retry letter topic: as `pulsar-deliver-after`, and it wins over both |
| `RECONSUMETIMES` | on a retry letter topic: how often the message has been there, as clients count |
| `pulsar-reconsume-times` | the same as the server counts |

Kafka allows a name twice; the last value that makes sense counts, as the last call of Pulsar's builder does. What makes
no sense is passed over: such a record is delivered at once. Names as in Pulsar 4.2 (RetryMessageUtil).
"""

from __future__ import annotations

from collections.abc import Iterable

DELIVER_AT = "pulsar-deliver-at"
DELIVER_AFTER = "pulsar-deliver-after"
ORDERING_KEY = "pulsar-ordering-key"
RECONSUME_TIMES_SERVED = "pulsar-reconsume-times"

RECONSUME_TIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"
REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"

FOR_EVER = 2**63 - 1
"""The latest time that can be said, ms since 1970."""

_MOST_DIGITS = 19
"""Digits of FOR_EVER; `int` of millions of digits would take seconds."""
_MOST_TIMES = 2**31 - 1

HeaderList = Iterable[tuple[str, bytes | None]]


def number(value: bytes | None) -> int | None:
    """Decimal text as a number, None for anything else; at most FOR_EVER."""
    if value is None or len(value) > _MOST_DIGITS or not value.isdigit():
        return None
    return min(int(value), FOR_EVER)


def deliver_at(headers: HeaderList, timestamp: int, *, retry: bool = False) -> int | None:
    """When a record with this timestamp (ms since 1970) is to be delivered, None for at once.

    On a retry letter topic (`retry`) DELAY_TIME wins: the others may have been copied from the original message.
    """
    due: int | None = None
    delay: int | None = None
    for name, value in headers:
        if name == DELIVER_AT:
            found = number(value)
            if found is None and value is not None and len(value) == 8 and value[:2] == b"\0\0":
                # up to the year 10889, so that no text is taken for a number
                found = int.from_bytes(value, "big")
            if found is not None:
                due = found
        elif name == DELIVER_AFTER:
            found = number(value)
            if found is not None:
                due = timestamp + found
        elif retry and name == DELAY_TIME:
            found = number(value)
            if found is not None:
                delay = found
    if delay is not None:
        due = timestamp + delay
    return None if due is None or due <= 0 else min(due, FOR_EVER)


def ordering_key(headers: HeaderList) -> bytes | None:
    """The key that Key_Shared goes by in place of the record's own, None where there is none."""
    found: bytes | None = None
    for name, value in headers:
        if name == ORDERING_KEY and value is not None:
            found = value
    return found


def reconsume_times(headers: HeaderList) -> tuple[int | None, int | None]:
    """How often a message has been on its retry letter topic: (as the server counted, as the client says)."""
    served: int | None = None
    said: int | None = None
    for name, value in headers:
        if name == RECONSUME_TIMES_SERVED:
            found = number(value)
            if found is not None:
                served = min(found, _MOST_TIMES)
        elif name == RECONSUME_TIMES:
            found = number(value)
            if found is not None:
                said = min(found, _MOST_TIMES)
    return served, said
