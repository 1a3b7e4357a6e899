"""How a login is refused, or put off."""

from __future__ import annotations


class RefusedError(Exception):
    """A login that is refused. `reason` is for the log of whoever runs the gateway, and never told to the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BusyError(Exception):
    """A login that nobody has decided, since too much is in hand: its client may try again. It says nothing of who
    asks, so it is no failed login, and no `RefusedError`.
    """
