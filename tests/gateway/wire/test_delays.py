"""Delays found in one pass over the bytes, against a plain walk of the records, whatever stands where."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import delays, properties, records
from gateway.wire.batch import BatchError, header, open_payload
from gateway.wire.records import Record
from gateway.wire.unreadable import Unreadable

NOW = 1_700_000_000_000
BASE = 5000
AT, AFTER = "pulsar-deliver-at", "pulsar-deliver-after"

values = (
    st.none() | st.integers(0, 10**13).map(lambda n: b"%d" % n) | st.binary(max_size=20) | st.just(b"1" * 20)
)
# bytes that look like what is looked for, where it is not meant
lookalikes = st.sampled_from(
    [b"", AT.encode(), b"\x02\x22pulsar-deliver-at\x1a1700000099999", b"pulsar-deliver-", b"x" * 200]
)
header_lists = st.lists(
    st.tuples(st.sampled_from([AT, AFTER, "h", "pulsar-deliver-ax", "n" * 70]), values | lookalikes),
    max_size=4,
)
contents = st.lists(
    st.tuples(st.integers(-(2**40), 2**41), st.none() | lookalikes, st.none() | lookalikes, header_lists),
    min_size=1,
    max_size=30,
)


def opened(listed: list[Any], **more: Any) -> tuple[bytes, Any]:
    batch = records.build_batch([Record(n, *row) for n, row in enumerate(listed)], BASE, **more)
    found = header(batch)
    return open_payload(batch, found), found


def plainly(payload: bytes, found: Any) -> list[tuple[int, int]]:
    return [
        (BASE + each.offset_delta, due)
        for each in records.walk(payload, found)
        if (due := properties.deliver_at(each.headers, each.timestamp)) is not None
    ]


@given(contents, st.sampled_from([None, NOW + 77]))
def test_what_is_found_is_what_the_headers_say(listed: list[Any], stamped: int | None) -> None:
    payload, found = opened(listed, log_append_time=stamped)
    assert delays.find(payload, found) == plainly(payload, found)


@given(contents, st.randoms(use_true_random=False))
def test_what_a_walk_can_read_is_found_the_same_and_damage_never_breaks_it(
    listed: list[Any], dice: random.Random
) -> None:
    payload, found = opened(listed)
    for _ in range(20):
        broken = bytearray(payload)
        for _ in range(dice.choice([1, 1, 2, 5])):
            broken[dice.randrange(len(broken))] = dice.choice([0, 1, 2, 127, 128, 255, dice.randrange(256)])
        damaged = bytes(broken[: len(broken) - dice.choice([0, 0, 0, 1, 7])])
        try:
            expected = plainly(damaged, found)
        except BatchError:
            try:
                delays.find(damaged, found)  # or the damage is in a record that says nothing of delays
            except Unreadable:
                pass
        else:
            assert delays.find(damaged, found) == expected


@pytest.mark.parametrize("distance", [1 << 20, (1 << 20) - 60, 3 << 20])
def test_a_mark_is_found_however_far_it_lies_behind_the_one_before(distance: int) -> None:
    later: Any = [(AT, b"%d" % (NOW + 5))]
    for more in range(40):
        listed = [(NOW, None, b"", later), (NOW, None, b"v" * (distance + more), []), (NOW, None, b"", later)]
        payload, found = opened(listed)
        assert delays.find(payload, found) == [(BASE, NOW + 5), (BASE + 2, NOW + 5)]


@given(contents, st.sampled_from([None, NOW + 77]), st.integers(0, 2**42))
def test_no_delay_is_longer_than_allowed_from_when_its_record_was_sent(
    listed: list[Any], stamped: int | None, longest: int
) -> None:
    payload, found = opened(listed, log_append_time=stamped)
    sent = {BASE + each.offset_delta: each.timestamp for each in records.walk(payload, found)}
    expected = [
        (offset, min(due, (sent[offset] if sent[offset] >= 0 else NOW) + longest))
        for offset, due in plainly(payload, found)
    ]
    assert delays.find(payload, found).at_most(longest, NOW) == expected


def test_it_looks_on_where_it_stopped() -> None:
    listed = [(NOW, b"k", b"v", [(AFTER, b"%d" % n)] if n % 3 else []) for n in range(1000)]
    payload, found = opened(listed)
    finder, so_far, steps = delays.Finder(found), delays.Delays(), 0
    while not finder.done:
        before = len(so_far)
        finder.more(payload, so_far, 50)
        assert len(so_far) <= before + 50
        assert so_far == [each for each in plainly(payload, found) if each[0] < finder.reached]
        steps += 1
    assert steps >= 13


def test_many_records_that_say_nothing_are_passed_over_in_parts() -> None:
    payload, found = opened([(NOW, None, b"v", [(AT, b"5")] if n == 4999 else []) for n in range(5000)])
    finder, so_far = delays.Finder(found), delays.Delays()
    finder.more(payload, so_far, 100)
    assert (len(so_far), finder.done) == (0, False)
    while not finder.done:
        finder.more(payload, so_far, 100)
    assert so_far == [(BASE + 4999, 5)]


def test_delays_that_are_over_are_left_out_and_are_work_too() -> None:
    payload, found = opened([(NOW, None, b"v", [(AT, b"%d" % (NOW + n))]) for n in range(5000)])
    finder, so_far = delays.Finder(found), delays.Delays()
    finder.more(payload, so_far, 100, NOW + 4900)
    assert (len(so_far), finder.done) == (0, False)
    while not finder.done:
        finder.more(payload, so_far, 100, NOW + 4900)
    assert so_far == [(BASE + n, NOW + n) for n in range(4901, 5000)]


def test_a_part_of_them_by_offset() -> None:
    listed = delays.Delays()
    for offset in (3, 7, 9):
        listed.offsets.append(offset)
        listed.dues.append(offset * 10)
        listed.stamps.append(offset)
    assert listed.between(4, 9) == [(7, 70)]
    assert listed.between(3, 10) == listed == [(3, 30), (7, 70), (9, 90)]
    assert listed[1] == (7, 70)
    assert listed.between(10, 20) == []
