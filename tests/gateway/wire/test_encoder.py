"""Generated encoders: lengths of one byte and of more, arrays of numbers, what is left out, nulls."""

from __future__ import annotations

import struct

import pytest

from gateway.wire import codec, messages


@pytest.mark.parametrize("length", [0, 126, 127, 128, 16_382, 16_383, 16_384, 3_000_000])
def test_lengths_around_the_steps_of_a_varint(length: int) -> None:
    # one string with nothing before it, one whose length is packed together with a number
    request = messages.HeartbeatRequest(group_id="x" * length, member_id="y" * length)
    assert codec.decode_request(12, 4, codec.encode_request(12, 4, request)) == request


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 126, 127, 128, 20_000])
@pytest.mark.parametrize("version", [4, 12])
def test_arrays_of_numbers_of_any_size(count: int, version: int) -> None:
    topic = messages.MetadataResponse.MetadataResponseTopic
    partition = messages.MetadataResponse.MetadataResponsePartition
    response = messages.MetadataResponse(
        topics=[topic(name="t", partitions=[partition(replica_nodes=list(range(count)))])]
    )
    assert codec.decode_response(3, version, codec.encode_response(3, version, response)) == response


def test_defaults_take_no_tag() -> None:
    assert codec.encode_response(18, 3, messages.ApiVersionsResponse())[-1] == 0
    assert len(codec.encode_response(18, 3, messages.ApiVersionsResponse(zk_migration_ready=True))) > len(
        codec.encode_response(18, 3, messages.ApiVersionsResponse())
    )


def test_null_is_told_from_nothing_in_each_kind_of_version() -> None:
    """A classic null is a length of -1, a compact one of 0, and that of a struct a sign of its own."""
    for version, null, empty in ((1, b"\xff\xff\xff\xff", b"\0\0\0\0"), (9, b"\0", b"\x01")):
        for topics, expected in (None, null), ([], empty):
            body = codec.encode_request(3, version, messages.MetadataRequest(topics=topics))
            assert body[: len(expected)] == expected
    described = messages.DescribeTopicPartitionsRequest
    with_cursor = described(cursor=described.Cursor(topic_name="t", partition_index=3))
    assert codec.encode_request(75, 0, described()) == b"\x01" + struct.pack(">i", 2000) + b"\xff\0"
    assert codec.encode_request(75, 0, with_cursor) == (
        b"\x01" + struct.pack(">ib", 2000, 1) + b"\x02t" + struct.pack(">i", 3) + b"\0\0"
    )


def test_tagged_fields_come_in_the_order_of_their_tags_each_with_its_length() -> None:
    state = messages.FetchRequest.ReplicaState(replica_id=7, replica_epoch=8)
    plain = codec.encode_request(1, 15, messages.FetchRequest())
    body = codec.encode_request(1, 15, messages.FetchRequest(cluster_id="c", replica_state=state))
    assert body == plain[:-1] + b"\x02\x00\x02\x02c\x01\x0d" + struct.pack(">iqB", 7, 8, 0)


@pytest.mark.parametrize(("version", "throttle"), [(0, b""), (1, b"\0\0\0\7")])
def test_numbers_that_follow_one_another_are_written_in_the_order_of_the_schema(
    version: int, throttle: bytes
) -> None:
    answer = messages.HeartbeatResponse(throttle_time_ms=7, error_code=-1)
    assert codec.encode_response(12, version, answer) == throttle + b"\xff\xff"
