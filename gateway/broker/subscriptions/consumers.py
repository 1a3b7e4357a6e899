"""Those whom a subscription serves on a partition: what is counted of one, and how one that waits is woken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.broker.subscriptions.partition import SubscriptionPartition


class Waiter(Protocol):
    """A consumer's parked request."""

    consumer: str

    def wake(self, at: SubscriptionPartition) -> None:
        """There may be something for this consumer, or an error: fetch, before this returns. It is not parked here
        any more.
        """


class Consumer:
    """What is counted of a consumer on one partition. Times in monotonic ms."""

    __slots__ = ("acked", "asked", "attached_at", "delivered", "delivered_at", "nacked", "sent_bytes")

    def __init__(self, now: int) -> None:
        self.attached_at = now
        self.delivered = self.sent_bytes = 0
        self.acked = self.nacked = 0
        self.delivered_at = -1
        # records its last fetch asked for
        self.asked = 0
