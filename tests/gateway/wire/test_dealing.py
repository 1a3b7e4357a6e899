"""Batches that are dealt to several, against what each would have been sent by itself."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import batch as batch_wire
from gateway.wire.dealing import deal
from gateway.wire.dense import Parts
from gateway.wire.opened import Opened
from gateway.wire.records import Record, build_batch
from gateway.wire.unreadable import Unreadable
from tests.examples import examples
from tests.gateway.wire.batches import NOW
from tests.gateway.wire.stored import BASE, contents
from tests.gateway.wire.test_opened import ranges_of
from tests.proofs.fuzz import batches as fuzz_batches


@pytest.mark.parametrize("codec", [0, 1])
@settings(max_examples=examples(100), deadline=None)
@given(st.data(), contents)
def test_what_is_dealt_to_all_at_once_is_what_each_would_have_been_sent(
    codec: int, data: st.DataObject, listed: list[Any]
) -> None:
    count = len(listed) * data.draw(st.sampled_from([1, 1, 256]))
    listed *= count // len(listed)
    # with offsets that compaction has left out, now and then many at once
    gap = data.draw(st.sampled_from([0, 0, 1, 300]))
    offsets = [BASE + n + gap * (n // 3) for n in range(count)]
    batch = build_batch(
        [Record(offset - BASE, *row) for offset, row in zip(offsets, listed, strict=True)],
        BASE,
        codec,
        log_append_time=data.draw(st.sampled_from([None, NOW + 99])),
    )
    pick = random.Random(data.draw(st.integers(0, 2**32)))
    places = np.array(pick.choices(range(4), k=offsets[-1] - BASE + 1), np.uint16)
    parts = Parts(Opened(batch))
    found: dict[int, list[int]] = {}
    other = build_batch([Record(0, NOW, b"k", b"v", [])], BASE - 1)
    mine = [np.array([each], np.uint16) for each in (1, 0)]
    before, dealt_all, behind = deal(
        [(Opened(other), mine[0]), (Opened(batch), places), (Opened(other), mine[1])]
    )
    assert [(each.place, each.first) for each in before] == [(1, BASE - 1)]
    assert behind == []
    for dealt in dealt_all:
        its = [dealt.first + at + sum(dealt.steps[:at]) for at in range(len(dealt.steps) + 1)]
        assert its[-1] + 1 == dealt.following
        assert dealt.batch == parts.dense(batch, ranges_of(its), 0, 0)
        found.setdefault(dealt.place, []).extend(its)
    expected: dict[int, list[int]] = {}
    for offset in offsets:
        if place := int(places[offset - BASE]):
            expected.setdefault(place, []).append(offset)
    assert found == expected


def test_of_nothing_nothing_is_made() -> None:
    assert deal([]) == []
    # as compaction leaves a batch
    assert deal([(Opened(batch_wire.empty_batch(BASE, BASE + 3, 0)), np.array([1, 1, 1, 1], np.uint16))]) == [
        []
    ]


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 2**32))
def test_damage_is_refused_or_gives_batches(seed: int) -> None:
    pick = random.Random(seed)
    broken = fuzz_batches.mutated(pick, pick.choice(fuzz_batches.good_batches()))
    try:
        opened = Opened(broken, 2**20)
        if opened.header.last_offset_delta > 100_000:
            return
        places = np.array([pick.randrange(3) for _ in range(opened.header.last_offset_delta + 1)], np.uint16)
        (parts,) = deal([(opened, places)])
    except Unreadable:
        return
    for part in parts:
        batch_wire.check(part.batch)
