"""Opened batches: batches of only some of their records, their records, their gaps; clients' libraries read them."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from gateway.wire import batch as batch_wire
from gateway.wire import records
from gateway.wire.compression import LZ4, NONE, ZSTD
from gateway.wire.keys import Slots
from gateway.wire.opened import Opened
from gateway.wire.records import Record
from gateway.wire.unreadable import TooLarge, Unreadable
from tests.examples import examples
from tests.gateway.wire.batches import CODECS, NOW
from tests.gateway.wire.stored import BASE, contents, plain_hash, rows, stored
from tests.proofs.fuzz import batches as fuzz_batches


def read_by(reader: Any, data: bytes) -> list[tuple[Any, ...]]:
    memory = reader(data)
    batch = memory.next_batch()
    assert batch.validate_crc()
    found = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert not memory.has_next()
    return found


def ranges_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Some of them joined, some single."""
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1 and offset % 3:
            ranges[-1] = ranges[-1][0], offset
        else:
            ranges.append((offset, offset))
    return ranges


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(60))
@given(st.data(), contents)
def test_a_subset_is_read_by_clients_as_those_records_and_no_others(
    codec: int, data: st.DataObject, listed: list[Any]
) -> None:
    batch = stored(listed, codec, leader_epoch=3, producer_id=7, producer_epoch=2, base_sequence=40)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(listed) - 1), min_size=1)))
    ranges = ranges_of([BASE + n for n in chosen])
    part = Opened(batch).subset(ranges)
    expected = [(BASE + n, *listed[n]) for n in chosen]
    assert [tuple(found) for found in Opened(batch).records_at(ranges)] == expected
    scanned = Opened(batch)
    scanned.slots(Slots(plain_hash))
    assert scanned.subset(ranges) == part
    if part == batch:
        return
    assert len(part) <= len(batch)
    assert read_by(AioRecords, bytes(part)) == expected == read_by(KafkaRecords, bytes(part))
    found = batch_wire.check(bytes(part))
    assert (found.base_offset, found.last_offset, found.count) == (BASE, BASE + chosen[-1], len(chosen))
    assert found.max_timestamp == max(listed[n][0] for n in chosen)
    assert (found.codec, found.leader_epoch) == (NONE, 3)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 2, 40)
    assert [(BASE + r.offset_delta, *r[1:]) for r in records.records(part)] == expected


def test_ranges_may_reach_beyond_the_batch_and_may_miss_it() -> None:
    batch = stored(rows(10))
    assert [
        r[0] for r in read_by(AioRecords, bytes(Opened(batch).subset([(0, BASE + 1), (BASE + 8, BASE + 99)])))
    ] == [
        BASE,
        BASE + 1,
        BASE + 8,
        BASE + 9,
    ]
    assert Opened(batch).subset([(0, BASE - 1), (BASE + 10, BASE + 20)]) == b""
    assert Opened(batch).records_at([]) == []


def test_the_batch_itself_comes_when_a_part_of_it_would_be_larger() -> None:
    batch = stored([(NOW, b"k", bytes(10_000), []) for _ in range(20)], ZSTD)
    assert Opened(batch).subset([(BASE, BASE + 5)]) == batch
    assert Opened(batch).subset([(BASE, BASE + 19)]) == batch


def test_a_subset_of_a_stamped_batch_keeps_the_stamp() -> None:
    batch = stored(rows(10), log_append_time=NOW + 5)
    part = bytes(Opened(batch).subset([(BASE + 4, BASE + 4)]))
    assert read_by(AioRecords, part) == [(BASE + 4, NOW + 5, b"key-4", b"value-4", [])]


