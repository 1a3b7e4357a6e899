"""Numbers on which all drivers agree, so that they answer alike."""

from typing import NamedTuple

SEGMENT_BYTES = 1 << 30
"""A new segment begins rather than let one grow beyond this (Kafka's `segment.bytes`)."""

SEGMENT_MS = 7 * 24 * 3600 * 1000
"""A new segment begins with the first append this long after the active one was begun (Kafka's `segment.ms`).
"""

CARRIED_BYTES = 64 * 1024
"""What is `carried` of one log in one commit lies in the WriteBatch up to this; above it the segment is synced, even
under `os`.
"""


class Rollover(NamedTuple):
    """When an append closes the ledger that it finds and opens another one, as in Pulsar: before the ledger has more
    entries or bytes than these, or when it is that old; never before it is older than `least_ms`, unless that is 0.
    """

    entries: int = 50_000
    """managedLedgerMaxEntriesPerLedger"""
    size: int = 2048 << 20
    """managedLedgerMaxSizePerLedgerMbytes, in bytes"""
    least_ms: int = 10 * 60 * 1000
    """managedLedgerMinLedgerRolloverTimeMinutes, in ms"""
    most_ms: int = 240 * 60 * 1000
    """managedLedgerMaxLedgerRolloverTimeMinutes, in ms"""
