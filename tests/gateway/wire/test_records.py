"""Records against the record codecs of aiokafka and kafka-python, in both directions, and against damage."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from gateway.wire import records
from gateway.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from gateway.wire.errors import Error
from gateway.wire.records import BatchError, Record
from tests.examples import examples
from tests.proofs.fuzz import batches

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
NOW = 1_700_000_000_000

maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=3)
rows = st.lists(st.tuples(st.integers(0, 2**41), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=20)


def numbered(contents: list[Any]) -> list[Record]:
    return [Record(number, *row) for number, row in enumerate(contents)]


def sample(count: int = 5) -> list[Record]:
    return [
        Record(n, NOW + n, b"key-%d" % n, b"value-%d" % n * 20, [("h", b"1"), ("n", None)])
        for n in range(count)
    ]


def read_by(reader: Any, data: bytes) -> list[Record]:
    """What a client's library makes of a records field with one batch."""
    memory = reader(data)
    batch = memory.next_batch()
    assert batch.validate_crc()
    found = [
        Record(
            record.offset - batch.base_offset,
            record.timestamp,
            record.key,
            record.value,
            list(record.headers),
        )
        for record in batch
    ]
    assert not memory.has_next()
    return found


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(40))
@given(rows)
def test_clients_read_what_we_build(codec: int, contents: list[Any]) -> None:
    expected = numbered(contents)
    batch = records.build_batch(expected, 1000, codec)
    assert read_by(AioRecords, batch) == expected
    assert read_by(KafkaRecords, batch) == expected
    assert records.records(batch) == expected


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("builder", [AioBuilder, KafkaBuilder])
@settings(max_examples=examples(40))
@given(rows)
def test_we_read_what_clients_build(builder: Any, codec: int, contents: list[Any]) -> None:
    expected = numbered(contents)
    made = builder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        batch_size=1 << 20,
    )
    for record in expected:
        made.append(record.offset_delta, record.timestamp, record.key, record.value, record.headers)
    batch = bytes(made.build())
    found = records.admit(batch)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 3, 11)
    assert found.count == len(expected)
    # kafka-python leaves a batch as it is when compression makes it larger
    assert found.codec in (codec, NONE)
    assert found.max_timestamp == max(record.timestamp for record in expected)
    assert records.records(batch) == expected
    ours = records.build_batch(expected, 0, NONE, producer_id=7, producer_epoch=3, base_sequence=11)
    assert ours[21:] == records.reencode(batch, NONE)[21:]


@pytest.mark.parametrize("wanted", CODECS)
@pytest.mark.parametrize("codec", CODECS)
def test_reencoding_changes_the_compression_and_nothing_else(codec: int, wanted: int) -> None:
    batch = records.build_batch(sample(), 0, codec, producer_id=7, producer_epoch=3, base_sequence=11)
    again = records.reencode(batch, wanted)
    before, after = records.admit(batch), records.admit(again)
    assert after.codec == wanted
    for field in before.__struct_fields__:
        if field not in ("length", "crc", "attributes"):
            assert getattr(before, field) == getattr(after, field)
    assert records.records(again) == sample() == read_by(AioRecords, again)


def test_reencoding_is_bounded() -> None:
    batch = records.build_batch([Record(0, NOW, None, bytes(1_000_000), [])], 0, ZSTD)
    with pytest.raises(BatchError) as caught:
        records.reencode(batch, NONE, 100_000)
    assert caught.value.code == Error.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("size", [1, 10_000])
def test_patching_keeps_the_crc(size: int) -> None:
    batch = records.build_batch([Record(0, NOW, b"k", bytes(size), [])], 0, NONE, leader_epoch=-1)
    patched = records.patch(batch, 2**40, 17)
    found = records.check(patched)
    assert (found.base_offset, found.leader_epoch) == (2**40, 17)
    assert patched[16:] == batch[16:]
    assert patched[8:12] == batch[8:12]


