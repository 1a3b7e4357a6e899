"""Batches with dense offsets of some records, read by clients' libraries."""

from __future__ import annotations

import random
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AioRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaRecords

from gateway.wire import batch as batch_wire
from gateway.wire.dense import Parts
from gateway.wire.keys import Slots
from gateway.wire.opened import Opened
from gateway.wire.records import Record, build_batch
from gateway.wire.unreadable import Unreadable
from tests.examples import examples
from tests.gateway.wire.batches import CODECS, NOW
from tests.gateway.wire.stored import BASE, contents, plain_hash, rows, stored
from tests.gateway.wire.test_opened import ranges_of, read_by
from tests.proofs.fuzz import batches as fuzz_batches

LANE = 7_000_000


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(60), deadline=None)
@given(st.data(), contents)
def test_some_records_are_read_at_offsets_that_follow_each_other(
    codec: int, data: st.DataObject, listed: list[Any]
) -> None:
    # a batch that is looked at by columns, and one that is not
    listed *= data.draw(st.sampled_from([1, 256]))
    batch = stored(listed, codec, producer_id=7, producer_epoch=2, base_sequence=40)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(listed) - 1), min_size=1)))
    opened = Opened(batch)
    if data.draw(st.booleans()):
        opened.slots(Slots(plain_hash))
    part = Parts(opened).dense(opened.batch, ranges_of([BASE + n for n in chosen]), LANE, 5)
    expected = [(LANE + at, *listed[n]) for at, n in enumerate(chosen)]
    assert read_by(AioRecords, part) == expected
    assert read_by(KafkaRecords, part) == expected
    head = batch_wire.check(part)
    assert (head.base_offset, head.leader_epoch, head.count, head.last_offset_delta) == (
        LANE,
        5,
        len(chosen),
        len(chosen) - 1,
    )
    assert head.max_timestamp == max(listed[n][0] for n in chosen)
    # and what opens batches here reads it, too
    assert [tuple(found) for found in Opened(part).records()] == expected


def test_wide_deltas_stay_as_wide() -> None:
    listed = rows(9_000)
    opened = Opened(stored(listed))
    some = list(range(8_193, 8_200))
    part = Parts(opened).dense(opened.batch, [(BASE + some[0], BASE + some[-1])], 0, 0)
    assert read_by(KafkaRecords, part) == [(at, *listed[n]) for at, n in enumerate(some)]
    assert read_by(AioRecords, part) == [(at, *listed[n]) for at, n in enumerate(some)]


def test_a_producer_that_pads_its_numbers() -> None:
    # offset deltas 0, 1 and 2, of which the first and the last take two bytes: 80 00, 02, 84 00
    bodies = [b"\0\0" + delta + b"\x01\x01\0" for delta in (b"\x80\0", b"\x02", b"\x84\0")]
    payload = b"".join(bytes([len(body) << 1]) + body for body in bodies)
    batch = fuzz_batches.resealed(stored(rows(3)), payload)
    for picked in ([0, 1, 2], [1, 2], [0, 2]):
        part = Parts(Opened(batch)).dense(batch, [(BASE + at, BASE + at) for at in picked], LANE, 1)
        assert [record[0] for record in read_by(KafkaRecords, part)] == [
            LANE + at for at in range(len(picked))
        ]


def test_a_batch_with_gaps_is_dense_behind_them() -> None:
    batch = build_batch(
        [Record(at, NOW + at, b"k", b"v%d" % at, []) for at in (1, 4, 90, 200)], BASE, last_offset_delta=300
    )
    part = Parts(Opened(batch)).dense(batch, [(BASE + 2, BASE + 299)], LANE, 1)
    assert [record[3] for record in read_by(KafkaRecords, part)] == [b"v4", b"v90", b"v200"]
    with pytest.raises(ValueError, match="none of these"):
        Parts(Opened(batch)).dense(batch, [(BASE + 5, BASE + 50)], LANE, 1)


def test_the_time_of_appending_is_kept() -> None:
    batch = stored(rows(5), log_append_time=NOW + 99)
    part = Parts(Opened(batch)).dense(batch, [(BASE + 1, BASE + 2)], LANE, 1)
    assert batch_wire.header(part).max_timestamp == NOW + 99
    assert [record[1] for record in read_by(KafkaRecords, part)] == [NOW + 99] * 2


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**32))
def test_damage_is_refused_or_gives_a_batch(seed: int) -> None:
    pick = random.Random(seed)
    broken = fuzz_batches.mutated(pick, pick.choice(fuzz_batches.good_batches()))
    try:
        opened = Opened(broken, 2**20)
        part = Parts(opened).dense(
            opened.batch, [(opened.header.base_offset, opened.header.last_offset)], 0, 0
        )
    except (Unreadable, ValueError):
        return
    batch_wire.check(part)
