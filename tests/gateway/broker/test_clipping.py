"""What is forgotten with lost records, and what is not."""

from __future__ import annotations

import asyncio

from gateway.broker import aborted_transactions, letter_rows
from gateway.broker.aborted_transactions import Aborted, decode
from gateway.broker.catalog import Catalog, Topic
from gateway.broker.clipping import clip
from gateway.broker.producers import ACCEPT, ProducerTable, prefix
from gateway.coordinators import offsets
from semantics.console.letter_states import OPEN, REPLAYED, LetterStates
from store import memory
from store.api import Durability, Family, Put, Write


def test_producers_and_groups_forget_what_is_lost() -> None:
    store = memory.open()
    catalog = Catalog(store)
    orders = Topic(name="orders", topic_id=b"o" * 16, partitions=catalog.allocate(2), created_at=0)
    lost = orders.partitions[1]
    table = ProducerTable(lost)
    for sequence in range(3):
        table.take(7, 0, sequence, 1, 100 + sequence, now=0)
    table.take(8, 0, 0, 1, 101, now=0)
    kept = ProducerTable(orders.partitions[0])
    kept.take(7, 0, 0, 1, 101, now=0)
    commits = {
        ("a", "orders", 1): 103,
        ("b", "orders", 1): 101,
        ("c", "orders", 0): 103,
        ("d", "other", 1): 103,
        ("e", "orders", 1): 104,
    }
    writes: list[Write] = [*catalog.writes_create(orders), *table.flush(), *kept.flush()]
    for where, offset in commits.items():
        writes.append(
            Put(Family.OFFSET, offsets.key(*where), offsets.encode(offset, 3, 1, -1, b"o" * 16, "m"))
        )

    async def run() -> None:
        await store.write(writes, Durability.OS)
        await store.write(list(clip(store, lost, [(101, 103)])), Durability.OS)

    asyncio.run(run())
    again = ProducerTable(lost, store.scan(Family.DEDUP, prefix(lost)))
    assert again.check(7, 0, 0, 1) == 100
    assert again.check(7, 0, 1, 1) == ACCEPT
    assert dict(again).keys() == {7}
    assert ProducerTable(1, store.scan(Family.DEDUP, prefix(orders.partitions[0]))).check(7, 0, 0, 1) == 101

    def committed(*where: object) -> offsets.Committed:
        value = store.get(Family.OFFSET, offsets.key(*where))  # type: ignore[arg-type]
        assert value is not None
        return offsets.decode(value)

    found = {where: committed(*where).offset for where in commits}
    assert found == {**commits, ("a", "orders", 1): 101}
    assert committed("a", "orders", 1).metadata == "m"


def test_aborted_transactions_are_forgotten_with_their_markers() -> None:
    store = memory.open()
    rows = [
        aborted_transactions.put(partition, Aborted(marker, 7, 90))
        for partition in (1, 2)
        for marker in (100, 101, 103)
    ]

    async def run() -> None:
        await store.write(rows, Durability.OS)
        await store.write(list(clip(store, 1, [(101, 103)])), Durability.OS)

    asyncio.run(run())
    left = [decode(key, value).marker for key, value in store.scan(Family.ABORTED)]
    assert left == [100, 103, 100, 101, 103]


def test_what_became_of_letters_that_are_lost_is_forgotten() -> None:
    """Other letters take their offsets: they are open."""
    store = memory.open()
    states = LetterStates()
    states.settle([3, 5, 1500], REPLAYED)

    async def run() -> None:
        await store.write(letter_rows.writes(1, states, 0), Durability.OS)
        await store.write(list(clip(store, 1, [(5, 1501)])), Durability.OS)

    asyncio.run(run())
    left = letter_rows.load(store, 1)
    assert [left.of(offset) for offset in (3, 5, 1500)] == [REPLAYED, OPEN, OPEN]
    assert len(list(store.scan(Family.LETTER))) == 1