def test_log_append_time_stamps_every_record() -> None:
    batch = records.patch_log_append_time(records.build_batch(sample(), 0, LZ4), 50, 4, NOW + 999)
    found = records.check(batch)
    assert (found.base_offset, found.leader_epoch, found.max_timestamp) == (50, 4, NOW + 999)
    assert found.log_append_time
    assert {record.timestamp for record in records.records(batch)} == {NOW + 999}
    assert [record.timestamp for record in read_by(AioRecords, batch)] == [NOW + 999] * 5
    assert records.build_batch(
        sample(), 50, NONE, leader_epoch=4, log_append_time=NOW + 999
    ) == records.reencode(batch, NONE)


def test_a_name_of_a_header_that_is_no_text_survives() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    batch = records.build_batch([Record(0, NOW, None, None, [(name, b"x")])])
    assert b"\xff\xfe" in batch
    assert records.records(batch)[0].headers == [(name, b"x")]


def test_gaps_inside_a_batch_are_kept() -> None:
    kept = [sample()[n] for n in (1, 3)]
    batch = records.build_batch(kept, 100, last_offset_delta=4)
    assert records.check(batch).next_offset == 105
    assert records.records(batch) == kept


@pytest.mark.parametrize("codec", CODECS)
def test_first_from(codec: int) -> None:
    batch = records.build_batch(sample(), 100, codec)
    assert records.first_from(batch, 0) == (100, NOW)
    assert records.first_from(batch, NOW + 3) == (103, NOW + 3)
    assert records.first_from(batch, NOW + 5) is None
    stamped = records.patch_log_append_time(batch, 100, 0, NOW + 10)
    assert records.first_from(stamped, NOW + 5) == (100, NOW + 10)


def test_an_empty_batch_is_read_by_clients_as_nothing() -> None:
    batch = records.empty_batch(100, 199, 3)
    found = records.check(batch)
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
        records.empty_batch(10, 9)
    with pytest.raises(ValueError):
        records.empty_batch(0, 2**31)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction(commit: bool) -> None:
    marker = records.end_marker(9, 7, 3, commit=commit, coordinator_epoch=5, timestamp=NOW, leader_epoch=2)
    found = records.check(marker)
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


# --- admission


def changed(batch: bytes, position: int, layout: str, value: int, *, valid_crc: bool = True) -> bytes:
    out = bytearray(batch)
    struct.pack_into(layout, out, position, value)
    if valid_crc:
        out[17:21] = struct.pack(">I", google_crc32c.value(bytes(out[21:])))
    return bytes(out)


GOOD = records.build_batch(sample(), 0, NONE, producer_id=7, producer_epoch=3, base_sequence=11)

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


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_how(case: str) -> None:
    batch, code = REFUSED[case]
    with pytest.raises(BatchError) as caught:
        records.admit(batch)
    assert caught.value.code == code
    assert str(caught.value).endswith(".")


def test_what_is_admitted() -> None:
    assert records.admit(GOOD).count == 5
    assert records.admit(changed(GOOD, 21, ">h", 0x10)).transactional
    assert records.admit(changed(GOOD, 43, ">q", -1)).producer_id == -1
    smallest = records.build_batch([Record(number, NOW, None, None, []) for number in range(60)])
    assert len(smallest) == records.HEADER_SIZE + 60 * 7
    assert records.admit(smallest).count == 60


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_no_changed_byte_but_the_leader_epoch_is_admitted(position: int, flip: int) -> None:
    batch = bytearray(GOOD)
    batch[position] ^= flip
    if 12 <= position < 16:
        records.admit(bytes(batch))
        return
    with pytest.raises(BatchError):
        records.admit(bytes(batch))


def test_every_truncation_is_refused() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(BatchError):
            records.admit(GOOD[:size])


# --- damage inside a batch whose CRC is right


def refusal(batch: bytes) -> Error | None:
    """The code with which a batch's records are refused, None when they are read."""
    try:
        found = records.records(batch, 10_000)
    except BatchError as error:
        return error.code
    assert len(found) == records.header(batch).count
    return None


@settings(max_examples=examples(300))
@given(st.data())
def test_damaged_records_are_corrupt_and_nothing_else(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS))
    batch = bytearray(records.build_batch(sample(3), 0, codec))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(61, len(batch) - 1))] = data.draw(st.integers(0, 255))
    assert refusal(bytes(batch)) in (None, Error.CORRUPT_MESSAGE, Error.MESSAGE_TOO_LARGE)


