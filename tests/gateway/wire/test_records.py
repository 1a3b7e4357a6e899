"""Records against the record codecs of aiokafka and kafka-python, in both directions, and against damage."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaBuilder
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from gateway.wire import records
from gateway.wire.compression import NONE, ZSTD
from gateway.wire.errors import Error
from gateway.wire.records import BatchError, Record
from tests.examples import examples
from tests.gateway.wire.batches import CODECS, GOOD, NOW, changed, read_by, sample
from tests.proofs.fuzz import batches

maybe_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=3)
rows = st.lists(st.tuples(st.integers(0, 2**41), maybe_bytes, maybe_bytes, headers), min_size=1, max_size=20)


def numbered(contents: list[Any]) -> list[Record]:
    return [Record(number, *row) for number, row in enumerate(contents)]


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
@pytest.mark.parametrize(("last", "read"), [(0, 1), (2, 3), (3, 4), (99, 5)])
def test_those_up_to_one(codec: int, last: int, read: int) -> None:
    batch = records.build_batch(sample(), 100, codec)
    assert records.records(batch, last=last) == sample()[:read]


def test_up_to_one_that_is_in_a_gap() -> None:
    kept = [sample()[n] for n in (1, 3, 4)]
    batch = records.build_batch(kept, 100, last_offset_delta=4)
    assert records.records(batch, last=2) == kept[:2], "one more: then it is known that there is none"


@pytest.mark.parametrize("codec", CODECS)
def test_first_from(codec: int) -> None:
    batch = records.build_batch(sample(), 100, codec)
    assert records.first_from(batch, 0) == (100, NOW)
    assert records.first_from(batch, NOW + 3) == (103, NOW + 3)
    assert records.first_from(batch, NOW + 5) is None
    stamped = records.patch_log_append_time(batch, 100, 0, NOW + 10)
    assert records.first_from(stamped, NOW + 5) == (100, NOW + 10)


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
