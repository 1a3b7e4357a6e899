"""What an outcome says about Magnetar, and whose fault a failure is."""

from __future__ import annotations

from enum import Enum

from compat.harness.catalogue import Client, not_yet
from compat.harness.run import Results


class Verdict(Enum):
    """The value is the sign in the tables of the page."""

    PASSED = "✓"
    OURS = "✗"
    """Fails, or is refused though we mean to serve it."""
    CLIENTS = "✗ client"
    """Fails through a fault of the client: on Apache Kafka too, or `[known]` in its client.toml."""
    LATER = "later"
    """Refused clearly, and not_yet.toml says what brings it."""
    LACKS = "–"
    NOT_RUN = "?"
    """Not asked for, or the program could not be built or started."""


def verdict(client: Client, case: str, ours: Results, kafka: Results) -> Verdict:
    """Judge one case. `kafka` holds the outcomes against Apache Kafka."""
    if case not in client.cases:
        return Verdict.LACKS
    outcome = ours.outcomes.get((client.name, case))
    if outcome is None or not outcome.ran:
        return Verdict.NOT_RUN
    if outcome.ok and not outcome.refused:
        return Verdict.PASSED
    if outcome.ok and case in not_yet():
        return Verdict.LATER
    reference = kafka.outcomes.get((client.name, case))
    failed_there = reference is not None and reference.ran and not reference.ok and not client.no_reference
    return Verdict.CLIENTS if case in client.known or failed_there else Verdict.OURS
