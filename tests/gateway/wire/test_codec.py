"""The generated codec against kio and kafka-python, and against bytes that are wrong."""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import struct
from typing import Any

import kafka.protocol
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from gateway.wire import codec, compiler, decoder, messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.codec import Malformed
from tests.examples import examples
from tests.gateway.wire.values import Values

MESSAGES = [name for name in schema.names() if schema.load(name).key >= 0]
PAIRS = [
    (name, version)
    for name in MESSAGES
    for version in range(schema.load(name).versions.first, schema.load(name).versions.last + 1)
]


def encode(name: str, version: int, message: Any) -> bytes:
    key = schema.load(name).key
    if name.endswith("Request"):
        return codec.encode_request(key, version, message)
    return codec.encode_response(key, version, message)


def decode(name: str, version: int, data: bytes) -> Any:
    key = schema.load(name).key
    if name.endswith("Request"):
        return codec.decode_request(key, version, data)
    return codec.decode_response(key, version, data)


def versions_of(name: str) -> range:
    versions = schema.load(name).versions
    return range(versions.first, versions.last + 1)


# --- the oracles


def kio_class(name: str, version: int) -> Any:
    """kio's class for a message."""
    kind = "request" if name.endswith("Request") else "response"
    folder = api_key_map[schema.load(name).key]
    return getattr(importlib.import_module(f"kio.schema.{folder}.v{version}.{kind}"), name)


@pytest.mark.parametrize("name", MESSAGES)
def test_bytes_are_those_of_kio(name: str) -> None:
    """kio reads what we write, whole, and writes the same bytes again."""
    for version in versions_of(name):
        cls = kio_class(name, version)
        read, write = entity_reader(cls), entity_writer(cls)
        for attempt in range(2):
            data = encode(name, version, Values((name, version, attempt), tame=True).message(name, version))
            theirs, end = read(data, 0)
            assert end == len(data)
            out = io.BytesIO()
            write(out, theirs)
            assert out.getvalue() == data


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_are_those_of_kio_in_the_same_order(name: str) -> None:
    """Bytes alone would not show two int32s that changed places."""
    for version in versions_of(name):
        assert _ours(schema.load(name).fields, version) == _theirs(kio_class(name, version))


def _plain(name: str) -> str:
    # kio has a timedelta where Kafka has milliseconds, and leaves the unit out of the name
    return name.removesuffix("_ms").rstrip("_")


def _ours(fields: tuple[schema.Field, ...], version: int) -> list[Any]:
    return [
        _plain(field.attribute)
        if field.fields is None
        else (_plain(field.attribute), _ours(field.fields, version))
        for field in fields
        if version in field.versions
    ]


def _theirs(cls: Any) -> list[Any]:
    out: list[Any] = []
    for field in dataclasses.fields(cls):
        inner = _dataclass_in(field.type)
        out.append(_plain(field.name) if inner is None else (_plain(field.name), _theirs(inner)))
    return out


def _dataclass_in(kind: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        return kind
    found = (_dataclass_in(inner) for inner in getattr(kind, "__args__", ()))
    return next((inner for inner in found if inner is not None), None)


def kafka_python_classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "generate_stubs" not in module.name:
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, ApiMessage) and value is not ApiMessage:
                    found[value.__name__] = value
    return found


KAFKA_PYTHON = kafka_python_classes()


@pytest.mark.parametrize("name", [name for name in MESSAGES if name in KAFKA_PYTHON])
def test_bytes_are_those_of_kafka_python(name: str) -> None:
    cls = KAFKA_PYTHON[name]
    for version in versions_of(name):
        message = Values((name, version, "kafka-python")).message(name, version)
        if name == "ApiVersionsResponse":
            message.error_code = 0  # kafka-python reads one with an error as version 0, whatever it is
        data = encode(name, version, message)
        theirs = cls.decode(data, version=version)
        theirs._header = None  # its decoder leaves this unset, and its encoder asks for it
        assert bytes(theirs.encode(version=version)) == data


def test_kafka_python_covers_most_apis() -> None:
    assert len(KAFKA_PYTHON) > 80


# --- round trips


@settings(max_examples=examples(300))
@given(st.sampled_from(PAIRS), st.integers(0, 2**32))
def test_round_trip(pair: tuple[str, int], seed: int) -> None:
    name, version = pair
    message = Values(seed).message(name, version)
    data = encode(name, version, message)
    assert decode(name, version, data) == message


@pytest.mark.parametrize("name", MESSAGES)
def test_every_version_round_trips_with_its_defaults(name: str) -> None:
    for version in versions_of(name):
        default = compiler.classes(name)[""]()
        assert encode(name, version, decode(name, version, encode(name, version, default))) == encode(
            name, version, default
        )


