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

from gateway.wire import codec, compiler, messages, schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.codec import Malformed
from tests.examples import examples
from tests.gateway.wire.values import MESSAGES, PAIRS, Values, decode, encode, versions_of

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


def test_the_consumer_protocol() -> None:
    subscription = messages.ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u")
    data = codec.encode_data("ConsumerProtocolSubscription", 1, subscription)
    assert codec.decode_data("ConsumerProtocolSubscription", 1, b"\0\1" + data, 2) == subscription


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
