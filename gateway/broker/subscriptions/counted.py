"""What subscriptions have counted since the gateway started, also of cursors that are not in memory.

A cursor that nobody uses is not in memory, but its counters must not fall back to 0 for that: it leaves them here, and
begins with them when it is loaded again. A verdict or a burial whose commit failed has been shown, so it stays counted,
and counts again when it comes again. What retention took is not among them: the cursor's row says that.

A row for each partition of a subscription that has counted anything, until the subscription or its topic is deleted.
The numbers are packed as small as they are. A row takes 140 to 220 bytes with its place in the table, so 30,000 take 4
to 6 MB, and a million some 150 MB. What has counted nothing takes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from gateway.metrics_catalog import GatewayMetrics

NAMES = (
    "delivered", "redelivered", "acknowledged", "nacked", "rejected", "timed_out", "crashed", "buried", "dropped",
    "reconsumed",
)  # fmt: skip
"""Of a cursor's totals those that no row remembers"""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[int]).decode


class Happened(NamedTuple):
    """What of a cursor's totals the metrics are told."""

    timed_out: int = 0
    crashed: int = 0
    dropped: int = 0
    # what retention took: stored with the cursor's row
    expired: int = 0


def happened(totals: Mapping[str, int]) -> Happened:
    return Happened(totals["timed_out"], totals["crashed"], totals["dropped"], totals["expired"])


def tell(metrics: GatewayMetrics, before: Happened, now: Happened) -> None:
    """Tell the metrics what happened since they were told last."""
    metrics.share_timeouts.value += now.timed_out - before.timed_out
    metrics.share_crashes.value += now.crashed - before.crashed
    metrics.share_dropped.value += now.dropped - before.dropped
    metrics.share_expired.value += now.expired - before.expired


class Counted:
    """Totals by the subscription's id and the partition's (the store's): neither ever comes again."""

    def __init__(self) -> None:
        self._rows: dict[int, bytes] = {}
        self.changed: set[tuple[str, bytes]] = set()
        """Subscriptions (group, topic id) of which a cursor, the consumers or the configs changed, which came or went,
        since whoever asks about that took them out."""

    def __len__(self) -> int:
        return len(self._rows)

    def keep(self, subscription: int, partition: int, totals: Mapping[str, int]) -> None:
        """All that was counted by now: `totals` began with what `of` says."""
        numbers = [totals[name] for name in NAMES]
        if any(numbers):
            self._rows[subscription << 32 | partition] = _pack(numbers)

    def of(self, subscription: int, partition: int) -> dict[str, int]:
        """What was counted by cursors that have left memory; nothing where there is none."""
        row = self._rows.get(subscription << 32 | partition)
        return dict(zip(NAMES, _unpack(row), strict=True)) if row is not None else {}

    def forget(self, subscriptions: Collection[int], partitions: Collection[int]) -> None:
        """Subscriptions on a topic with these partitions are deleted, or the topic is."""
        rows = self._rows
        if len(subscriptions) * len(partitions) < len(rows):
            for subscription in subscriptions:
                for partition in partitions:
                    rows.pop(subscription << 32 | partition, None)
        elif rows:
            # thousands of both need not be tried where few have counted
            going = set(subscriptions)
            for key in [key for key in rows if key >> 32 in going]:
                del rows[key]
