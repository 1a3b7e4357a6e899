"""The last mark: how far RocksDB had come, kept outside of RocksDB.

RocksDB drops everything behind a damaged record of its WAL without a word. So that this is noticed, the
sequence number of the last committed group stands in a small mapped file too. The page cache keeps it when
the process dies; when the machine dies it may be older than the truth, never newer than what was once
committed. BookKeeper has a lastMark file for its journal, with the same purpose.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import NamedTuple

from store.steps import step

_BYTES = 4096
_MAGIC = b"MAGNETAR"
_HEAD = struct.Struct("<8s36sQ")  # magic, boot id, epoch
_SEQUENCES = struct.Struct("<QQ")  # last committed, last synced
_AT = 64


class Marked(NamedTuple):
    """What a mark file says."""

    boot: str
    epoch: int
    committed: int
    synced: int


def boot_id() -> str:
    """A name for this run of the machine, or nothing where the system has none: then each run counts as new."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read(path: Path) -> Marked | None:
    """The mark as the last process left it; None when there is none, or it is not readable as one."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) < _BYTES or not data.startswith(_MAGIC):
        return None
    _, boot, epoch = _HEAD.unpack_from(data)
    return Marked(boot.rstrip(b"\0").decode("ascii", "replace"), epoch, *_SEQUENCES.unpack_from(data, _AT))


class LastMark:
    """The mark of this run, written after every group: two stores into mapped memory."""

    @step("start.mark.before", "start.mark.after")
    def __init__(self, path: Path, boot: str, epoch: int, sequence: int) -> None:
        # a new file in the old one's place, so that a crash here leaves one or the other
        new = path.with_suffix(".new")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, _BYTES)
            self._map = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        _HEAD.pack_into(self._map, 0, _MAGIC, boot.encode()[:36], epoch)
        self._synced = sequence
        _SEQUENCES.pack_into(self._map, _AT, sequence, sequence)
        new.replace(path)

    @step("mark.before", "mark.after")
    def store(self, sequence: int, synced: bool) -> None:
        if synced:
            self._synced = sequence
        _SEQUENCES.pack_into(self._map, _AT, sequence, self._synced)

    def close(self) -> None:
        self._map.close()
