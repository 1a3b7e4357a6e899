"""Requests and responses to bytes and back, for every API and version that the schemas know.

The functions behind this are generated when a (message, version) is first used, about a millisecond each, and
kept. `preload` makes them beforehand. Everything that is wrong with incoming bytes is `Malformed`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any

from gateway.wire import compiler, schema
from gateway.wire.malformed import Malformed
from gateway.wire.primitives import skip_tags

__all__ = [
    "FIRST_USED",
    "Malformed",
    "decode_data",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "decode_response_header",
    "encode_data",
    "encode_request",
    "encode_request_header",
    "encode_response",
    "encode_response_header",
    "load_schemas",
    "preload",
    "request_header_version",
    "response_header_version",
]

_API_VERSIONS = 18
# What Python itself raises when generated code reads past the end or meets bytes that are no UTF-8.
_SLIPS = (struct.error, IndexError, UnicodeDecodeError, OverflowError, MemoryError)

_Decode = Callable[[bytes, int, int], Any]
_Encode = Callable[[Any], bytes]

_request_decoders: dict[tuple[int, int], _Decode] = {}
_response_encoders: dict[tuple[int, int], _Encode] = {}
_response_decoders: dict[tuple[int, int], _Decode] = {}
_request_encoders: dict[tuple[int, int], _Encode] = {}
_data_decoders: dict[tuple[str, int], _Decode] = {}
_data_encoders: dict[tuple[str, int], _Encode] = {}


def decode_request(api_key: int, version: int, frame: bytes, position: int = 0) -> Any:
    """The request body from `position` to the end of the frame, as `messages.<Api>Request`.

    Bytes behind the body are ignored, as Kafka does: librdkafka sends three too many in Metadata for all topics.
    Raises `Malformed` for bytes that do not begin with such a body, LookupError where there is no schema.
    """
    decode = _request_decoders.get((api_key, version))
    if decode is None:
        decode = compiler.compile_decoder(_name(api_key) + "Request", version)
        _request_decoders[api_key, version] = decode
    return _guarded(decode, frame, position)


def encode_response(api_key: int, version: int, message: Any) -> bytes:
    """The body of a response, without its header. Tagged fields that have their default are left out."""
    encode = _response_encoders.get((api_key, version))
    if encode is None:
        encode = compiler.compile_encoder(_name(api_key) + "Response", version)
        _response_encoders[api_key, version] = encode
    return encode(message)


def decode_response(api_key: int, version: int, frame: bytes, position: int = 0) -> Any:
    """The client's side of `encode_response`."""
    decode = _response_decoders.get((api_key, version))
    if decode is None:
        decode = compiler.compile_decoder(_name(api_key) + "Response", version)
        _response_decoders[api_key, version] = decode
    return _guarded(decode, frame, position)


def encode_request(api_key: int, version: int, message: Any) -> bytes:
    """The client's side of `decode_request`."""
    encode = _request_encoders.get((api_key, version))
    if encode is None:
        encode = compiler.compile_encoder(_name(api_key) + "Request", version)
        _request_encoders[api_key, version] = encode
    return encode(message)


def decode_data(name: str, version: int, data: bytes, position: int = 0) -> Any:
    """A value that travels inside a message: `ConsumerProtocolSubscription`, `ConsumerProtocolAssignment`.

    These begin with an int16 version, which the caller has read: `position` is behind it.
    """
    decode = _data_decoders.get((name, version))
    if decode is None:
        decode = _data_decoders[name, version] = compiler.compile_decoder(name, version)
    return _guarded(decode, data, position)


def encode_data(name: str, version: int, message: Any) -> bytes:
    """The reverse of `decode_data`, without the int16 version."""
    encode = _data_encoders.get((name, version))
    if encode is None:
        encode = _data_encoders[name, version] = compiler.compile_encoder(name, version)
    return encode(message)


def _guarded(decode: _Decode, frame: bytes, position: int) -> Any:
    try:
        return decode(frame, position, len(frame))
    except _SLIPS as slip:
        raise Malformed(f"the bytes end early or hold no text: {slip}") from None


