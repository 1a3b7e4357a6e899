"""How a login is refused."""

from __future__ import annotations


class RefusedError(Exception):
    """A login that is refused. `reason` is for the log of whoever runs the gateway, and never told to the client."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
