"""RocksDB's log format: fragments, records over blocks, and where they end that are not whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.rocksdb import powerloss
from store.rocksdb.logformat import BLOCK, HEAD, intact, next_block, records, text, varint
from tests.store.rocksdb.test_powerloss import fragment


def test_records_over_blocks_are_joined() -> None:
    whole = fragment(1, b"one")
    filled = fragment(2, b"a" * (BLOCK - len(whole) - HEAD.size))
    data = whole + filled + fragment(3, b"b" * (BLOCK - HEAD.size)) + fragment(4, b"c")
    found = list(records(data))
    assert [record.data[:1] + record.data[-1:] for record in found] == [b"oe", b"ac"]
    assert found[1].end == len(data)
    assert list(records(data[:-1])) == found[:1]
    assert powerloss.torn_at(data) is None
    assert powerloss.torn_at(data[:-1]) == len(whole)


def written(sizes: list[int]) -> tuple[bytes, list[tuple[int, int]]]:
    """Records as RocksDB writes them, and where each begins and ends."""
    data, places = b"", []
    for number, size in enumerate(sizes):
        left, kind = bytes([number % 256]) * size, 1
        begin = -1
        while kind:
            room = BLOCK - len(data) % BLOCK
            if room < HEAD.size:
                data += bytes(room)
                room = BLOCK
            if begin < 0:
                begin = len(data)
            part, left = left[: room - HEAD.size], left[room - HEAD.size :]
            if left:
                kind = 2 if kind == 1 else 3
            else:
                kind = 1 if kind == 1 else 4
            data += fragment(kind, part)
            kind = kind if kind in (2, 3) else 0
        places.append((begin, len(data)))
    return data, places


@given(
    st.lists(st.sampled_from([0, 1, 500, BLOCK - 14, BLOCK - 7, BLOCK - 3, 3 * BLOCK]), max_size=8),
    st.floats(0, 1),
)
def test_of_a_file_that_is_cut_off_the_whole_records_are_read(sizes: list[int], part: float) -> None:
    data, places = written(sizes)
    cut = int(part * len(data))
    found = list(records(data[:cut]))
    assert [(each.begin, each.end) for each in found] == [place for place in places if place[1] <= cut]
    assert [each.data for each in found] == [bytes([n]) * size for n, size in enumerate(sizes)][: len(found)]


def test_nothing_is_read_behind_a_fragment_that_is_damaged() -> None:
    one, two, three = (fragment(1, name) for name in (b"one", b"two", b"three"))
    data = bytearray(one + two + three)
    data[len(one) + HEAD.size] ^= 1
    assert [each.data for each in records(bytes(data))] == [b"one"]


def test_what_rocksdb_notes_between_records_is_left_out() -> None:
    assert [each.data for each in records(fragment(1, b"a") + fragment(10, b"note") + fragment(1, b"b"))] == [
        b"a",
        b"b",
    ]


def test_a_fragment_is_intact_when_it_is_whole_and_within_its_block() -> None:
    good = fragment(1, b"12345")
    assert intact(b"xy" + good, 2)
    for cut in range(len(good)):
        assert not intact(good[:cut], 0)
    assert not intact(bytes(100), 0), "RocksDB fills up with zeroes, whose type is none"
    at = BLOCK - len(good) + 1
    assert intact(bytes(at - 1) + good, at - 1)
    assert not intact(bytes(at) + good, at)


@pytest.mark.parametrize(
    ("at", "following"), [(0, BLOCK), (1, BLOCK), (BLOCK - 1, BLOCK), (BLOCK, 2 * BLOCK)]
)
def test_the_next_block(at: int, following: int) -> None:
    assert next_block(at) == following


@pytest.mark.parametrize(
    ("data", "number"), [(b"\x00", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\xff\xff\x03", 65535)]
)
def test_varints(data: bytes, number: int) -> None:
    assert varint(b"--" + data + b"--", 2) == (number, 2 + len(data))
    assert text(data + bytes(number), 0) == len(data) + number
