"""Which client library a member of a group has: what it said when its connection began (KIP-511).

Groups know of a member its address and its client id. Both stand here with the name and version of the library, so that
people see it of members of every kind, also of those that joined before a restart: their connections are new.
"""

from __future__ import annotations

MOST = 10_000
"""Addresses with client ids; some 2 MB. Whoever said it longest ago goes first."""


class ClientSoftware:
    """By address and client id."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def note(self, host: str, client_id: str, software: str) -> None:
        """A client at an address (as `Peer.host` has it) has said so."""
        known = self._known
        known.pop((host, client_id), None)
        known[host, client_id] = software
        if len(known) > MOST:
            del known[next(iter(known))]

    def of(self, host: str, client_id: str) -> str:
        """What was said last; empty where nothing was."""
        return self._known.get((host, client_id), "")
