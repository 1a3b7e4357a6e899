"""Generated decoders: tagged fields, bytes that are wrong, and how much one request may name."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire import codec, compiler, decoder, messages
from gateway.wire.malformed import Malformed
from tests.examples import examples
from tests.gateway.wire.values import MESSAGES, PAIRS, Values, decode, encode, versions_of


def test_records_are_not_copied() -> None:
    data = messages.ProduceRequest.TopicProduceData
    part = messages.ProduceRequest.PartitionProduceData
    request = messages.ProduceRequest(topic_data=[data(name="t", partition_data=[part(records=b"batch")])])
    for version in (3, 9):
        found = codec.decode_request(0, version, codec.encode_request(0, version, request))
        assert isinstance(found.topic_data[0].partition_data[0].records, memoryview)
        assert found == request


def with_tags(tags: bytes) -> bytes:
    """A HeartbeatRequest v4 with other tagged fields than none."""
    return codec.encode_request(12, 4, messages.HeartbeatRequest(group_id="g", member_id="m"))[:-1] + tags


def test_tags_that_nobody_knows_are_skipped() -> None:
    for tags in (
        b"\x01\x00\x00",
        b"\x02\x05\x01x\x07\x02yz",
        b"\x01\xff\xff\xff\xff\x0f\x80\x01" + bytes(128),
    ):
        assert codec.decode_request(12, 4, with_tags(tags)).group_id == "g"


@pytest.mark.parametrize(
    "tags",
    [
        b"\x02\x05\x00\x05\x00",  # twice
        b"\x02\x05\x00\x04\x00",  # out of order
        b"\x01\x05\x02x",  # beyond the end
        b"\x7f",  # more than there can be
        b"\xff\xff\xff\xff\x0f",
        b"\x01\x80\x80\x80\x80\x10\x00",  # a tag of 33 bits
        b"\x01\x80\x80\x80\x80\x80\x01\x00",
    ],
)
def test_tags_that_are_wrong(tags: bytes) -> None:
    with pytest.raises(Malformed):
        codec.decode_request(12, 4, with_tags(tags))
    # the same in front of a struct that knows some tags: FetchRequest v12 has a cluster id under 0
    fetch = codec.encode_request(1, 12, messages.FetchRequest())[:-1]
    with pytest.raises(Malformed):
        codec.decode_request(1, 12, fetch + tags)


def test_known_tags_beside_unknown_ones() -> None:
    fetch = codec.encode_request(1, 12, messages.FetchRequest(cluster_id="c"))
    assert fetch.endswith(b"\x01\x00\x02\x02c")
    more = fetch[:-5] + b"\x02\x00\x02\x02c\x09\x01x"
    assert codec.decode_request(1, 12, more).cluster_id == "c"
    # a size too large or too small for what it is the size of, though the sum comes out right
    for tags in (b"\x01\x00\x03\x02cx", b"\x01\x00\x01\x02c", b"\x02\x00\x03\x02c\x09\x00"):
        with pytest.raises(Malformed):
            codec.decode_request(1, 12, fetch[:-5] + tags)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_truncation_is_malformed_and_additions_to_answers_are(name: str) -> None:
    """Kafka ignores what stands behind a request, and librdkafka relies on it."""
    for version in {min(versions_of(name)), max(versions_of(name))}:
        whole = encode(name, version, Values((name, version)).message(name, version))
        for size in range(min(len(whole), 2000)):
            with pytest.raises(Malformed):
                decode(name, version, whole[:size])
        for tail in (b"\0", b"\xff" * 10):
            if name.endswith("Request"):
                assert decode(name, version, whole + tail) == decode(name, version, whole)
                continue
            with pytest.raises(Malformed):
                decode(name, version, whole + tail)


@pytest.mark.parametrize("fill", [b"\xff", b"\x80", b"\x7f", b"\x00"])
def test_runs_of_one_byte_never_cost_much(fill: bytes) -> None:
    """100 KB of 0xFF in place of a length cost some codecs a quarter of a second; nothing here loops over it."""
    for name, version in PAIRS:
        try:
            decode(name, version, fill * 1000)
        except Malformed:
            pass


@settings(max_examples=examples(500))
@given(st.sampled_from(PAIRS), st.binary(max_size=200))
def test_noise_is_malformed_or_a_message(pair: tuple[str, int], noise: bytes) -> None:
    try:
        message = decode(*pair, noise)
    except Malformed:
        return
    assert decode(*pair, encode(*pair, message)) == message


@settings(max_examples=examples(500))
@given(st.sampled_from(PAIRS), st.integers(0, 2**32), st.data())
def test_changed_bytes_are_malformed_or_a_message(
    pair: tuple[str, int], seed: int, data: st.DataObject
) -> None:
    good = encode(*pair, Values(seed).message(*pair))
    bad = bytearray(good)
    if bad:
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(*pair, bytes(bad))
    except Malformed:
        pass


@pytest.mark.parametrize(
    "body",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -2),
        struct.pack(">i", 100) + b"\0\1a" * 30,
        struct.pack(">ih", 1, -1),
        struct.pack(">ih", 1, -2),
        struct.pack(">ih", 1, 2**15 - 1),
        struct.pack(">ih", 1, 2) + b"\xff\xfe",
    ],
)
def test_counts_and_lengths_that_do_not_fit(body: bytes) -> None:
    """MetadataRequest v1: an array of names."""
    with pytest.raises(Malformed):
        codec.decode_request(3, 1, body)


def test_null_where_it_may_be_and_where_not() -> None:
    assert codec.decode_request(3, 1, struct.pack(">i", -1)).topics is None
    with pytest.raises(Malformed):
        codec.decode_request(3, 0, struct.pack(">i", -1))


@pytest.mark.parametrize(("version", "partitions"), [(4, 1), (4, 99), (5, 1), (5, 99)])
def test_a_request_that_names_too_much_is_refused(version: int, partitions: int) -> None:
    """The elements of all its arrays count together: 1,000 topics of 100 partitions are as much as 100,000 topics."""
    request = messages.OffsetFetchRequest(group_id="g", topics=[])
    topic = messages.OffsetFetchRequest.OffsetFetchRequestTopic
    fits = decoder.MAX_ELEMENTS // (partitions + 1)
    for count in (fits, fits + 1):
        request.topics = [topic(name="t", partition_indexes=[0] * partitions)] * count
        data = codec.encode_request(9, version, request)
        if count == fits:
            assert len(codec.decode_request(9, version, data).topics) == fits
        else:
            with pytest.raises(Malformed, match="too much for one request"):
                codec.decode_request(9, version, data)


def test_the_last_element_that_a_request_may_name() -> None:
    names = [messages.MetadataRequest.MetadataRequestTopic(name="t")] * decoder.MAX_ELEMENTS
    request = messages.MetadataRequest(topics=names)
    assert len(codec.decode_request(3, 1, codec.encode_request(3, 1, request)).topics) == len(names)
    names.append(names[0])
    with pytest.raises(Malformed, match="too much for one request"):
        codec.decode_request(3, 1, codec.encode_request(3, 1, request))


@pytest.mark.parametrize("short", [1, 2, 4])
def test_what_stands_behind_the_end_of_a_frame_is_not_read(short: int) -> None:
    """The number at its end reaches into bytes that are in the buffer, and not in the frame."""
    request = messages.InitProducerIdRequest(transaction_timeout_ms=60_000)
    body = codec.encode_request(22, 1, request)
    decode = compiler.compile_decoder("InitProducerIdRequest", 1)
    assert decode(body + b"more", 0, len(body)) == request
    with pytest.raises(Malformed):
        decode(body, 0, len(body) - short)
