"""Looks at a topic's stats all the time: when its backlog was gone is told by what was seen last and first."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from compat.bench.clients import ClientError

PAUSE = 0.002
"""Seconds between two looks: a figure is exact to that and one call."""


class Seen(NamedTuple):
    """What one answer said."""

    at: float
    """seconds since 1970, when the answer was there"""
    backlog: int
    """of the subscription: messages, of Pulsar entries"""
    size: int
    """bytes of the topic that its subscriptions have not acknowledged"""


class Caller(Protocol):
    def call(self, method: str, path: str, body: object = None) -> bytes: ...

    def close(self) -> None: ...


class Watch:
    """The looks while the block lasts, on a connection of its own."""

    def __init__(self, caller: Callable[[], Caller], topic: str, subscription: str) -> None:
        self._caller = caller
        self._topic = topic
        self._subscription = subscription
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.last: Seen | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def until(self, met: Callable[[Seen], bool], timeout: float) -> Seen:
        """The first look from now on that is as it should be. Raises `ClientError` after so many seconds."""
        found: list[Seen] = []
        since = time.time()

        def there() -> bool:
            seen = self.last
            if seen is not None and seen.at >= since and met(seen):
                found.append(seen)
            return bool(found) or self._failed is not None

        with self._changed:
            self._changed.wait_for(there, timeout)
        if found:
            return found[0]
        raise ClientError(f"{self._failed or f'after {timeout:.0f} s its stats still say {self.last}'}")

    def _look(self) -> None:
        try:
            caller = self._caller()
            while not self._ended.wait(PAUSE):
                stats = json.loads(caller.call("GET", f"{self._topic}/stats"))
                backlog = stats["subscriptions"][self._subscription]["msgBacklog"]
                with self._changed:
                    self.last = Seen(time.time(), backlog, stats["backlogSize"])
                    self._changed.notify_all()
            caller.close()
        except (ClientError, OSError, KeyError, ValueError) as error:
            with self._changed:
                self._failed = error
                self._changed.notify_all()
