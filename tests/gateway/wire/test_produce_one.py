"""The short way of the commonest Produce: it finds what the long one finds, or leaves it to that one."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire import produce
from gateway.wire.malformed import Malformed
from gateway.wire.produce_one import FIRST_VERSION, decode_one
from tests.gateway.wire.test_produce import Topics, blobs, body, ids, names, partition_lists

versions = st.integers(FIRST_VERSION, 13)
BEFORE, BEHIND = b"head", b"tail"


def short(version: int, encoded: bytes) -> tuple[bytes, int, bytes] | None:
    """With other bytes before and behind it, as in what a connection has read."""
    read = BEFORE + encoded + BEHIND
    one = decode_one(version, read, len(BEFORE), len(BEFORE) + len(encoded))
    return None if one is None else (one[0], one[1], read[one[2] : one[3]])


def topic_of(version: int, name: str) -> str | UUID:
    return UUID(int=7) if version >= 13 else name


@given(
    versions,
    st.text(min_size=1, max_size=126).filter(lambda name: len(name.encode()) < 127),
    st.integers(0, 2**31 - 1),
    st.one_of(st.binary(max_size=300), st.integers(100, 20_000).map(bytes)),
    st.sampled_from((-1, 1)),
)
def test_one_batch_for_one_partition_is_taken(
    version: int, name: str, index: int, records: bytes, acks: int
) -> None:
    topic = topic_of(version, name)
    encoded = body(version, [(topic, [(index, records)])], acks, 1000, None)
    wanted = topic.bytes if isinstance(topic, UUID) else topic.encode()
    assert short(version, encoded) == (wanted, index, records)


@given(st.data(), versions, st.integers(-2, 2), st.one_of(st.none(), names))
def test_it_finds_what_the_long_way_finds_or_nothing(
    data: st.DataObject, version: int, acks: int, transactional_id: str | None
) -> None:
    topics: Topics = data.draw(
        st.lists(st.tuples(ids if version >= 13 else names, partition_lists), max_size=3)
    )
    encoded = body(version, topics, acks, 1000, transactional_id)
    one = short(version, encoded)
    if one is not None:
        request = produce.decode(version, encoded, 0, len(encoded))
        assert request.topics == [(one[0], [(one[1], one[2])])]
        assert request.transactional_id is None
        assert request.acks in (-1, 1)


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize(
    ("parts", "acks", "transactional_id"),
    [
        ([(0, b"x"), (1, b"y")], -1, None),
        ([(0, None)], -1, None),
        ([], -1, None),
        ([(0, b"x")], 0, None),
        ([(0, b"x")], 2, None),
        ([(0, b"x")], -1, "t"),
        ([(0, b"x")], -1, ""),
    ],
    ids=[
        "two partitions",
        "no records",
        "no partition",
        "no answer",
        "wrong acks",
        "transactional",
        "empty id",
    ],
)
def test_all_else_is_left_to_the_long_way(
    version: int, parts: list[tuple[int, bytes | None]], acks: int, transactional_id: str | None
) -> None:
    encoded = body(version, [(topic_of(version, "orders"), parts)], acks, 1000, transactional_id)
    assert short(version, encoded) is None


@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 16_384])
def test_every_truncation_tags_and_surplus_are_left_to_the_long_way(version: int, size: int) -> None:
    encoded = body(version, [(topic_of(version, "orders"), [(3, bytes(size))])], -1, 1000, None)
    assert short(version, encoded) is not None
    for end in {*range(min(len(encoded), 60)), *range(len(encoded) - 60, len(encoded))}:
        if end >= 0:
            assert short(version, encoded[:end]) is None
            assert decode_one(version, encoded[:end], 0, end) is None
            # what another request behind it would give does not count
            assert decode_one(version, encoded, 0, end) is None
    assert short(version, encoded + b"\0") is None
    for place in (-1, -2, -3):
        tagged = bytearray(encoded)
        tagged[place] = 1
        assert short(version, bytes(tagged)) is None


@given(versions, st.binary(max_size=80), blobs)
def test_junk_is_left_to_the_long_way_or_right(version: int, junk: bytes, more: bytes | None) -> None:
    data = junk + (more or b"")
    one = decode_one(version, data, 0, len(data))
    if one is not None:
        assert produce.decode(version, data, 0, len(data)).topics == [
            (one[0], [(one[1], data[one[2] : one[3]])])
        ]


def test_a_length_of_too_many_bytes_is_left_to_the_long_way() -> None:
    encoded = body(13, [(UUID(int=7), [(3, b"x" * 200)])], -1, 1000, None)
    at = encoded.index(b"\x00\x00\x00\x03") + 4
    for length in (b"\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff"):
        wrong = encoded[:at] + length
        assert decode_one(13, wrong, 0, len(wrong)) is None
        with pytest.raises(Malformed):
            produce.decode(13, wrong, 0, len(wrong))
