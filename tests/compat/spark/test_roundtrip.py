"""The comparison of a round trip sees what a pipeline could get wrong."""

from __future__ import annotations

import pytest

from compat.spark.feed import Record
from compat.spark.roundtrip import Digest, differences, made_up

RECORDS = [Record(b"k", b"1", (("h", b"x"),)), Record(None, None), Record(b"k", b"", (("h", None),))]


def digest(records: list[Record]) -> Digest:
    found = Digest()
    for record in records:
        found.add(record.key, record.value, record.headers)
    return found


def test_equal_sequences_have_no_difference() -> None:
    assert differences("x", {0: digest(RECORDS)}, {0: digest(list(RECORDS))}) == []
    assert digest(RECORDS).tombstones == 1


@pytest.mark.parametrize(
    "wrong",
    [
        [RECORDS[1], RECORDS[0], RECORDS[2]],
        [RECORDS[0], Record(None, b""), RECORDS[2]],
        [RECORDS[0], RECORDS[1], RECORDS[2]._replace(headers=(("h", b""),))],
        [RECORDS[0]._replace(headers=()), *RECORDS[1:]],
        [RECORDS[0]._replace(key=None), *RECORDS[1:]],
    ],
    ids=["order", "tombstone", "null header", "headers", "key"],
)
def test_one_thing_wrong(wrong: list[Record]) -> None:
    assert differences("x", {0: digest(wrong)}, {0: digest(RECORDS)}) == [
        "x, partition 0: 3 records, 3 expected, of which some differ or are out of order"
    ]


def test_one_missing() -> None:
    assert differences("x", {0: digest(RECORDS[:2])}, {0: digest(RECORDS)}) == [
        "x, partition 0: 2 records, 3 expected"
    ]


def test_made_up_records_are_of_all_kinds_and_the_same_each_time() -> None:
    records = list(made_up(500, 3))

    assert records == list(made_up(500, 3))
    assert {record.partition for record in records} == {0, 1, 2}
    assert any(record.key is None for record in records)
    assert any(record.value is None for record in records)
    assert any(record.value == b"" for record in records)
    assert {len(record.headers) for record in records} == {0, 1, 2}
