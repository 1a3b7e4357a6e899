"""What a replay or a discard would do, without doing it: a dry run. Bounded: beyond that it says "at least"."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.broker.redrive.letter import origin
from gateway.broker.redrive.reading import Pause, read
from semantics.console.letter_states import OPEN
from semantics.console.replay import Tally
from semantics.message_id import MessageId, MessageIdError
from semantics.names import dotted
from semantics.subscriptions.hashing import slot_of
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.redrive.cursor import LetterCursors
    from gateway.broker.redrive.place import Graves
    from gateway.broker.subscriptions.node import Delivering
    from gateway.broker.subscriptions.registry import Subscriptions
    from semantics.console.letter_filter import DeadLetter
    from semantics.console.replay import Wanted

MOST_BYTES = 256 * 1024 * 1024
"""Of letters that one question looks through."""
MOST_RUNS = 200_000
"""Letters that do not follow each other, of one look: some 30 MB while its plan holds."""
MOST_BYTES_OF_BASE = 64 * 1024 * 1024
"""Of records behind them in their topic, in which newer ones of their keys are looked for."""


class Newer(NamedTuple):
    """Keys of which newer messages are in the base topic, and whether there may be more."""

    keys: int
    at_least: bool


async def tally(
    node: Delivering,
    cursors: LetterCursors,
    graves: Graves,
    wanted: Wanted,
    ends: dict[int, int] | None = None,
) -> Tally:
    """What of the open letters is meant. Raises KafkaError, StoreError."""
    found, left, pause = Tally(), MOST_BYTES, Pause()
    topic = node.catalog.get(graves.letters)
    for index in range(len(topic.partitions)) if topic is not None else ():
        assert topic is not None
        at = await until_loaded(partial(node.in_use.partition, topic, index))
        end = at.last_stable_offset if ends is None else ends[index]
        start, end = wanted.filter.within(index, at.log_start, end)
        cursor = await until_loaded(partial(cursors.of, at))
        start = cursor.states.next_open(start, end)
        async for letters, behind, size in read(node, at, start, end):
            for letter in letters:
                if pause.due:
                    await pause()
                found.looked += 1
                if (
                    cursor.states.of(letter.offset) == OPEN
                    and wanted.filter.matches(letter)
                    and graves.holds(letter)
                ):
                    found.add(wanted, letter, came_from(node, graves, letter))
            left -= size
            if (left <= 0 or found.chosen.size >= MOST_RUNS) and behind < end:
                found.at_least = True
                return found
    return found


def came_from(node: Delivering, graves: Graves, letter: DeadLetter) -> tuple[int, int] | None:
    """Partition and offset of a letter's message in the base topic, None where it is not known any more."""
    where = origin(letter)
    if where.topic == dotted(graves.base.name) and where.partition >= 0 and where.offset >= 0:
        return where.partition, where.offset
    try:
        found = MessageId.parse(where.message_id)
        index = max(found.partition, 0)
        at = node.in_use.partition(graves.base, index)
        return index, at.log.offset_of(found.ledger, found.entry) + max(found.batch_index, 0)
    except (MessageIdError, KafkaError, StoreError, LookupError):
        return None


async def newer(node: Delivering, graves: Graves, found: Tally) -> Newer:
    """In the base topic, behind where the letters came from. Raises KafkaError, StoreError."""
    by_index: dict[int, dict[bytes, int]] = {}
    left, pause = MOST_BYTES_OF_BASE, Pause()
    for key, where in found.keys.items():
        if where is not None:
            by_index.setdefault(where[0], {})[key] = where[1]
        if pause.due:
            await pause()
    seen: set[bytes] = set()
    for index, keys in by_index.items():
        if index >= len(graves.base.partitions):
            continue
        at: Partition = await until_loaded(partial(node.in_use.partition, graves.base, index))
        missing = dict(keys)
        start, end = min(keys.values()) + 1, at.last_stable_offset
        async for some, behind, size in read(node, at, start, end):
            for each in some:
                if pause.due:
                    await pause()
                if each.key in missing and each.offset > missing[each.key]:
                    seen.add(each.key)
                    del missing[each.key]
            left -= size
            if not missing:
                break
            if left <= 0 and behind < end:
                return Newer(len(seen), True)
    return Newer(len(seen), False)


async def behind_blocked(
    node: Delivering, subscriptions: Subscriptions, graves: Graves, target: str, found: Tally
) -> int:
    """Keys whose slot is held up where they would go, since a record was nacked or drains: what is sent waits for that.
    Of a subscription that keeps an order, and cursors in memory.
    """
    topic = node.catalog.get(target)
    if topic is None or not graves.key_shared:
        return 0
    live = subscriptions.in_use(graves.group, topic.topic_id)
    if live is None:
        return 0
    count = len(topic.partitions)
    held_up = {index: at.cursor.held_up() for index, at in live.partitions.items() if at.cursor is not None}
    held, pause = 0, Pause()
    for key, where in found.keys.items() if any(held_up.values()) else ():
        held += slot_of(key, None, 0) in held_up.get((where[0] if where is not None else 0) % count, ())
        if pause.due:
            await pause()
    return held


def is_name(node: Delivering, name: str) -> bool:
    """Whether there is a topic of this name that letters may go to: none that the gateway keeps, and no queue topic."""
    topic = node.catalog.get(name)
    return topic is not None and topic.queue is None and not node.catalog.is_view(topic)
