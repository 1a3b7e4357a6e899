"""Where consumer groups stand in topics whose records they hold back from retention (`pulsar.group.holds.backlog`).

Kafka's groups hold nothing: what they have not read goes when its time is over. To Pulsar a consumer is a subscription,
and holds what it has not acknowledged: its committed offset says what that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gateway.broker.pages import each_committed
from semantics.retention import Place

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.node import Node
    from gateway.coordinators import offsets

SOON_MS = 10_000
"""For so long what was read counts: offsets only ever go ahead, or somebody takes one back, who may be late."""

Standing = Mapping[int, list[Place]]
"""By partition."""


class GroupHolds:
    """Reads the offsets of all groups at once, for a round of retention."""

    def __init__(self, node: Node, holds: Callable[[Topic], bool]) -> None:
        """`holds` says whether groups hold what they have not read of a topic."""
        self._node = node
        self._holds = holds
        self._read_at = -SOON_MS
        self._found: dict[bytes, dict[int, list[Place]]] = {}

    async def of(self, topic: Topic) -> Standing:
        """Nothing where groups hold nothing. Raises StoreError."""
        if not self._holds(topic):
            return {}
        now = self._node.clock.monotonic_ms()
        if now - self._read_at >= SOON_MS:
            self._found = await self._read()
            self._read_at = now
        return self._found.get(topic.topic_id, {})

    async def _read(self) -> dict[bytes, dict[int, list[Place]]]:
        found: dict[bytes, dict[int, list[Place]]] = {}

        def take(where: offsets.Place, row: offsets.Committed) -> None:
            # all behind it is known to be unread
            of_topic = found.setdefault(row.topic_id, {})
            of_topic.setdefault(where.partition, []).append(Place(where.group, row.offset, 1 << 62))

        await each_committed(self._node.store, take)
        return found
