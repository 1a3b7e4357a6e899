"""Rows of subscriptions: keys that keep groups, topics and cursors apart, pages that end, deletions that take all."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.broker.subscriptions import rows
from gateway.broker.subscriptions.rows import SubscriptionRow
from semantics.subscriptions.rows import CursorRow, RowKind
from store import memory
from store.api import Durability, Family, Store, Write

TOPICS = [bytes([number]) * 16 for number in (1, 2, 255)]
GROUPS = ["", "g", "gg", "g\0", "ü", "t", "x" * 300]
"""Names that begin like others, or are as long as two bytes of a length count."""


def subscription(
    group: str = "g", topic: bytes = TOPICS[0], number: int = 1, **more: object
) -> SubscriptionRow:
    return SubscriptionRow(number, group, "t", topic, 5, "shared", **more)  # type: ignore[arg-type]


def store_of(writes: Iterable[Write]) -> Store:
    made = memory.open()
    put(made, *writes)
    return made


def put(store: Store, *writes: Write) -> None:
    store.commit(writes, Durability.OS, lambda outcome: None)


def everything() -> tuple[Store, list[SubscriptionRow]]:
    """Each group on each topic."""
    made = [
        subscription(group, topic, number)
        for number, (group, topic) in enumerate(((g, t) for g in GROUPS for t in TOPICS), 1)
    ]
    return store_of(write for row in made for write in rows.writes_registered(row)), made


def test_a_row_comes_back_with_what_it_says_of_itself() -> None:
    row = subscription(selector=b"\0s", overrides={"a": "1"}, properties={"b": ""})
    store = store_of(rows.writes_registered(row))
    assert rows.find(store, "g", TOPICS[0]) == row
    assert rows.find(store, "g", TOPICS[1]) is None
    assert rows.find(store, "h", TOPICS[0]) is None


def test_a_changed_row_takes_the_place_of_the_one_before() -> None:
    store = store_of(rows.writes_registered(subscription()))
    put(store, rows.writes_selector(subscription(selector=b"owners")))
    assert [row.selector for row in rows.every(store)] == [b"owners"]


def test_who_reads_what_whatever_groups_are_called() -> None:
    store, made = everything()
    for group in GROUPS:
        assert {row.id for row in rows.of_group(store, group)} == {
            row.id for row in made if row.group == group
        }
    for topic in TOPICS:
        assert {row.id for row in rows.of_topic(store, topic)} == {
            row.id for row in made if row.topic_id == topic
        }
    assert {row.id for row in rows.every(store)} == {row.id for row in made}


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 100])
def test_pages_bring_all_once(limit: int) -> None:
    store, made = everything()
    found: list[int] = []
    behind: SubscriptionRow | None = None
    while page := rows.page(store, behind, limit):
        assert len(page) <= limit
        found += [row.id for row in page]
        behind = page[-1]
    assert sorted(found) == [row.id for row in made]
    names: list[str] = []
    name: str | None = None
    while (part := rows.page_of_topic(store, TOPICS[1], name, limit)) is not None:
        names += [row.group for row in part]
        name = part[-1].group
    assert sorted(names) == sorted(GROUPS)


def test_ids_count_from_one() -> None:
    store = memory.open()
    assert rows.next_id(store) == 1
    put(store, rows.writes_next_id(2**32 - 1))
    assert rows.next_id(store) == 2**32 - 1


# -- rows of cursors -----------------------------------------------------------------------------------------------

ALL = [CursorRow(kind, b"" if kind is RowKind.CURSOR else b"k", b"v") for kind in RowKind]
EDGES = st.sampled_from([0, 1, 255, 256, 2**32 - 2])


@given(one=st.tuples(EDGES, EDGES), other=st.tuples(EDGES, EDGES))
def test_a_cursor_has_its_own_rows_and_no_others(one: tuple[int, int], other: tuple[int, int]) -> None:
    store = store_of(rows.writes_of(rows.prefix(*one), ALL))
    found = [*rows.of_cursor(store, rows.prefix(*other)), *rows.due(store, rows.prefix(*other), b"", 9)]
    assert sorted(found) == (sorted(ALL) if one == other else [])


def test_a_row_without_a_value_is_deleted_and_without_a_key_all_of_its_kind_are() -> None:
    mine, others = rows.prefix(1, 7), rows.prefix(1, 8)
    many = [CursorRow(RowKind.ACK, bytes([number]), b"v") for number in (0, 1, 255)]
    store = store_of([*rows.writes_of(mine, [*ALL, *many]), *rows.writes_of(others, [*ALL, *many])])
    put(store, *rows.writes_of(mine, [CursorRow(RowKind.ACK, b"\1", None)]))
    assert [row.key for row in rows.of_cursor(store, mine) if row.kind is RowKind.ACK] == [
        b"\0",
        b"k",
        b"\xff",
    ]
    put(
        store,
        *rows.writes_of(mine, [CursorRow(RowKind.ACK, b"", None), CursorRow(RowKind.CURSOR, b"", None)]),
    )
    assert [row.kind for row in rows.of_cursor(store, mine)] == [RowKind.COUNT]
    assert len(list(rows.of_cursor(store, others))) == 6


@pytest.mark.parametrize("number", [1, 255, 2**32 - 2])
def test_a_subscription_that_is_removed_leaves_nothing_and_its_neighbours_alone(number: int) -> None:
    gone, stays = subscription("g", TOPICS[0], number), subscription("h", TOPICS[0], number + 1)
    before = subscription("f", TOPICS[0], number - 1)
    store = memory.open()
    for each in (before, gone, stays):
        put(store, *rows.writes_registered(each))
        for partition in (0, 2**32 - 1):
            put(store, *rows.writes_of(rows.prefix(each.id, partition), ALL))
    put(store, *rows.writes_removed(gone))
    assert [row.group for row in rows.of_topic(store, TOPICS[0])] == ["f", "h"]
    for partition in (0, 2**32 - 1):
        left = [
            len(list(rows.of_cursor(store, rows.prefix(each.id, partition))))
            for each in (before, gone, stays)
        ]
        assert left == [3, 0, 3]
    assert len(list(store.scan(Family.DUE))) == 4


def test_due_rows_come_from_a_key_on_and_no_more_than_asked_for() -> None:
    at = rows.prefix(3, 4)
    due = [CursorRow(RowKind.DUE, bytes([number]), b"v") for number in range(5)]
    store = store_of(rows.writes_of(at, due))
    assert rows.due(store, at, b"", 9) == due
    assert rows.due(store, at, b"\2", 2) == due[2:4]
    assert rows.due(store, at, b"\4\0", 9) == []


def test_where_cursors_stand_comes_in_pages() -> None:
    places = [(1, 0), (1, 1), (2, 0)]
    store = store_of(
        write
        for place in places
        for write in rows.writes_of(rows.prefix(*place), [CursorRow(RowKind.CURSOR, b"", b"%d-%d" % place)])
    )
    first = asyncio.run(rows.page_of_stands(store, None, 2))
    assert first == [(1, 0, b"1-0"), (1, 1, b"1-1")]
    assert asyncio.run(rows.page_of_stands(store, rows.prefix(1, 1), 2)) == [(2, 0, b"2-0")]
    assert asyncio.run(rows.page_of_stands(store, rows.prefix(2, 0), 2)) == []
    assert rows.stands(store, rows.prefix(9, 9)) is None
