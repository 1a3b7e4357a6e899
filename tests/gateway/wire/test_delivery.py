"""Slots and delays of stored batches, against a plain walk of their records and against damage."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import batch as batch_wire
from gateway.wire import compression, delivery, records
from gateway.wire.compression import LZ4, ZSTD
from gateway.wire.delivery import Unreadable
from gateway.wire.records import Record
from tests.examples import examples
from tests.gateway.wire.batches import CODECS, NOW
from tests.gateway.wire.stored import BASE, HASHED, contents, due_of, plain_hash, rows, stored
from tests.proofs.fuzz import batches as fuzz_batches

NOTHING = delivery.Scan(None, delivery.NO_DELAYS, [], [])


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(60))
@given(contents)
def test_slots_and_delays_are_what_the_records_say(codec: int, listed: list[Any]) -> None:
    found = delivery.scan(stored(listed, codec) + b"behind", slots=delivery.Slots(plain_hash))
    expected = []
    for number, (_, key, _, headers) in enumerate(listed):
        orderings = [value for name, value in headers if name == "pulsar-ordering-key" and value is not None]
        expected.append(plain_hash(key, orderings[-1] if orderings else None, BASE + number))
    assert found.slots is not None
    assert found.slots.typecode == "H"
    assert list(found.slots) == expected
    assert found.delayed == [
        (BASE + number, due)
        for number, (timestamp, _, _, headers) in enumerate(listed)
        if (due := due_of(timestamp, headers)) is not None
    ]
    assert (found.reconsumed, found.gaps) == ([], [])


def test_large_batches_and_long_keys_too() -> None:
    listed: list[Any] = [
        (NOW + n * 1000, b"k" * (n % 300), b"v" * (17_000 if n % 100 == 0 else n % 200), [])
        for n in range(9000)
    ]
    found = delivery.scan(stored(listed, ZSTD), slots=delivery.Slots(plain_hash))
    assert found.slots is not None
    assert list(found.slots) == [plain_hash(key, None, 0) for _, key, _, _ in listed]


def test_a_key_is_hashed_once_and_no_key_by_its_offset() -> None:
    slots = delivery.Slots(plain_hash)
    listed: list[Any] = [
        (NOW, b"a", None, []),
        (NOW, None, None, []),
        (NOW, b"a", None, []),
        (NOW, b"", None, []),
    ]
    HASHED.clear()
    delivery.scan(stored(listed), slots=slots)
    delivery.scan(stored(listed), slots=slots)
    assert HASHED == [
        (b"a", None, BASE),
        (None, None, BASE + 1),
        (b"", None, BASE + 3),
        (None, None, BASE + 1),
    ]


def test_what_is_remembered_of_keys_is_bounded() -> None:
    slots = delivery.Slots(plain_hash)
    for start in range(0, 80_000, 20_000):
        listed: list[Any] = [(NOW, b"%d" % n, None, []) for n in range(start, start + 20_000)]
        delivery.scan(stored(listed), slots=slots)
    delivery.scan(stored([(NOW, b"k" * 100_000, None, [])]), slots=slots)
    assert len(slots.known) <= 65_536
    assert max(map(len, slots.known)) < 1000


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_not_looked_at_when_nothing_asks_for_them(codec: int) -> None:
    # the payload is no records at all, and nobody minds
    payload = compression.compress(codec, b"\xff" * 500)
    head = batch_wire.Header(BASE, 0, 1, 2, 0, codec, 9, NOW, NOW, -1, -1, -1, 10)
    assert delivery.scan(batch_wire.assemble(head, payload)) == NOTHING
    with pytest.raises(Unreadable):
        delivery.scan(batch_wire.assemble(head, payload), slots=delivery.Slots(plain_hash))


@pytest.mark.parametrize(
    ("headers", "due"),
    [
        ([("pulsar-deliver-at", b"1700000005000")], 1_700_000_005_000),
        ([("pulsar-deliver-at", struct.pack(">q", 1_700_000_005_000))], 1_700_000_005_000),
        ([("pulsar-deliver-after", b"250")], NOW + 250),
        ([("pulsar-deliver-after", b"9" * 19)], 2**63 - 1),
        # the last one that makes sense
        ([("pulsar-deliver-after", b"250"), ("pulsar-deliver-after", b"300")], NOW + 300),
        ([("pulsar-deliver-after", b"250"), ("pulsar-deliver-after", b"soon")], NOW + 250),
        ([("pulsar-deliver-at", b"1700000005000"), ("pulsar-deliver-after", b"1")], NOW + 1),
        # garbage: deliver now
        ([("pulsar-deliver-at", b"tomorrow")], None),
        ([("pulsar-deliver-at", b"-5")], None),
        ([("pulsar-deliver-at", b"")], None),
        ([("pulsar-deliver-at", None)], None),
        ([("pulsar-deliver-at", struct.pack(">q", -1))], None),
        ([("pulsar-deliver-at", b"1" * 5000)], None),
        ([("pulsar-deliver-after", b"1e3")], None),
        ([("pulsar-deliver-after", struct.pack(">q", 250))], None),
        ([("pulsar-deliver-after", b" 250")], None),
        # not the topic for it
        ([("DELAY_TIME", b"250")], None),
    ],
)
def test_when_a_record_is_due(headers: records.Headers, due: int | None) -> None:
    batch = stored([(NOW, None, b"pulsar-deliver-at", []), (NOW, None, b"v", headers)])
    assert delivery.scan(batch).delayed == ([] if due is None else [(BASE + 1, due)])
    assert delivery.scan(batch, delays=False) == NOTHING


def test_a_broker_that_stamps_records_sets_the_time_delays_count_from() -> None:
    batch = stored([(NOW, None, b"v", [("pulsar-deliver-after", b"250")])], log_append_time=NOW + 10_000)
    assert delivery.scan(batch).delayed == [(BASE, NOW + 10_250)]


def test_retry_letters_are_delayed_by_delay_time_and_say_how_often_they_were_there() -> None:
    copied = ("pulsar-deliver-after", b"7777")
    batch = stored(
        [
            (NOW, None, b"v", [copied, ("DELAY_TIME", b"10"), ("RECONSUMETIMES", b"4")]),
            (NOW, None, b"v", [("DELAY_TIME", b"10"), ("DELAY_TIME", b"20"), copied]),
            (NOW, None, b"v", [("RECONSUMETIMES", b"9"), ("pulsar-reconsume-times", b"2")]),
            (NOW, None, b"v", [copied, ("DELAY_TIME", b"later")]),
            (NOW, None, b"v", [("RECONSUMETIMES", b"often")]),
            (NOW, None, b"v", [("RECONSUMETIMES", b"9999999999999")]),
        ]
    )
    found = delivery.scan(batch, retry=True)
    assert found.delayed == [(BASE, NOW + 10), (BASE + 1, NOW + 20), (BASE + 3, NOW + 7777)]
    # the server's count, where there is one
    assert found.reconsumed == [(BASE, 4), (BASE + 2, 2), (BASE + 5, 2**31 - 1)]


# -- batches as they come from the store -----------------------------------------------------------------------------


def test_a_batch_in_a_longer_buffer_is_read_and_nothing_behind_it() -> None:
    one, two = stored(rows(10), LZ4), stored(rows(3))
    joined = memoryview(one + two)
    assert delivery.subset(joined, [(BASE + 1, BASE + 1)]) == delivery.subset(one, [(BASE + 1, BASE + 1)])
    assert delivery.scan(joined, slots=delivery.Slots(plain_hash)) == delivery.scan(
        one, slots=delivery.Slots(plain_hash)
    )


def test_delays_and_gaps_of_a_compacted_batch_are_said_by_offset() -> None:
    kept = [2, 3, 7, 200]
    batch = records.build_batch(
        [Record(n, NOW, None, b"", [("pulsar-deliver-after", b"1")]) for n in kept],
        BASE,
        last_offset_delta=300,
    )
    found = delivery.scan(batch)
    assert found.delayed == [(BASE + n, NOW + 1) for n in kept]
    assert found.gaps == [
        (BASE, BASE + 1),
        (BASE + 4, BASE + 6),
        (BASE + 8, BASE + 199),
        (BASE + 201, BASE + 300),
    ]


def test_an_opened_batch_answers_again() -> None:
    batch = stored(rows(50, [("pulsar-deliver-after", b"5")]), LZ4)
    opened = delivery.Opened(batch)
    for _ in range(2):
        assert delivery.scan(opened, slots=delivery.Slots(plain_hash)) == delivery.scan(
            batch, slots=delivery.Slots(plain_hash)
        )
        assert opened.subset([(BASE + 7, BASE + 9)]) == delivery.subset(batch, [(BASE + 7, BASE + 9)])
        assert opened.records() == delivery.records_at(batch, [(BASE, BASE + 49)])


def test_headers_are_walked_over_buffers_whose_last_batch_is_cut() -> None:
    one, two = stored(rows(10)), records.patch(stored(rows(3)), BASE + 10, 0)
    found = list(delivery.headers_of([memoryview(one + two), two, (one + two)[:-1], b"", one[:30]]))
    assert [(position, head.base_offset, head.next_offset) for _, position, head in found] == [
        (0, BASE, BASE + 10),
        (len(one), BASE + 10, BASE + 13),
        (0, BASE + 10, BASE + 13),
        (0, BASE, BASE + 10),
    ]
    with pytest.raises(Unreadable):
        list(delivery.headers_of([bytes(100)]))


# -- batches that lie ----------------------------------------------------------------------------------------------


def ask_everything(batch: bytes, limit: int = 1 << 20) -> bool:
    """All questions; what comes back must be right by its form. True when the batch could be opened."""
    slots = delivery.Slots(plain_hash)
    opened = False
    for ask in (
        lambda: delivery.scan(batch, slots=slots, retry=True, limit=limit),
        lambda: delivery.scan(batch, retry=True, limit=limit),
        lambda: delivery.subset(batch, [(BASE, BASE), (BASE + 2, BASE + 3)], limit),
        lambda: delivery.records_at(batch, [(BASE + 1, BASE + 2)], limit),
    ):
        try:
            found: Any = ask()
        except Unreadable:
            continue
        opened = True
        if isinstance(found, delivery.Scan):
            head = records.header(batch)
            if found.slots is not None:
                assert len(found.slots) == head.last_offset_delta + 1
            for offset, due in found.delayed:
                assert head.base_offset <= offset <= head.last_offset
                assert 0 < due < 2**63
        elif isinstance(found, bytes) and found:
            records.check(found)
    return opened


def damaged(seed: int) -> bytes:
    """A stored batch with a right CRC and something wrong inside, sometimes."""
    pick = random.Random(seed)
    good = [
        stored(rows(4, [("pulsar-deliver-after", b"5"), ("pulsar-ordering-key", b"o")]), codec)
        for codec in CODECS
    ]
    good += fuzz_batches.good_batches()
    batch = fuzz_batches.mutated(pick, pick.choice(good))
    head = records.header(batch)
    return records.patch(batch, BASE, 1) if head.size == len(batch) else batch


def test_damage_is_unreadable_or_an_answer() -> None:
    outcomes = [ask_everything(damaged(seed)) for seed in range(4000)]
    assert any(outcomes)
    assert not all(outcomes)


@given(st.binary(max_size=300))
def test_junk_in_place_of_records(junk: bytes) -> None:
    for count in (1, 3, len(junk) // 7):
        head = batch_wire.Header(BASE, 0, 1, 2, 0, 0, max(count - 1, 0), NOW, NOW, -1, -1, -1, count)
        ask_everything(batch_wire.assemble(head, junk))


@given(st.binary(max_size=100))
def test_junk_in_place_of_a_batch(junk: bytes) -> None:
    assert not ask_everything(junk)


@pytest.mark.parametrize("stamp", fuzz_batches.EXTREME)
def test_delays_from_times_that_no_clock_shows_are_no_trouble(stamp: int) -> None:
    record = Record(0, NOW, b"k", b"v", [("pulsar-deliver-after", b"9" * 19)])
    batch = records.build_batch([record, record._replace(offset_delta=1, timestamp=NOW + 5)], BASE)
    ask_everything(fuzz_batches.resealed(batch, base_timestamp=stamp, max_timestamp=stamp))


@pytest.mark.parametrize("content", [fuzz_batches.ZEROS, fuzz_batches.RECORDS, fuzz_batches.HEADERS])
@pytest.mark.parametrize("codec", CODECS[1:])
def test_bombs_are_unreadable(codec: int, content: str) -> None:
    bomb = fuzz_batches.bomb(codec, 4 << 20, content)
    with pytest.raises(Unreadable):
        delivery.scan(bomb, slots=delivery.Slots(plain_hash), limit=1 << 20)


def test_whole_batches_come_until_there_are_so_many_records() -> None:
    batches = [
        batch_wire.patch(records.build_batch([Record(i, NOW, None, b"v", []) for i in range(3)]), base, 0)
        for base in (10, 13, 16)
    ]
    whole = b"".join(batches)
    for first, most, count, size in (
        (10, 1, 3, 1),
        (10, 3, 3, 1),
        (10, 4, 6, 2),
        (10, 100, 9, 3),
        # what lies before the first is not counted, and the batch comes in any case
        (12, 1, 1, 1),
        (12, 2, 4, 2),
    ):
        found, number = delivery.up_to([whole[:20], whole[20:]], first, most)
        assert (b"".join(found), number) == (b"".join(batches[:size]), count)
    assert delivery.up_to([], 10, 5) == ([], 0)
    # who reads it finds out what is wrong
    assert delivery.up_to([whole + bytes(100)], 10, 100)[0] == [whole + bytes(100)]
    # the last one is cut
    assert delivery.up_to([whole[:-1]], 10, 100)[0] == [b"".join(batches[:2])]


def test_whole_batches_come_that_begin_below_an_offset() -> None:
    batches = [
        batch_wire.patch(records.build_batch([Record(i, NOW, None, b"v", []) for i in range(3)]), base, 0)
        for base in (10, 13, 20)
    ]
    whole = b"".join(batches)
    size = len(batches[0])
    for pieces in ([whole], batches, [whole[:20], whole[20:]], [whole[: size + 70], whole[size + 70 :]]):
        for end, count, behind in (
            (10, 0, -1),
            (11, 1, 13),
            (13, 1, 13),
            (20, 2, 16),
            (21, 3, 23),
            (99, 3, 23),
        ):
            for asked in (pieces, [memoryview(each) for each in pieces]):
                found, told = delivery.before(asked, end)
                assert (b"".join(found), told) == (b"".join(batches[:count]), behind)
    assert delivery.before([], 10) == ([], -1)
    # the last one is cut, or is none
    for rest in (batches[2][:-1], batches[2][:30], bytes(100), b"\xff" * 100):
        for pieces in ([*batches[:2], rest], [b"".join(batches[:2]) + rest]):
            found, told = delivery.before(pieces, 99)
            assert (b"".join(found), told) == (b"".join(batches[:2]), 16)
    found, _ = delivery.before(batches, 99)
    assert all(each is batch for each, batch in zip(found, batches, strict=True)), "nothing is copied"
