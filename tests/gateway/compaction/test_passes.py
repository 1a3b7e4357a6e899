"""The two passes of compaction, held against a naive one: lists of records and a dict."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.compaction import passes
from gateway.compaction.passes import KEY_BYTES, Aborted, Cleaning, Survey
from gateway.wire import records
from gateway.wire.records import Record
from tests.examples import examples

EVER = 1 << 62
NOW = 1_700_000_000_000


@dataclass
class Stored:
    """A log: its batches, and of each record (offset, key, value, the number of its transaction or None)."""

    batches: list[bytes] = field(default_factory=list)
    records: list[tuple[int, bytes | None, bytes | None, int | None]] = field(default_factory=list)
    aborted: list[Aborted] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    markers: dict[int, int] = field(default_factory=dict)
    end: int = 0


Write = tuple[list[tuple[bytes | None, bytes | None]], int, int]
"""Records (key, value), a producer with a transaction (0: none), a codec."""


def build(steps: list[Write | tuple[int, bool]]) -> Stored:
    """Batches, and ends of transactions: (producer, whether it commits)."""
    made = Stored()
    open_: dict[int, tuple[int, int]] = {}
    count = 0
    ends = [(producer, True) for producer in (1, 2)]
    for step in [*steps, *ends]:
        if len(step) == 2:
            producer, commits = step
            if producer not in open_:
                continue
            first, its = open_.pop(producer)
            marker = records.end_marker(
                made.end, producer, 0, commit=commits, coordinator_epoch=0, timestamp=NOW + made.end
            )
            made.batches.append(marker)
            made.markers[made.end] = its
            if not commits:
                made.aborted.append(Aborted(first, made.end, producer))
                made.undone.add(its)
            made.end += 1
            continue
        contents, producer, codec = step
        number: int | None = None
        if producer and producer not in open_:
            count += 1
            open_[producer] = made.end, count
        if producer:
            number = open_[producer][1]
        listed = [
            Record(
                n, NOW + (made.end + n) * (1 if n % 2 else -1), key, value, [("h", b"x")] if n == 1 else []
            )
            for n, (key, value) in enumerate(contents)
        ]
        made.batches.append(
            records.build_batch(
                listed,
                made.end,
                codec,
                leader_epoch=7,
                producer_id=producer or -1,
                producer_epoch=0 if producer else -1,
                transactional=bool(producer),
            )
        )
        for n, (key, value) in enumerate(contents):
            made.records.append((made.end + n, key, value, number))
        made.end += len(contents)
    return made


def compacted(
    batches: list[bytes],
    aborted: list[Aborted],
    end: int,
    *,
    start: int = 0,
    tombstones_to: int = 0,
    markers_to: int = 0,
    memory: int = 1 << 20,
) -> tuple[list[bytes], int]:
    """A pass; how far it came."""
    survey = Survey(end, memory, aborted, first_dirty=start)
    for batch in batches:
        if not survey.add(batch):
            break
    cleaning = Cleaning(
        survey.latest,
        survey.end,
        tombstones_to=tombstones_to,
        markers_to=markers_to,
        aborted=aborted,
    )
    kept = [cleaning.clean(batch, last=number == len(batches) - 1) for number, batch in enumerate(batches)]
    return [each for each in kept if each is not None], survey.end


def naive(log: Stored, end: int, tombstones_to: int) -> list[tuple[int, bytes | None, bytes | None]]:
    """What a pass over all of a log must leave."""
    latest: dict[bytes, int] = {}
    for offset, key, _, number in log.records:
        if offset < end and key is not None and number not in log.undone:
            latest[key] = offset
    return [
        (offset, key, value)
        for offset, key, value, number in log.records
        if offset >= end
        or (
            number not in log.undone
            and (key is None or (latest[key] == offset and not (value is None and offset < tombstones_to)))
        )
    ]


def seen(batches: list[bytes]) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    for batch in batches:
        head = records.check(batch)
        if not head.control:
            found += [
                (head.base_offset + each.offset_delta, each.key, each.value)
                for each in records.records(batch)
            ]
    return found


KEYS = st.sampled_from(
    [b"a", b"b", b"c", b"a key that is longer than sixteen bytes, and more", b"x" * 17, b""]
)
CONTENT = st.lists(
    st.tuples(st.one_of(KEYS, st.none()), st.sampled_from([None, b"", b"v", b"w" * 200])),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(CONTENT, st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 0, 1, 3, 4])),
        st.tuples(st.sampled_from([1, 2]), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=examples(300), deadline=None)
@given(STEPS, st.floats(0, 1), st.floats(0, 1))
def test_a_pass_leaves_what_a_naive_one_leaves(
    steps: list[Write | tuple[int, bool]], part: float, gone: float
) -> None:
    log = build(steps)
    # what is not decided is not cleaned: so up to where all transactions of the part have ended
    end = int(log.end * part)
    for undone in log.aborted:
        if undone.first < end <= undone.marker:
            end = undone.first
    tombstones_to = int(end * gone)
    kept, reached = compacted(log.batches, log.aborted, end, tombstones_to=tombstones_to)
    assert reached == end
    assert seen(kept) == naive(log, end, tombstones_to)
    before = {records.header(each).base_offset: each for each in log.batches}
    for each in kept:
        head, was = records.check(each), records.header(before[records.header(each).base_offset])
        assert (head.next_offset, head.leader_epoch, head.codec) == (
            was.next_offset,
            was.leader_epoch,
            was.codec,
        ) or (not head.count and head.next_offset == was.next_offset == log.end)
        if head.count and not head.control:
            found = {r.offset_delta: r for r in records.records(before[head.base_offset])}
            its = records.records(each)
            assert its == [found[r.offset_delta] for r in its], "headers and timestamps as they were"
            assert head.max_timestamp == max(r.timestamp for r in its)
        if was.base_offset >= end:
            assert each == before[head.base_offset]
    if log.batches:
        assert records.header(kept[-1]).next_offset == log.end
    # once more, and nothing changes
    assert compacted(kept, log.aborted, end, tombstones_to=tombstones_to)[0] == kept


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.lists(st.floats(0, 1), min_size=1, max_size=4), st.integers(1, 6))
def test_passes_over_parts_come_to_the_same_as_one_over_all(
    steps: list[Write | tuple[int, bool]], parts: list[float], most_keys: int
) -> None:
    """Each survey begins where the last one ended, and its map is full soon."""
    log = build(steps)
    batches, clean_to = log.batches, 0
    for part in [*sorted(parts), 1.0]:
        end = int(log.end * part)
        for each in log.aborted:
            if each.first < end <= each.marker:
                end = each.first
        while clean_to < end:
            batches, reached = compacted(
                batches, log.aborted, end, start=clean_to, memory=most_keys * KEY_BYTES
            )
            assert reached > clean_to, "a full map is no reason to stand still"
            clean_to = reached
    assert seen(batches) == naive(log, log.end, 0)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_markers_stay_as_long_as_readers_may_need_them(steps: list[Write | tuple[int, bool]]) -> None:
    log = build(steps)
    first, _ = compacted(log.batches, log.aborted, log.end)
    markers = {records.header(each).base_offset for each in first if records.header(each).control}
    assert markers == set(log.markers), "none goes with the first pass"
    second, _ = compacted(first, log.aborted, log.end, markers_to=log.end)
    left = {records.header(each).base_offset for each in second if records.header(each).control}
    with_records = {
        number for offset, _, _, number in log.records if offset in {each[0] for each in seen(first)}
    }
    wanted = {at for at, number in log.markers.items() if number in with_records and number not in log.undone}
    assert left == wanted
    assert seen(second) == seen(first)


def test_what_is_clean_takes_no_room_in_the_map() -> None:
    keys: list[tuple[bytes | None, bytes | None]] = [(b"%d" % n, b"v") for n in range(4)]
    log = build([(keys, 0, 0), (keys[:2], 0, 0), (keys[2:], 0, 0)])
    survey = Survey(log.end, 2 * KEY_BYTES, first_dirty=3)
    assert [survey.add(batch) for batch in log.batches] == [True, False, False]
    # of the batch in which the dirty part begins only what is dirty
    assert (survey.end, survey.latest) == (4, {b"3": 3})
    survey = Survey(log.end, 2 * KEY_BYTES, first_dirty=4)
    assert [survey.add(batch) for batch in log.batches] == [True, True, False]
    assert (survey.end, survey.latest) == (6, {b"0": 4, b"1": 5})


def test_one_batch_is_surveyed_even_if_it_alone_is_more_than_the_map_holds() -> None:
    keys: list[tuple[bytes | None, bytes | None]] = [(b"%d" % n, b"v") for n in range(9)]
    log = build([(keys, 0, 0), (keys, 0, 0), (keys, 0, 0)])
    batches, clean_to = log.batches, 0
    for expected in (9, 18, 27):
        batches, clean_to = compacted(batches, [], log.end, start=clean_to, memory=KEY_BYTES)
        assert clean_to == expected
    assert seen(batches) == naive(log, log.end, 0)


def test_a_record_of_an_aborted_transaction_never_wins() -> None:
    log = build([([(b"k", b"old")], 0, 0), ([(b"k", b"new")], 1, 0), (1, False), ([(b"z", b"z")], 0, 0)])
    kept, _ = compacted(log.batches, log.aborted, log.end)
    assert seen(kept) == [(0, b"k", b"old"), (3, b"z", b"z")]
    # a producer's next transaction is another one
    log = build(
        [([(b"k", b"1")], 1, 0), (1, False), ([(b"k", b"2")], 1, 0), (1, True), ([(b"z", b"z")], 0, 0)]
    )
    kept, _ = compacted(log.batches, log.aborted, log.end)
    assert seen(kept) == [(2, b"k", b"2"), (4, b"z", b"z")]


def test_a_tombstone_takes_what_is_before_it_and_stays_until_it_may_go() -> None:
    log = build([([(b"k", b"1")], 0, 0), ([(b"k", None)], 0, 0), ([(b"z", b"z")], 0, 0)])
    first, _ = compacted(log.batches, [], log.end)
    assert seen(first) == [(1, b"k", None), (2, b"z", b"z")]
    assert seen(compacted(first, [], log.end, tombstones_to=1)[0]) == seen(first)
    assert seen(compacted(first, [], log.end, tombstones_to=2)[0]) == [(2, b"z", b"z")]


def test_a_log_of_nothing_but_old_tombstones_keeps_its_end() -> None:
    log = build([([(b"k", None)], 0, 0), ([(b"j", None), (b"k", None)], 0, 4)])
    (left,) = compacted(log.batches, [], log.end, tombstones_to=log.end)[0]
    head = records.check(left)
    assert (head.base_offset, head.next_offset, head.count, head.leader_epoch) == (1, 3, 0, 7)
    assert records.records(left) == []


def test_a_record_without_a_key_stays_and_is_no_tombstone() -> None:
    log = build([([(None, b"1"), (b"k", b"1"), (None, None)], 0, 0), ([(b"k", None), (None, b"2")], 0, 4)])
    kept, _ = compacted(log.batches, [], log.end, tombstones_to=log.end)
    assert seen(kept) == [(0, None, b"1"), (2, None, None), (4, None, b"2")]
    # but for what never was
    log = build([([(None, b"1")], 1, 0), (1, False), ([(None, b"2")], 0, 0)])
    assert seen(compacted(log.batches, log.aborted, log.end)[0]) == [(2, None, b"2")]


def test_what_cannot_be_opened_stays_as_it_is() -> None:
    log = build([([(b"k", b"1")], 0, 0), ([(b"k", b"2")], 0, 0), ([(b"k", b"3")], 0, 0)])
    head = records.header(log.batches[1])
    head.count = 2
    log.batches[1] = records.assemble(head, log.batches[1][records.HEADER_SIZE :])
    kept, _ = compacted(log.batches, [], log.end)
    assert kept == log.batches[1:]


def test_records_of_all_sizes_are_told_apart() -> None:
    chance = random.Random(3)
    contents: list[tuple[bytes | None, bytes | None]] = []
    for number in range(400):
        key = bytes([number % 7]) * chance.choice((0, 1, 63, 64, 200, 9000))
        contents.append((key, chance.choice((None, b"", b"v" * 63, b"v" * 64, b"v" * 20_000))))
    log = build([(contents, 0, codec) for codec in range(5)])
    kept, _ = compacted(log.batches, [], log.end)
    assert seen(kept) == naive(log, log.end, 0)
    assert len(kept) == 1


def test_log_append_time_is_the_batchs_own() -> None:
    listed = [Record(n, NOW - 50 * n, key, b"v", []) for n, key in enumerate((b"a", b"a", b"b"))]
    batch = records.build_batch(listed, 0, log_append_time=NOW)
    (kept,) = compacted([batch], [], 3)[0]
    assert [(each.key, each.timestamp) for each in records.records(kept)] == [(b"a", NOW), (b"b", NOW)]


def test_a_batch_that_unfolds_to_too_much_stays() -> None:
    log = build([([(b"k", b"v" * 5000)] * 3, 0, 4), ([(b"k", b"v")], 0, 0)])
    survey = Survey(log.end, 1 << 20, limit=1000)
    assert all(survey.add(batch) for batch in log.batches)
    assert survey.latest == {b"k": 3}
    cleaning = Cleaning(survey.latest, log.end, tombstones_to=0, markers_to=0, limit=1000)
    assert [cleaning.clean(batch) for batch in log.batches] == log.batches


@pytest.mark.parametrize("size", [16, 17, 18])
def test_a_long_key_is_not_taken_for_another(size: int) -> None:
    keys = [bytes([number]) * size for number in range(40)]
    # as a digest of it is as long as this one
    log = build([([(key, b"v") for key in [*keys, *keys]], 0, 0)])
    survey = Survey(log.end, 1 << 20)
    survey.add(log.batches[0])
    assert len(survey.latest) == 40
    assert all(len(key or b"") <= passes.LONGEST_KEY + 1 for key in survey.latest)
