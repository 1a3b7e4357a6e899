"""The commonest Fetch by one Struct: what it takes and what it writes are what the long way reads and writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.wire import codec, fetch, messages
from gateway.wire.fetch_one import FIRST_VERSION, decode_one, encode_one
from gateway.wire.malformed import Malformed
from tests.examples import examples

TOPIC = bytes(range(16))
versions = st.integers(FIRST_VERSION, fetch.MAX_VERSION - 1)
"""The schemas that the tests have end before the latest."""
i32 = st.integers(0, 2**31 - 1)
i64 = st.integers(0, 2**63 - 1)


def body(version: int, indexes: tuple[int, ...] = (3,), **more: Any) -> bytes:
    """A request for some partitions of one topic, in a session."""
    said = {"session_id": 77, "session_epoch": 9, "rack_id": "", **more}
    topic = messages.FetchRequest.FetchTopic
    partition = messages.FetchRequest.FetchPartition
    asked = [partition(partition=index, fetch_offset=12, partition_max_bytes=1000) for index in indexes]
    said.setdefault("topics", [topic(topic_id=TOPIC, partitions=asked)])
    return codec.encode_request(1, version, messages.FetchRequest(**said))


def both(version: int, data: bytes) -> tuple[Any, Any]:
    """What the short way and the long way read, in the form of the short one."""
    framed = b"head" + data + b"tail"
    short = decode_one(framed, 4, 4 + len(data))
    try:
        found = fetch.decode(version, framed, 4, 4 + len(data))
    except Malformed:
        return short, None
    if len(found.topics) != 1 or len(found.topics[0][1]) != 1 or found.forgotten:
        return short, None
    ((name, ((index, epoch, offset, limit),)),) = found.topics
    return short, (
        found.max_wait_ms,
        found.min_bytes,
        found.max_bytes,
        found.isolation,
        found.session_id,
        found.session_epoch,
        name,
        index,
        epoch,
        offset,
        limit,
    )


@given(versions, i32, i32, i32, st.integers(0, 1), i32, st.integers(1, 2**31 - 1), i64, st.integers(0, 126))
def test_one_partition_of_a_session_that_goes_on_is_read_as_the_long_way_reads_it(
    version: int,
    wait: int,
    least: int,
    most: int,
    isolation: int,
    session: int,
    epoch: int,
    at: int,
    rack: int,
) -> None:
    partition = messages.FetchRequest.FetchPartition(
        partition=session, current_leader_epoch=epoch, fetch_offset=at, partition_max_bytes=most
    )
    data = body(
        version,
        max_wait_ms=wait,
        min_bytes=least,
        max_bytes=most,
        isolation_level=isolation,
        session_id=session,
        session_epoch=epoch,
        rack_id="r" * rack,
        topics=[messages.FetchRequest.FetchTopic(topic_id=TOPIC, partitions=[partition])],
    )
    short, long = both(version, data)
    assert short is not None
    assert short == long


@pytest.mark.parametrize("version", range(FIRST_VERSION, fetch.MAX_VERSION))
def test_a_fetch_without_a_session_is_read_and_one_that_opens_a_session_is_not(version: int) -> None:
    for session, epoch, read in (
        (0, -1, True),
        (77, 1, True),
        (0, 0, False),
        (77, 0, False),
        (77, -1, False),
    ):
        short, long = both(version, body(version, session_id=session, session_epoch=epoch))
        assert short == (long if read else None)


FORGOTTEN = messages.FetchRequest.ForgottenTopic(topic_id=TOPIC, partitions=[1])


@pytest.mark.parametrize(
    "more",
    [
        {"indexes": ()},
        {"indexes": (1, 2)},
        {"topics": []},
        {"forgotten_topics_data": [FORGOTTEN]},
        {"rack_id": "r" * 127},
        {"rack_id": "r" * 300},
        {"cluster_id": "c"},
    ],
)
def test_anything_else_goes_the_long_way(more: dict[str, Any]) -> None:
    data = body(17, **more)
    assert decode_one(data, 0, len(data)) is None
    fetch.decode(17, data, 0, len(data))


@settings(max_examples=examples(500))
@given(st.data())
def test_changed_bytes_are_read_alike_or_left_to_the_long_way(data: st.DataObject) -> None:
    changed = bytearray(body(17, rack_id="rack"))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    short, long = both(17, bytes(changed))
    assert short in (None, long)


def test_a_request_that_is_cut_off_is_left_to_the_long_way() -> None:
    whole = body(17, rack_id="rack")
    for end in range(len(whole)):
        assert decode_one(whole[:end], 0, end) is None
        # and where other bytes follow in the same buffer
        assert decode_one(whole, 0, end) is None


@given(
    i32,
    i32,
    st.integers(0, 1),
    st.integers(0, 2**31 - 1),
    i64,
    i64,
    i64,
    st.lists(st.binary(max_size=300), max_size=3),
)
@example(1, 2, 0, 3, 4, 4, 5, [bytes(126)])
@example(1, 2, 0, 3, 4, 4, 5, [bytes(127)])
@example(1, 2, 1, 3, 4, 4, 5, [bytes(16_383), b""])
def test_the_answer_has_the_bytes_of_the_long_way(
    correlation: int,
    session: int,
    isolation: int,
    index: int,
    high: int,
    stable: int,
    start: int,
    chunks: list[bytes],
) -> None:
    size = sum(map(len, chunks))
    short = encode_one(correlation, session, isolation, TOPIC, index, high, stable, start, chunks, size)
    part = (index, 0, high, stable, start, chunks, size, ())
    assert b"".join(short) == b"".join(
        fetch.encode(17, correlation, isolation, 0, session, [(TOPIC, [part])])
    )
    # records are handed on as the buffers that they were
    assert [any(piece is chunk for piece in short) for chunk in chunks] == [True] * len(chunks)
