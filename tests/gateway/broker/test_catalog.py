"""Topics as rows: found by name, by id and by what they collide with, also after a restart."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gateway.broker import catalog as module
from gateway.broker.catalog import Catalog, QueueOf, Topic
from semantics.names import DEFAULT
from store import memory
from store.api import Durability, Write


def topic(catalog: Catalog, name: str, number: int, partitions: int = 1) -> Topic:
    return Topic(name, bytes([number]) * 16, catalog.allocate(partitions), 1000 + number, {"a": "b"})


def put(store: memory.MemoryStore, catalog: Catalog, made: Topic) -> None:
    commit(store, catalog, catalog.writes_create(made), made.name, made)


def drop(store: memory.MemoryStore, catalog: Catalog, gone: Topic) -> None:
    commit(store, catalog, catalog.writes_delete(gone), gone.name, None)


def commit(
    store: memory.MemoryStore, catalog: Catalog, writes: list[Write], name: str, topic: Topic | None
) -> Topic | None:
    changes = catalog.begin(writes)
    store.commit(writes, Durability.OS, lambda outcome: None)
    before = catalog.changed(name, topic)
    catalog.end(changes)
    return before


def test_by_name_by_id_and_after_a_restart() -> None:
    store = memory.open()
    catalog = Catalog(store)
    made = [topic(catalog, name, number, 2) for number, name in enumerate(["b", "a", "c.d"])]
    for each in made:
        put(store, catalog, each)
    for again in (catalog, Catalog(store)):
        assert again.names() == ["a", "b", "c.d"]
        assert [again.get(each.name) for each in made] == made
        assert [again.by_id(each.topic_id) for each in made] == made
        assert again.get("x") is None
        assert again.by_id(b"x" * 16) is None
        assert again.collision("c_d") == "c.d"
        assert again.collision("c.d") is None
        assert [each.name for each in again.topics("b")] == ["b", "c.d"]
        assert [each.name for each in again.topics("aa", 1)] == ["b"]
        assert [each.name for each in again.topics_within("c.")] == ["c.d"]
        assert [each.name for each in again.topics_within("", "b")] == ["b", "c.d"]
        assert list(again.topics_within("aa")) == []
        assert again.allocate(1) > [max(number for each in made for number in each.partitions)]


def test_a_deleted_topic_leaves_no_row() -> None:
    store = memory.open()
    catalog = Catalog(store)
    made = topic(catalog, "a.b", 1)
    put(store, catalog, made)
    drop(store, catalog, made)
    assert (catalog.get("a.b"), catalog.by_id(made.topic_id), catalog.collision("a_b")) == (None, None, None)
    assert catalog.names() == []


def test_queue_topics_over_patterns_are_known_as_they_come_and_go() -> None:
    store = memory.open()
    catalog = Catalog(store)
    queue = msgspec.structs.replace(topic(catalog, "b-QUEUE", 1), queue=QueueOf(b"", "b", ".*"))
    early = msgspec.structs.replace(topic(catalog, "a-QUEUE", 2), queue=QueueOf(b"", "a", ".*"))
    put(store, catalog, queue)
    assert catalog.over_patterns() == [queue]
    put(store, catalog, topic(catalog, "t", 3))
    put(store, catalog, early)
    assert catalog.over_patterns() == Catalog(store).over_patterns() == [early, queue]
    drop(store, catalog, queue)
    # a plain topic of that name is none
    put(store, catalog, topic(catalog, "b-QUEUE", 4))
    assert catalog.over_patterns() == Catalog(store).over_patterns() == [early]


def test_who_has_waited_asks_whether_a_topic_is_still_there() -> None:
    store = memory.open()
    catalog = Catalog(store)
    old, new = topic(catalog, "t", 1), topic(catalog, "t", 2)
    put(store, catalog, old)
    assert (catalog.holds(old), Catalog(store).holds(old)) == (True, True)
    drop(store, catalog, old)
    assert (catalog.holds(old), Catalog(store).holds(old)) == (False, False)
    put(store, catalog, new)
    assert (catalog.holds(old), Catalog(store).holds(old), catalog.holds(new)) == (False, False, True)


def test_the_id_of_a_topic_that_was_made_again_leads_nowhere() -> None:
    store = memory.open()
    catalog = Catalog(store)
    old, new = topic(catalog, "t", 1), topic(catalog, "t", 2)
    put(store, catalog, old)
    drop(store, catalog, old)
    put(store, catalog, new)
    assert catalog.by_id(old.topic_id) is None
    assert catalog.by_id(new.topic_id) == new


def test_every_change_counts() -> None:
    store = memory.open()
    catalog = Catalog(store)
    before = catalog.version
    put(store, catalog, topic(catalog, "t", 1))
    assert catalog.version > before


def test_only_so_many_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHED", 10)
    store = memory.open()
    catalog = Catalog(store)
    made = [topic(catalog, f"t{number}", number) for number in range(50)]
    for each in made:
        put(store, catalog, each)
    assert [catalog.by_id(each.topic_id) for each in made] == made
    assert len(catalog._by_name) <= 10
    assert len(catalog._by_id) <= 10


def test_the_row_of_before_is_known_however_many_topics_were_looked_at_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CACHED", 2)
    store = memory.open()
    catalog = Catalog(store)
    made = [topic(catalog, f"t{number}", number) for number in range(5)]
    for each in made:
        put(store, catalog, each)
    assert asyncio.run(catalog.partition_counts()) == {DEFAULT: 5}
    grown = msgspec.structs.replace(made[0], partitions=[1, *catalog.allocate(2)])
    writes = catalog.writes_update(grown, grown=True)
    changes = catalog.begin(writes)
    store.commit(writes, Durability.OS, lambda outcome: None)
    for each in made[1:]:
        catalog.get(each.name)
    assert catalog.changed("t0", grown) == made[0]
    catalog.end(changes)
    assert asyncio.run(catalog.partition_counts()) == {DEFAULT: 7}


async def counted(catalog: Catalog) -> int:
    """Partitions of public/default, counted anew."""
    catalog._counted.clear()
    catalog._counted_to = b""
    found = await catalog.partition_counts()
    assert found is not None
    return found.get(DEFAULT, 0)


def test_what_is_under_way_counts_as_it_was_until_it_is_told() -> None:
    """Rows may be found before their commit is told."""

    async def test() -> None:
        store = memory.open()
        catalog = Catalog(store)
        put(store, catalog, topic(catalog, "a", 1, 3))
        made = topic(catalog, "t", 2, 4)
        grown = msgspec.structs.replace(made, partitions=[*made.partitions, *catalog.allocate(2)])
        have = 3
        for writes, row, then in (
            (catalog.writes_create(made), made, 7),
            (catalog.writes_update(grown, grown=True), grown, 9),
            (catalog.writes_delete(grown), None, 3),
        ):
            changes = catalog.begin(writes)
            store.commit(writes, Durability.OS, lambda outcome: None)
            catalog._counted_to = b""
            assert catalog.partitions_in(DEFAULT, 100) == (have if row is not None else 3)
            assert await counted(catalog) == have
            catalog.changed("t", row)
            catalog.end(changes)
            have = then
            found = await catalog.partition_counts()
            assert found == {DEFAULT: have}
            assert await counted(catalog) == have

    asyncio.run(test())


def test_what_was_not_committed_counts_no_more_than_before() -> None:
    async def test() -> None:
        store = memory.open()
        catalog = Catalog(store)
        put(store, catalog, topic(catalog, "a", 1, 3))
        made = topic(catalog, "t", 2, 4)
        catalog.end(catalog.begin(catalog.writes_create(made)))
        assert await counted(catalog) == 3
        put(store, catalog, made)
        assert await counted(catalog) == 7

    asyncio.run(test())


def test_a_walk_in_pages_goes_on_behind_what_is_being_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(module, "PAGE", 2)
        store = memory.open()
        catalog = Catalog(store)
        for number, name in enumerate("aceg"):
            put(store, catalog, topic(catalog, name, number))
        for number, name in enumerate(("b", "d", "d2", "h"), 10):
            writes = catalog.writes_create(topic(catalog, name, number))
            catalog.begin(writes)
            store.commit(writes, Durability.OS, lambda outcome: None)
        assert [each.name for each in catalog.topics("", 3)] == ["a", "c", "e"]
        assert [each.name for each in catalog.topics_within("", "b", 3)] == ["c", "e", "g"]
        assert [each.name for each in catalog.topics("", 100)] == list("aceg")
        assert [each.name async for each in catalog.every()] == list("aceg")
        assert await counted(catalog) == 4

    asyncio.run(test())