@given(st.binary(max_size=300), st.integers(0, 2**31 - 1), st.sampled_from(CODECS))
def test_noise_as_records(noise: bytes, count: int, codec: int) -> None:
    found = records.header(GOOD)
    found.count, found.attributes = count, codec
    assert refusal(records.assemble(found, noise)) in (None, Error.CORRUPT_MESSAGE, Error.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff" * 100_000,
        b"\xff\xff\xff\xff\x0f" * 20,
        b"\x80" * 100_000,
        b"",
        # a length, then nothing; a key longer than its record; a header count no record could hold
        b"\x40\0\0\0",
        b"\x14\0\0\0\x7e\0\0\0\0\0\0",
        b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f",
        # -2 as the length of a key
        b"\x0c\0\0\0\x03\x01\0",
    ],
)
def test_records_made_to_hurt(payload: bytes) -> None:
    found = records.header(GOOD)
    found.count, found.last_offset_delta = 1, 0
    with pytest.raises(BatchError):
        records.records(records.assemble(found, payload))


@pytest.mark.parametrize("change", [-2, 2])
def test_a_length_that_its_record_does_not_have(change: int) -> None:
    first = GOOD[61]
    with pytest.raises(BatchError):
        records.records(changed(GOOD, 61, ">B", first + change))


def test_offsets_that_do_not_ascend() -> None:
    twice = [sample()[0], sample()[0]]
    with pytest.raises(BatchError):
        records.records(records.build_batch(twice))


def test_records_left_over_or_missing() -> None:
    for count in (4, 6):
        with pytest.raises(BatchError):
            records.records(changed(changed(GOOD, 57, ">i", count), 23, ">i", 10))
    with pytest.raises(BatchError):
        records.records(changed(GOOD, 23, ">i", 3))


# --- several batches in one buffer


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 400))
def test_walking_over_batches(sizes: list[int], cut: int) -> None:
    whole, starts, offset = b"", [], 0
    for size in sizes:
        starts.append((len(whole), offset, size))
        whole += records.build_batch(sample(size), offset)
        offset += size
    data = whole[: max(0, len(whole) - cut)]
    expected = [row for row in starts if row[0] + records.header(whole, row[0]).size <= len(data)]
    for buffer in (data, memoryview(data)):
        assert [(at, found.base_offset, found.count) for at, found in records.batches(buffer)] == expected


def test_walking_into_something_else() -> None:
    with pytest.raises(BatchError):
        list(records.batches(GOOD + bytes(100)))
    with pytest.raises(BatchError):
        records.check(GOOD[:-1])
    with pytest.raises(BatchError):
        records.check(changed(GOOD, 100, ">b", 1, valid_crc=False))


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError):
        records.build_batch([])


@pytest.mark.parametrize("codec", range(5))
def test_skim_says_what_records_says(codec: int) -> None:
    batch = records.build_batch(sample(), codec=codec)
    assert list(records.skim(batch)) == [
        (each.offset_delta, each.timestamp, each.key is not None) for each in records.records(batch)
    ]
    stamped = records.build_batch(sample(), codec=codec, log_append_time=NOW + 999)
    assert {timestamp for _, timestamp, _ in records.skim(stamped)} == {NOW + 999}


def test_skim_keeps_nothing_of_what_a_bomb_unfolds_to() -> None:
    """A record of a million headers is a few hundred bytes on the wire, and was gigabytes as Python objects."""
    size = 4 << 20
    bomb = batches.bomb(ZSTD, size, batches.HEADERS)
    assert len(bomb) < size // 1000
    tracemalloc.start()
    assert [keyed for _, _, keyed in records.skim(bomb)] == [False]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the answer, and the buffer that grew to it by eights
    assert peak < size * 4


def test_skim_refuses_more_records_than_anybody_sends_without_unfolding_them() -> None:
    many = records.MAX_SKIMMED + 1
    with pytest.raises(records.BatchError, match="too many") as refused:
        next(records.skim(changed(changed(GOOD, 57, ">i", many), 23, ">i", many - 1)))
    assert refused.value.code == Error.MESSAGE_TOO_LARGE
