"""What must hold of a share group on an image: acknowledgements, counts, due times, and dead letters with their ends.

For every policy: a record that is settled was accepted or is a dead letter, and a dead letter's record is settled; one
never without the other. A record that waits has a time at which it stops to. What was answered under `fsync` is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.broker.catalog import Topic as Row
from gateway.broker.subscriptions import rows
from gateway.wire.records import records
from semantics.subscriptions.config import SubscriptionConfig
from semantics.subscriptions.cursor import Cursor
from semantics.subscriptions.states import RecordState
from store.rocksdb import RocksStore
from tests.proofs.powercut.share_load import ACCEPT, GROUP, LEFT, REDELIVERIES, REJECT, RELEASE
from tests.proofs.powercut.world import Topic, Verdict, World

if TYPE_CHECKING:
    from tests.proofs.powercut.oracle import Found

CONFIG = SubscriptionConfig(delivery_limit=REDELIVERIES + 1)
PAGE = 1000


def dead_letters(topic: str) -> str:
    return f"{topic}-{GROUP}-DLQ"


def look(
    store: RocksStore,
    world: World,
    cut: int,
    topic: Topic,
    row: Row,
    logs: list[Found],
    letters: list[Found],
    wrong: list[str],
    seen: Counter[str],
) -> int:
    """`logs` and `letters`: the topic's partitions and those of its dead letter topic. How many facts are lost."""
    subscription = rows.find(store, GROUP, topic.topic_id)
    if subscription is None:
        if world.subscribed is not None and world.acked(world.subscribed, cut) and world.synced:
            wrong.append(f"the subscription of {GROUP} is gone")
        if any(found.batches for found in letters):
            wrong.append(f"the subscription of {GROUP} is gone, and its dead letters are there")
        return 0
    dead = _dead(letters, wrong)
    seen["dead letters"] += sum(dead.values())
    lost = 0
    for index, partition in enumerate(row.partitions):
        log = logs[index]
        found = cursor(store, rows.prefix(subscription.id, partition), log.start, log.end)
        lost += _partition(world, cut, topic, index, found, log, dead, wrong, seen)
    return lost


def _dead(letters: list[Found], wrong: list[str]) -> Counter[tuple[int, int]]:
    """(partition, offset) of the records that are dead, by their letters."""
    dead: Counter[tuple[int, int]] = Counter()
    for found in letters:
        for _, _, at, size in found.batches:
            dead.update(places(found.data[at : at + size]))
    wrong += [
        f"record {place} is twice in the dead letter topic" for place, count in dead.items() if count > 1
    ]
    return dead


def places(batch: bytes) -> Iterator[tuple[int, int]]:
    """(partition, offset) of the records whose letters are in a batch."""
    for *_, headers in records(batch):
        named = dict(headers)
        yield int(named["__dlq.errors.partition"] or b""), int(named["__dlq.errors.offset"] or b"")


def cursor(stored: rows.Rows, prefix: bytes, start: int, end: int) -> Cursor:
    """The cursor of a log from `start` to `end`, as it is loaded."""
    found = list(rows.of_cursor(stored, prefix))
    if not found:
        return Cursor.fresh(CONFIG, start)
    made = Cursor.load(CONFIG, found, start, end, 0)
    while (needs := made.needs_due) is not None:
        due = rows.due(stored, prefix, needs.key, min(needs.limit, PAGE))
        made.due_loaded(due, len(due) < min(needs.limit, PAGE))
    return made


def missing(verdict: Verdict, state: RecordState, buried: bool) -> str:
    """What was said of a record and is not so, or nothing. `buried`: its letter is in the dead letter topic."""
    if verdict.kind == ACCEPT and state.state != "DONE":
        return "was accepted"
    if verdict.kind == REJECT and not buried and state.state != "DYING":
        return "was rejected"
    if verdict.kind == RELEASE and state.state != "DONE" and state.count < verdict.count:
        return f"was released after delivery {verdict.count}"
    return ""


def _partition(
    world: World,
    cut: int,
    topic: Topic,
    index: int,
    cursor: Cursor,
    log: Found,
    dead: Counter[tuple[int, int]],
    wrong: list[str],
    seen: Counter[str],
) -> int:
    lost = 0
    for offset in range(log.start, log.end):
        verdicts = [each for each in world.verdicts[index].get(offset, ()) if each.key is not None]
        kinds = {each.kind for each in verdicts}
        answered = [each for each in verdicts if each.key is not None and world.acked(each.key, cut)]
        state = cursor.look(offset)
        name = f"{topic.name}-{index}@{offset}"
        buried = (index, offset) in dead
        if state.state == "DONE":
            seen["settled"] += 1
            if ACCEPT not in kinds and not buried:
                wrong.append(f"{name} is settled, was never accepted and is no dead letter")
        elif buried:
            wrong.append(f"{name} is a dead letter, and {state.state}")
        elif state.state in ("DELAYED", "BACKOFF"):
            seen[state.state.lower()] += 1
            if state.due is None:
                wrong.append(f"{name} is {state.state}, and has no due time")
        if buried and kinds <= {ACCEPT}:
            wrong.append(f"{name} is a dead letter, and was never refused")
        lacks = [text for each in answered if (text := missing(each, state, buried))]
        if lacks:
            lost += 1
            if topic.synced:
                wrong.append(f"{name} {lacks[-1]}, and is {state.state} with count {state.count}")
        counted = sum(each.kind in (RELEASE, LEFT) for each in verdicts)
        if state.state != "DYING" and state.count > counted:
            wrong.append(f"{name} counts {state.count} deliveries, {counted} were released or left")
    return lost
