"""How commits end: measured, and while writes fail, why."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from store.api import Fenced, StoreError, Write

if TYPE_CHECKING:
    from gateway.metrics_catalog import GatewayMetrics

log = logging.getLogger("magnetar.broker")


class CommitWatch:
    """Told of each commit by the turn that sent it."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics
        self._produce_seconds = metrics.request_seconds.labels("Produce")
        self.reason = ""
        """why commits fail at present, or empty"""
        self._fenced = ""
        self.tap: Callable[[Sequence[Write]], Callable[[], None] | None] | None = None
        """is shown what was stored, and answers who is to be woken behind the answers"""

    @property
    def failing(self) -> bool:
        """Whether the last commit that wrote something failed."""
        return bool(self.reason)

    def failed(self, error: StoreError) -> None:
        """Count it, and say why in the log."""
        self._metrics.commits_failed.inc()
        if isinstance(error, Fenced):
            # The store takes writes, only not these from here.
            if self._fenced != str(error):
                self._fenced = str(error)
                log.warning("clients are sent to another owner: %s", error)
            return
        if self.reason != str(error):
            # Once for each reason: clients try again many times a second.
            self.reason = str(error)
            log.error("writes fail, clients are told to try again: %s", error)

    def succeeded(self) -> None:
        """The first commit that is done after some that were not."""
        self.reason = ""
        log.warning("writes succeed again")

    def ended(self, seconds: float, requests: int, partitions: int) -> None:
        """However it ended: how long the store took, who waited for it, how many logs it was for."""
        metrics = self._metrics
        metrics.commit_seconds.observe(seconds)
        metrics.commit_requests.observe(requests)
        metrics.commit_partitions.observe(partitions)

    def produced(self, seconds: float, requests: int, batches: int, messages: int, size: int) -> None:
        """What clients sent is stored. `size` in bytes."""
        metrics = self._metrics
        self._produce_seconds.observe(seconds, requests)
        metrics.storage_write_seconds.observe(seconds, batches)
        metrics.produced_batches.value += batches
        metrics.produced_messages.value += messages
        metrics.produced_bytes.value += size
