"""What is remembered of batches that were opened: the same answers, and a bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gateway.broker.subscriptions import scanning
from gateway.broker.subscriptions.reading import walk
from gateway.broker.subscriptions.scanning import Scanner
from gateway.wire import delivery
from gateway.wire.records import Record, build_batch

LIMIT = 1 << 20
AT: Any = SimpleNamespace(id=7, retries=False)


def batches(count: int, records: int = 40) -> list[Any]:
    parts = [
        build_batch([Record(n, 1000 + n, b"key-%d" % n, b"v" * 50, []) for n in range(records)], at * records)
        for at in range(count)
    ]
    # one read brings several batches
    return walk([memoryview(b"".join(parts))], 0)


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offset of each batch that is opened."""
    seen: list[int] = []
    init = delivery.Opened.__init__

    def note(self: delivery.Opened, batch: Any, limit: int = LIMIT) -> None:
        init(self, batch, limit)
        seen.append(self.header.base_offset)

    monkeypatch.setattr(delivery.Opened, "__init__", note)
    return seen


def test_a_batch_that_was_looked_at_for_keys_is_open_for_what_is_cut_from_it(openings: list[int]) -> None:
    scanner = Scanner(LIMIT)
    _, second = batches(2)
    scanner.look(AT, second, keys=True)
    part = scanner.subset(AT, second, [(42, 43), (60, 60)])
    assert openings == [40]
    assert part == delivery.subset(second.raw(), [(42, 43), (60, 60)])


def test_of_two_partitions_each_has_its_own(openings: list[int]) -> None:
    scanner = Scanner(LIMIT)
    (one,), (other,) = batches(1), batches(1, 30)
    scanner.look(AT, one, keys=True)
    elsewhere: Any = SimpleNamespace(id=8, retries=False)
    assert scanner.subset(elsewhere, other, [(0, 0)]) == delivery.subset(other.raw(), [(0, 0)])
    # and what took the place of a batch is not taken for it
    assert scanner.subset(AT, other, [(29, 29)]) == delivery.subset(other.raw(), [(29, 29)])


def test_open_batches_have_a_bound_the_last_ones_stay(openings: list[int]) -> None:
    size = scanning._size(delivery.Opened(batches(1)[0].raw()))
    scanner = Scanner(LIMIT, opened_bytes=3 * size + 10)
    stored = batches(5)
    for batch in stored:
        scanner.look(AT, batch, keys=True)
    openings.clear()
    for batch in stored:
        assert scanner.subset(AT, batch, [(batch.base, batch.base)])
    assert openings == [0, 40]
    assert len(scanner._opened) == 3
