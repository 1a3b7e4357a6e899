"""Two stores as one: what is in memory only beside what is durable, and facts that have a part in both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from store import memory
from store.api import (
    INSTANCE,
    Append,
    Delete,
    DeleteRange,
    DropLog,
    Durability,
    Family,
    Outcome,
    Put,
    Refused,
    Write,
    of_partition,
)
from store.transient import FIRST_OFFSETS, FIRST_TRANSIENT, Beside, is_transient
from tests.gateway.broker.held import HeldStore
from tests.store.making import Clock, batches

HERE, THERE = 7, FIRST_TRANSIENT + 7


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


class Both:
    def __init__(self) -> None:
        clock = Clock()
        self.durable = HeldStore(memory.open(clock=clock))
        self.memory = memory.open_forgetting(clock=clock, ages=clock, max_bytes=1 << 20)
        self.store = Beside(self.durable, self.memory)
        self.told: list[Outcome] = []

    def commit(self, *writes: Write) -> None:
        self.store.home(writes).commit(writes, Durability.OS, self.told.append)

    def rows(self, family: Family, prefix: bytes = b"") -> list[bytes]:
        return [key for key, _ in self.store.scan(family, prefix)]


def put(family: Family, key: bytes, value: bytes = b"v") -> Put:
    return Put(family, key, value)


CATALOG = put(Family.CATALOG, b"t/x")
CURSOR = put(Family.CURSOR, number(1) + number(THERE))
EVERYWHERE = DeleteRange(Family.CURSOR, number(1), number(2))


@pytest.mark.parametrize(
    ("writes", "home"),
    [
        ([], "durable"),
        ([CATALOG], "durable"),
        ([put(Family.DEDUP, number(HERE) + bytes(8))], "durable"),
        ([put(Family.OFFSET, number(1) + b"g" + number(THERE))], "durable"),
        ([CURSOR], "memory"),
        ([put(Family.DEDUP, number(THERE) + bytes(8)), DropLog(THERE)], "memory"),
        ([put(Family.LANE, number(THERE))], "memory"),
        ([CATALOG, CURSOR], "both"),
        ([EVERYWHERE], "both"),
    ],
)
def test_a_scope_says_where_a_write_goes(writes: Sequence[Write], home: str) -> None:
    both = Both()
    homes: dict[str, Any] = {"durable": both.durable, "memory": both.memory, "both": both.store}
    assert both.store.home(writes) is homes[home]


def test_each_partition_is_where_its_number_says() -> None:
    both = Both()
    assert (is_transient(HERE), is_transient(THERE)) == (False, True)
    both.commit(Append(HERE, 0, 1, 0, batches(0, [10])))
    both.commit(Append(THERE, FIRST_OFFSETS, FIRST_OFFSETS + 1, 0, batches(FIRST_OFFSETS, [10])))
    assert both.store.log(HERE).end_offset == 1
    assert both.store.log(THERE).end_offset == FIRST_OFFSETS + 1
    assert both.memory.size == both.store.log(THERE).size > 0
    assert both.durable.inner.log(THERE).end_offset == 0
    for scope in (INSTANCE, of_partition(HERE), of_partition(THERE)):
        assert both.store.load(scope) is None


def test_rows_over_all_partitions_are_in_one_order_a_page_at_a_time() -> None:
    both = Both()
    keys = [number(group) + number(partition) for group in (1, 2, 3) for partition in (HERE, THERE)]
    for key in keys:
        both.commit(put(Family.CURSOR, key))
    assert both.rows(Family.CURSOR) == keys
    assert both.rows(Family.CURSOR, number(2) + number(THERE)) == [keys[3]]
    assert both.store.get(Family.CURSOR, keys[3]) == b"v"
    found: list[bytes] = []
    start: bytes | None = None
    while page := both.store.page(Family.CURSOR, b"", start, 2):
        assert isinstance(page, list)
        found += [key for key, _ in page]
        start = found[-1] + b"\0"
    assert found == keys


def test_a_page_of_a_store_that_has_to_be_waited_for() -> None:
    async def test() -> None:
        late = memory.open_late()
        beside = Beside(late, memory.open_forgetting(max_bytes=1))
        await beside.write([put(Family.CURSOR, number(1) + number(HERE))], Durability.OS)
        await beside.write([put(Family.CURSOR, number(1) + number(THERE))], Durability.OS)
        page = beside.page(Family.CURSOR)
        assert not isinstance(page, list)
        assert [key[4:] for key, _ in await page] == [number(HERE), number(THERE)]

    asyncio.run(test())


def test_of_a_fact_of_both_what_is_new_in_memory_is_there_first_and_what_goes_goes_last() -> None:
    """Nobody finds a subscription whose cursor is not there, or a topic whose log is not."""
    both = Both()
    both.commit(put(Family.CURSOR, number(9) + number(THERE)))
    both.durable.holding = True
    both.commit(CATALOG, CURSOR, Delete(Family.CURSOR, number(9) + number(THERE)))
    assert both.told == [None]
    assert both.rows(Family.CURSOR) == [CURSOR.key, number(9) + number(THERE)]
    both.durable.release()
    assert both.told == [None, None]
    assert both.rows(Family.CURSOR) == [CURSOR.key]
    assert both.rows(Family.CATALOG) == [b"t/x"]


def test_of_a_fact_that_fails_nothing_stays_in_memory() -> None:
    both = Both()
    was = put(Family.CURSOR, number(2) + number(THERE), b"before")
    both.commit(was)
    both.durable.holding = True
    both.commit(CATALOG, CURSOR, put(Family.CURSOR, was.key, b"after"), EVERYWHERE)
    refused = Refused("no")
    both.durable.fail(refused)
    assert both.told == [None, refused]
    assert both.rows(Family.CURSOR) == [was.key]
    assert both.store.get(Family.CURSOR, was.key) == b"before"


def test_what_the_durable_store_does_not_take_leaves_nothing_either() -> None:
    both = Both()
    with pytest.raises(ValueError, match="below the end"):
        both.store.commit([CURSOR, Append(HERE, -1, 0, 0, [])], Durability.OS, both.told.append)
    with pytest.raises(ValueError, match="durable"):
        both.store.commit([CURSOR, Append(THERE, 0, 1, 0, [])], Durability.OS, both.told.append)
    assert both.rows(Family.CURSOR) == []
    assert both.told == []


def test_a_log_goes_with_its_topic() -> None:
    both = Both()
    both.commit(Append(THERE, FIRST_OFFSETS, FIRST_OFFSETS + 1, 0, batches(FIRST_OFFSETS, [10])))
    log = both.store.log(THERE)
    both.durable.holding = True
    both.commit(Delete(Family.CATALOG, b"t/x"), DropLog(THERE))
    assert not log.stale
    both.durable.release()
    assert log.stale
    assert both.memory.size == 0


def test_only_what_is_durable_is_synced() -> None:
    both = Both()
    asked: list[Any] = []
    both.durable.sync = asked.append  # type: ignore[attr-defined]
    both.store.sync([(HERE, 3), (THERE, 4)])
    both.store.sync([(THERE, 5)])
    assert asked == [[(HERE, 3)]]
