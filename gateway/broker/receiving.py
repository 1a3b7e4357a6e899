"""A bound on the memory of requests that have not come whole."""

from __future__ import annotations

from typing import Protocol


class Receiver(Protocol):
    """A connection, as far as it matters here."""

    def hold_reading(self) -> None: ...
    def release_reading(self) -> None: ...


class Receiving:
    """Bytes of frames that have not come whole, over all connections: bounded, and never stuck.

    Above the bound connections are not read, except the one whose frame has been coming for longest: it can always
    finish, and then the next one can.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: dict[Receiver, int] = {}
        self._held: dict[Receiver, None] = {}

    def account(self, connection: Receiver, size: int) -> None:
        """A connection has `size` bytes of an unfinished frame; 0: it has none."""
        old = self._sizes.get(connection, 0)
        if old == size:
            return
        self.total += size - old
        if size:
            self._sizes[connection] = size
            if self.total > self.limit and next(iter(self._sizes)) is not connection:
                self._held[connection] = None
                connection.hold_reading()
        else:
            del self._sizes[connection]
            self._held.pop(connection, None)
            if self._held:
                oldest = next(iter(self._sizes))
                released = list(self._held) if self.total <= self.limit else [oldest]
                for each in released:
                    if each in self._held:
                        del self._held[each]
                        each.release_reading()
