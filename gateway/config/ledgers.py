"""Settings that say when a ledger is closed and another one opened, by the names of Pulsar's broker.conf.

Ledgers are what message ids count entries in; segments, which are what retention deletes, end by settings of their own.
"""

from __future__ import annotations

from gateway.config.schema import Kind, Setting, at_least

LEDGERS = [
    Setting(
        "managedLedgerMaxEntriesPerLedger",
        Kind.INT,
        50_000,
        "A ledger, in which message ids count, is closed when it has so many entries (batches).",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "managedLedgerMaxSizePerLedgerMbytes",
        Kind.INT,
        2048,
        "A ledger is closed when it has so many megabytes.",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "managedLedgerMinLedgerRolloverTimeMinutes",
        Kind.INT,
        10,
        "A ledger stays open for so many minutes in any case, whatever it has and the longest time says; 0 is not at "
        "all.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "managedLedgerMaxLedgerRolloverTimeMinutes",
        Kind.INT,
        240,
        "A ledger is closed by the first message so many minutes after it was opened.",
        at_least(1),
        dynamic=True,
    ),
]
