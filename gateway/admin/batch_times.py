"""The age of a backlog's oldest message, cheaply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.wire import records
from gateway.wire.batch import BatchError
from store.api import StoreError

if TYPE_CHECKING:
    from store.api import Store


class BatchTimes:
    """When the batches were made that backlogs begin with: the last one looked at of each partition.

    To find one opens a file, and mostly the next call wants the same again.
    """

    KEPT = 20_000
    """Partitions; some 4 MB."""

    def __init__(self) -> None:
        # first offset, last offset, ms since 1970
        self._found: dict[int, tuple[int, int, int]] = {}

    async def of(self, store: Store, number: int, offset: int) -> int:
        """The time of the first record in the batch that holds `offset`, or comes behind it; -1 if it cannot be read.

        `number` is the store's id of the partition. Ids never come again, so what is remembered stays true.
        """
        first, last, made = self._found.get(number, (0, -1, -1))
        if first <= offset <= last:
            return made
        try:
            log = store.log(number)
            found = log.look(max(offset, log.start_offset), 1)
            buffers = found if isinstance(found, list) else await found
            if not buffers:
                return -1
            header = records.header(b"".join(buffers))
        except (KeyError, IndexError, StoreError, BatchError):
            return -1
        if len(self._found) >= self.KEPT:
            self._found.clear()
        self._found[number] = min(offset, header.base_offset), header.last_offset, header.base_timestamp
        return header.base_timestamp
