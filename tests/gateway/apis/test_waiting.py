"""The head of a request that is decoded by hand."""

from __future__ import annotations

import struct

import pytest

from gateway.apis.waiting import asked
from gateway.peer import Peer
from gateway.wire.malformed import Malformed

PEER = Peer(3, "/1.2.3.4", "PLAINTEXT")


def frame(version: int, client_id: bytes | None, behind: bytes) -> bytes:
    named = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    head = struct.pack(">hhi", 1, version, 7) + named
    return struct.pack(">i", len(head) + len(behind)) + head + behind


@pytest.mark.parametrize("client_id", [None, b"", b"me", "größe".encode(), b"\xff"])
@pytest.mark.parametrize(("version", "tags"), [(11, b""), (12, b"\0"), (12, b"\2\x05\3abc\x06\0")])
def test_the_body_is_found(client_id: bytes | None, version: int, tags: bytes) -> None:
    data = b"before" + frame(version, client_id, tags + b"body") + b"next"
    found = asked(PEER, data, 6, len(data) - 4, 12)
    assert (found.peer, found.version, found.correlation_id) == (PEER, version, 7)
    assert found.client_id == (client_id or b"")
    assert found.data[found.position : found.stop] == b"body"


def test_a_client_id_that_is_longer_than_the_bytes_is_malformed() -> None:
    data = struct.pack(">ihhih", 10, 1, 12, 7, 1000)
    with pytest.raises((Malformed, IndexError)):
        asked(PEER, data, 0, len(data), 12)
