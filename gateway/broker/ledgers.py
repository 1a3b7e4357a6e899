"""When ledgers are closed, as the settings say it."""

from __future__ import annotations

from gateway.config import Settings
from store.limits import Rollover


def rollover(settings: Settings) -> Rollover:
    """What the store is told."""
    return Rollover(
        settings.integer("managedLedgerMaxEntriesPerLedger"),
        settings.integer("managedLedgerMaxSizePerLedgerMbytes") << 20,
        settings.integer("managedLedgerMinLedgerRolloverTimeMinutes") * 60_000,
        settings.integer("managedLedgerMaxLedgerRolloverTimeMinutes") * 60_000,
    )
