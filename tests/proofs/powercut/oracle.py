"""What must hold of a store that was opened on an image, held against what clients asked for and were told.

Promised (acknowledged under `fsync` before the cut): it is there, byte for byte. Everything else may be gone, but in
whole pieces: logs are the beginning of what was sent, rows speak of nothing that a log has lost, and what was
committed one after the other is there up to some point.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gateway.broker.catalog import Catalog
from gateway.broker.catalog import Topic as Row
from gateway.broker.clipping import clip
from gateway.broker.producers import KEPT, ProducerTable, prefix
from gateway.coordinators import offsets
from semantics.names import dotted
from store import batch as layout
from store import rocksdb
from store.api import Append, Durability, Family, StoreError
from store.rocksdb import RocksStore
from store.rocksdb.verify import verify
from tests.proofs.powercut import (
    compacted_load,
    compacted_oracle,
    lane_oracle,
    policy_oracle,
    share_oracle,
    transaction_oracle,
)
from tests.proofs.powercut.lane_load import queue_of
from tests.proofs.powercut.transaction_load import TOPICS
from tests.proofs.powercut.world import Batch, Topic, World
from tests.store.making import content
from tests.store.rocksdb.faults import crash


@dataclass(slots=True)
class Verdict:
    """What one image showed."""

    problems: list[str] = field(default_factory=list)
    # properties of images, to be counted: what was lost, what was repaired
    seen: Counter[str] = field(default_factory=Counter)
    lost_batches: int = 0
    lost_commits: int = 0

    def wrong(self, text: str) -> None:
        self.problems.append(text)


class Found:
    """A log as it was found: batches by offset, and where it begins and ends."""

    def __init__(self, start: int, end: int, data: bytes) -> None:
        self.start = start
        self.end = end
        self.data = data
        self.batches = [(base, following, at, size) for at, size, base, following in layout.walk(data)]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Found)
        return (self.start, self.end, self.data) == (other.start, other.end, other.data)


async def examine(
    image: Path, world: World, cut: int, chance: random.Random, *, told: bool = False
) -> Verdict:
    """Open the store on an image of the moment before event `cut`, look at everything, go on, open it again.

    `told`: an earlier start may have said already what is lost.
    """
    verdict = Verdict()
    try:
        store = await rocksdb.open(image, clip=clip, tail_cache_bytes=0)
    except StoreError as error:
        verdict.wrong(f"the store does not open: {error}")
        return verdict
    killed = chance.random() < 0.3
    try:
        logs = await _look(store, world, cut, verdict, told)
        if not store.read_only:
            await _append(store, logs, verdict)
    finally:
        await (crash(store) if killed else store.close())
    if verdict.problems:
        return verdict
    again = await rocksdb.open(image, clip=clip, tail_cache_bytes=0)
    try:
        if again.notices or again.read_only:
            verdict.wrong(f"a second start has something to say: {again.notices} {again.read_only}")
        for partition, found in logs.items():
            if await _read(again, partition) != found:
                verdict.wrong(f"log {partition} is another one after a second start")
            # also with what was appended behind the cut
            _positions(again, partition, found, verdict)
    finally:
        await again.close()
    report = verify(image)
    verdict.problems += [f"verify: {problem}" for problem in report.problems]
    return verdict


async def _read(store: RocksStore, partition: int) -> Found:
    log = store.log(partition)
    return Found(log.start_offset, log.end_offset, await content(log))


async def _append(store: RocksStore, logs: dict[int, Found], verdict: Verdict) -> None:
    """Every log takes a batch more."""
    writes = []
    for partition, found in logs.items():
        epoch = store.leader_epoch(partition)
        data = layout.build(found.end, b"after the cut", epoch=epoch)
        writes.append(Append(partition, found.end, found.end + 1, 0, [data], epoch))
    try:
        await store.write(writes, Durability.OS)
    except StoreError as error:
        verdict.wrong(f"no appends after the cut: {error}")
        return
    for partition in logs:
        logs[partition] = await _read(store, partition)


async def _look(store: RocksStore, world: World, cut: int, verdict: Verdict, told: bool) -> dict[int, Found]:
    if store.read_only:
        verdict.wrong(f"read-only: {store.read_only}")
        return {}
    before = verdict.lost_batches + verdict.lost_commits
    catalog = Catalog(store)
    rows = {dotted(row.name): row for row in catalog.topics()}
    lives: dict[str, list[Topic]] = {}
    for each in world.topics:
        lives.setdefault(each.name, []).append(each)
    # made by the gateway, when the first record dies
    letters = share_oracle.dead_letters(world.shared.name) if world.shared is not None else ""
    for name in (
        rows.keys()
        - lives.keys()
        - {letters}
        - lane_oracle.names(world.laned)
        - TOPICS.keys()
        - {compacted_load.NAME}
    ):
        verdict.wrong(f"topic {name} was never created")
    logs: dict[int, Found] = {}
    ends: dict[tuple[str, int], int] = {}
    for name, history in lives.items():
        topic = _alive(rows.get(name), history, world, cut, verdict)
        if topic is None:
            _all_lost(history, world, cut, verdict)
            continue
        for index, partition in enumerate(rows[name].partitions):
            if refuses := store.log(partition).refuses:
                verdict.wrong(f"{name}-{index} refuses: {refuses}")
            try:
                found = logs[partition] = await _read(store, partition)
            except StoreError as error:
                verdict.wrong(f"{name}-{index} cannot be read: {error}")
                continue
            ends[name, index] = found.end
            known = _log(f"{name}-{index}", topic, index, found, world, cut, verdict)
            _dedup(f"{name}-{index}", store, partition, found, topic.batches[index], known, verdict)
            _positions(store, partition, found, verdict)
    for name in TOPICS.keys() & rows.keys():
        for partition in rows[name].partitions:
            logs[partition] = await _read(store, partition)
    if (topic := world.compacted) is not None and topic.name in rows:
        for index, partition in enumerate(rows[topic.name].partitions):
            logs[partition] = await _read(store, partition)
            compacted_oracle.look(world, cut, topic, index, logs[partition], verdict)
    transaction_oracle.look(store, world, cut, rows, logs, verdict)
    await _shares(store, world, cut, rows, logs, verdict)
    await _lanes(store, world, cut, rows, logs, verdict)
    if world.laned is not None and (queue := rows.get(queue_of(world.laned.name))) is not None:
        ends |= lane_oracle.ends(store, queue)
    _offsets(store, world, cut, ends, verdict)
    _chain(store, world, verdict)
    policy_oracle.look(store, world, cut, rows, logs, verdict)
    if verdict.lost_batches + verdict.lost_commits > before and not store.notices and not told:
        verdict.wrong("acknowledged facts are gone, and the start has nothing to say")
    for notice in store.notices:
        for word in (
            "lost the offsets",
            "moved from",
            "is damaged",
            "machine stopped before",
            "at least",
            "half of a record",
            "logs behind it",
        ):
            if word in notice:
                verdict.seen[word] += 1
    return logs


async def _shares(
    store: RocksStore, world: World, cut: int, rows: dict[str, Row], logs: dict[int, Found], verdict: Verdict
) -> None:
    topic = world.shared
    row = rows.get(topic.name) if topic is not None else None
    if topic is None or row is None or any(partition not in logs for partition in row.partitions):
        return
    dead = rows.get(share_oracle.dead_letters(topic.name))
    letters = []
    for partition in dead.partitions if dead is not None else ():
        found = logs[partition] = await _read(store, partition)
        letters.append(found)
    of_topic = [logs[partition] for partition in row.partitions]
    lost = share_oracle.look(store, world, cut, topic, row, of_topic, letters, verdict.problems, verdict.seen)
    verdict.lost_commits += lost


async def _lanes(
    store: RocksStore, world: World, cut: int, rows: dict[str, Row], logs: dict[int, Found], verdict: Verdict
) -> None:
    topic = world.laned
    row = rows.get(topic.name) if topic is not None else None
    if topic is None or row is None or any(partition not in logs for partition in row.partitions):
        return
    letters = []
    dead = rows.get(lane_oracle.dead_letters(topic.name))
    for partition in dead.partitions if dead is not None else ():
        found = logs[partition] = await _read(store, partition)
        letters.append(found)
    queue = rows.get(queue_of(topic.name))
    of_topic = [logs[partition] for partition in row.partitions]
    verdict.lost_commits += lane_oracle.look(
        store, world, cut, topic, row, queue, of_topic, letters, verdict.problems, verdict.seen
    )


def _alive(row: Row | None, history: list[Topic], world: World, cut: int, verdict: Verdict) -> Topic | None:
    """Which life of a topic is there, and whether it may be."""
    # state k is what change k led to: none, first life, none, second life ...
    changes = []
    for topic in history:
        changes.append(topic.created)
        if topic.deleted is not None:
            changes.append(topic.deleted)
    acked = sum(world.acked(key, cut) for key in changes)
    least = acked if world.synced else 0
    for number, topic in enumerate(history):
        promised = any(batch.acked < cut for batches in topic.batches for batch in batches)
        if topic.synced and promised:
            least = max(least, 2 * number + 1)
    state = 0
    if row is not None:
        state = next((2 * n + 1 for n, each in enumerate(history) if each.topic_id == row.topic_id), -1)
        if state < 0:
            verdict.wrong(f"topic {row.name} has an id that nobody was told")
            return None
    else:
        # the latest state without the topic that is possible
        state = min(acked + 1, len(changes)) // 2 * 2
    if not least <= state <= acked + 1:
        verdict.wrong(f"topic {history[0].name} is in state {state}; {least} to {acked + 1} are possible")
        return None
    return history[state // 2] if row is not None else None


def _all_lost(history: list[Topic], world: World, cut: int, verdict: Verdict) -> None:
    for topic in history:
        if world.acked(topic.created, cut) and (topic.deleted is None):
            verdict.lost_batches += sum(each.acked < cut for own in topic.batches for each in own)
            verdict.lost_commits += 1


def _log(
    name: str, topic: Topic, index: int, found: Found, world: World, cut: int, verdict: Verdict
) -> dict[int, Batch]:
    """A log holds the beginning of what was sent to it, from its start on. Answers the batches that are there."""
    sent = {batch.offset: batch for batch in topic.batches[index]}
    there: dict[int, Batch] = {}
    expected = -1
    for base, following, at, size in found.batches:
        batch = sent.get(base)
        data = found.data[at : at + size]
        if batch is None or data[16:] != batch.data[16:]:
            verdict.wrong(f"{name}: the batch at {base} is not what was sent")
            continue
        if not layout.intact(data):
            verdict.wrong(f"{name}: the batch at {base} is not intact")
        if expected >= 0 and base != expected:
            verdict.seen["gap in a log"] += 1
            # os bytes may be lost in front of bytes that a turn with a synced topic put into the journal
            if not world.mixed:
                verdict.wrong(f"{name}: a gap between {expected} and {base}")
        there[base] = batch
        expected = following
    if found.data and sum(size for *_, size in found.batches) != len(found.data):
        verdict.wrong(f"{name}: bytes that are no batch")
    if (there and not (world.mixed or min(there) <= found.start)) or found.start >= expected >= 0:
        verdict.wrong(f"{name}: begins with {min(there)}, its start is {found.start}")
    if found.end != (expected if there else found.start):
        verdict.wrong(f"{name}: ends at {expected}, its end is {found.end}")
    known = [(batch.producer_id, batch.sequence) for batch in there.values() if batch.producer_id >= 0]
    if len(set(known)) != len(known):
        verdict.wrong(f"{name}: a batch of an idempotent producer is there twice")
    for batch in sent.values():
        if batch.acked < cut and batch.offset not in there and batch.next_offset > found.start:
            if topic.synced:
                verdict.wrong(f"{name}: the batch at {batch.offset} was acknowledged and is gone")
            verdict.lost_batches += 1
    _start(name, topic, index, found, world, cut, verdict)
    return there


def _start(
    name: str, topic: Topic, index: int, found: Found, world: World, cut: int, verdict: Verdict
) -> None:
    trims = topic.trims[index]
    acked = sum(world.acked(trim.key, cut) for trim in trims)
    possible = [0, *(trim.offset for trim in trims[: acked + 1])]
    if world.synced:
        possible = possible[acked:]
    if found.start not in possible and not (not world.synced and found.start == found.end):
        verdict.wrong(f"{name}: starts at {found.start}, possible is {possible}")


def _dedup(
    name: str,
    store: RocksStore,
    partition: int,
    found: Found,
    sent: list[Batch],
    there: dict[int, Batch],
    verdict: Verdict,
) -> None:
    """The rows of producers say of a log what is in it: else a retry would be stored twice, or not at all."""
    table = dict(ProducerTable(partition, store.scan(Family.DEDUP, prefix(partition))))
    last: dict[int, Batch] = {}
    for offset in sorted(there):
        batch = there[offset]
        if batch.producer_id >= 0:
            last[batch.producer_id] = batch
    for identity, batch in last.items():
        producer = table.get(identity)
        later = sum(each.producer_id == identity and each.offset > batch.offset for each in sent)
        if producer is None and later >= KEPT:
            # all that its row remembered is gone; a client has at most as many in flight
            verdict.seen["producer forgotten"] += 1
        elif producer is None:
            verdict.wrong(f"{name}: producer {identity} is forgotten, its batch at {batch.offset} is there")
        elif producer.batches[-1][:3] != (batch.sequence, batch.sequence + batch.count - 1, batch.offset):
            verdict.wrong(
                f"{name}: the last batch of producer {identity} is at {batch.offset}, "
                f"its row says {producer.batches[-1]}"
            )
    for identity, producer in table.items():
        for _, _, offset, _ in producer.batches:
            if offset >= found.start and offset not in there and not (offset < min(there, default=found.end)):
                verdict.wrong(f"{name}: the row of producer {identity} speaks of {offset}, which is gone")


def _positions(store: RocksStore, partition: int, found: Found, verdict: Verdict) -> None:
    log = store.log(partition)
    if sum(segment.size for segment in log.segments()) != log.size:
        verdict.wrong(f"log {partition}: its segments have another size than the log")
    for base, following, _, _ in found.batches[:: max(1, len(found.batches) // 10)]:
        position = log.position_of(following - 1)
        try:
            leads_to = log.offset_of(position.ledger, position.entry)
        except KeyError:
            leads_to = -1
        if leads_to != base:
            verdict.wrong(f"log {partition}: the message id of {base} leads to {leads_to}")


def _offsets(
    store: RocksStore, world: World, cut: int, ends: dict[tuple[str, int], int], verdict: Verdict
) -> None:
    rows = {offsets.place(key): offsets.decode(value) for key, value in store.scan(Family.OFFSET)}
    for place, row in rows.items():
        end = ends.get((place.topic, place.partition), 0)
        if row.offset > end:
            verdict.wrong(f"{place} is committed at {row.offset}, the log ends at {end}")
    for (group, topic, index), commits in world.commits.items():
        acked = sum(world.acked(each.key, cut) for each in commits)
        found = rows.get(offsets.Place(group, topic, index))
        if found is None:
            if acked and world.synced:
                verdict.wrong(f"offsets of {group} for {topic}-{index} are gone")
            verdict.lost_commits += acked
            continue
        number = next((n for n, each in enumerate(commits) if each.stamp == found.metadata), -1)
        if number < 0 or number > acked:
            verdict.wrong(f"{group} {topic}-{index}: commit {number} of {acked} acknowledged ones")
            continue
        if number + 1 < acked:
            verdict.lost_commits += acked - number - 1
            if world.synced:
                verdict.wrong(f"{group} {topic}-{index}: commit {number}, and {acked} were acknowledged")
        if found.offset != commits[number].offset:
            verdict.seen["offset clipped"] += 1
            if world.synced or found.offset > commits[number].offset:
                verdict.wrong(f"{group} {topic}-{index}: offset {found.offset}, not {commits[number].offset}")


def _chain(store: RocksStore, world: World, verdict: Verdict) -> None:
    """Commits that were made one after the other are there up to one of them, and all before it."""
    rows = {offsets.place(key): offsets.decode(value).metadata for key, value in store.scan(Family.OFFSET)}
    stamps = {stamp: number for number, (_, (_, stamp, _)) in enumerate(world.chain)}
    places = {offsets.Place(*place): stamp for place, (_, stamp, _) in world.chain}
    newest = max((stamps[rows[place]] for place in places if place in rows), default=-1)
    wanted = {offsets.Place(*place): commit.stamp for place, commit in world.chain[: newest + 1]}
    for place, stamp in wanted.items():
        if rows.get(place) != stamp:
            verdict.wrong(
                f"{place} is at commit {rows.get(place)}, though a later one than {stamp} is there: "
                f"the database has a hole"
            )
