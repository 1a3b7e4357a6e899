"""What a client speaks that is no Kafka."""

from __future__ import annotations

import pytest

from gateway.strangers import not_kafka


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"\x16\x03\x01", "TLS"),
        (b"\x16\x03\x03\x00\x10\x01", "TLS"),
        # a handshake, and no ClientHello
        (b"\x16\x03\x03\x00\x10\x02", "a frame"),
        # what a Kafka client may say: its size happens to begin like that
        (b"\x16\x04\x00\x00\x00\x00", "a frame"),
        (b"POST / HTTP/1.0", "HTTP"),
        (b"POSTAL", "a frame"),
    ],
)
def test_first_bytes(data: bytes, word: str) -> None:
    assert word in not_kafka(data, 0, int.from_bytes(data[:4], "big"), None)
    assert word in not_kafka(b"before" + data, 6, 1, 3)


def test_the_frame_that_is_refused_is_told() -> None:
    assert (
        not_kafka(bytes(6), 0, 99, 17) == "a frame of 99 bytes for API 17: not a Kafka request, or too large"
    )
    assert not_kafka(bytes(6), 0, 10**9, 0).endswith(
        "for API 0: not a Kafka request, or more than socket.request.max.bytes"
    )
    assert not_kafka(bytes(4), 0, 2, None) == "a frame of 2 bytes: not a Kafka request, or too large"
