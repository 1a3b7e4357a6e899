"""Files for segments that are written anew: see `swapping.py`, step 1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from store.api import Durability, Family, Put, Refused, StoreError
from store.rewriting import Place
from store.rocksdb import rows
from store.rocksdb.checkpoint import CheckpointedStore, Checkpointer
from store.rocksdb.database import Database, plain
from store.rocksdb.files import Files
from store.rocksdb.segments import REWRITTEN


class Reserving:
    """Files for new segments, made and given up. On the loop."""

    def __init__(
        self,
        store: CheckpointedStore,
        database: Database,
        files: Files,
        checkpointer: Checkpointer,
        distrust: Callable[[], None],
    ) -> None:
        """`distrust`: a sync of the database has failed."""
        self._distrust = distrust
        self._store = store
        self._database = database
        self._files = files
        self._checkpointer = checkpointer
        value = database.get(Family.META, rows.NEXT_CLEANED)
        self._next = rows.U32.unpack(value)[0] if value else REWRITTEN

    async def reserve(self, partition: int, bases: Sequence[int]) -> list[Place]:
        """See `Store.reserve`."""
        numbers = range(self._next, self._next + len(bases))
        if numbers.stop > 0xFFFF_FFFF:
            raise Refused("There are no more numbers for segments that are written anew.")
        self._next = numbers.stop
        files = [(partition, base, number) for base, number in zip(bases, numbers, strict=True)]
        doomed = [
            Put(Family.DOOMED, rows.PARTITION_U32.pack(partition, number), rows.DOOMED.pack(base))
            for _, base, number in files
        ]
        counter = Put(Family.META, rows.NEXT_CLEANED, rows.U32.pack(self._next))
        await self._store.write_own([counter, *doomed], Durability.OS)
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._make, files)
        except StoreError:
            # nobody knows what of the last groups is on disk, as when the sync of a group has failed
            self._distrust()
            raise
        except OSError as error:
            self._checkpointer.doom(files)
            raise _refused(error, self._files) from error
        return [Place(self._files.path(*file), file[1], file[2]) for file in files]

    def _make(self, files: Sequence[tuple[int, int, int]]) -> None:
        """In a thread: a synced file without a name would be lost, and one without a row would never go. The rows are
        synced here, since in their group they would hold up what others write.
        """
        self._database.sync()
        for file in files:
            descriptor, number = self._files.create(*file)
            self._files.close(descriptor)
            assert number == file[2], "the number of a segment is used once"
        if files:
            self._files.sync_folder(files[0][0])

    def unreserve(self, partition: int, places: Sequence[Place]) -> None:
        """See `Store.unreserve`."""
        left = [
            (partition, each.base_offset, each.number)
            for each in places
            # else it was swapped in, and is the log's
            if self._database.get(Family.DOOMED, rows.PARTITION_U32.pack(partition, each.number)) is not None
        ]
        if left:
            self._checkpointer.doom(left)


def _refused(error: OSError, files: Files) -> StoreError:
    found = plain(error, f"make a segment in {files.root}")
    return found if isinstance(found, Refused) else Refused(str(found))
