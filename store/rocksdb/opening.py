"""From a folder to a store: open RocksDB, recover after a crash, begin a new epoch."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from store.api import FORMAT, NEWEST_FORMAT, POWER_LOST, Family, Refused, StoreError, Unknown
from store.rocksdb import last_mark, powerloss, quarantine, recovery, rows
from store.rocksdb.database import Database, plain
from store.rocksdb.driver import RocksStore
from store.rocksdb.files import Files, sync_folder
from store.rocksdb.folder import check_folder
from store.rocksdb.layout import DATABASE, MARK, SEGMENTS
from store.rocksdb.options import Options
from store.rocksdb.recovery import Clip
from store.steps import step


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def open(
    path: Path,
    *,
    clock: Callable[[], int] = wall_ms,
    clip: Clip | None = None,
    boot: str | None = None,
    files: Callable[[Path], Files] = Files,
    database: Callable[..., Database] = Database,
    **options: Any,
) -> RocksStore:
    """The store in a folder, which is made if need be. Call it in the loop that will own the store.

    `clock` gives ms since 1970. `clip(rows, partition, lost)` answers writes for the caller's rows that
    speak of the lost offsets (a list of first, and below which one); they go with them in one batch. `boot` names
    the run of the machine (tests pretend a power cut with another one), `files` and `database` are where
    tests make a disk fail. `options` are the fields of `Options`.

    Raises Locked when another process has the folder, DiskFull, Refused when it cannot be written to, and
    StoreError; each with one sentence for a person.
    """
    settings = Options(**options)
    check_folder(path)
    marked = last_mark.read(path / MARK)
    here = last_mark.boot_id() if boot is None else boot
    said = []
    if marked is None or not here or marked.boot != here:
        try:
            synced = marked.synced if marked is not None else 0
            said = powerloss.put_in_order(path / DATABASE, path / quarantine.FOLDER, synced)
        except OSError as error:
            found = plain(error, f"open the data folder {path}")
            raise found if isinstance(found, Refused) else StoreError(str(found)) from error
    opened = database(path / DATABASE, options=settings)
    try:
        _keep_names(path)
        return _open(
            path,
            opened,
            files(path / SEGMENTS),
            marked,
            clock,
            clip,
            here,
            settings,
            said,
        )
    except (OSError, Unknown) as error:
        # handles in the frames of the failure would keep the folder locked for whoever tries again
        traceback.clear_frames(error.__traceback__)
        opened.close()
        # Of a write that failed while opening nobody was told: what matters is why, a full disk most of all.
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        found = plain(cause, f"open the data folder {path}")
        raise found if isinstance(found, Refused) else StoreError(str(found)) from error
    except BaseException:
        opened.close()
        raise


def _keep_names(path: Path) -> None:
    """Make the names of the database's and the segments' folder durable: RocksDB syncs what is in its own, and
    `Files.sync_folder` what is in the other, which is nothing worth if the folder itself is gone.
    """
    (path / SEGMENTS).mkdir(exist_ok=True)
    sync_folder(path)


@step("start.database")
def _open(
    path: Path,
    database: Database,
    files: Files,
    marked: last_mark.Marked | None,
    clock: Callable[[], int],
    clip: Clip | None,
    boot: str,
    options: Options,
    said: list[str],
) -> RocksStore:
    form = database.get(Family.META, FORMAT)
    if form is not None and form not in rows.FORMATS:
        raise StoreError(
            f"The data folder {path} was written by a newer Magnetar (format {form.decode(errors='replace')}): "
            "start that one, or choose another folder with --data."
        )
    last = int(database.get(Family.META, rows.EPOCH_COUNTER) or b"0")
    clean = database.get(Family.META, rows.CLEAN) == str(last).encode()
    found = recovery.recover(path, database, files, marked, boot, clean=clean, epoch=last, clip=clip)
    epoch = last if found.read_only else last + 1
    if not found.read_only:
        batch = database.batch()
        meta = database.handles["meta"]
        if form is None:
            # a folder that was used has it, but those of the very first versions
            batch.put(FORMAT, NEWEST_FORMAT if not last else rows.FORMATS[0], meta)
        batch.put(rows.EPOCH_COUNTER, str(epoch).encode(), meta)
        batch.delete(rows.CLEAN, meta)
        if found.power_lost:
            batch.put(POWER_LOST, str(epoch).encode(), meta)
        # durable before the first append: no two runs may share a leader epoch
        database.write(batch)
        database.sync()
    ledger = database.get(Family.META, rows.NEXT_LEDGER)
    return RocksStore(
        path,
        database,
        files,
        # a store that takes no commits keeps the old mark: it is the evidence
        last_mark.LastMark(
            path / (MARK + ".unused" if found.read_only else MARK), boot, epoch, database.sequence()
        ),
        options=options,
        clock=clock,
        epoch=epoch,
        next_ledger=rows.U64.unpack(ledger)[0] if ledger else 1,
        notices=said + found.notices,
        read_only=found.read_only,
    )
