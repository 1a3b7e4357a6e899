"""The console's bench: tabs load pages again until they are closed, and what the flags say is a size that can be."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from compat.bench.clients import ClientError
from compat.bench.console import CONSOLE, PAGES, Size, Window, acknowledged, of_all, percentile
from compat.tools import PROJECT


class Site:
    """Two pages with a file, and who asked for what."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.cookies: set[str] = set()
        self.often = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked[self.path] += 1
                site.cookies.add(self.headers.get("Cookie", ""))
                body = b'<link href="/ui/static/x/console.css">' if self.path != "/gone" else b""
                self.send_response(404 if self.path == "/gone" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Set-Cookie", "browser=1; Path=/ui")
                self.end_headers()
                self.wfile.write(body)
                if min(site.asked["/a"], site.asked["/b"]) >= 3 or self.path == "/gone":
                    site.often.set()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.close()


def closed(site: Site, count: int, *paths: str) -> tuple[int, str]:
    """Tabs that are closed when each page was loaded three times: their exit code and what they say."""
    command = [sys.executable, "-m", "compat.bench.tabs", site.url, str(count), "0.01", *paths]
    with subprocess.Popen(
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert site.often.wait(60)
        said, _ = process.communicate("", timeout=60)
        return process.returncode, said


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_page_is_loaded_again_and_again_and_its_files_once(site: Site, count: int) -> None:
    code, said = closed(site, count, "/a", "/b")
    assert code == 0
    took = json.loads(said)
    assert {path: len(each) for path, each in took.items()} == {
        path: site.asked[path] for path in ("/a", "/b")
    }
    assert site.asked["/ui/static/x/console.css"] == count
    assert site.cookies == {"", "browser=1"}


def test_a_page_that_is_not_there_is_no_figure(site: Site) -> None:
    assert closed(site, 2, "/a", "/gone") == (1, "/gone: 404\n")


def test_sizes_that_cannot_be_are_refused() -> None:
    assert Size().of({"tabs": 5, "topics": 2_000}) == Size(2_000, 1_000, 1_000_000, 5)
    for wrong in ({"topics": 10}, {"tabs": 0}, {"subscriptions": 1}, {"messages": -1}):
        with pytest.raises(ValueError):
            Size().of(wrong)


def test_a_percentile_is_a_value_that_there_was() -> None:
    values = [float(each) for each in range(20, 0, -1)]
    assert [percentile(values, share) for share in (50, 95, 100)] == [10, 19, 20]
    assert percentile([7.0], 95) == 7
    with pytest.raises(ClientError):
        percentile([], 50)


def test_each_page_has_its_row_with_a_bound() -> None:
    bounds = {metric.figure: metric.bound for metric in CONSOLE[0].metrics}
    assert {bounds[f"{path} p95"] for path in PAGES.values()} == {300}


def test_percentiles_of_the_producer_are_of_all_its_messages() -> None:
    """Not of windows: of one there may be more than of another."""
    figures = [
        {"acknowledged_in_ns.200000": 97.0, "acknowledged_in_ns.9000000": 3.0, "acknowledged_ms.p99": 9.0},
        {"acknowledged_in_ns.200000": 295.0, "acknowledged_in_ns.4000000": 5.0, "seconds": 12.0},
    ]
    windows = [Window(acknowledged(each), 0.0, 0.0) for each in figures]
    assert [of_all(windows, share) for share in (50, 98, 99, 100)] == [0.2, 0.2, 4.0, 9.0]
    assert of_all(windows[1:], 99) == 4.0
    with pytest.raises(ClientError):
        of_all([], 99)
