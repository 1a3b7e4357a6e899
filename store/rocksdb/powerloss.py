"""What a power cut may leave of RocksDB's own files that RocksDB does not put in order by itself.

**The torn end of the MANIFEST.** Each record there is synced when it is added. One that is half there, as a cut in
between leaves it when it lies across two sectors, makes RocksDB refuse to open. It has had no effect yet (files are
deleted after the sync), so without it the database is as it was before.

**A hole between two WALs.** RocksDB notices a damaged record and drops what stands behind it. It does not notice when
a WAL that it had closed, and not yet synced, ends early at the border of a record: it goes on with the next WAL, and
rows are missing in the middle. Nothing behind such a hole was ever synced, because a sync takes all WALs, and tables
are written only after the closed ones are synced; so what stands there goes, as it would behind a damaged record.

Bytes are moved aside, never destroyed. The end of the MANIFEST is cut off only while the WALs are there that hold what
it spoke of; and were the rest wrong, the mark would tell that synced rows are gone.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from store.rocksdb.files import sync_folder
from store.rocksdb.logformat import BLOCK, HEAD, intact, next_block, records, text, varint

UNSYNCED = 4096
"""So many bytes of the MANIFEST, at most, wait for one sync as a rule: the changes of one flush or compaction."""

_BATCH = struct.Struct("<QI")  # sequence of its first row, rows

# fields of a MANIFEST's record
_LOG_NUMBER, _LEAST_LOG, _COLUMN_FAMILY, _DROP = 2, 10, 200, 202
_NUMBERS = {_LOG_NUMBER, 3, 4, 9, _LEAST_LOG, _COLUMN_FAMILY, 203, 300}
_TEXTS = {1, 201}
_DELETED_FILE, _COMPACT_POINTER, _NEW_FILE = 6, 5, 103
_IGNORABLE = 1 << 13
_LAST_CUSTOM = 1


def put_in_order(database: Path, keep: Path) -> list[str]:
    """Do both, before RocksDB opens the folder `database`; what is cut off goes to `keep`. Answers what to say."""
    path = _manifest(database)
    if path is None:
        return []
    # RocksDB's own lock, as it takes it: nothing may be touched while another process is at work here
    with (database / "LOCK").open("ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return []
        said = cut_torn_end(path, keep)
        said += cut_at_hole(database, path.read_bytes(), keep)
    return said


def _manifest(database: Path) -> Path | None:
    try:
        path = database / (database / "CURRENT").read_text().strip()
    except (OSError, ValueError):
        return None
    return path if path.is_file() else None


# the MANIFEST


def torn_at(data: bytes) -> int | None:
    """Where the end begins that no sync took: at the first record that is not whole. None when all are, or when it
    stands so far from the end, with whole ones behind it, that it must be damage to what had been synced.
    """
    end = 0
    for record in records(data):
        end = record.end
    at = end
    while at < len(data):
        # fragments of the record that is not whole
        if BLOCK - at % BLOCK < HEAD.size:
            at = next_block(at)
        elif intact(data, at):
            at += HEAD.size + HEAD.unpack_from(data, at)[1]
        else:
            break
    if end >= len(data):
        return None
    if len(data) - end <= UNSYNCED:
        # a change may be several records, of which the disk took the last before the first
        return end
    places = [next_block(at)]
    if at + HEAD.size <= len(data):
        places.append(at + HEAD.size + HEAD.unpack_from(data, at)[1])
    return None if any(intact(data, place) for place in places) else end


def cut_torn_end(path: Path, keep: Path) -> list[str]:
    data = path.read_bytes()
    at = torn_at(data)
    if not at:
        return []
    least = least_log(data[:at])
    if least is None or not (path.parent / f"{least:06d}.log").exists():
        # WALs go when the change that made them needless is synced: this one was, and is damaged
        return []
    keep.mkdir(exist_ok=True)
    place = _free(keep / f"{path.name}@{at}")
    place.write_bytes(data[at:])
    with path.open("rb+") as file:
        file.truncate(at)
        os.fsync(file.fileno())
    return [
        f"The machine stopped while the database noted a change of its files; {len(data) - at} bytes of "
        f"{path.name}, half of a record, are in {place} now."
    ]


def least_log(manifest: bytes) -> int | None:
    """The number of the oldest WAL that RocksDB still needs; None when the MANIFEST has a field nobody here knows."""
    logs: dict[int, int] = {}
    least = 0
    for record in records(manifest):
        data, at, family = record.data, 0, 0
        number = -1
        dropped = False
        while at < len(data):
            tag, at = varint(data, at)
            if tag in _NUMBERS:
                value, at = varint(data, at)
                if tag == _COLUMN_FAMILY:
                    family = value
                elif tag == _LOG_NUMBER:
                    number = value
                elif tag == _LEAST_LOG:
                    least = max(least, value)
            elif tag in _TEXTS:
                at = text(data, at)
            elif tag == _DROP:
                dropped = True
            elif tag == _DELETED_FILE:
                at = varint(data, varint(data, at)[1])[1]
            elif tag == _COMPACT_POINTER:
                at = text(data, varint(data, at)[1])
            elif tag == _NEW_FILE:
                at = _new_file(data, at)
            elif tag & _IGNORABLE:
                at = text(data, at)
            else:
                return None
        if dropped:
            logs.pop(family, None)
        elif number >= 0:
            logs[family] = number
        else:
            logs.setdefault(family, 0)
    return max(least, min(logs.values(), default=0))


def _new_file(data: bytes, at: int) -> int:
    for _ in range(3):
        # level, number, size
        _, at = varint(data, at)
    at = text(data, text(data, at))
    for _ in range(2):
        # sequence numbers
        _, at = varint(data, at)
    while True:
        field, at = varint(data, at)
        if field == _LAST_CUSTOM:
            return at
        at = text(data, at)


# the WALs


def sequences(wal: bytes) -> tuple[int, int] | None:
    """(the first row's sequence number, the one after the last row's) of a WAL; None when it has no whole record."""
    first = last = None
    for record in records(wal):
        if len(record.data) >= _BATCH.size:
            last = record
            first = first or record
    if first is None or last is None:
        return None
    begin, count = _BATCH.unpack_from(last.data)
    return _BATCH.unpack_from(first.data)[0], begin + count


def cut_at_hole(database: Path, manifest: bytes, keep: Path) -> list[str]:
    wals = sorted((int(path.stem), path) for path in database.glob("*.log") if path.stem.isdigit())
    if len(wals) < 2:
        return []
    least = least_log(manifest)
    if least is None:
        return []
    expected = -1
    behind: list[Path] = []
    for number, path in wals:
        if number < least:
            continue
        found = None if behind else sequences(path.read_bytes())
        if behind or (found is not None and expected >= 0 and found[0] > expected):
            behind.append(path)
        elif found is not None:
            expected = found[1]
    if not behind:
        return []
    keep.mkdir(exist_ok=True)
    for path in behind:
        path.rename(_free(keep / path.name))
    sync_folder(database)
    return [
        f"The machine stopped before the end of a log of the database was on disk; {len(behind)} logs behind it, "
        f"which no sync had taken, are in {keep} now."
    ]


def _free(place: Path) -> Path:
    copy = 1
    free = place
    while free.exists():
        free = place.with_name(f"{place.name}.{copy}")
        copy += 1
    return free
