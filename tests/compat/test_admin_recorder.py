"""The proxy passes requests and answers on as they are, and remembers them."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from compat.admin.recorder import Exchange, Recorder


class _Upstream(BaseHTTPRequestHandler):
    seen: ClassVar[list[tuple[str, str | None, bytes]]] = []

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append((self.path, self.headers.get("X-Flag"), body))
        status = 204 if self.command == "PUT" else 404
        self.send_response(status)
        self.send_header("X-Pulsar-PROPERTY", "kept")
        self.end_headers()
        if status != 204:
            self.wfile.write(b'{"reason": "none"}')

    do_GET = do_PUT = do_POST = _answer  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    _Upstream.seen.clear()
    with HTTPServer(("127.0.0.1", 0), _Upstream) as upstream:
        threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
        with Recorder(f"http://127.0.0.1:{upstream.server_port}") as recorder:
            yield recorder
        upstream.shutdown()


def _connection(recorder: Recorder) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(recorder.url.removeprefix("http://"), timeout=10)


def test_a_request_and_its_answer(recorder: Recorder) -> None:
    connection = _connection(recorder)
    connection.request("POST", "/a%2Fb?x=1", b"body", {"X-Flag": "yes"})
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (404, b'{"reason": "none"}')
    assert ("X-Pulsar-PROPERTY", "kept") in answer.getheaders()
    assert _Upstream.seen == [("/a%2Fb?x=1", "yes", b"body")]
    assert recorder.taken() == [Exchange("POST", "/a%2Fb", "x=1", b"body", 404, b'{"reason": "none"}')]
    assert recorder.taken() == []


def test_an_answer_without_a_body_and_another_on_the_same_connection(recorder: Recorder) -> None:
    connection = _connection(recorder)
    for _ in range(2):
        connection.request("PUT", "/a")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")
    assert [each.status for each in recorder.taken()] == [204, 204]


def test_a_body_in_pieces(recorder: Recorder) -> None:
    connection = _connection(recorder)
    connection.request(
        "POST", "/a", iter([b"one", b"two"]), {"Transfer-Encoding": "chunked"}, encode_chunked=True
    )
    connection.getresponse().read()
    assert _Upstream.seen[0][2] == b"onetwo"
