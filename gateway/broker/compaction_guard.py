"""Whether a pass that is under way may still put a segment into its place: the world goes on while it works.

A swap is the end of records. So just before each it is asked once more whether the topic is there and compacted, and
what subscriptions have open by now: some may have come, or have been sought back. Nothing comes between the answer and
the swap's place in the order of commits: nobody subscribes while the topic is being changed, a cursor says where it was
sought to at once, and all of that is looked at without a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.standing import first_open, first_open_in_use

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.config.topic_configs import TopicConfig


class PutOff(Exception):
    """The pass ends without harm: something has changed that it did not reckon with. The text is for a person."""


class Guard:
    """Of one pass over a partition."""

    def __init__(
        self,
        node: Node,
        in_use: InUse,
        subscriptions: Subscriptions,
        effective: Callable[[Topic], TopicConfig],
        topic: Topic,
        index: int,
    ) -> None:
        self._node = node
        self._in_use = in_use
        self._subscriptions = subscriptions
        self._effective = effective
        self._topic_id = topic.topic_id
        self._index = index

    def look(self) -> Topic:
        """The topic as it is now. Raises PutOff where it is not compacted any more."""
        runtime = self._in_use.topic_by_id(self._topic_id)
        if runtime is None or runtime.deleting:
            raise PutOff("The topic is deleted.")
        if not self._effective(runtime.topic).compact:
            raise PutOff("cleanup.policy is not compact any more.")
        return runtime.topic

    async def check(self, end: int) -> None:
        """Whether records below `end` may go, though subscriptions have come, or have begun anew. Call when nobody else
        changes the topic. Raises PutOff, StoreError, KeyError.
        """
        topic = self.look()
        start = await first_open(self._node.store, self._subscriptions, topic, self._index)
        # others had their turn: what was looked at first may have been sought meanwhile
        self.look()
        runtime = self._in_use.topic_by_id(self._topic_id)
        partition = runtime.partitions[self._index] if runtime is not None else None
        if partition is not None:
            start = min(start, first_open_in_use(partition))
        if start < end:
            raise PutOff(f"A subscription has messages open again, from offset {start} on.")
