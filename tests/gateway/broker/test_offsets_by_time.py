"""From a timestamp to an offset, inside batches, with every codec, and beside a log start."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.broker.broker import DECOMPRESSION_LIMIT
from gateway.broker.offsets_by_time import IN_A_THREAD, first_at_or_after, largest
from gateway.wire import records
from store import memory
from store.api import Append, Durability, Trim
from tests.examples import examples


class Partition:
    """As much of one as is asked."""

    def __init__(self, batches: list[list[int]], codec: int = 0) -> None:
        store = memory.open()
        self.log = store.log(1)
        self.stamps: list[int] = []
        for stamps in batches:
            made = records.build_batch(
                [records.Record(i, stamp, None, b"v", []) for i, stamp in enumerate(stamps)], codec=codec
            )
            base = len(self.stamps)
            self.stamps += stamps
            patched = records.patch(made, base, 3)
            writes = [Append(1, base, len(self.stamps), max(stamps), [patched], 3)]
            store.commit(writes, Durability.OS, lambda outcome: None)
        self._store = store

    def trim(self, offset: int) -> None:
        self._store.commit([Trim(1, offset)], Durability.OS, lambda outcome: None)

    @property
    def log_start(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.end_offset

    def find(self, timestamp: int) -> tuple[int, int] | None:
        found = asyncio.run(first_at_or_after(self, timestamp, DECOMPRESSION_LIMIT))  # type: ignore[arg-type]
        assert found is None or found[2] == 3
        return found and found[:2]

    def expected(self, timestamp: int) -> tuple[int, int] | None:
        for offset in range(self.log_start, len(self.stamps)):
            if self.stamps[offset] >= timestamp:
                return self.stamps[offset], offset
        return None


@pytest.mark.parametrize("codec", range(5))
def test_inside_batches(codec: int) -> None:
    partition = Partition([[10, 20, 30], [25, 15], [40]], codec)
    found = {timestamp: partition.find(timestamp) for timestamp in (0, 10, 11, 20, 30, 31, 40, 41)}
    assert found == {
        0: (10, 0),
        10: (10, 0),
        11: (20, 1),
        20: (20, 1),
        30: (30, 2),
        31: (40, 5),
        40: (40, 5),
        41: None,
    }


def test_what_matches_below_the_log_start_does_not_count() -> None:
    partition = Partition([[50, 10, 20], [5, 6], [7], [40, 60], [70]])
    partition.trim(1)
    assert partition.find(45) == (60, 7)
    assert partition.find(30) == (40, 6)
    assert partition.find(15) == (20, 2)
    assert partition.find(71) is None


def test_the_largest() -> None:
    def found(partition: Partition) -> tuple[int, int, int] | None:
        return asyncio.run(largest(partition, DECOMPRESSION_LIMIT))  # type: ignore[arg-type]

    assert found(Partition([])) is None
    partition = Partition([[10, 30, 30], [30], [20]])
    assert found(partition) == (30, 1, 3), "the first that has it"
    partition.trim(2)
    assert found(partition) == (30, 2, 3)


@pytest.mark.parametrize("search", [partial(first_at_or_after, timestamp=9), largest])
def test_others_go_on_while_a_large_batch_is_looked_through(
    monkeypatch: pytest.MonkeyPatch, search: Callable[..., Coroutine[Any, Any, tuple[int, int, int] | None]]
) -> None:
    partition = Partition([[5] * IN_A_THREAD + [9]])
    others = threading.Event()
    skim = records.skim

    def waiting(batch: bytes, limit: int) -> Iterator[tuple[int, int, bool]]:
        assert others.wait(10), "the event loop stands still"
        return skim(batch, limit)

    monkeypatch.setattr(records, "skim", waiting)

    async def ask() -> tuple[int, int, int] | None:
        asyncio.get_running_loop().call_soon(others.set)
        return await search(partition, limit=DECOMPRESSION_LIMIT)

    assert asyncio.run(ask()) == (9, IN_A_THREAD, 3)


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 32),
    st.data(),
)
def test_as_looking_at_every_record_would(
    batches: list[list[int]], timestamp: int, data: st.DataObject
) -> None:
    partition = Partition(batches)
    partition.trim(data.draw(st.integers(0, len(partition.stamps))))
    assert partition.find(timestamp) == partition.expected(timestamp)
