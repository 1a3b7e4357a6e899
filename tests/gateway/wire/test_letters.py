"""Dead letters and retry letters as clients read them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import delivery, letters, records
from gateway.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from gateway.wire.errors import Error
from gateway.wire.opened import Found
from gateway.wire.records import BatchError, Headers, Record
from tests.examples import examples
from tests.proofs.fuzz import batches as fuzz_batches

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
NOW = 1_700_000_000_000
REAL = "persistent://public/default/orders"
RETRY = "persistent://public/default/orders-billing-RETRY"
SOURCE = letters.Source("orders", 3, "billing", REAL)

maybe_bytes = st.none() | st.binary(max_size=100)
header_lists = st.lists(
    st.tuples(
        st.sampled_from(["h", "é", "RECONSUMETIMES", "DELAY_TIME", "REAL_TOPIC", "pulsar-deliver-after"]),
        st.integers(0, 10**6).map(lambda n: b"%d" % n) | maybe_bytes,
    ),
    max_size=4,
)


def read(batch: bytes) -> list[Any]:
    """A batch as aiokafka reads it: (key, value, headers, timestamp)."""
    memory = AioRecords(batch)
    made = memory.next_batch()
    assert made.validate_crc()
    assert not memory.has_next()
    return [(r.key, r.value, list(r.headers), r.timestamp) for r in made]


def test_a_dead_letter_is_the_record_with_pulsars_properties_and_kafkas_headers() -> None:
    found = Found(77, NOW, b"key", b"value", [("h", b"1"), ("h", b"2"), ("n", None)])
    letter = letters.letter(SOURCE, found, 3, letters.MAX_DELIVERIES, "12:34:3:5")
    batch, newest = letters.build([letter], NOW + 9000)
    ((key, value, headers, timestamp),) = read(batch)
    assert (key, value, timestamp, newest) == (b"key", b"value", NOW + 9000, NOW + 9000)
    assert headers == [
        ("h", b"1"),
        ("h", b"2"),
        ("n", None),
        ("REAL_TOPIC", b"persistent://public/default/orders"),
        ("ORIGIN_MESSAGE_ID", b"12:34:3:5"),
        ("REAL_SUBSCRIPTION", b"billing"),
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"77"),
        ("__dlq.errors.group", b"billing"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"The record was delivered as often as it may be and not acknowledged."),
        ("pulsar-dead-letter-reason", b"MAX_DELIVERIES"),
    ]


def test_an_id_that_is_not_known_is_not_said() -> None:
    letter = letters.letter(SOURCE, Found(1, NOW, None, None, []), 1, letters.REJECTED, None)
    assert "ORIGIN_MESSAGE_ID" not in dict(letter.headers)
    assert (letter.key, letter.value, letter.reason) == (None, None, "REJECTED")


def test_a_letter_of_a_retry_letter_names_the_true_origin() -> None:
    """Seed 1, "Retry letter topic": REAL_TOPIC and ORIGIN_MESSAGE_ID say where the message was at first."""
    origin: Headers = [
        ("REAL_TOPIC", REAL.encode()),
        ("ORIGIN_MESSAGE_ID", b"1:0:-1:0"),
        ("RECONSUMETIMES", b"6"),
    ]
    source = letters.Source("orders-billing-RETRY", 0, "billing", RETRY)
    letter = letters.letter(source, Found(5, NOW, None, b"v", origin), 1, letters.MAX_DELIVERIES, "99:9:0:9")
    said = dict(letter.headers)
    assert (said["REAL_TOPIC"], said["ORIGIN_MESSAGE_ID"]) == (REAL.encode(), b"1:0:-1:0")
    assert said["RECONSUMETIMES"] == b"6"
    # where the record itself was read
    assert (said["__dlq.errors.topic"], said["__dlq.errors.offset"]) == (b"orders-billing-RETRY", b"5")


def test_the_id_of_a_retry_letter_is_not_taken_for_its_origins() -> None:
    found = Found(5, NOW, None, b"v", [("REAL_TOPIC", REAL.encode())])
    letter = letters.letter(SOURCE, found, 1, letters.REJECTED, "99:9:0:9")
    assert "ORIGIN_MESSAGE_ID" not in dict(letter.headers)


def test_who_dies_twice_says_where_it_died_last() -> None:
    once = letters.letter(SOURCE, Found(5, NOW, None, b"v", [("h", b"1")]), 2, letters.REJECTED, "1:2:3:4")
    again = Found(8, NOW, None, b"v", once.headers)
    twice = letters.letter(SOURCE._replace(group="audit"), again, 4, letters.MAX_DELIVERIES, "5:6:7:8")
    names = [name for name, _ in twice.headers]
    assert len(names) == len(set(names))
    said = dict(twice.headers)
    assert said["__dlq.errors.group"] == b"audit"
    assert said["__dlq.errors.offset"] == b"8"
    assert said["pulsar-dead-letter-reason"] == b"MAX_DELIVERIES"
    # as Pulsar: what the record says of its origin stays
    assert said["ORIGIN_MESSAGE_ID"] == b"1:2:3:4"


def test_a_dead_letter_is_not_delayed_once_more() -> None:
    found = Found(5, NOW, None, b"v", [("pulsar-deliver-after", b"5000")])
    batch, _ = letters.build([letters.letter(SOURCE, found, 1, letters.REJECTED, None)], NOW + 60_000)
    ((_, due),) = delivery.scan(batch).delayed
    assert due == NOW + 5000
    garbage = Found(5, NOW, None, b"v", [("pulsar-deliver-after", b"soon"), ("pulsar-deliver-after", None)])
    letter = letters.letter(SOURCE, garbage, 1, letters.REJECTED, None)
    assert letter.headers[:2] == garbage.headers


def test_a_batch_that_cannot_be_opened_goes_whole() -> None:
    stored = records.build_batch([Record(n, NOW, None, b"v", []) for n in range(10)], 40)
    damaged = fuzz_batches.resealed(stored, b"\xff" * 100)
    with pytest.raises(delivery.Unreadable):
        delivery.records_at(damaged, [(40, 49)])
    letter = letters.unreadable_letter(SOURCE, memoryview(damaged + b"more"), 0, letters.CORRUPT, "1:2:3:0")
    batch, _ = letters.build([letter], NOW)
    ((key, value, headers, _),) = read(batch)
    assert (key, value) == (None, damaged)
    said = dict(headers)
    assert said["pulsar-dead-letter-reason"] == b"CORRUPT"
    assert said["__dlq.errors.offset"] == b"40"
    assert b"40 to 49" in said["__dlq.errors.message"]
    assert said["REAL_TOPIC"] == REAL.encode()
    # what went there can be taken out again
    assert records.check(value).last_offset == 49


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(maybe_bytes, maybe_bytes, header_lists), min_size=1, max_size=8))
def test_several_letters_in_one_batch(rows: list[Any]) -> None:
    made = [
        letters.letter(SOURCE, Found(n * 3, NOW, *row), n, letters.REJECTED, f"1:{n}:0:0")
        for n, row in enumerate(rows)
    ]
    batch, _ = letters.build(made, NOW)
    found = records.check(batch)
    assert (found.count, found.last_offset_delta) == (len(rows), len(rows) - 1)
    for number, ((key, value, headers, _), row) in enumerate(zip(read(batch), rows, strict=True)):
        assert (key, value) == row[:2]
        said = dict(headers)
        assert said["__dlq.errors.offset"] == b"%d" % (number * 3)
        kept = [each for each in row[2] if each[0] != "pulsar-deliver-after"]
        assert [each for each in headers if each in kept][: len(kept)] == kept


# -- retry letters -------------------------------------------------------------------------------------------------


def completed(headers: Headers, codec: int = NONE) -> Headers:
    batch = records.build_batch([Record(0, NOW, b"k", b"v", headers)], codec=codec)
    (record,) = records.records(letters.complete(batch, REAL, RETRY, "billing"))
    assert record[:4] == (0, NOW, b"k", b"v")
    return record.headers


def test_a_plain_record_becomes_a_retry_letter() -> None:
    assert completed([("h", b"1"), ("DELAY_TIME", b"3000")]) == [
        ("h", b"1"),
        ("REAL_TOPIC", REAL.encode()),
        ("REAL_SUBSCRIPTION", b"billing"),
        ("RETRY_TOPIC", RETRY.encode()),
        ("RECONSUMETIMES", b"1"),
        ("pulsar-reconsume-times", b"1"),
        ("DELAY_TIME", b"3000"),
    ]


@pytest.mark.parametrize(
    ("headers", "times"),
    [
        ([], b"1"),
        ([("RECONSUMETIMES", b"4")], b"5"),
        ([("RECONSUMETIMES", b"1"), ("pulsar-reconsume-times", b"4")], b"5"),
        ([("RECONSUMETIMES", b"4"), ("pulsar-reconsume-times", b"1")], b"5"),
    ],
)
def test_a_retry_letter_of_ours_counts_one_more_than_any_before_it(headers: Headers, times: bytes) -> None:
    """Whoever wrote that: a client that copies headers may leave out what it does not know."""
    made = letters.retry_letter(SOURCE, RETRY, Found(5, NOW, b"k", b"v", headers), 3_000, "1:2:3:4")
    assert made.headers == [
        ("REAL_TOPIC", REAL.encode()),
        ("ORIGIN_MESSAGE_ID", b"1:2:3:4"),
        ("REAL_SUBSCRIPTION", b"billing"),
        ("RETRY_TOPIC", RETRY.encode()),
        ("RECONSUMETIMES", times),
        ("pulsar-reconsume-times", times),
        ("DELAY_TIME", b"3000"),
    ]


def test_what_the_record_says_of_its_origin_stays() -> None:
    said: Headers = [
        ("REAL_TOPIC", b"persistent://a/b/c"),
        ("ORIGIN_MESSAGE_ID", b"1:0:-1:0"),
        ("RETRY_TOPIC", b"persistent://a/b/c-RETRY"),
        ("REAL_SUBSCRIPTION", b"s"),
    ]
    assert completed(list(said))[:4] == said


@pytest.mark.parametrize(
    ("headers", "times"),
    [
        ([], 1),
        # the client counts and copies nothing else
        ([("RECONSUMETIMES", b"6")], 6),
        # the client copies all headers of what it was delivered, which was there 4 times
        ([("RECONSUMETIMES", b"4"), ("pulsar-reconsume-times", b"4")], 5),
        # it copies and counts
        ([("RECONSUMETIMES", b"5"), ("pulsar-reconsume-times", b"4")], 5),
        # it copies, and appends its own count
        ([("RECONSUMETIMES", b"4"), ("pulsar-reconsume-times", b"4"), ("RECONSUMETIMES", b"5")], 5),
        # it begins anew, and the server does not
        ([("RECONSUMETIMES", b"1"), ("pulsar-reconsume-times", b"4")], 5),
        ([("RECONSUMETIMES", b"often"), ("pulsar-reconsume-times", None)], 1),
    ],
)
def test_how_often_a_message_was_tried_again(headers: Headers, times: int) -> None:
    made = completed(headers)
    assert [value for name, value in made if name == "RECONSUMETIMES"] == [b"%d" % times]
    assert [value for name, value in made if name == "pulsar-reconsume-times"] == [b"%d" % times]


def test_the_count_goes_up_with_each_round_of_a_client_that_copies_headers() -> None:
    headers: Headers = []
    for times in range(1, 6):
        headers = completed(headers)
        batch = records.build_batch([Record(0, NOW, None, None, headers)], 10)
        assert delivery.scan(batch, retry=True).reconsumed == [(10, times)]
        assert len(headers) == 6


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ([], b"0"),
        ([("DELAY_TIME", b"10")], b"10"),
        # copied from the last round, then its own
        ([("DELAY_TIME", b"10"), ("DELAY_TIME", b"20")], b"20"),
        ([("DELAY_TIME", b"soon")], b"0"),
        ([("pulsar-deliver-after", b"30")], b"30"),
        ([("pulsar-deliver-at", b"%d" % (NOW + 40))], b"40"),
        ([("pulsar-deliver-at", b"%d" % (NOW - 40))], b"0"),
        # the original's delay is over
        ([("pulsar-deliver-after", b"99"), ("DELAY_TIME", b"10"), ("pulsar-deliver-at", b"7")], b"10"),
    ],
)
def test_how_long_a_retry_letter_waits(headers: Headers, delay: bytes) -> None:
    made = completed(headers)
    assert [
        each for each in made if each[0] in ("DELAY_TIME", "pulsar-deliver-at", "pulsar-deliver-after")
    ] == [("DELAY_TIME", delay)]


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(40))
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2**41), maybe_bytes, maybe_bytes, header_lists), min_size=1, max_size=10
    ),
    transactional=st.booleans(),
)
def test_completion_keeps_what_deduplication_and_transactions_go_by(
    codec: int, rows: list[Any], transactional: bool
) -> None:
    listed = [Record(n, *row) for n, row in enumerate(rows)]
    batch = records.build_batch(
        listed,
        codec=codec,
        leader_epoch=4,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=transactional,
    )
    made = letters.complete(batch, REAL, RETRY, "billing")
    assert letters.complete(batch, REAL, RETRY, "billing") == made
    before, after = records.header(batch), records.admit(made)
    for field in before.__struct_fields__:
        if field not in ("length", "crc"):
            assert getattr(before, field) == getattr(after, field), field
    kept = ("h", "é")
    for old, new in zip(listed, records.records(made), strict=True):
        assert old[:4] == new[:4]
        assert [h for h in old.headers if h[0] in kept] == [h for h in new.headers if h[0] in kept]


def test_the_largest_timestamp_stays_what_the_producer_says() -> None:
    batch = fuzz_batches.resealed(
        records.build_batch([Record(0, NOW, None, b"v", [])]), max_timestamp=NOW + 7
    )
    made = letters.complete(batch, REAL, RETRY, "billing")
    assert records.check(made).max_timestamp == NOW + 7
    assert records.records(made)[0].timestamp == NOW


def test_what_cannot_be_opened_is_refused() -> None:
    batch = records.build_batch([Record(0, NOW, None, b"v" * 5000, [])], codec=ZSTD)
    with pytest.raises(BatchError):
        letters.complete(fuzz_batches.resealed(batch, b"junk"), REAL, RETRY, "billing")
    with pytest.raises(BatchError):
        letters.complete(batch, REAL, RETRY, "billing", limit=1000)
    with pytest.raises(BatchError):
        letters.complete(fuzz_batches.resealed(batch, count=2**31 - 1), REAL, RETRY, "billing")


def test_damage_is_refused_or_completed_and_buried_all_the_same() -> None:
    pick = random.Random(3)
    good = [
        *fuzz_batches.good_batches(),
        records.build_batch(
            [Record(0, NOW, b"k", b"v", [("DELAY_TIME", b"9" * 19), ("RECONSUMETIMES", b"3")])]
        ),
    ]
    outcomes = set()
    for _ in range(3000):
        batch = fuzz_batches.mutated(pick, pick.choice(good))
        try:
            made = letters.complete(batch, REAL, RETRY, "billing", limit=1 << 20)
        except BatchError:
            outcomes.add("refused")
        else:
            outcomes.add("completed")
            assert records.check(made).count == records.header(batch).count
            delivery.scan(made, retry=True)
        try:
            head = records.header(batch)
            found = delivery.records_at(batch, [(head.base_offset, head.base_offset + 9)], 1 << 20)
        except delivery.Unreadable:
            made_of = [letters.unreadable_letter(SOURCE, batch, 1, letters.CORRUPT, None)]
            outcomes.add("whole")
        else:
            made_of = [letters.letter(SOURCE, each, 1, letters.REJECTED, "1:2:3:4") for each in found]
            outcomes.add("buried")
        if made_of:
            letters_batch, _ = letters.build(made_of, NOW)
            assert len(records.records(letters_batch)) == len(made_of)
    assert outcomes == {"refused", "completed", "whole", "buried"}


@pytest.mark.parametrize("stamp", fuzz_batches.EXTREME)
def test_times_that_no_clock_shows_are_no_trouble(stamp: int) -> None:
    two = [Record(n, NOW + n * 5, b"k", b"v", [("pulsar-deliver-after", b"9" * 19)]) for n in range(2)]
    batch = fuzz_batches.resealed(records.build_batch(two), base_timestamp=stamp, max_timestamp=stamp)
    made = records.records(letters.complete(batch, REAL, RETRY, "billing"))
    assert [each.timestamp for each in made] == [stamp, min(stamp + 5, 2**63 - 1)]
    for found in delivery.records_at(batch, [(0, 1)]):
        letters.build([letters.letter(SOURCE, found, 1, letters.REJECTED, None)], NOW)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bombs_are_refused(codec: int) -> None:
    with pytest.raises(BatchError):
        letters.complete(fuzz_batches.bomb(codec, 4 << 20), REAL, RETRY, "billing", limit=1 << 20)


def test_more_retries_in_one_batch_than_can_be_completed_in_a_moment_are_refused() -> None:
    def batch(count: int) -> bytes:
        return records.build_batch([Record(number, 0, None, b"", []) for number in range(count)], codec=LZ4)

    most = letters.RETRIES_AT_ONCE
    assert records.header(letters.complete(batch(most), "t", "r", "g")).count == most
    with pytest.raises(BatchError, match="10,001 retry letters in one batch are too many") as refused:
        letters.complete(batch(most + 1), "t", "r", "g")
    # so that clients that can cut a batch do
    assert refused.value.code == Error.MESSAGE_TOO_LARGE
