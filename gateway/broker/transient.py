"""Non-persistent topics: partitions whose records are in memory only, and what becomes of records that leave it.

Messages leave memory by age, and the oldest first where there are more than the bounds allow: who was absent or slow
does not get them any more. A subscription counts those that it had open (`expired` of its cursor); here those are
counted that nobody had read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakValueDictionary

from gateway.broker.partition import Partition
from gateway.broker.topic_runtime import Home
from semantics.backlog_quota import Quota

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.node import Node, Timer
    from gateway.config.topic_configs import TopicConfig
    from store.api import Write
    from store.transient import Forgotten, TransientStore

PARTS = 8
"""Segments that a partition has when it is full, and begins while the oldest ages: it forgets one at a time. None is
larger than a part of such a part of all memory there is.
"""


class Left(NamedTuple):
    """What has left the memory of a partition since the gateway started."""

    messages: int = 0
    size: int = 0
    """Bytes."""
    unread: int = 0
    """Messages of it that nobody had read."""


class Remembering(Home, Protocol):
    """As much of a node as such a partition needs."""

    @property
    def transients(self) -> Transients: ...


class TransientPartition(Partition):
    """A partition whose log forgets."""

    __slots__ = ("__weakref__",)

    # what is in memory and what is stored elsewhere are not one fact
    transactional = False

    _home: Remembering

    def configure(self, config: TopicConfig) -> None:
        super().configure(config)
        self._home.transients.uses(self, config.memory_bytes)

    @property
    def first_offset(self) -> int:
        return self._home.transients.first_offset

    def committed(self) -> Callable[[], None] | None:
        wake = super().committed()
        return partial(self._wake, wake) if self._home.transients.grew() else wake

    def _wake(self, wake: Callable[[], None] | None) -> None:
        """Those who wait here, behind those who have lost something, here and elsewhere."""
        self._home.transients.tell()
        if wake is not None:
            wake()


class Transients:
    """What this node knows of its store in memory: who is to be told when that forgets something, and when it is to.

    Without such a store there are no non-persistent topics.
    """

    def __init__(self, node: Node, store: TransientStore | None) -> None:
        self._node = node
        self._store = store
        self._used: WeakValueDictionary[int, TransientPartition] = WeakValueDictionary()
        self._left: dict[int, Left] = {}
        # partitions that have lost something, and who uses them does not know yet
        self._untold: dict[int, None] = {}
        self._timer: Timer | None = None
        if store is not None:
            store.forgot = self._forgot
        node.metrics.watch_memory(lambda: self.size)

    @property
    def served(self) -> bool:
        """Whether there may be non-persistent topics."""
        return self._store is not None and self._max_bytes > 0

    @property
    def first_offset(self) -> int:
        """What logs begin with since the gateway started."""
        return self._store.first_offset if self._store is not None else 0

    @property
    def size(self) -> int:
        """Bytes of all such topics in memory."""
        return self._store.size if self._store is not None else 0

    def left(self, partition: int) -> Left:
        """What has left the memory of a partition, by the store's id."""
        return self._left.get(partition, _NOTHING)

    def dropped(self) -> dict[int, tuple[int, ...]]:
        """How many messages each partition has dropped that nobody had read."""
        return {partition: (left.unread,) for partition, left in self._left.items()}

    def effective(self, config: TopicConfig) -> TopicConfig:
        """What the configuration of such a topic comes to: nothing is kept, and nothing waits for a backlog."""
        size = config.memory_bytes
        return config._replace(
            durability="os",
            retention_ms=-1,
            retention_bytes=-1,
            segment_bytes=max(1, min(size // PARTS, self._max_bytes // (PARTS * PARTS))),
            segment_ms=max(1, self._max_ms // PARTS),
            max_message_bytes=min(config.max_message_bytes, size),
            quota=_NO_QUOTA,
        )

    @property
    def _max_bytes(self) -> int:
        return self._node.settings.integer("non.persistent.max.bytes")

    @property
    def _max_ms(self) -> int:
        return self._node.settings.integer("non.persistent.max.ms")

    # -- what leaves memory -----------------------------------------------------------------------------------------

    def uses(self, partition: TransientPartition, max_bytes: int) -> None:
        """Somebody uses a partition, which may have so many bytes in memory."""
        assert self._store is not None
        self._used[partition.id] = partition
        self._store.bound(partition.id, max_bytes)

    def grew(self) -> bool:
        """There is more in memory. Whether somebody is to be told that something left it for that."""
        if self._timer is None:
            self._arm(self._node.clock.monotonic_ms())
        return bool(self._untold)

    def _arm(self, oldest: int) -> None:
        self._timer = self._node.call_at(oldest + self._max_ms, self._age)

    def _age(self) -> None:
        """Time has passed: what is too old leaves memory."""
        assert self._store is not None
        self._timer = None
        oldest = self._store.forget_before(self._node.clock.monotonic_ms() - self._max_ms + 1)
        if oldest is not None:
            self._arm(oldest)
        self.tell()

    def _forgot(self, gone: Forgotten) -> None:
        messages, size, unread = self.left(gone.partition)
        self._left[gone.partition] = Left(messages + gone.messages, size + gone.size, unread + gone.unread)
        self._node.metrics.non_persistent_dropped.value += gone.unread
        self._untold[gone.partition] = None

    def tell(self) -> None:
        """Tell those who use the partitions that have lost something."""
        while self._untold:
            partition = self._used.get(self._untold.popitem()[0])
            if partition is not None:
                partition.changed()

    def follow(self, topic: Topic) -> tuple[list[Write], Callable[[], None]]:
        """With a topic go the counts of its partitions: see `Topics.followed_by`."""
        return [], partial(self._topic_deleted, topic)

    def _topic_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._left.pop(partition, None)
            self._used.pop(partition, None)


_NOTHING = Left()
_NO_QUOTA = Quota()
