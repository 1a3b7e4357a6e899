"""Verbs that take messages out of a log: what retention would take, at once; or all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.backlogs import keeping, readers_of, subscriptions_of
from gateway.admin.clearing import Bounds
from gateway.admin.exchange import RefusedError, Reply, done
from gateway.admin.places import indexes_of
from gateway.admin.subscriptions import clear, ends_of
from gateway.admin.topics import found_by

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.admin.topics import Found
    from gateway.broker.broker import Broker


async def trim(context: Context, call: Call) -> Reply:
    """What retention no longer keeps of a topic, or of one partition, goes now. The answer is how many messages."""
    broker = context.broker
    found = keeping(await found_by(broker, call), "trim-topic")
    before = _starts(broker, found)
    try:
        await broker.retention.trim(found.topic, found.index if found.index >= 0 else None)
        after = _starts(broker, found)
    except (KeyError, IndexError):
        raise RefusedError(503, f"{found.name} is being deleted.") from None
    return done(messages=after - before)


async def truncate(context: Context, call: Call) -> Reply:
    """All messages that there are now are acknowledged for all subscriptions, and deleted, whatever retention says. The
    answer is how many there were.

    A consumer group with members is not moved: nobody but they commits. They read on at what comes next, as when
    DeleteRecords takes what they have not read.
    """
    broker = context.broker
    found = keeping(await found_by(broker, call), "truncate")
    ends = ends_of(broker, found)
    before = _starts(broker, found)
    async for at in subscriptions_of(broker, found, await readers_of(broker)):
        try:
            await clear(broker, at, Bounds(ends))
        except RefusedError as refused:
            if refused.status != 412:
                raise
    for index, end in ends.items():
        await broker.topics.delete_records(broker.partition(found.topic, index), end)
    return done(messages=_starts(broker, found) - before)


def _starts(broker: Broker, found: Found) -> int:
    """Where the logs begin, summed up: what it grows by is what was deleted. Raises KeyError, IndexError."""
    return sum(broker.log_of(found.topic, index).start_offset for index in indexes_of(found))
