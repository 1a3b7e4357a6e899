"""What a client speaks that is no Kafka, told by its first bytes: TLS, HTTP, or nothing that is known."""

from __future__ import annotations

_HTTP = (
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PRI * HTTP",
)

_TLS_HANDSHAKE, _TLS_MAJOR, _CLIENT_HELLO = 0x16, 3, 1


def not_kafka(data: bytes, position: int, size: int, key: int | None) -> str:
    """Why the bytes from `position` on are no frame that is taken, for the log. `size` is what their first four say,
    `key` the API that the next two name, None when they have not come.
    """
    if _speaks_tls(data, position):
        return "a TLS client on a listener without TLS: it needs security.protocol=PLAINTEXT"
    if data.startswith(_HTTP, position):
        return "an HTTP client on a Kafka listener: HTTP is served at admin.listen"
    named = f" for API {key}" if key is not None else ""
    most = "more than socket.request.max.bytes" if key == 0 else "too large"
    return f"a frame of {size} bytes{named}: not a Kafka request, or {most}"


def _speaks_tls(data: bytes, position: int) -> bool:
    """A ClientHello: a record of type handshake, a version 3.x, and a handshake of type 1 (RFC 8446, 4 and 5.1)."""
    head = data[position : position + 6]
    if len(head) < 6:
        return len(head) > 2 and head[0] == _TLS_HANDSHAKE and head[1] == _TLS_MAJOR
    return head[0] == _TLS_HANDSHAKE and head[1] == _TLS_MAJOR and head[5] == _CLIENT_HELLO
