"""Keys of records for compaction: read by columns they are what they are one by one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import keyed, records
from gateway.wire.batch import open_payload
from gateway.wire.keyed import Keyed
from gateway.wire.records import Record
from gateway.wire.unreadable import Unreadable
from tests.examples import examples

Facts = tuple[list[bytes | None], list[int], list[int], list[int], list[int]]


def looked_at(batch: bytes) -> Facts | None:
    header = records.header(batch)
    try:
        found = Keyed(open_payload(batch, header), header)
    except Unreadable:
        return None
    return found.keys, found.deltas, found.stamps, found.starts, found.tombstones


RUN = st.tuples(
    st.integers(1, 60),
    st.one_of(st.none(), st.integers(0, 70), st.just(200)),
    st.one_of(st.none(), st.integers(0, 70), st.just(9000)),
    st.sampled_from([0, 1, 60, 9000]),
    st.sampled_from([1, 1, 1, 2, 3]),
)
"""How many, bytes of the key, of the value, ms and offsets between them."""


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(RUN, min_size=1, max_size=5), st.integers(0, 10_000), st.data())
def test_columns_say_what_records_say(
    runs: list[tuple[int, int | None, int | None, int, int]], first: int, data: st.DataObject
) -> None:
    listed: list[Record] = []
    delta, now = first, 1_700_000_000_000
    for count, key_size, size, ms, gap in runs:
        for _ in range(count):
            key = None if key_size is None else (b"%0200d" % (len(listed) % 7))[200 - key_size :]
            listed.append(Record(delta, now, key, None if size is None else bytes(size), []))
            delta, now = delta + gap, now + ms
    batch = records.build_batch(listed)
    found = looked_at(batch)
    assert found is not None
    keys, deltas, _, starts, tombstones = found
    assert keys == [each.key for each in listed]
    assert deltas == [each.offset_delta for each in listed]
    assert tombstones == [number for number, each in enumerate(listed) if each.value is None]
    assert len(starts) == len(listed) + 1
    at, value = data.draw(st.integers(61, len(batch) - 1)), data.draw(st.integers(0, 255))
    spoiled = batch[:at] + bytes([value]) + batch[at + 1 :]
    for each in (batch, spoiled):
        with pytest.MonkeyPatch.context() as patch:
            alike = looked_at(each)
            patch.setattr(keyed, "_ALIKE", 1 << 30)
            assert alike == looked_at(each)


def test_records_of_one_shape_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    plain = Keyed._alike

    def counted(self: Keyed, payload: bytes, position: int, left: int) -> int:
        runs.append(plain(self, payload, position, left))
        return runs[-1]

    monkeypatch.setattr(Keyed, "_alike", counted)
    chance = random.Random(1)
    listed = [Record(n, 0, b"%06d" % chance.randrange(100), b"v" * 100, []) for n in range(1000)]
    assert looked_at(records.build_batch(listed)) is not None
    # offset deltas become longer by a byte at 64
    assert runs == [64, 936]
