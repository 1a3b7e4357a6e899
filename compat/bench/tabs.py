"""Tabs of the console, as a process: `python -m compat.bench.tabs URL COUNT SECONDS PATH…`.

Each has a connection and a page of its own, with the files that the page names, and loads the page again every so many
seconds until standard input ends. With more pages than tabs, a tab shows some of them by turns. Then it says by path
how many milliseconds each load took, as JSON.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Sequence
from itertools import cycle
from urllib.parse import urlsplit

FILES = re.compile(r'(?:href|src)="(/ui/static/[^"]+)"')


class Tab:
    """One of them."""

    def __init__(self, address: str, paths: Sequence[str]) -> None:
        self._http = http.client.HTTPConnection(address, timeout=60)
        self._cookie = ""
        self._paths = cycle(paths)
        self.took: list[tuple[str, float]] = []
        self.failed = ""

    def load(self) -> str:
        """The page, timed. Raises OSError, HTTPException."""
        path = next(self._paths)
        began = time.perf_counter()
        status, text = self._get(path)
        self.took.append((path, (time.perf_counter() - began) * 1000))
        if status != 200:
            self.failed = f"{path}: {status}"
        return text

    def _get(self, path: str) -> tuple[int, str]:
        self._http.request("GET", path, headers={"Cookie": self._cookie} if self._cookie else {})
        answer = self._http.getresponse()
        text = answer.read().decode(errors="replace")
        if answer.headers.get("Set-Cookie"):
            self._cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return answer.status, text

    def stay(self, begin: float, every: float, closed: threading.Event) -> None:
        """Load it now and again."""
        try:
            if closed.wait(begin):
                return
            for file in FILES.findall(self.load()):
                self._get(file)
            while not closed.wait(every):
                self.load()
        except (OSError, http.client.HTTPException) as error:
            self.failed = repr(error)


def main(url: str, count: int, every: float, paths: list[str]) -> int:
    """Until standard input ends; 1 when a page was not there."""
    closed = threading.Event()
    # of more pages than tabs, a tab shows several by turns
    shown = [paths[number % len(paths) :: max(count, len(paths))] for number in range(count)]
    if count < len(paths):
        shown = [paths[number::count] for number in range(count)]
    tabs = [Tab(urlsplit(url).netloc, each) for each in shown]
    threads = [
        threading.Thread(target=tab.stay, args=(number * every / len(tabs), every, closed))
        for number, tab in enumerate(tabs)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    closed.set()
    for thread in threads:
        thread.join()
    failed = [tab.failed for tab in tabs if tab.failed]
    if failed:
        print("; ".join(failed))
        return 1
    found: dict[str, list[float]] = {}
    for tab in tabs:
        for path, took in tab.took:
            found.setdefault(path, []).append(took)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
