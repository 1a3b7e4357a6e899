"""A member in a process of its own. It says what it got, a JSON line for each delivery, and may be killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from common import Context

from queue_topics.library import Delivery, Member

SESSION = 2_000
"""Short, since a case waits until the session of a killed member is over."""


class Process:
    """Started by a case; `work` is what runs in it."""

    def __init__(self, ctx: Context, group: str, topic: str, mode: str) -> None:
        """`mode`: "hold" commits nothing; "work:x" commits after each record, and is killed by a record of value x."""
        self._ctx = ctx
        self._lines: queue.Queue[Delivery | None] = queue.Queue()
        arguments = [sys.executable, sys.argv[0], "--member", ctx.bootstrap, group, topic, mode]
        self._process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        ctx.closing(self.kill)
        threading.Thread(target=self._read, name=f"{ctx.case}:process", daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lane, offset, key, value = json.loads(line)
            self._lines.put(Delivery("", lane, offset, key.encode(), value.encode(), [], 0))
        self._lines.put(None)

    def deliveries(self) -> Iterator[Delivery]:
        """As they come; ends when the process is dead."""
        while (found := self._lines.get(timeout=self._ctx.left)) is not None:
            yield found

    def take(self, count: int) -> list[Delivery]:
        """The next so many."""
        coming = self.deliveries()
        return [next(coming) for _ in range(count)]

    def kill(self) -> None:
        """As a machine that loses its power: nobody says that it goes."""
        self._process.kill()
        self._process.wait()


def work(bootstrap: str, group: str, topic: str, mode: str) -> None:
    """What runs in the process."""
    from adapter import LIBRARY

    member = LIBRARY.consumer(Member(bootstrap, group, topic, session=SESSION))
    poison = mode.partition(":")[2].encode()
    while True:
        for found in member.poll(0.5, most=500 if mode == "hold" else 1):
            text = [found.lane, found.offset, (found.key or b"").decode(), (found.value or b"").decode()]
            print(json.dumps(text), flush=True)
            if poison and found.value == poison:
                os.kill(os.getpid(), signal.SIGKILL)
            if mode != "hold":
                member.commit({found.lane: (found.offset + 1, "")})
