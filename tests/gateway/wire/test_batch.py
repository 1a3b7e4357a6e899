"""Batches as a whole: what is admitted, what is changed without a look at the records, walks from one to the next."""

from __future__ import annotations

import struct

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from gateway.wire import batch as batch_wire
from gateway.wire import crc, records
from gateway.wire.batch import BatchError
from gateway.wire.compression import LZ4, NONE, ZSTD
from gateway.wire.errors import Error
from gateway.wire.records import Record
from tests.gateway.wire.batches import CODECS, GOOD, NOW, changed, read_by, sample


@pytest.mark.parametrize("wanted", CODECS)
@pytest.mark.parametrize("codec", CODECS)
def test_reencoding_changes_the_compression_and_nothing_else(codec: int, wanted: int) -> None:
    batch = records.build_batch(sample(), 0, codec, producer_id=7, producer_epoch=3, base_sequence=11)
    again = batch_wire.reencode(batch, wanted)
    before, after = batch_wire.admit(batch), batch_wire.admit(again)
    assert after.codec == wanted
    for field in before.__struct_fields__:
        if field not in ("length", "crc", "attributes"):
            assert getattr(before, field) == getattr(after, field)
    assert records.records(again) == sample() == read_by(AioRecords, again)


def test_reencoding_is_bounded() -> None:
    batch = records.build_batch([Record(0, NOW, None, bytes(1_000_000), [])], 0, ZSTD)
    with pytest.raises(BatchError) as caught:
        batch_wire.reencode(batch, NONE, 100_000)
    assert caught.value.code == Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("size", [1, 10_000])
def test_patching_keeps_the_crc(size: int) -> None:
    batch = records.build_batch([Record(0, NOW, b"k", bytes(size), [])], 0, NONE, leader_epoch=-1)
    patched = batch_wire.patch(batch, 2**40, 17)
    found = batch_wire.check(patched)
    assert (found.base_offset, found.leader_epoch) == (2**40, 17)
    assert patched[16:] == batch[16:]
    assert patched[8:12] == batch[8:12]


def test_log_append_time_stamps_every_record() -> None:
    batch = batch_wire.patch_log_append_time(records.build_batch(sample(), 0, LZ4), 50, 4, NOW + 999)
    found = batch_wire.check(batch)
    assert (found.base_offset, found.leader_epoch, found.max_timestamp) == (50, 4, NOW + 999)
    assert found.log_append_time
    assert {record.timestamp for record in records.records(batch)} == {NOW + 999}
    assert [record.timestamp for record in read_by(AioRecords, batch)] == [NOW + 999] * 5
    assert records.build_batch(
        sample(), 50, NONE, leader_epoch=4, log_append_time=NOW + 999
    ) == batch_wire.reencode(batch, NONE)


def test_an_empty_batch_is_read_by_clients_as_nothing() -> None:
    batch = batch_wire.empty_batch(100, 199, 3)
    found = batch_wire.check(batch)
    assert (found.count, found.base_offset, found.next_offset) == (0, 100, 200)
    assert records.records(batch) == []
    for reader in (AioRecords, KafkaRecords):
        memory = reader(batch + records.build_batch(sample(1), 200))
        empty = memory.next_batch()
        assert empty.validate_crc()
        assert list(empty) == []
        assert empty.next_offset == 200
        assert memory.next_batch().base_offset == 200
    with pytest.raises(ValueError):
        batch_wire.empty_batch(10, 9)
    with pytest.raises(ValueError):
        batch_wire.empty_batch(0, 2**31)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction(commit: bool) -> None:
    marker = batch_wire.end_marker(9, 7, 3, commit=commit, coordinator_epoch=5, timestamp=NOW, leader_epoch=2)
    found = batch_wire.check(marker)
    assert found.control
    assert found.transactional
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.count) == (7, 3, -1, 1)
    (record,) = records.records(marker)
    assert record.key == struct.pack(">hh", 0, commit)
    assert record.value == struct.pack(">hi", 0, 5)
    theirs = AioRecords(marker).next_batch()
    assert theirs.is_control_batch
    assert theirs.validate_crc()
    assert next(theirs).key == record.key


