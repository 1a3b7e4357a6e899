"""Promises of compaction that a gateway may be made to break."""

from __future__ import annotations

from gateway.broker import compacting


def compact_aborted() -> None:
    """A pass does not know what was aborted: an aborted write takes the place of the one before it."""
    compacting.pack_aborted = lambda aborted: b""  # type: ignore[attr-defined]


COMPACTION = {"compact-aborted": compact_aborted}
