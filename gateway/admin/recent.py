"""What subscriptions delivered and the store took within the last minute: rates that Pulsar's dashboards look for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.admin.rates import Samples

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

_NODE = "node"


class Deliveries(NamedTuple):
    """Messages a second, of one subscription on one partition."""

    out: float
    redelivered: float
    # of what left memory, or was taken by retention, before it was acknowledged
    expired: float


class Writes(NamedTuple):
    """Batches of the last minute, or since the start."""

    rate: float
    """a second"""
    by_latency: tuple[int, ...]
    """how many, by the buckets of `magnetar_storage_write_seconds`; the last is what took longer than all of them"""


class Recent:
    """Of one gateway. `now` is monotonic, in seconds."""

    def __init__(self, broker: Broker, now: float) -> None:
        self._broker = broker
        self._deliveries = Samples(lambda: dict(self._delivered()), now)
        self._writes = Samples(self._written, now)
        self._drops = Samples(broker.transients.dropped, now)

    def sample(self, now: float) -> Generator[None, None, None]:
        """Remember the counters, a partition at a step. Call it every SAMPLE_EVERY seconds."""
        self._writes.sample(now)
        self._drops.sample(now)
        found: dict[int, tuple[int, ...]] = {}
        for key, counts in self._delivered():
            found[key] = counts
            yield
        self._deliveries.keep(now, found)

    def deliveries(
        self, subscription: int, partition: int, totals: Mapping[str, int], now: float
    ) -> Deliveries:
        """Of a subscription by its id, on a partition by the store's, which has counted `totals` by now."""
        seconds = self._deliveries.seconds(now)
        # what it had counted before it came into memory did not happen within the last minute
        old = self._deliveries.first(subscription << 32 | partition)
        if old is None or seconds <= 0:
            return Deliveries(0.0, 0.0, 0.0)
        return Deliveries(
            (totals["delivered"] - old[0]) / seconds,
            (totals["redelivered"] - old[1]) / seconds,
            (totals["expired"] - old[2]) / seconds,
        )

    def dropped(self, partition: int, total: int, now: float) -> float:
        """Messages a second that a partition, by the store's id, has dropped, of `total` by now."""
        seconds = self._drops.seconds(now)
        # it has dropped nothing when it is not known
        old = self._drops.oldest(partition) or (0,)
        return (total - old[0]) / seconds if seconds > 0 else 0.0

    def writes(self, now: float) -> Writes:
        """What clients sent and was stored."""
        old = self._writes.oldest(_NODE) or ()
        new = self._broker.metrics.storage_write_seconds.counts
        by_latency = tuple([after - before for after, before in zip(new, old, strict=True)])
        seconds = self._writes.seconds(now)
        return Writes(sum(by_latency) / seconds if seconds > 0 else 0.0, by_latency)

    def _delivered(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        for subscription in self._broker.subscriptions.live():
            for at in list(subscription.partitions.values()):
                if at.cursor is not None:
                    totals = at.cursor.totals
                    key = subscription.id << 32 | at.partition.id
                    yield key, (totals["delivered"], totals["redelivered"], totals["expired"])

    def _written(self) -> dict[str, tuple[int, ...]]:
        return {_NODE: tuple(self._broker.metrics.storage_write_seconds.counts)}
