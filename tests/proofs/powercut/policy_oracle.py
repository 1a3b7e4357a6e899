"""What must hold of policies on an image.

For every policy of durability: what was said at once is there at once or not at all, and is one of the last two things
that were said before the cut or an earlier one; what a named producer is known to have sent is in the log, to the last
message; a topic that has ended has nothing behind its end; a message that expired is settled and counted, both or
neither, and no young one is settled. Under `fsync` also: what was answered is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.broker.catalog import Topic as Row
from gateway.broker.namespaces import Namespaces
from gateway.broker.producer_names import KEPT
from gateway.broker.producers import ProducerTable, prefix
from gateway.broker.subscriptions import rows
from semantics.names import Namespace
from store.api import Family
from store.rocksdb import RocksStore
from tests.proofs.powercut import share_oracle
from tests.proofs.powercut.policy_load import ELDERS, NAME, RULED, SAID
from tests.proofs.powercut.world import Topic, World

if TYPE_CHECKING:
    from tests.proofs.powercut.oracle import Found, Verdict

RATE = "pulsar.dispatch.rate."


def look(
    store: RocksStore,
    world: World,
    cut: int,
    catalog: Mapping[str, Row],
    logs: Mapping[int, Found],
    verdict: Verdict,
) -> None:
    """`logs` by the store's id."""
    _said(store, world, cut, catalog, verdict)
    _named(store, world, catalog, logs, verdict)
    _ended(world, cut, catalog, logs, verdict)
    for topic in (world.old, world.heap):
        row = catalog.get(topic.name) if topic is not None else None
        if topic is not None and row is not None:
            _expired(store, world, topic, row, logs, verdict)


def _said(store: RocksStore, world: World, cut: int, catalog: Mapping[str, Row], verdict: Verdict) -> None:
    namespace = Namespaces(store).get(Namespace(*RULED.split("/")))
    found: dict[str, int | None] = {}
    policies = dict(namespace.policies) if namespace is not None else {}
    found[RULED] = _one(RULED, _numbers_of_rate(policies), verdict)
    for name in {each.of for each in world.sayings} - {RULED}:
        row = catalog.get(name)
        if row is not None:
            found[name] = _one(name, {row.configs.get(each) for each in SAID}, verdict)
    for name, number in found.items():
        sent = [each for each in world.sayings if each.of == name]
        acked = sum(world.acked(each.key, cut) for each in sent)
        if number is None:
            continue
        verdict.seen["policies"] += 1
        verdict.lost_commits += max(acked - number, 0)
        if number > acked + 1:
            verdict.wrong(f"change {number} of the policies of {name} is there, {acked} were answered")
        if number < acked and world.synced:
            verdict.wrong(f"change {acked} of the policies of {name} was answered, and {number} is there")


def _numbers_of_rate(policies: Mapping[str, str]) -> set[str | None]:
    numbers = {policies.get(f"{RATE}{each}") for each in ("messages", "bytes", "seconds")}
    relative = policies.get(f"{RATE}relative")
    for number in list(numbers):
        if relative is not None and number is not None and (int(number) % 2 == 0) != (relative == "true"):
            numbers.add("another one")
    return numbers


def _one(name: str, numbers: set[str | None], verdict: Verdict) -> int | None:
    """The number that all of it follows from; 0 where nothing is said."""
    if len(numbers) != 1:
        verdict.wrong(f"the policies of {name} are half said: {sorted(map(str, numbers))}")
        return None
    return int(numbers.pop() or 0)


def _named(
    store: RocksStore, world: World, catalog: Mapping[str, Row], logs: Mapping[int, Found], verdict: Verdict
) -> None:
    """A producer's name stands for what is in the log: else what is sent again is there twice, or not at all."""
    topic = world.named
    row = catalog.get(topic.name) if topic is not None else None
    if topic is None or row is None:
        return
    for index, partition in enumerate(row.partitions):
        if partition not in logs:
            continue
        names = ProducerTable(partition, store.scan(Family.DEDUP, prefix(partition))).names
        last, end = names.last(NAME), logs[partition].end
        verdict.seen["names"] += last >= 0
        # nobody else sends there: sequence ids are offsets
        if last >= end:
            verdict.wrong(f"{topic.name}-{index} ends at {end}, and message {last} is said to be there")
        elif last < 0 and sum(batch.offset >= end for batch in topic.batches[index]) >= KEPT:
            verdict.seen["name forgotten"] += 1
        elif last != end - 1:
            verdict.wrong(
                f"{topic.name}-{index} ends at {end}, and its producer is known to have sent {last}"
            )


def _ended(
    world: World, cut: int, catalog: Mapping[str, Row], logs: Mapping[int, Found], verdict: Verdict
) -> None:
    for topic in world.topics:
        row, ended = catalog.get(topic.name), world.ended.get(topic.name)
        if row is None or ended is None or row.topic_id != topic.topic_id:
            continue
        answered = world.acked(ended.key, cut)
        if not row.terminated:
            if answered:
                verdict.lost_commits += 1
                if world.synced:
                    verdict.wrong(f"{topic.name} has ended, and takes messages")
            continue
        verdict.seen["ended topics"] += 1
        found = logs.get(row.partitions[0])
        if found is None:
            continue
        if found.end > ended.end or (topic.synced and found.end != ended.end):
            verdict.wrong(f"{topic.name} has ended at {ended.end}, and ends at {found.end}")


def _expired(
    store: RocksStore, world: World, topic: Topic, row: Row, logs: Mapping[int, Found], verdict: Verdict
) -> None:
    """Nobody reads them: what is settled has expired."""
    subscription = rows.find(store, ELDERS, topic.topic_id)
    if subscription is None:
        return
    for index, partition in enumerate(row.partitions):
        if partition not in logs:
            continue
        log = logs[partition]
        cursor = share_oracle.cursor(store, rows.prefix(subscription.id, partition), log.start, log.end)
        states = Counter(cursor.look(offset).state for offset in range(log.start, log.end))
        settled, counted = states["DONE"], cursor.stats()["expired"]
        verdict.seen["expired messages"] += settled
        # what has expired and is lost stays counted
        there = {base for base, *_ in log.batches}
        lost = any(batch.offset < counted and batch.offset not in there for batch in topic.batches[index])
        if settled != counted and not (lost and not topic.synced and settled <= counted):
            verdict.wrong(f"{topic.name}-{index}: {settled} messages have expired, and {counted} are counted")
        if settled and topic is world.old and index == 1:
            verdict.wrong(f"{topic.name}-{index}: {settled} messages have expired that are young")
