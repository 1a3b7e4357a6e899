"""Bytes, versions and headers that should not come."""

from __future__ import annotations

import struct

from compat.compare.schema import api_keys, encode, load
from compat.compare.scripts.common import batch, create, produce_body
from compat.compare.server import Closed, Server


def script(server: Server) -> None:
    create(server, "odd")
    versions(server)
    headers(server)
    bytes_that_are_none(server)
    pipelined(server)


def versions(server: Server) -> None:
    """Every API that both serve in the versions around those, and APIs that nobody has."""
    for name, key in sorted(api_keys().items(), key=lambda each: each[1]):
        if name not in server.common or name == "ApiVersions":
            continue
        served = server.versions(name)
        for version in (-1, served[0] - 1, served[-1] + 1, 99, 32767):
            if version not in server.served[name]:
                raw(
                    server,
                    f"{name} in a version that is none",
                    key,
                    version,
                    b"",
                    flexible=version in load(name + "Request").flexible,
                )
    for key in (93, 999, -1, 32767):
        raw(server, "no such API", key, 0, b"")
    for name, served in sorted(server.alone.items()):
        asked = encode(load(name + "Request"), served[-1], {})
        server.ask("what only one serves", name, served[-1], asked)
    raw(server, "Produce v2", 0, 2, b"\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x00")
    raw(server, "Produce v0", 0, 0, b"\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x00")
    raw(server, "Produce v1, acks 0", 0, 1, b"\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00")


def raw(server: Server, label: str, key: int, version: int, body: bytes, *, flexible: bool = False) -> None:
    """Whether the bytes are answered or the connection is closed; what the answer says does not count."""
    label = f"{label} (key {key} v{version})"
    api = "Produce" if key == 0 and 0 <= version < 3 else ""
    try:
        server.main.send(key, version, body, flexible=flexible, client_id=b"compare", tags=b"\0")
        server.main.receive()
        found = "answered"
    except Closed:
        found = "closed"
    except TimeoutError:
        found = "no answer"
    server.keep(label, "<connection>", found, api, version if api else -1)
    if found != "answered":
        server.close()


def headers(server: Server) -> None:
    topic = {"topics": [{"name": "odd"}], "allow_auto_topic_creation": False}
    for label, client_id in (
        ("null", None),
        ("empty", b""),
        ("long", b"x" * 5000),
        ("spaces and slashes", b' a/b:c="d" '),
        ("not ASCII", "ümlaut".encode()),
        ("control characters", b"a\n\r\0b"),
        ("not UTF-8", b"\xff\xfe"),
    ):
        for version in (1, 12):
            server.ask(f"client id {label}", "Metadata", version, topic, client_id=client_id)
    for label, tags in (
        ("one unknown", b"\x01\x05\x02hi"),
        ("two unknown", b"\x02\x05\x02hi\x06\x00"),
        ("out of order", b"\x02\x06\x02hi\x05\x00"),
        ("one twice", b"\x02\x05\x02hi\x05\x00"),
        ("a large number", b"\x01\xff\xff\xff\xff\x07\x02hi"),
        ("longer than the frame", b"\x01\x05\x7f"),
    ):
        server.ask(f"header tags, {label}", "Metadata", 12, topic, header_tags=tags)
        server.ask(f"body tags, {label}", "Metadata", 12, topic, tags=tags)
        server.ask(f"body tags, {label}", "Produce", 9, produce_body(server, "odd", batch(b"a")), tags=tags)
        raw(server, f"body tags of ApiVersions, {label}", 18, 3, b"\2a\2b" + tags, flexible=True)


def bytes_that_are_none(server: Server) -> None:
    for label, key, version, body in (
        ("cut short", 3, 1, b"\xff\xff"),
        ("nothing", 3, 1, b""),
        ("an array that is too long", 3, 1, b"\x7f\xff\xff\xff"),
        ("an array of less than null", 3, 1, b"\xff\xff\xff\xfe"),
        ("a string that is too long", 3, 1, b"\0\0\0\1\x7f\xff"),
        ("a string that is null where it must not be", 3, 1, b"\0\0\0\1\xff\xff"),
        ("a string of less than null", 3, 1, b"\0\0\0\1\xff\xfe"),
        ("bytes behind the request", 3, 1, b"\0\0\0\0junk"),
        ("a boolean of 2", 3, 4, b"\0\0\0\0\2"),
        ("a name that is no UTF-8", 3, 4, b"\0\0\0\1\0\2\xff\xfe\0"),
    ):
        raw(server, label, key, version, body)
    for label, data in (
        ("a length of 0", struct.pack(">i", 0)),
        ("a negative length", struct.pack(">i", -1)),
        ("a length of 2 GB", struct.pack(">i", 2**31 - 1)),
        ("a length of 101 MB", struct.pack(">i", 101 << 20)),
        ("a header cut short", struct.pack(">ihh", 4, 3, 1)),
        ("a GET", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50)),
    ):
        connection = server.connect()
        connection.send_bytes(data)
        try:
            connection.receive(0.5)
            found = "answered"
        except Closed:
            found = "closed"
        except TimeoutError:
            found = "waits"
        server.keep(label, "<connection>", found)
        connection.close()


def pipelined(server: Server) -> None:
    """Several requests at once are answered in their order; one that is bad ends the rest."""
    create(server, "line")
    connection = server.connect()
    asked = [
        server.send("first", "Produce", 9, produce_body(server, "line", batch(b"a")), on=connection),
        server.send(
            "second",
            "Metadata",
            12,
            {"topics": [{"name": "line"}], "allow_auto_topic_creation": False},
            on=connection,
        ),
        server.send("third", "Produce", 9, produce_body(server, "line", batch(b"b"), acks=0), on=connection),
        server.send(
            "fourth",
            "ListOffsets",
            7,
            {
                "replica_id": -1,
                "topics": [{"name": "line", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
            },
            on=connection,
        ),
    ]
    for each in (asked[0], asked[1], asked[3]):
        server.answer(each)
    connection.close()
    connection = server.connect()
    good = server.send("before a bad one", "Metadata", 12, {"topics": []}, on=connection)
    connection.send(3, 99, b"", flexible=False, client_id=b"compare", tags=b"")
    behind = server.send("behind a bad one", "Metadata", 12, {"topics": []}, on=connection)
    server.answer(good)
    server.answer(behind)
