"""When stored bytes cannot be read: counted, told in the log now and then, and gone around where the topic says so."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from store.api import Corrupt, Log, Piece, StoreError
from store.pending import Pending

if TYPE_CHECKING:
    from gateway.metrics_catalog import GatewayMetrics

log = logging.getLogger("magnetar.broker")

TELL_MS = 60_000
"""A partition is spoken of once in so long: clients ask again many times a second."""

_REMEMBERED = 1000


class Damaged(Protocol):
    """A partition."""

    @property
    def id(self) -> int:
        """The store's."""
        ...

    @property
    def topic_name(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def skips_damage(self) -> bool:
        """Whether readers are led past what is damaged."""
        ...

    @property
    def log(self) -> Log: ...

    @property
    def high_watermark(self) -> int: ...

    def unreadable(self, error: StoreError) -> None:
        """A read was refused with this: operators are told."""
        ...


class Damage:
    """What readers met. `now` gives monotonic ms."""

    def __init__(self, metrics: GatewayMetrics, now: Callable[[], int]) -> None:
        self._metrics = metrics
        self._now = now
        # when a partition was last spoken of
        self._told: dict[int, int] = {}

    def corrupt(self, partition: Damaged, error: Corrupt) -> None:
        """A reader came to damaged batches."""
        self._metrics.reads_corrupt.inc()
        if self._due(partition.id):
            skips = partition.skips_damage
            log.error(
                'topic "%s", partition %d: the offsets %d to %d are damaged (%s); %s. All else is served. '
                '"magnetar store verify" on the stopped gateway names everything that is damaged; see '
                '"Damaged records" in docs/OPERATIONS.md for what to do.',
                partition.topic_name,
                partition.index,
                error.first,
                error.next_offset - 1,
                error.what,
                "readers are led past them" if skips else "who reads them gets CORRUPT_MESSAGE",
            )

    def unreadable(self, partition: Damaged, error: StoreError) -> None:
        """A read failed, and may succeed later."""
        self._metrics.reads_failed.inc()
        if self._due(partition.id):
            log.error(
                'topic "%s", partition %d: %s Readers get KAFKA_STORAGE_ERROR and try again.',
                partition.topic_name,
                partition.index,
                error,
            )

    def _due(self, partition: int) -> bool:
        now = self._now()
        last = self._told.get(partition)
        if last is not None and now - last < TELL_MS:
            return False
        self._told.pop(partition, None)
        if len(self._told) >= _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._told[partition] = now
        return True


def fetch(
    partition: Damaged, offset: int, max_bytes: int, *, whole_first: bool, least: int | None
) -> Pending[list[Piece]]:
    """See `Readable.fetch`."""
    log = partition.log
    # lists and awaitables of bytes that are lent, or of those that are not
    found: Any
    try:
        if least is None:
            found = log.read(offset, max_bytes, whole_first=whole_first)
        else:
            found = log.lend(offset, max_bytes, least=least, whole_first=whole_first)
    except Corrupt as error:
        if not partition.skips_damage:
            raise
        return past(partition, error, max_bytes, whole_first)
    return found if isinstance(found, list) else around(partition, found, max_bytes, whole_first)


async def past(partition: Damaged, error: Corrupt, max_bytes: int, whole_first: bool) -> list[Piece]:
    """What is behind damaged batches, up to the high watermark. Raises StoreError, but not Corrupt."""
    while True:
        partition.unreadable(error)
        offset = max(error.next_offset, partition.log.start_offset)
        if offset >= partition.high_watermark:
            return []
        try:
            found = partition.log.read(offset, max_bytes, whole_first=whole_first)
            return [*found] if isinstance(found, list) else [*await found]
        except Corrupt as further:
            error = further


async def around(
    partition: Damaged, data: Awaitable[list[Piece]], max_bytes: int, whole_first: bool
) -> list[Piece]:
    """What a disk gives; where that is damaged and the topic's policy is to skip it, what is behind."""
    try:
        return await data
    except Corrupt as error:
        if not partition.skips_damage:
            raise
        return await past(partition, error, max_bytes, whole_first)
