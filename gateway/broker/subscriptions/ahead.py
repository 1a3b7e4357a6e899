"""Reading on without a consumer: what administrators act on must have been looked at, and nobody may be connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.loading import until_loaded
from gateway.broker.subscriptions import telling
from gateway.broker.subscriptions.stored import walk
from semantics.subscriptions.states import Batch
from store.api import Corrupt, StoreError

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition

_BYTES = 64 * 1024
AT_ONCE = 2_000
"""Offsets of which the cursor is told in one go."""


async def read_on(at: SubscriptionPartition, end: int) -> bool:
    """Have the cursor look at some batches where it stands, before `end` or up to it. Whether there is more to look at.
    Nobody is given anything. Raises KafkaError.
    """
    cursor = await until_loaded(at.ready)
    offset, end = cursor.read, min(end, at.readable_to)
    if offset >= end or at.reader.passing or cursor.mending:
        return False
    scanner = at.reader.scanner
    wall = at.node.clock.wall_ms()
    try:
        found = at.partition.log.look(offset, _BYTES)
        data = found if isinstance(found, list) else await found
    except Corrupt as error:
        if (problem := at.corrupt(error)) is not None:
            raise problem from error
        if at.cursor is cursor and cursor.read == offset:
            clock = at.node.clock
            cursor.feed([Batch(offset, error.next_offset, skip=True)], clock.monotonic_ms(), clock.wall_ms())
            at.touch()
        return True
    except StoreError as error:
        raise at.unreadable(error) from error
    except IndexError:
        return False
    stored = walk(data, offset, at.readable_to)
    for number, each in enumerate(stored, 1):
        if each.next - offset >= AT_ONCE:
            del stored[number:]
            break
    if not stored:
        return False
    slow = telling.first_slow(at, scanner, stored, offset, wall)
    if slow == 0:
        await scanner.prepare(at, stored[0], at.key_shared, wall)
        slow = 1
    if slow is not None:
        del stored[slow:]
    if at.cursor is not cursor or cursor.read != offset or at.partition.stale:
        # a consumer has come to it meanwhile
        return True
    clock = at.node.clock
    now, wall = clock.monotonic_ms(), clock.wall_ms()
    cursor.feed(telling.told(at, scanner, stored, offset, wall), now, wall)
    at.touch()
    at.parked.serve_soon()
    return cursor.read < end
