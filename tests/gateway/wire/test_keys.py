"""Records that are read by columns are read as they are one by one, and a short cut gives what the long way gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import keys, records
from gateway.wire.opened import Opened
from gateway.wire.records import Record
from gateway.wire.unreadable import Unreadable
from semantics.subscriptions.hashing import slot_of
from tests.examples import examples

NOW = 1_700_000_000_000


def batch(shapes: list[tuple[int, int, int | None, int]]) -> bytes:
    """A batch of runs: (how many, value bytes, key bytes, ms between them)."""
    listed: list[Record] = []
    now = NOW
    for count, size, key_size, step in shapes:
        for _ in range(count):
            number = len(listed)
            key = None if key_size is None else (b"%0200d" % (number * 7919 % 31))[200 - key_size :]
            listed.append(Record(number, now, key, bytes(size), []))
            now += step
    return records.build_batch(listed, 500)


def looked_at(stored: bytes, alike: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Slots, and everything that was found with them; or that it cannot be read."""
    monkeypatch.setattr(keys, "_ALIKE", alike)
    try:
        opened = Opened(stored)
        found = keys.Keys(opened.payload, opened.header, None, keys.Slots(slot_of))
        return found.slots, found.starts, found.stamps
    except Unreadable:
        return Unreadable


shapes = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 17, 70, 200]),
        st.sampled_from([0, 40, 60, 100, 9_000]),
        st.sampled_from([None, 0, 7, 63, 64, 150]),
        st.sampled_from([0, 1, -1, 3, 100, 20_000]),
    ),
    min_size=1,
    max_size=4,
)


@given(shapes)
@settings(max_examples=examples(60), deadline=None)
def test_columns_say_what_a_walk_says(runs: list[tuple[int, int, int | None, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stored = batch(runs)
        found = looked_at(stored, 16, patch)
        assert found == looked_at(stored, 10**9, patch)
        assert found is not Unreadable


def test_records_of_one_shape_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = keys.Keys._alike

    def alike(*args: Any) -> int:
        read.append(plain(*args))
        return read[-1]

    monkeypatch.setattr(keys.Keys, "_alike", alike)
    opened = Opened(batch([(200, 90, 10, 0)]))
    assert len(opened.slots(keys.Slots(slot_of))) == 200
    assert sum(read) == 200


def test_damage_is_found_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(5)
    whole = batch([(90, 20, 7, 1)])
    different = 0
    for _ in range(1_500):
        stored = bytearray(whole)
        stored[dice.randrange(61, len(stored))] = dice.choice([0, 1, 2, 127, 128, 255, dice.randrange(256)])
        found = looked_at(bytes(stored), 16, monkeypatch)
        assert found == looked_at(bytes(stored), 10**9, monkeypatch)
        different += found is Unreadable
    assert different > 100


@given(shapes, st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_a_cut_is_a_subset(runs: list[tuple[int, int, int | None, int]], dice: random.Random) -> None:
    stored = batch(runs)
    opened, plain = Opened(stored), Opened(stored)
    slots = opened.slots(keys.Slots(slot_of))
    parts: list[tuple[int, int, int]] = []
    at = 0
    while at < len(slots):
        at += dice.randrange(9)
        end = min(at + dice.randrange(1, 4), len(slots))
        if at < end:
            parts.append((500 + at, 500 + end - 1, 3))
        at = end + 1
    if parts:
        assert opened.cut(parts) == plain.subset([part[:2] for part in parts])
