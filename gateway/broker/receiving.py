"""A bound on the memory of requests that have not come whole."""

from __future__ import annotations

from typing import Protocol

LARGE = 1024 * 1024
"""An unfinished request above this leaves the last quarter of the bound to smaller ones."""

PATIENCE = 10
"""Seconds that an unfinished request may take while others wait for memory."""
STUCK = 2 * PATIENCE
"""Seconds in which none has come whole while others wait: then those that wait are closed, too."""


class Receiver(Protocol):
    """A connection, as far as it matters here."""

    def hold_reading(self) -> None: ...
    def release_reading(self) -> None: ...
    def close(self, reason: str) -> None: ...


class Receiving:
    """Bytes of frames that have not come whole, over all connections: bounded, and never stuck.

    Above the bound connections are not read, except the one whose frame has been coming for longest: it can always
    finish, and then the next one can. While others wait, who has the memory has PATIENCE seconds to come to an end;
    then the slowest are closed, no more of them than makes room: clients that begin large requests and leave them
    must not stop everybody else, and those that share a slow line must not all begin anew. When none at all
    has come to an end for STUCK seconds, those that wait are closed like the others, and do not each get a chance.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: dict[Receiver, int] = {}
        self._held: dict[Receiver, None] = {}
        # seconds since the start, and when each began to have its chance
        self._now = 0
        self._since: dict[Receiver, int] = {}
        # when one has come whole, or none had to wait
        self._progress = 0
        # closed here, and not gone yet
        self._closed: set[Receiver] = set()

    def account(self, connection: Receiver, size: int) -> None:
        """A connection has `size` bytes of an unfinished frame; 0: it has none."""
        old = self._sizes.get(connection, 0)
        if old == size:
            return
        self.total += size - old
        if size:
            if not old:
                self._since[connection] = self._now
            self._sizes[connection] = size
            limit = self.limit if size <= LARGE else self.limit // 4 * 3
            if self.total > limit and next(iter(self._sizes)) is not connection:
                self._held[connection] = None
                connection.hold_reading()
        else:
            del self._sizes[connection]
            del self._since[connection]
            if connection in self._closed:
                self._closed.discard(connection)
            else:
                self._progress = self._now
            if connection in self._held:
                del self._held[connection]
                connection.release_reading()
            if self._held:
                oldest = next(iter(self._sizes))
                released = list(self._held) if self.total <= self.limit // 4 * 3 else [oldest]
                for each in released:
                    if each in self._held:
                        del self._held[each]
                        self._since[each] = self._now
                        each.release_reading()

    def second(self) -> None:
        """A second is over: of those that had their chance while others wait close the slowest, until there is room."""
        self._now += 1
        if not self._held:
            self._progress = self._now
            return
        before = self._now - PATIENCE
        stuck = self._progress <= self._now - STUCK
        late = [
            each
            for each, since in self._since.items()
            if since <= before and (stuck or each not in self._held)
        ]
        late.sort(key=lambda each: self._sizes[each] / (self._now - self._since[each]))
        left = self.total
        for each in late:
            # those that are held go on below this, see `account`
            if left <= self.limit // 4 * 3:
                break
            left -= self._sizes[each]
            self._closed.add(each)
            each.close("an unfinished request, while others wait for its memory (memory.max.bytes)")
