"""What a power cut may leave of RocksDB's own files that RocksDB does not put in order by itself.

**The torn end of the MANIFEST.** Each record there is synced when it is added. One that is half there, as a cut in
between leaves it when it lies across two sectors, makes RocksDB refuse to open. It has had no effect yet (files are
deleted after the sync), so without it the database is as it was before.

**A hole between two WALs.** RocksDB notices a damaged record and drops what stands behind it. It does not notice when
a WAL that it had closed, and not yet synced, ends early at the border of a record: it goes on with the next WAL, and
rows are missing in the middle. Nothing behind such a hole was ever synced, because a sync takes all WALs, and tables
are written only after the closed ones are synced; so what stands there goes, as it would behind a damaged record.

**A hole within a WAL.** Nor does it notice one that begins where a record ends: zeros there are room that was laid out
and not written, to RocksDB, and it goes on with the next block that begins with a record. What stands behind goes, too.

RocksDB notes the number of the oldest WAL that it needs. After a flush that is a WAL's; after a start it is no file's:
all WALs are put into tables then, and what is noted is one number more than the last of them had. Which rows a start
finds in tables at most is noted as well, and where a WAL begins stands in it.

Bytes are moved aside, never destroyed. The end of the MANIFEST is cut off only while the WALs are there that hold what
it spoke of; and were the rest wrong, the mark would tell that synced rows are gone.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

from store.rocksdb.files import sync_folder
from store.rocksdb.logformat import BLOCK, HEAD, intact, next_block, records, text, varint

UNSYNCED = 4096
"""So many bytes of the MANIFEST, at most, wait for one sync as a rule: the changes of one flush or compaction."""

_BATCH = struct.Struct("<QI")  # sequence of its first row, rows

# fields of a MANIFEST's record
_LOG_NUMBER, _LAST_SEQUENCE, _LEAST_LOG, _DROP = 2, 4, 10, 202
COLUMN_FAMILY, FAMILY_NAME = 200, 201
_NUMBERS = {_LOG_NUMBER, 3, _LAST_SEQUENCE, 9, _LEAST_LOG, COLUMN_FAMILY, 203, 300}
_TEXTS = {1, FAMILY_NAME}
_DELETED_FILE, _COMPACT_POINTER, _NEW_FILE = 6, 5, 103
_IGNORABLE = 1 << 13
_LAST_CUSTOM = 1


class Noted(NamedTuple):
    """What a MANIFEST says: the number of the oldest WAL that is needed, and of the last row that is in a table."""

    least: int
    row: int


def put_in_order(database: Path, keep: Path, synced: int = 0) -> list[str]:
    """Do both, before RocksDB opens the folder `database`; what is cut off goes to `keep`. Answers what to say.

    `synced`: so many rows were surely synced, by the mark.
    """
    path = _manifest(database)
    if path is None:
        return []
    # RocksDB's own lock, as it takes it: nothing may be touched while another process is at work here
    with (database / "LOCK").open("ab") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return []
        said = cut_torn_end(path, keep, synced)
        manifest = path.read_bytes()
        if _end(manifest) == len(manifest):
            # of a damaged one nobody knows which WALs are needed: RocksDB will refuse it
            said += cut_at_hole(database, manifest, keep)
    return said


def _manifest(database: Path) -> Path | None:
    try:
        path = database / (database / "CURRENT").read_text().strip()
    except (OSError, ValueError):
        return None
    return path if path.is_file() else None


# the MANIFEST


def _end(data: bytes) -> int:
    """Where its whole records end."""
    end = 0
    for record in records(data):
        end = record.end
    return end


def torn_at(data: bytes) -> int | None:
    """Where the end begins that no sync took: at the first record that is not whole. None when all are, or when it
    stands so far from the end, with whole ones behind it, that it must be damage to what had been synced.
    """
    end = at = _end(data)
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


def cut_torn_end(path: Path, keep: Path, synced: int) -> list[str]:
    data = path.read_bytes()
    at = torn_at(data)
    if not at:
        return []
    found = noted(data[:at])
    if found is None or not _complete(path, found, synced):
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


def _complete(manifest: Path, found: Noted, synced: int) -> bool:
    """Whether the WALs are there that hold what no table of the first part of a MANIFEST has."""
    wals = _wals(manifest.parent, found.least)
    if any(number == found.least for number, _ in wals):
        return True
    # files are numbered by one counter; at a start the WAL's number is the one before the MANIFEST's
    if found.least >= int(manifest.name.rpartition("-")[2]) - 1:
        return False
    if synced <= found.row:
        return True
    first = next(filter(None, (sequences(path.read_bytes()) for _, path in wals)), None)
    return first is not None and first[0] <= found.row + 1


def noted(manifest: bytes) -> Noted | None:
    """None when it has a field nobody here knows."""
    logs: dict[int, int] = {}
    least = row = 0
    for record in records(manifest):
        try:
            found = numbers(record.data)
        except ValueError:
            return None
        least = max(least, found.get(_LEAST_LOG, 0))
        row = max(row, found.get(_LAST_SEQUENCE, 0))
        family = found.get(COLUMN_FAMILY, 0)
        if _DROP in found:
            logs.pop(family, None)
        elif _LOG_NUMBER in found:
            logs[family] = found[_LOG_NUMBER]
        else:
            logs.setdefault(family, 0)
    return Noted(max(least, min(logs.values(), default=0)), row)


def numbers(record: bytes) -> dict[int, int]:
    """The fields of a MANIFEST's record that are numbers, by tag; of texts, where they begin in it.

    Raises ValueError at a field nobody here knows.
    """
    found: dict[int, int] = {}
    at = 0
    while at < len(record):
        tag, at = varint(record, at)
        if tag in _NUMBERS:
            found[tag], at = varint(record, at)
        elif tag in _TEXTS:
            found[tag], at = at, text(record, at)
        elif tag == _DROP:
            found[tag] = 1
        elif tag == _DELETED_FILE:
            at = varint(record, varint(record, at)[1])[1]
        elif tag == _COMPACT_POINTER:
            at = text(record, varint(record, at)[1])
        elif tag == _NEW_FILE:
            at = _new_file(record, at)
        elif tag & _IGNORABLE:
            at = text(record, at)
        else:
            raise ValueError(f"a MANIFEST with a field {tag}")
    return found


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


def _wals(database: Path, least: int) -> list[tuple[int, Path]]:
    """(number, path) of each WAL from the number `least` on, ascending."""
    numbered = ((int(path.stem), path) for path in database.glob("*.log") if path.stem.isdigit())
    return sorted(each for each in numbered if each[0] >= least)


def cut_at_hole(database: Path, manifest: bytes, keep: Path) -> list[str]:
    noticed = noted(manifest)
    if noticed is None:
        return []
    # the row with which the next WAL begins at the latest
    expected = noticed.row + 1
    said: list[str] = []
    behind: list[Path] = []
    for _, path in _wals(database, noticed.least):
        data = b"" if behind else path.read_bytes()
        found = sequences(data)
        if behind or (found is not None and found[0] > expected):
            behind.append(path)
        elif found is not None:
            expected = found[1]
        at = hole_in(data)
        if at is not None and not behind:
            keep.mkdir(exist_ok=True)
            said.append(_cut_off(path, data, at, keep))
    if behind:
        keep.mkdir(exist_ok=True)
        for path in behind:
            path.rename(_free(keep / path.name))
        sync_folder(database)
        said.append(
            f"The machine stopped before the end of a log of the database was on disk; {len(behind)} logs behind it, "
            f"which no sync had taken, are in {keep} now."
        )
    return said


def hole_in(wal: bytes) -> int | None:
    """Where a WAL has zeros in place of a record, with something in a later block; None where it has no such hole."""
    at = _end(wal)
    if BLOCK - at % BLOCK < HEAD.size:
        at = next_block(at)
    # without length and type it is none to RocksDB, whatever its CRC; a damaged record it notices
    if any(wal[at + 4 : at + HEAD.size]) or not any(wal[next_block(at) :]):
        return None
    return at


def _cut_off(path: Path, data: bytes, at: int, keep: Path) -> str:
    """The end of a file goes to `keep`. Answers what to say."""
    place = _free(keep / f"{path.name}@{at}")
    place.write_bytes(data[at:])
    with path.open("rb+") as file:
        file.truncate(at)
        os.fsync(file.fileno())
    return (
        f"The machine stopped before a part of {path.name} was on disk; {len(data) - at} bytes of it, from the hole "
        f"on, which no sync had taken, are in {place} now."
    )


def _free(place: Path) -> Path:
    copy = 1
    free = place
    while free.exists():
        free = place.with_name(f"{place.name}.{copy}")
        copy += 1
    return free
