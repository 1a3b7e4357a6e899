"""What must hold of a queue topic on an image: lanes and cursors say one thing, and what was answered is there.

For every policy: a record is open on one lane at most, and is then not settled; what is open below a log's end waits
for nothing. A record that is settled was acknowledged or is a dead letter. Under `fsync` also: what was read of a lane
is at its offset, what was acknowledged in an answered commit is settled, and what was nacked has its count.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gateway.broker.catalog import Topic as Row
from gateway.broker.queues import rows as lane_rows
from gateway.broker.subscriptions import rows
from semantics.lanes.lane import Lane
from store.rocksdb import RocksStore
from tests.proofs.powercut import share_oracle
from tests.proofs.powercut.lane_load import GROUP, queue_of
from tests.proofs.powercut.world import Topic, World

if TYPE_CHECKING:
    from tests.proofs.powercut.oracle import Found

Place = tuple[int, int]
"""(partition, offset) of a record."""


def dead_letters(topic: str) -> str:
    return f"{topic}-{GROUP}-DLQ"


def names(topic: Topic | None) -> set[str]:
    """Topics that come with the queue topic of this one."""
    return {queue_of(topic.name), dead_letters(topic.name)} if topic is not None else set()


def ends(store: RocksStore, row: Row) -> dict[tuple[str, int], int]:
    """Where the lanes end."""
    return {
        (row.name, lane): lane_rows.read(store, partition)[0].end
        for lane, partition in enumerate(row.partitions)
    }


def look(
    store: RocksStore,
    world: World,
    cut: int,
    topic: Topic,
    base: Row,
    queue: Row | None,
    logs: list[Found],
    letters: list[Found],
    wrong: list[str],
    seen: Counter[str],
) -> int:
    """`logs` and `letters`: the topic's partitions and those of its dead letter topic. How many facts are lost."""
    subscription = rows.find(store, GROUP, topic.topic_id)
    if queue is None or subscription is None:
        if world.queued is not None and world.acked(world.queued, cut) and world.synced:
            wrong.append(f"the queue topic of {topic.name} is gone")
        if (queue is None) != (subscription is None or not subscription.queue):
            wrong.append(f"the queue topic of {topic.name} or its subscription is there without the other")
        return 0
    dead = Counter[Place]()
    for found in letters:
        for _, _, at, size in found.batches:
            dead.update(share_oracle.places(found.data[at : at + size]))
    wrong += [f"record {place} has {count} dead letters" for place, count in dead.items() if count > 1]
    lanes = [lane_rows.read(store, partition)[0] for partition in queue.partitions]
    index_of = {partition: index for index, partition in enumerate(base.partitions)}
    opened = _opened(lanes, index_of, wrong)
    seen["open on lanes"] += len(opened)
    cursors = [
        share_oracle.cursor(store, rows.prefix(subscription.id, partition), log.start, log.end)
        for partition, log in zip(base.partitions, logs, strict=True)
    ]
    said = {place for each in world.said for place in each.acked}
    for index, (cursor, log) in enumerate(zip(cursors, logs, strict=True)):
        for offset in range(log.start, log.end):
            place, state = (index, offset), cursor.look(offset).state
            if place in opened and state not in ("AVAILABLE", "UNREAD"):
                wrong.append(f"{topic.name}-{index}@{offset} is open on lane {opened[place]}, and {state}")
            if state == "DONE":
                seen["settled by lanes"] += 1
                if place not in said and not dead[place]:
                    wrong.append(f"{topic.name}-{index}@{offset} is settled, and nobody acknowledged it")
            elif dead[place]:
                wrong.append(f"{topic.name}-{index}@{offset} is a dead letter, and {state}")
    lost: list[str] = []
    for given in world.given:
        if world.acked(given.key, cut) and not _is_at(lanes[given.lane], given.at, given.place, index_of):
            lost.append(f"lane {given.lane} had record {given.place} at {given.at}, and has not any more")
    nacks = Counter[Place]()
    for each in world.said:
        if not world.acked(each.key, cut):
            continue
        if lanes[each.lane].open < each.offset:
            lost.append(
                f"lane {each.lane} was committed at {each.offset}, and is open at {lanes[each.lane].open}"
            )
        for index, offset in each.acked:
            if (state := cursors[index].look(offset).state) != "DONE":
                lost.append(f"{topic.name}-{index}@{offset} was acknowledged, and is {state}")
        nacks.update(each.nacked)
    for (index, offset), count in nacks.items():
        found_state = cursors[index].look(offset)
        if found_state.state not in ("DONE", "DYING") and found_state.count < count:
            lost.append(
                f"{topic.name}-{index}@{offset} was nacked {count} times, and counts {found_state.count}"
            )
    if topic.synced:
        wrong += lost
    return len(lost)


def _opened(lanes: list[Lane], index_of: dict[int, int], wrong: list[str]) -> dict[Place, int]:
    """The records that are open, with their lane."""
    opened: dict[Place, int] = {}
    for number, lane in enumerate(lanes):
        for begin, end in lane.open_ranges(lane.open, lane.end):
            for piece in lane.pieces(begin, end):
                for offset in piece.run.offsets(piece.begin, piece.end):
                    place = index_of.get(piece.run.source, -1), offset
                    if place in opened:
                        wrong.append(f"record {place} is open on lanes {opened[place]} and {number}")
                    opened[place] = number
    return opened


def _is_at(lane: Lane, at: int, place: Place, index_of: dict[int, int]) -> bool:
    for piece in lane.pieces(at, at + 1):
        (offset,) = piece.run.offsets(at, at + 1)
        return (index_of.get(piece.run.source, -1), offset) == place
    return False
