"""Letters are sent again and settled, or discarded: in the turn that is open, and so in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.redrive.letter import again, origin
from gateway.broker.subscriptions import letter_names
from gateway.wire import letters as wire_letters
from gateway.wire.errors import Error
from semantics.console.letter_states import DISCARDED, EDITED, OPEN, REPLAYED
from semantics.subscriptions.hashing import partition_by_murmur2

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.partition import Partition
    from gateway.broker.redrive.cursor import LetterCursors
    from gateway.broker.redrive.place import Graves
    from gateway.broker.subscriptions.node import Delivering
    from semantics.console.letter_filter import DeadLetter
    from semantics.console.replay import Wanted


class Settled(NamedTuple):
    """What is in the open turn."""

    sent: int = 0
    edited: int = 0
    left_out: int = 0


def target_of(graves: Graves, wanted: Wanted) -> str:
    """What the catalog calls the topic that letters are sent to."""
    return {"subscription": graves.retries, "topic": graves.base.name}.get(wanted.to, wanted.to)


def settle(
    node: Delivering,
    cursors: LetterCursors,
    graves: Graves,
    wanted: Wanted,
    job: int,
    at: Partition,
    letters: Sequence[DeadLetter],
) -> Settled:
    """Both sides of the fact, into the open turn: those of these letters on the partition `at` that are open still.

    Nothing is done when it raises: KafkaError; Loading.
    """
    cursor = cursors.of(at)
    still = [each for each in letters if cursor.states.of(each.offset) == OPEN]
    taken = [each for each in still if wanted.takes(each)]
    left_out = len(still) - len(taken)
    if wanted.what == "discard":
        return Settled(len(cursor.settle([each.offset for each in taken], DISCARDED)), 0, left_out)
    if not taken:
        return Settled(left_out=left_out)
    name = target_of(graves, wanted)
    topic = node.catalog.get(name)
    if topic is None:
        raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    if wanted.target_id is not None and topic.topic_id != wanted.target_id:
        raise KafkaError(
            Error.INVALID_REQUEST, f"Topic '{name}' was deleted, and another has its name: it is not sent to."
        )
    retry_topic = letter_names.full_name(node.catalog, name) if wanted.to == "subscription" else None
    by_index: dict[int, list[DeadLetter]] = {}
    for each in taken:
        by_index.setdefault(_index(graves, wanted, topic, each), []).append(each)
    # all of it is looked at before anything is appended
    targets = {index: _target(node, topic, index, at) for index in by_index}
    now = node.clock.wall_ms()
    edited: list[int] = []
    for index, some in by_index.items():
        made = []
        for each in some:
            edit = wanted.edit_of(each)
            if edit is not None:
                edited.append(each.offset)
            made.append(again(each, edit, job, retry_topic))
        batch, newest = wire_letters.build(made, now)
        targets[index].append_carried(batch, len(made), newest)
    cursor.settle(edited, EDITED)
    cursor.settle([each.offset for each in taken], REPLAYED)
    return Settled(len(taken), len(edited), left_out)


def _index(graves: Graves, wanted: Wanted, topic: Topic, letter: DeadLetter) -> int:
    """The partition that a letter goes to: of its own topics the one that it came from, so that its key stays there."""
    count = len(topic.partitions)
    if wanted.to in ("subscription", "topic"):
        where = origin(letter).partition
        return (where if where >= 0 else letter.partition) % count
    return partition_by_murmur2(letter.key, count) if letter.key is not None else letter.partition % count


def _target(node: Delivering, topic: Topic, index: int, at: Partition) -> Partition:
    """Where they can be appended. Raises KafkaError; Loading."""
    target = node.in_use.partition(topic, index)
    if target.log.refuses:
        raise KafkaError(Error.KAFKA_STORAGE_ERROR, target.log.refuses)
    if target.terminated:
        raise KafkaError(
            Error.INVALID_REQUEST, f"Topic '{topic.name}' is terminated: nothing can be sent to it."
        )
    if target.stale:
        raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER)
    if target.store is not at.store:
        raise KafkaError(
            Error.INVALID_REQUEST,
            f"Topic '{topic.name}' is not kept in the same store as '{at.topic.name}': a letter could not be sent and "
            "settled by one commit.",
        )
    return target
