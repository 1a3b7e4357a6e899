"""Numbers on which all drivers agree, so that they answer alike."""

SEGMENT_BYTES = 1 << 30
"""A new segment begins rather than let one grow beyond this (Kafka's `segment.bytes`)."""

SEGMENT_MS = 7 * 24 * 3600 * 1000
"""A new segment begins with the first append this long after the active one was begun (Kafka's `segment.ms`).
"""

LEDGER_ENTRIES = 50_000
"""A ledger is closed rather than hold more entries (Pulsar's `managedLedgerMaxEntriesPerLedger`)."""

LEDGER_MS = 240 * 60 * 1000
"""A ledger is closed by the first append this long after it was opened
(`managedLedgerMaxLedgerRolloverTimeMinutes`).
"""