REFUSED = {
    "nothing": (b"", Error.INVALID_RECORD),
    "short": (GOOD[:60], Error.INVALID_RECORD),
    "cut off": (GOOD[:-1], Error.INVALID_RECORD),
    "two batches": (GOOD + GOOD, Error.INVALID_RECORD),
    "length below the header's": (changed(GOOD, 8, ">i", 20), Error.INVALID_RECORD),
    "length below any message's": (changed(GOOD, 8, ">i", 0), Error.CORRUPT_MESSAGE),
    "negative length": (changed(GOOD, 8, ">i", -1), Error.CORRUPT_MESSAGE),
    "magic 0": (changed(GOOD, 16, ">b", 0), Error.INVALID_RECORD),
    "magic 1, short": (changed(GOOD, 16, ">b", 1)[:40], Error.INVALID_RECORD),
    "magic 3": (changed(GOOD, 16, ">b", 3), Error.CORRUPT_MESSAGE),
    "a base offset of its own": (changed(GOOD, 0, ">q", 7), Error.INVALID_RECORD),
    "CRC": (changed(GOOD, 100, ">b", 1, valid_crc=False), Error.CORRUPT_MESSAGE),
    "no records": (changed(GOOD, 57, ">i", 0), Error.INVALID_RECORD),
    "negative count": (changed(GOOD, 57, ">i", -1), Error.INVALID_RECORD),
    "count and last offset": (changed(GOOD, 23, ">i", 5), Error.INVALID_RECORD),
    "more records than bytes": (
        changed(changed(GOOD, 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2),
        Error.INVALID_RECORD,
    ),
    "control": (changed(GOOD, 21, ">h", 0x20), Error.INVALID_RECORD),
    "log-append time": (changed(GOOD, 21, ">h", 0x08), Error.INVALID_TIMESTAMP),
    "delete horizon": (changed(GOOD, 21, ">h", 0x40), Error.INVALID_RECORD),
    "codec 5": (changed(GOOD, 21, ">h", 5), Error.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (changed(GOOD, 21, ">h", 7), Error.UNSUPPORTED_COMPRESSION_TYPE),
    "no sequence": (changed(GOOD, 53, ">i", -1), Error.INVALID_RECORD),
    "no epoch": (changed(GOOD, 51, ">h", -1), Error.INVALID_RECORD),
}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_how(case: str, within: bool) -> None:
    batch, code = REFUSED[case]
    where = (memoryview(batch), b"in front" + batch + b"behind", 8) if within else (batch,)
    with pytest.raises(BatchError) as caught:
        batch_wire.admit(*where)
    assert caught.value.code == code
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("around", [0, 100, 600_000])
def test_a_large_one_is_admitted_where_it_stands(around: int) -> None:
    batch = records.build_batch([Record(0, NOW, b"key", bytes(range(256)) * 2400, [])], 0)
    assert len(batch) > crc.WORTH
    data = bytes(around) + batch + b"behind"

    def admit(data: bytes) -> int:
        part = memoryview(data)[around : around + len(batch)]
        return batch_wire.admit(part, data, around).count

    assert admit(data) == 1
    # neither in front of it nor behind it
    assert admit(b"\1" * around + batch + b"before")
    wrong = bytearray(data)
    wrong[around + len(batch) - 1] ^= 1
    with pytest.raises(BatchError, match="CRC"):
        admit(bytes(wrong))


def test_what_is_admitted() -> None:
    assert batch_wire.admit(GOOD).count == 5
    assert batch_wire.admit(changed(GOOD, 21, ">h", 0x10)).transactional
    assert batch_wire.admit(changed(GOOD, 43, ">q", -1)).producer_id == -1
    smallest = records.build_batch([Record(number, NOW, None, None, []) for number in range(60)])
    assert len(smallest) == batch_wire.HEADER_SIZE + 60 * 7
    assert batch_wire.admit(smallest).count == 60


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_no_changed_byte_but_the_leader_epoch_is_admitted(position: int, flip: int) -> None:
    batch = bytearray(GOOD)
    batch[position] ^= flip
    if 12 <= position < 16:
        batch_wire.admit(bytes(batch))
        return
    with pytest.raises(BatchError):
        batch_wire.admit(bytes(batch))


def test_every_truncation_is_refused() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(BatchError):
            batch_wire.admit(GOOD[:size])


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 400))
def test_walking_over_batches(sizes: list[int], cut: int) -> None:
    whole, starts, offset = b"", [], 0
    for size in sizes:
        starts.append((len(whole), offset, size))
        whole += records.build_batch(sample(size), offset)
        offset += size
    data = whole[: max(0, len(whole) - cut)]
    expected = [row for row in starts if row[0] + batch_wire.header(whole, row[0]).size <= len(data)]
    for buffer in (data, memoryview(data)):
        assert [(at, found.base_offset, found.count) for at, found in batch_wire.batches(buffer)] == expected


def test_walking_into_something_else() -> None:
    with pytest.raises(BatchError):
        list(batch_wire.batches(GOOD + bytes(100)))
    with pytest.raises(BatchError):
        batch_wire.check(GOOD[:-1])
    with pytest.raises(BatchError):
        batch_wire.check(changed(GOOD, 100, ">b", 1, valid_crc=False))