FIRST_USED = (
    *((18, version) for version in (0, 3, 4)),
    *((3, version) for version in (5, 12, 13)),
    *((22, version) for version in (1, 4, 5)),
    *((2, version) for version in (5, 7, 10, 11)),
    *((10, version) for version in (2, 4, 6)),
    *((11, version) for version in (5, 9)),
    *((14, version) for version in (3, 5)),
    *((12, version) for version in (3, 4)),
    *((13, version) for version in (1, 5)),
    *((9, version) for version in (5, 7, 9)),
    *((8, version) for version in (7, 9)),
)
"""(api key, version) of what librdkafka, the Java client and aiokafka send first, for `preload`."""


def preload(pairs: Iterable[tuple[int, int]] = FIRST_USED) -> None:
    """Generates the request decoder and response encoder of each (api key, version)."""
    for api_key, version in pairs:
        pair, name = (api_key, version), _name(api_key)
        if pair not in _request_decoders:
            _request_decoders[pair] = compiler.compile_decoder(name + "Request", version)
        if pair not in _response_encoders:
            _response_encoders[pair] = compiler.compile_encoder(name + "Response", version)


def load_schemas(api_keys: Iterable[int]) -> None:
    """Reads the schemas of these APIs, so that no file is opened for them later."""
    for api_key in api_keys:
        name = _name(api_key)
        schema.load(name + "Request")
        schema.load(name + "Response")


def _name(api_key: int) -> str:
    try:
        return schema.api_name(api_key)
    except ValueError:
        raise LookupError(f"Kafka has no API {api_key}") from None


# --- headers, by hand: every request pays for them

_HEADER = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i").pack
_CORRELATION_AND_TAGS = struct.Struct(">ix").pack
_flexible: dict[int, schema.Versions] = {}


def _flexible_versions(api_key: int) -> schema.Versions:
    found = _flexible.get(api_key)
    if found is None:
        try:
            message = schema.load(_name(api_key) + "Request")
            # an open range: a version yet to come is taken to have the header of those before it
            found = message.flexible
        except LookupError:
            found = schema.NEVER
        # the keys are int16s off the network: remember only those that Kafka has
        if found is not schema.NEVER:
            _flexible[api_key] = found
    return found


def request_header_version(api_key: int, version: int) -> int:
    """1, or 2 for flexible versions (KIP-482); 1 for an API that is not known."""
    flexible = _flexible_versions(api_key)
    return 2 if flexible.first <= version <= flexible.last else 1


def response_header_version(api_key: int, version: int) -> int:
    """0, or 1 for flexible versions; always 0 for ApiVersions, read before versions are agreed (KIP-511)."""
    return 0 if api_key == _API_VERSIONS else request_header_version(api_key, version) - 1


def decode_request_header(frame: bytes) -> tuple[int, int, int, str | None, int]:
    """(api key, api version, correlation id, client id, position of the body) of a frame without its length.

    An API or version that nobody knows is no error here: the caller answers it by the first three.
    """
    try:
        api_key, version, correlation_id, length = _HEADER.unpack_from(frame, 0)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise Malformed("request header: the client id runs past the end")
            client_id = str(frame[10:position], "utf-8", "replace")
        elif length != -1:
            raise Malformed("request header: the client id has a negative length")
        flexible = _flexible.get(api_key) or _flexible_versions(api_key)
        if flexible.first <= version <= flexible.last:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, len(frame), tags)
    except _SLIPS as slip:
        raise Malformed(f"request header: {slip}") from None
    return api_key, version, correlation_id, client_id, position


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The client's side of `decode_request_header`."""
    name = b"" if client_id is None else client_id.encode()
    head = _HEADER.pack(api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    return head + b"\0" if request_header_version(api_key, version) == 2 else head


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header in front of a response body: the correlation id, and no tags where they may be."""
    flexible = _flexible.get(api_key) or _flexible_versions(api_key)
    if flexible.first <= version <= flexible.last and api_key != _API_VERSIONS:
        return _CORRELATION_AND_TAGS(correlation_id)
    return _CORRELATION(correlation_id)


def decode_response_header(api_key: int, version: int, frame: bytes) -> tuple[int, int]:
    """(correlation id, position of the body): the client's side of `encode_response_header`."""
    try:
        (correlation_id,) = struct.unpack_from(">i", frame, 0)
        position = 4
        if response_header_version(api_key, version) == 1:
            tags = frame[4]
            position = skip_tags(frame, 5, len(frame), tags) if tags else 5
    except _SLIPS as slip:
        raise Malformed(f"response header: {slip}") from None
    return correlation_id, position
