"""Segment files: their names, and the few system calls that the store makes on them.

`Files` is also the seam at which tests make a disk fail. Nothing else in the store touches a segment.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from store.steps import step

_BUFFERS = min(1024, os.sysconf("SC_IOV_MAX"))
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_RANDOM: int | None = getattr(os, "POSIX_FADV_RANDOM", None)
_SYNC = getattr(os, "fdatasync", os.fsync)
# Linux; not in the os module
_sync_file_range = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
_SYNC_FILE_RANGE_WRITE = 2

TOO_MANY = (errno.EMFILE, errno.ENFILE)
"""Errors of a file that cannot be opened because too many are."""


def sync_folder(path: Path | str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Short(OSError):
    """The system took fewer bytes than it was given: a full disk says so before it says ENOSPC."""


class Files:
    """Segments under one folder, `<partition / 256>/<partition>-<base offset>-<number>.seg`.

    256 partitions share a folder so that a million logs need 4,000 folders. The number tells apart files that
    begin at the same offset: a segment whose sync failed is given up, and the next one begins where it began.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        # whether the system tells what is in the page cache
        self.tells = bool(_NOWAIT)
        self._folders: set[int] = set()

    def folder(self, partition: int) -> str:
        return f"{self.root}/{partition >> 8:06x}"

    def path(self, partition: int, base_offset: int, number: int) -> str:
        return f"{self.root}/{partition >> 8:06x}/{partition:08x}-{base_offset:020d}-{number}.seg"

    @staticmethod
    def parse(name: str) -> tuple[int, int, int] | None:
        """(partition, base offset, number) of a file name, None for anything else."""
        if not name.endswith(".seg"):
            return None
        parts = name[:-4].split("-")
        try:
            return (int(parts[0], 16), int(parts[1]), int(parts[2])) if len(parts) == 3 else None
        except ValueError:
            return None

    def listing(self) -> Iterator[tuple[int, int, int, int, str]]:
        """(partition, base offset, number, bytes, path) of every segment file."""
        if not self.root.exists():
            return
        for folder in sorted(os.scandir(self.root), key=lambda entry: entry.name):
            if folder.is_dir():
                for entry in sorted(os.scandir(folder.path), key=lambda entry: entry.name):
                    parsed = self.parse(entry.name)
                    if parsed is not None:
                        yield *parsed, entry.stat().st_size, entry.path

    # opening

    @step(after="segment.created", within="group")
    def create(self, partition: int, base_offset: int, number: int) -> tuple[int, int]:
        """A new file: (descriptor, number).

        The number is higher than asked when a left-over has that name.
        """
        if partition >> 8 not in self._folders:
            os.makedirs(self.folder(partition), exist_ok=True)
            self._folders.add(partition >> 8)
        while True:
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                return os.open(self.path(partition, base_offset, number), flags, 0o644), number
            except FileExistsError:
                number += 1

    def holds(self, partition: int, base_offset: int, number: int, size: int) -> bool:
        """Whether a file is there with so many bytes at least."""
        try:
            return os.stat(self.path(partition, base_offset, number)).st_size >= size
        except OSError:
            return False

    def open(self, partition: int, base_offset: int, number: int, *, write: bool = False) -> int:
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC
        return os.open(self.path(partition, base_offset, number), flags)

    def open_to_read(self, partition: int, base_offset: int, number: int) -> int:
        """Open a file so that a read brings just its own bytes into the page cache, and none that lie ahead."""
        descriptor = self.open(partition, base_offset, number)
        if _RANDOM is not None:
            os.posix_fadvise(descriptor, 0, 0, _RANDOM)
        return descriptor

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    # writing

    @step("segment.before", "segment.written", half="segment.half", within="group")
    @step(half="start.redo.half", within="recovery")
    def write(self, descriptor: int, buffers: Sequence[bytes], position: int) -> None:
        """All of the buffers at `position`. Raises OSError; a short write is one (ENOSPC)."""
        if len(buffers) == 1:
            done, size = os.pwrite(descriptor, buffers[0], position), len(buffers[0])
            if done != size:
                raise Short(errno.ENOSPC, f"only {done} of {size} bytes were written")
            return
        for first in range(0, len(buffers), _BUFFERS):
            part = buffers[first : first + _BUFFERS]
            size = sum(map(len, part))
            done = os.pwritev(descriptor, part, position)
            if done != size:
                raise Short(errno.ENOSPC, f"only {done} of {size} bytes were written")
            position += size

    @step("start.tail.cut", within="tail")
    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    @step("checkpoint.sync", within="checkpoint")
    def sync(self, descriptor: int) -> None:
        _SYNC(descriptor)

    @step("checkpoint.names", within="checkpoint")
    def sync_folder(self, partition: int) -> None:
        """Make the names of a folder's files durable, and the folder's own. Nothing where there is no folder."""
        for path in (self.folder(partition), str(self.root)):
            with contextlib.suppress(FileNotFoundError):
                sync_folder(path)

    # the page cache

    can_write_behind = _sync_file_range is not None and hasattr(os, "posix_fadvise")

    def start_writing(self, descriptor: int, position: int, size: int) -> None:
        """Have the system begin to write these bytes. Waits for no disk, and makes nothing durable."""
        if _sync_file_range is not None and _sync_file_range(
            descriptor, position, size, _SYNC_FILE_RANGE_WRITE
        ):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def give_back(self, descriptor: int, position: int, size: int) -> None:
        """Drop the pages of these bytes from the page cache, those that are on disk."""
        os.posix_fadvise(descriptor, position, size, os.POSIX_FADV_DONTNEED)

    @step(after="unlink.one", within="unlink")
    @step(after="start.doomed.one", within="doomed")
    def unlink(self, partition: int, base_offset: int, number: int) -> None:
        try:
            os.unlink(self.path(partition, base_offset, number))
        except FileNotFoundError:
            pass

    # reading

    def read_cached(self, descriptor: int, size: int, position: int) -> memoryview | None:
        """Bytes if all of them are in the page cache, else None: never waits for a disk where the system can
        say.

        Without RWF_NOWAIT (macOS) this is None, and the caller asks a thread.
        """
        if not self.tells:
            return None
        buffer = bytearray(size)
        try:
            done = os.preadv(descriptor, [buffer], position, _NOWAIT)
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                self.tells = False
                return None
            if error.errno == errno.EAGAIN:
                return None
            raise
        return memoryview(buffer) if done == size else None

    def read_cached_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Fill the buffer as far as the page cache has it without a hole; how many bytes that is. In any thread."""
        try:
            return os.preadv(descriptor, [buffer], position, _NOWAIT)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                return 0
            raise

    def read_whole_into(self, descriptor: int, buffer: memoryview, position: int) -> bool:
        """Fill the buffer, False if the file ends before. May wait for the disk. In any thread."""
        at = 0
        while at < len(buffer):
            done = os.preadv(descriptor, [buffer[at:]], position + at)
            if not done:
                return False
            at += done
        return True

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """At most `size` bytes, fewer at the file's end, or where it cannot be read further. May wait for the disk.

        Raises OSError when not even the first of them can be read.
        """
        data = os.pread(descriptor, size, position)
        while 0 < len(data) < size:
            try:
                more = os.pread(descriptor, size - len(data), position + len(data))
            except OSError:
                break
            if not more:
                break
            data += more
        return data
