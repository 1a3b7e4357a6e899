"""Stored bytes that cannot be read: operators are told now and then, readers are led past them where they may be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.broker.damage import TELL_MS, Damage, around, past
from gateway.metrics_catalog import GatewayMetrics
from store.api import Corrupt, Piece, StoreError


class Stretch:
    """A partition of ten batches, one an offset, some of them damaged; `slow` ones come from a disk."""

    topic_name, index, id, high_watermark = "orders", 3, 7, 10
    start_offset = 0

    def __init__(self, *damaged: range, skips: bool = True, slow: bool = False) -> None:
        self.log: Any = self
        self.skips_damage = skips
        self._damaged = damaged
        self._slow = slow
        self.told: list[StoreError] = []

    def read(self, offset: int, max_bytes: int, *, whole_first: bool) -> list[Piece] | Awaitable[list[Piece]]:
        return self.disk(offset) if self._slow else self._find(offset)

    async def disk(self, offset: int) -> list[Piece]:
        return self._find(offset)

    def _find(self, offset: int) -> list[Piece]:
        for stretch in self._damaged:
            if offset in stretch:
                raise Corrupt("Log 7", offset, stretch.stop, "a wrong CRC")
        return [b"%d" % offset]

    def unreadable(self, error: StoreError) -> None:
        self.told.append(error)


def behind(partition: Stretch, offset: int) -> list[Piece]:
    """What a reader gets that has come to damage at an offset."""
    with pytest.raises(Corrupt) as raised:
        asyncio.run(partition.disk(offset))
    return asyncio.run(past(partition, raised.value, 100, True))


class TestPast:
    @pytest.mark.parametrize("slow", [True, False])
    def test_damage_behind_damage_is_passed_too_and_all_of_it_is_told(self, slow: bool) -> None:
        partition = Stretch(range(2, 4), range(4, 5), range(7, 9), slow=slow)
        assert behind(partition, 2) == [b"5"]
        assert [(each.first, each.next_offset) for each in partition.told if isinstance(each, Corrupt)] == [
            (2, 4),
            (4, 5),
        ]

    def test_nothing_is_behind_damage_at_the_end(self) -> None:
        partition = Stretch(range(8, 10))
        assert behind(partition, 8) == []
        assert len(partition.told) == 1

    def test_a_log_that_was_trimmed_meanwhile_is_read_from_its_start(self) -> None:
        partition = Stretch(range(2, 4))
        partition.start_offset = 6
        assert behind(partition, 2) == [b"6"]


@pytest.mark.parametrize("skips", [True, False])
def test_what_a_disk_finds_damaged_is_passed_only_where_the_topic_says_so(skips: bool) -> None:
    partition = Stretch(range(2, 4), skips=skips)

    async def main() -> list[Piece]:
        return await around(partition, partition.disk(2), 100, True)

    if skips:
        assert asyncio.run(main()) == [b"4"]
        return
    with pytest.raises(Corrupt):
        asyncio.run(main())
    assert partition.told == [], "who lets the error through tells it"


class TestTelling:
    def test_a_partition_is_spoken_of_once_a_minute_and_every_read_is_counted(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        now, metrics = [0], GatewayMetrics()
        damage, partition, other = Damage(metrics, lambda: now[0]), Stretch(), Stretch()
        other.id = 8
        error = Corrupt("Log 7", 2, 4, "a wrong CRC at byte 90")
        for at, lines in ((0, 1), (TELL_MS - 1, 1), (TELL_MS, 2), (TELL_MS + 1, 2)):
            now[0] = at
            damage.corrupt(partition, error)
            assert len(caplog.records) == lines
        damage.corrupt(other, error)
        damage.unreadable(partition, StoreError("The disk is away."))
        assert len(caplog.records) == 3
        assert (metrics.reads_corrupt.value, metrics.reads_failed.value) == (5, 1)

    @pytest.mark.parametrize(
        ("skips", "said"),
        [(True, "readers are led past them"), (False, "who reads them gets CORRUPT_MESSAGE")],
    )
    def test_the_line_names_what_is_damaged_and_what_readers_get(
        self, skips: bool, said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        error = Corrupt("Log 7", 2, 4, "a wrong CRC at byte 90")
        Damage(GatewayMetrics(), lambda: 0).corrupt(Stretch(skips=skips), error)
        (record,) = caplog.records
        for word in ('topic "orders", partition 3', "offsets 2 to 3", "a wrong CRC at byte 90", said):
            assert word in record.getMessage()
        assert record.levelno == logging.ERROR

    def test_a_read_that_may_pass_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        Damage(GatewayMetrics(), lambda: 0).unreadable(Stretch(), StoreError("The disk is away."))
        assert "The disk is away. Readers get KAFKA_STORAGE_ERROR and try again." in caplog.text

    def test_what_is_remembered_of_partitions_is_bounded_and_that_of_the_latest_is_kept(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        now = [0]
        damage = Damage(GatewayMetrics(), lambda: now[0])
        partition, error = Stretch(), StoreError("away")

        def meet(number: int) -> int:
            """How many lines it makes that this partition cannot be read."""
            caplog.clear()
            partition.id = number
            damage.unreadable(partition, error)
            return len(caplog.records)

        for number in range(999):
            meet(number)
        # the first is spoken of again, and is not the oldest any more
        now[0] = TELL_MS
        assert meet(0) == 1
        for number in range(999, 1998):
            meet(number)
        assert [meet(number) for number in (0, 1997, 1)] == [0, 0, 1]