def test_a_batch_with_gaps_keeps_its_offsets() -> None:
    kept = [2, 3, 7, 200]
    batch = records.build_batch(
        [Record(n, NOW + n, b"k%d" % n, b"v" * 100, []) for n in kept], BASE, last_offset_delta=300
    )
    opened = Opened(batch)
    slots = opened.slots(Slots(plain_hash))
    assert len(slots) == 301
    assert [slots[n] for n in kept] == [plain_hash(b"k%d" % n, None, 0) for n in kept]
    assert opened.gaps() == [
        (BASE, BASE + 1),
        (BASE + 4, BASE + 6),
        (BASE + 8, BASE + 199),
        (BASE + 201, BASE + 300),
    ]
    assert [r.offset for r in Opened(batch).records_at([(BASE + 3, BASE + 100)])] == [BASE + 3, BASE + 7]
    part = Opened(batch).subset([(BASE + 3, BASE + 100)])
    assert [r[0] for r in read_by(AioRecords, bytes(part))] == [BASE + 3, BASE + 7]


def test_more_records_than_there_are_bytes_or_than_anybody_sends_are_unreadable() -> None:
    for count, payload in ((2**31 - 1, bytes(70)), (11, bytes(70)), (1_000_001, bytes(7_000_100))):
        head = batch_wire.Header(BASE, 0, 1, 2, 0, 0, count - 1, NOW, NOW, -1, -1, -1, count)
        with pytest.raises(Unreadable):
            Opened(batch_wire.assemble(head, payload))


@pytest.mark.parametrize("stamp", fuzz_batches.EXTREME)
def test_times_that_no_clock_shows_are_no_trouble(stamp: int) -> None:
    record = Record(0, NOW, b"k", b"v", [])
    batch = records.build_batch([record, record._replace(offset_delta=1, timestamp=NOW + 5)], BASE)
    part = Opened(fuzz_batches.resealed(batch, base_timestamp=stamp)).subset([(BASE + 1, BASE + 1)])
    assert batch_wire.check(bytes(part)).max_timestamp == min(stamp + 5, 2**63 - 1)


def test_offsets_that_do_not_ascend_by_one_are_unreadable() -> None:
    batch = records.build_batch([Record(n, NOW, b"k", b"v" * 9, []) for n in (0, 2, 5)], BASE)
    lying = fuzz_batches.resealed(batch, last_offset_delta=2)
    for ask in (
        lambda: Opened(lying).slots(Slots(plain_hash)),
        lambda: Opened(lying).subset([(BASE + 1, BASE + 1)]),
        lambda: Opened(lying).records_at([(BASE + 1, BASE + 1)]),
    ):
        with pytest.raises(Unreadable):
            ask()


def test_the_records_in_which_a_mark_stands_are_read_once_each_and_no_others() -> None:
    """In a key, a value or a header; twice in one record; at its very end."""
    listed: list[Any] = [
        (NOW, b"plain", b"one", []),
        (NOW + 1, b"k", b"MARK and MARK", []),
        (NOW + 2, b"MARK", None, []),
        (NOW + 3, None, b"", [("MARK", b"ARK")]),
        (NOW + 4, None, b"MARX", []),
        (NOW + 5, None, b"ends with SIGN", []),
    ]
    opened = Opened(stored(listed, LZ4))
    assert [found.offset - BASE for found in opened.mentioning([b"MARK"])] == [1, 2, 3]
    assert opened.mentioning([b"MARK", b"SIGN"]) == [opened.records()[n] for n in (1, 2, 3, 5)]
    assert opened.mentioning([b"nowhere"]) == []


def test_who_knows_where_records_begin_is_spared_the_walk_and_reads_the_same() -> None:
    batch = stored(rows(300), ZSTD)
    starts = Opened(batch).starts()
    assert len(starts) == 301
    again = Opened(batch, starts=starts)
    assert again.records_at([(BASE + 250, BASE + 299)]) == Opened(batch).records()[250:]
    assert again.starts() is starts


def test_what_unfolds_to_more_than_the_limit_says_so() -> None:
    batch = stored([(NOW, None, bytes(5_000), [])], ZSTD)
    size = len(Opened(batch).payload)
    assert Opened(batch, size).records()[0].value == bytes(5_000)
    with pytest.raises(TooLarge):
        Opened(batch, size - 1)
    for damaged in (batch[:-1], batch[:61] + b"\xff" * (len(batch) - 61)):
        with pytest.raises(Unreadable) as refused:
            Opened(damaged)
        assert not isinstance(refused.value, TooLarge)
