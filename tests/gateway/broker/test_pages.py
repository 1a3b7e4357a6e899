"""Rows are seen to page by page: each once, in order, and others have their turn in between."""

from __future__ import annotations

import asyncio

import pytest

from gateway.broker.pages import Rows, each_committed, each_page
from gateway.coordinators import offsets
from store import memory
from store.api import Durability, Family, Put
from store.memory.driver import MemoryStore
from store.pending import Asking, drive


def store_of(count: int) -> MemoryStore:
    store = memory.open()
    rows = [Put(Family.GROUP, b"g%03d" % number, b"") for number in range(count)]
    others = [Put(Family.GROUP, name, b"") for name in (b"f", b"h")]
    store.commit([*rows, *others], Durability.OS, lambda outcome: None)
    return store


@pytest.mark.parametrize(("count", "pages"), [(0, 0), (1, 1), (9, 1), (10, 1), (11, 2), (35, 4)])
def test_every_row_under_a_prefix_once_and_in_order(count: int, pages: int) -> None:
    found: list[bytes] = []
    turns: list[int] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        turn = 0

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(next_turn)

        next_turn()

        def take(rows: Rows) -> Asking[bool]:
            found.extend(key for key, _ in rows)
            turns.append(turn)
            return True
            yield

        seen = drive(each_page(store_of(count), Family.GROUP, b"g", take, 10))
        assert (seen if isinstance(seen, int) else await seen) == pages

    asyncio.run(test())
    assert found == [b"g%03d" % number for number in range(count)]
    assert len(set(turns)) == len(turns) == pages


def test_who_wants_no_more_is_given_no_more() -> None:
    def take(rows: Rows) -> Asking[bool]:
        assert len(rows) == 10
        return False
        yield

    assert drive(each_page(store_of(35), Family.GROUP, b"g", take, 10)) == 1


def test_every_offset_that_can_be_read() -> None:
    store = memory.open()
    store.commit(
        [
            Put(Family.OFFSET, offsets.key("a", "t", 3), offsets.encode(7, -1, 0, -1, b"i" * 16, None)),
            Put(Family.OFFSET, offsets.key("b", "t", 3), b"?"),
            Put(Family.OFFSET, offsets.key("c", "u", 0), offsets.encode(8, -1, 0, -1, b"j" * 16, "kept")),
        ],
        Durability.OS,
        lambda outcome: None,
    )
    found: list[tuple[offsets.Place, int, bytes]] = []

    def take(place: offsets.Place, committed: offsets.Committed) -> None:
        found.append((place, committed.offset, committed.topic_id))

    asyncio.run(each_committed(store, take))
    assert found == [(("a", "t", 3), 7, b"i" * 16), (("c", "u", 0), 8, b"j" * 16)]