def test_decoding_starts_behind_the_header() -> None:
    body = codec.encode_request(ApiKey.HEARTBEAT, 4, messages.HeartbeatRequest(group_id="g", member_id="m"))
    assert codec.decode_request(ApiKey.HEARTBEAT, 4, b"header" + body, 6).group_id == "g"


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


def test_records_are_not_copied() -> None:
    data = messages.ProduceRequest.TopicProduceData
    part = messages.ProduceRequest.PartitionProduceData
    request = messages.ProduceRequest(topic_data=[data(name="t", partition_data=[part(records=b"batch")])])
    for version in (3, 9):
        found = codec.decode_request(0, version, codec.encode_request(0, version, request))
        assert isinstance(found.topic_data[0].partition_data[0].records, memoryview)
        assert found == request


def test_the_consumer_protocol() -> None:
    subscription = messages.ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u")
    data = codec.encode_data("ConsumerProtocolSubscription", 1, subscription)
    assert codec.decode_data("ConsumerProtocolSubscription", 1, b"\0\1" + data, 2) == subscription


# --- tagged fields (KIP-482)


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


def test_defaults_take_no_tag() -> None:
    assert codec.encode_response(18, 3, messages.ApiVersionsResponse())[-1] == 0
    assert len(codec.encode_response(18, 3, messages.ApiVersionsResponse(zk_migration_ready=True))) > len(
        codec.encode_response(18, 3, messages.ApiVersionsResponse())
    )


# --- bytes that are wrong


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


def test_what_is_not_served_by_any_schema() -> None:
    for key, version in ((3, 99), (3, -1), (4, 0), (9999, 0), (-1, 0)):
        with pytest.raises(LookupError):
            codec.decode_request(key, version, b"")


# --- headers


def test_request_headers() -> None:
    for client_id in ("rdkafka", "", None, "é" * 40):
        for key, version in ((3, 8), (3, 12), (18, 3), (18, 0), (47, 0)):
            head = codec.encode_request_header(key, version, 77, client_id)
            assert codec.decode_request_header(head + b"body") == (key, version, 77, client_id, len(head))


def test_header_versions_are_those_of_kio() -> None:
    for name, version in PAIRS:
        cls = kio_class(name, version)
        key = schema.load(name).key
        if name.endswith("Request"):
            assert codec.request_header_version(key, version) == cls.__header_schema__.__version__
        else:
            assert codec.response_header_version(key, version) == cls.__header_schema__.__version__


def test_response_headers() -> None:
    assert codec.encode_response_header(3, 8, 77) == struct.pack(">i", 77)
    assert codec.encode_response_header(3, 9, 77) == struct.pack(">ix", 77)
    # always the oldest: whoever asks does not know yet what we speak
    assert codec.encode_response_header(18, 4, 77) == struct.pack(">i", 77)
    assert codec.decode_response_header(3, 9, struct.pack(">ix", 77) + b"body") == (77, 5)
    assert codec.decode_response_header(18, 4, struct.pack(">i", 77) + b"body") == (77, 4)


def test_a_header_of_something_unknown_still_says_who_asks() -> None:
    for key, version in ((18, 99), (9999, 3), (-5, 0), (3, 500), (7, 0)):
        head = struct.pack(">hhih", key, version, 77, 2) + b"me"
        tags = b"\0" if codec.request_header_version(key, version) == 2 else b""
        assert codec.decode_request_header(head + tags)[:4] == (key, version, 77, "me")


def test_a_header_with_tags() -> None:
    head = struct.pack(">hhih", 3, 9, 77, -1)
    assert codec.decode_request_header(head + b"\x01\x03\x02ab" + b"body")[4] == len(head) + 5


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0" * 9,
        struct.pack(">hhih", 3, 8, 1, 5) + b"abc",
        struct.pack(">hhih", 3, 8, 1, -2),
        struct.pack(">hhih", 3, 9, 1, 0),
        struct.pack(">hhih", 3, 9, 1, 0) + b"\xff" * 50,
    ],
)
def test_headers_that_are_wrong(frame: bytes) -> None:
    with pytest.raises(Malformed):
        codec.decode_request_header(frame)


def test_numbers_off_the_network_leave_nothing_behind() -> None:
    before = len(codec._flexible)
    for key in range(1000, 2000):
        codec.decode_request_header(struct.pack(">hhih", key, 0, 1, -1))
    assert len(codec._flexible) == before


def test_preload() -> None:
    # one half may be there already: somebody asked first
    codec._response_encoders.pop((68, 1), None)
    codec.preload([(68, 1), (68, 1)])
    assert (68, 1) in codec._request_decoders
    assert (68, 1) in codec._response_encoders


def test_a_client_id_need_not_be_utf_8() -> None:
    """A client.id in another encoding is some text to the broker, as in Kafka: no reason to hang up."""
    head = struct.pack(">hhih", 3, 9, 77, 2) + b"\xffx" + b"\0"
    assert codec.decode_request_header(head) == (3, 9, 77, "\ufffdx", len(head))


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
