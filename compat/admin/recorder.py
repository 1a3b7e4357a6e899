"""What a command asks of the server: a proxy on a port of its own that passes everything on and remembers it."""

from __future__ import annotations

import http.client
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

from compat.peers.process import free_port

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
"""Headers of one connection, which the proxy has its own of."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer. `path` is without the query."""

    method: str
    path: str
    query: str
    body: bytes
    status: int
    answer: bytes


class Recorder:
    """`with Recorder(admin_url) as recorder:` passes on what is asked of `recorder.url`."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._seen: list[Exchange] = []
        self._lock = threading.Lock()
        recorder = self

        class Handler(_Handler):
            upstream = recorder._upstream
            add = staticmethod(recorder._add)

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def taken(self) -> list[Exchange]:
        """What was asked since the last call."""
        with self._lock:
            seen, self._seen = self._seen, []
        return seen

    def _add(self, exchange: Exchange) -> None:
        with self._lock:
            self._seen.append(exchange)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream: str

    @staticmethod
    def add(exchange: Exchange) -> None:
        raise NotImplementedError

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = self._chunks()
        connection = http.client.HTTPConnection(self.upstream, timeout=330)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP and name.lower() != "host":
                connection.putheader(name, value)
        connection.putheader("Host", self.upstream)
        if body or self.command in ("PUT", "POST"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        path, _, query = self.path.partition("?")
        self.add(Exchange(self.command, path, query, body, answer.status, content))
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: what is remembered says it."""
