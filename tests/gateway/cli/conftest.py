"""A small HTTP server that stands where a gateway would, for the tests of `magnetar-admin`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner, Result

from gateway.cli.admin import main


@dataclass
class Peer:
    """Answers by (method, path without query): status, headers, body. Anything else is 204."""

    url: str = ""
    answers: dict[tuple[str, str], tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """of a 204"""

    def says(self, method: str, path: str, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.answers[method, "/admin/v2/" + path] = (status, {"Content-Type": "application/json"}, body)

    def says_text(self, path: str, text: str) -> None:
        self.answers["GET", "/admin/v2/" + path] = (
            200,
            {"Content-Type": "text/plain; charset=utf-8"},
            text.encode(),
        )

    def run(
        self, *arguments: str, url: str | None = None, env: dict[str, str] | None = None, stdin: str = ""
    ) -> Result:
        flags = ["--admin-url", url or self.url] if env is None else []
        variables = {"MAGNETAR_ADMIN_URL": None, **(env or {})}
        return CliRunner().invoke(main, [*flags, *arguments], input=stdin, env=variables)


@pytest.fixture
def peer() -> Iterator[Peer]:
    known = Peer()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            known.asked.append((self.command, self.path, body))
            path = self.path.split("?")[0]
            status, headers, answer = known.answers.get((self.command, path), (204, known.headers, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    known.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield known
    server.shutdown()
    thread.join()
    server.server_close()
