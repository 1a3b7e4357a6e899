"""What the clients of each tenant use: bytes, requests, and for how long they were told to wait."""

from __future__ import annotations

from collections.abc import Iterator

MOST_SHOWN = 100
"""Tenants that have lines of their own in the metrics: those whose clients came first. The others are one sum."""
OTHERS = "*"
"""What that sum is called; no tenant can be called so."""


class TenantUse:
    """Of one tenant, since the gateway started."""

    __slots__ = ("received", "requests", "sent", "throttled_ms")

    def __init__(self) -> None:
        self.received = self.sent = 0
        """bytes of requests, and of answers"""
        self.requests = 0
        self.throttled_ms = 0

    def add(self, other: TenantUse) -> None:
        self.received += other.received
        self.sent += other.sent
        self.requests += other.requests
        self.throttled_ms += other.throttled_ms


class TenantUses:
    """Of all tenants that have had clients."""

    def __init__(self) -> None:
        self._uses: dict[str, TenantUse] = {}

    def of(self, namespace: str) -> TenantUse:
        """That of the tenant of a namespace."""
        tenant = namespace.partition("/")[0]
        found = self._uses.get(tenant)
        if found is None:
            found = self._uses[tenant] = TenantUse()
        return found

    def shown(self) -> Iterator[tuple[str, TenantUse]]:
        """By tenant, with OTHERS behind them where there are too many."""
        others = None
        for at, (tenant, use) in enumerate(self._uses.items()):
            if at < MOST_SHOWN:
                yield tenant, use
                continue
            others = others or TenantUse()
            others.add(use)
        if others is not None:
            yield OTHERS, others
