"""Produce by hand against kafka-python's codec, and against bytes that lie."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from gateway.wire import produce
from gateway.wire.malformed import Malformed

names = st.text(min_size=1, max_size=300)
ids = st.uuids()
blobs = st.one_of(st.none(), st.binary(max_size=400))
partition_lists = st.lists(st.tuples(st.integers(0, 2**31 - 1), blobs), max_size=4)
versions = st.integers(3, 13)

Topics = Sequence[tuple[Any, Sequence[tuple[int, bytes | None]]]]
"""Names or ids, each with its partitions and their records."""


def body(version: int, topics: Topics, acks: int, timeout: int, transactional_id: str | None) -> bytes:
    """A request as kafka-python encodes it, without its header."""
    Topic = ProduceRequest.TopicProduceData
    Part = Topic.PartitionProduceData
    request = ProduceRequest(
        version=version,
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout,
        topic_data=[
            Topic(
                version=version,
                **({"topic_id": topic} if version >= 13 else {"name": topic}),
                partition_data=[Part(version=version, index=i, records=r) for i, r in parts],
            )
            for topic, parts in topics
        ],
    )
    return bytes(request.encode(version=version))


@given(st.data(), versions, st.integers(-1, 1), st.integers(0, 2**31 - 1), st.one_of(st.none(), names))
def test_decodes_what_kafka_python_encodes(
    data: st.DataObject, version: int, acks: int, timeout: int, transactional_id: str | None
) -> None:
    topics: Topics = data.draw(
        st.lists(st.tuples(ids if version >= 13 else names, partition_lists), max_size=3)
    )
    encoded = body(version, topics, acks, timeout, transactional_id)
    request = produce.decode(version, b"head" + encoded + b"tail", 4, 4 + len(encoded))
    assert (request.acks, request.timeout_ms) == (acks, timeout)
    assert request.transactional_id == (None if transactional_id is None else transactional_id.encode())
    assert request.topics == [
        (topic.bytes if version >= 13 else topic.encode(), parts) for topic, parts in topics
    ]


@pytest.mark.parametrize("version", [3, 9, 13])
def test_every_truncation_and_surplus_is_malformed(version: int) -> None:
    import uuid

    topic = uuid.UUID(int=1) if version >= 13 else "orders"
    encoded = body(version, [(topic, [(0, b"x" * 200), (1, None)])], -1, 1000, None)
    for end in range(len(encoded)):
        with pytest.raises(Malformed):
            produce.decode(version, encoded[:end], 0, end)
        with pytest.raises(Malformed):
            # the same end, but bytes of another frame behind it
            produce.decode(version, encoded[:end] + b"\x00" * 64, 0, end)
    with pytest.raises(Malformed):
        produce.decode(version, encoded + b"\x00", 0, len(encoded) + 1)


@pytest.mark.parametrize("version", [3, 9, 13])
@given(junk=st.binary(max_size=200))
def test_junk_is_malformed_or_a_request(version: int, junk: bytes) -> None:
    try:
        produce.decode(version, junk, 0, len(junk))
    except Malformed:
        pass


results = st.lists(
    st.tuples(
        st.integers(0, 2**31 - 1),
        st.integers(-1, 100),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
        st.integers(-1, 2**62),
        st.lists(
            st.tuples(st.integers(0, 2**31 - 1), st.one_of(st.none(), st.text(max_size=200))), max_size=3
        ),
        st.one_of(st.none(), st.text(max_size=200)),
    ),
    max_size=3,
)


@given(st.data(), versions, st.integers(0, 2**31 - 1))
def test_kafka_python_reads_the_answers(data: st.DataObject, version: int, correlation_id: int) -> None:
    topics = data.draw(st.lists(st.tuples(ids if version >= 13 else names, results), max_size=3))
    frame = produce.encode(
        version,
        correlation_id,
        [(topic.bytes if version >= 13 else topic.encode(), parts) for topic, parts in topics],
    )
    size, correlation = struct.unpack_from(">ii", frame)
    assert (size, correlation) == (len(frame) - 4, correlation_id)
    response = ProduceResponse.decode(frame[9 if version >= 9 else 8 :], version=version)
    for (topic, parts), answer in zip(topics, response.responses, strict=True):
        assert (answer.topic_id if version >= 13 else answer.name) == topic
        for (index, error, base, append_time, log_start, named, message), partition in zip(
            parts, answer.partition_responses, strict=True
        ):
            assert (partition.index, partition.error_code, partition.base_offset) == (index, error, base)
            assert partition.log_append_time_ms == append_time
            if version >= 5:
                assert partition.log_start_offset == log_start
            if version >= 8:
                assert partition.error_message == message
                seen = [
                    (each.batch_index, each.batch_index_error_message) for each in partition.record_errors
                ]
                assert seen == named


@given(ids, st.integers(0, 1000), st.integers(0, 2**62), st.integers(9, 13))
def test_the_short_way_says_the_same_as_the_long_one(
    topic: UUID, index: int, base: int, version: int
) -> None:
    name = topic.bytes if version >= 13 else topic.hex.encode()
    start = produce.prefix_by_id(name, index) if version >= 13 else produce.prefix(name, index)
    assert produce.encode_one(5, start, base, -1, 3) == produce.encode(
        version, 5, [(name, [(index, 0, base, -1, 3, (), None)])]
    )


@pytest.mark.parametrize("version", [3, 12])
def test_more_partitions_than_anybody_has_are_refused_before_they_take_memory(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 2_000
    monkeypatch.setattr(produce, "MAX_PARTITIONS", most)
    many: list[Topics] = [
        [("", [])] * (most + 1),
        [("t", [(0, None)] * (most + 1))],
        [("t", [(0, None)] * 100)] * (most // 100 + 1),
    ]
    for topics in many:
        data = body(version, topics, -1, 1, None)
        with pytest.raises(Malformed, match="too many"):
            produce.decode(version, data, 0, len(data))
    data = body(version, [("t", [(0, None)] * (most - 1))], -1, 1, None)
    assert len(produce.decode(version, data, 0, len(data)).topics[0][1]) == most - 1


@pytest.mark.parametrize("version", range(3, 14))
def test_an_answer_says_for_how_long_its_client_should_wait(version: int) -> None:
    name = UUID(int=7).bytes if version >= 13 else b"t"
    frame = produce.encode(version, 5, [(name, [(0, 0, 1, -1, 0, (), None)])], 1234)
    assert ProduceResponse.decode(frame[9 if version >= 9 else 8 :], version=version).throttle_time_ms == 1234
