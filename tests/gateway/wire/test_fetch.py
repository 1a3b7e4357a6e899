"""Fetch by hand against kafka-python's codec, and against bytes that lie."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse

from gateway.wire import fetch
from gateway.wire.malformed import Malformed

names = st.text(min_size=1, max_size=200)
versions = st.integers(4, 17)
i32 = st.integers(0, 2**31 - 1)
i64 = st.integers(0, 2**62)
asks = st.lists(st.tuples(i32, st.integers(-1, 100), i64, i32), max_size=3)


def topic_field(version: int, topic: object) -> dict[str, object]:
    return {"topic_id": topic} if version >= 13 else {"topic": topic}


def raw(version: int, topic: object) -> bytes:
    return topic.bytes if isinstance(topic, uuid.UUID) else str(topic).encode()


def body(version: int, topics: list[Any], forgotten: list[Any]) -> bytes:
    Topic, Forgotten = FetchRequest.FetchTopic, FetchRequest.ForgottenTopic
    request = FetchRequest(
        version=version,
        max_wait_ms=500,
        min_bytes=2,
        max_bytes=3000,
        isolation_level=1,
        session_id=77,
        session_epoch=9,
        topics=[
            Topic(
                version=version,
                **topic_field(version, topic),
                partitions=[
                    Topic.FetchPartition(
                        version=version,
                        partition=index,
                        current_leader_epoch=epoch,
                        fetch_offset=offset,
                        partition_max_bytes=limit,
                    )
                    for index, epoch, offset, limit in partitions
                ],
            )
            for topic, partitions in topics
        ],
        forgotten_topics_data=[
            Forgotten(version=version, **topic_field(version, topic), partitions=partitions)
            for topic, partitions in (forgotten if version >= 7 else [])
        ],
        rack_id="r1",
    )
    return bytes(request.encode(version=version))


@given(st.data(), versions)
def test_decodes_what_kafka_python_encodes(data: st.DataObject, version: int) -> None:
    topic = st.uuids() if version >= 13 else names
    topics = data.draw(st.lists(st.tuples(topic, asks), max_size=3))
    forgotten = data.draw(st.lists(st.tuples(topic, st.lists(i32, max_size=3)), max_size=2))
    encoded = body(version, topics, forgotten)
    request = fetch.decode(version, b"head" + encoded + b"tail", 4, 4 + len(encoded))
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 2, 3000)
    assert request.isolation == 1
    assert (request.session_id, request.session_epoch) == ((77, 9) if version >= 7 else (0, -1))
    assert request.topics == [
        (raw(version, name), [(i, e if version >= 9 else -1, o, m) for i, e, o, m in partitions])
        for name, partitions in topics
    ]
    expected = [(raw(version, name), partitions) for name, partitions in forgotten]
    assert request.forgotten == (expected if version >= 7 else [])


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_every_truncation_and_surplus_is_malformed(version: int) -> None:
    topic = uuid.UUID(int=5) if version >= 13 else "orders"
    encoded = body(version, [(topic, [(0, -1, 10, 100), (1, -1, 11, 100)])], [(topic, [3])])
    for end in range(len(encoded)):
        with pytest.raises(Malformed):
            fetch.decode(version, encoded[:end], 0, end)
        with pytest.raises(Malformed):
            fetch.decode(version, encoded[:end] + b"\x00" * 64, 0, end)
    with pytest.raises(Malformed):
        fetch.decode(version, encoded + b"\x00", 0, len(encoded) + 1)


@pytest.mark.parametrize("version", [4, 7, 12, 18])
@given(junk=st.binary(max_size=200))
def test_junk_is_malformed_or_a_request(version: int, junk: bytes) -> None:
    try:
        fetch.decode(version, junk, 0, len(junk))
    except Malformed:
        pass


results = st.lists(
    st.tuples(
        i32,
        st.integers(-1, 100),
        st.integers(-1, 2**62),
        i64,
        i64,
        st.lists(st.binary(max_size=50), max_size=3),
        st.one_of(st.just([]), st.lists(st.tuples(i64, i64), max_size=200)),
    ),
    max_size=3,
)


@given(st.data(), versions, st.integers(0, 1))
def test_kafka_python_reads_the_answers(data: st.DataObject, version: int, isolation: int) -> None:
    topics = data.draw(st.lists(st.tuples(st.uuids() if version >= 13 else names, results), max_size=3))
    buffers = fetch.encode(
        version,
        123,
        isolation,
        70,
        77,
        [
            (
                raw(version, name),
                [(*rest, chunks, sum(map(len, chunks)), ended) for *rest, chunks, ended in parts],
            )
            for name, parts in topics
        ],
    )
    frame = b"".join(buffers)
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, 123)
    response = FetchResponse.decode(frame[9 if version >= 12 else 8 :], version=version)
    if version >= 7:
        assert (response.error_code, response.session_id) == (70, 77)
    for (name, parts), answer in zip(topics, response.responses, strict=True):
        assert (answer.topic_id if version >= 13 else answer.topic) == name
        for (index, error, high, stable, start, chunks, ended), got in zip(
            parts, answer.partitions, strict=True
        ):
            assert (got.partition_index, got.error_code, got.high_watermark) == (index, error, high)
            assert got.last_stable_offset == stable
            aborted = [(each.producer_id, each.first_offset) for each in got.aborted_transactions or ()]
            # who reads everything is told of none
            assert aborted == (ended if isolation else [])
            assert (got.aborted_transactions is None) == (isolation == 0)
            if version >= 5:
                assert got.log_start_offset == start
            assert bytes(got.records or b"") == b"".join(chunks)
