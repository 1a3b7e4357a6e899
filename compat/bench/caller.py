"""One caller of an admin API: one keep-alive connection that asks and waits, in Python over a plain socket."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

from compat.bench.clients import ClientError
from compat.bench.loads import Turn
from compat.peers.magnetar import MagnetarPeer
from compat.peers.pulsar import PulsarPeer

_GOOD = (200, 204)


class Caller:
    """One connection to an admin API."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self._host = where.netloc
        self._socket = socket.create_connection((where.hostname, where.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def call(self, method: str, path: str, body: object = None) -> bytes:
        """The body of the answer. Raises `ClientError` for another status than 200 and 204."""
        sent = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} /admin/v2/{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(sent)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + sent)
        status, answer = self._answer()
        if status not in _GOOD:
            raise ClientError(f"{method} {path}: {status} {answer[:200]!r}")
        return answer

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> tuple[int, bytes]:
        head = self._until(b"\r\n\r\n")
        status = int(head[9:12])
        lines = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        if lines.get(b"transfer-encoding") == b"chunked":
            return status, self._chunks()
        return status, self._exactly(int(lines.get(b"content-length", b"0")))

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self._until(b"\r\n"), 16):
            found += self._exactly(size + 2)[:-2]
        self._until(b"\r\n")
        return found

    def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            self._more()
        found, _, self._read = self._read.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._more()
        found, self._read = self._read[:size], self._read[size:]
        return found

    def _more(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ClientError("the server has closed the connection")
        self._read += data


def caller_of(turn: Turn) -> Caller:
    """Of a server that is started."""
    server = turn.server
    assert isinstance(server, (MagnetarPeer, PulsarPeer))
    return Caller(server.admin_url)
