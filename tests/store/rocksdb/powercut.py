"""What a disk holds after the power failed: everything that was synced, and any part of the rest.

The recorder stands around the store's own writes. RocksDB's tables and its manifest are synced by RocksDB; its WAL is
cut by the recorder to what `sync` saw, or to anything between that and its end.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from store import rocksdb
from store.rocksdb import RocksStore
from store.rocksdb.database import Database
from store.rocksdb.files import Files


class Recorder:
    """What is surely on disk: bytes by file."""

    def __init__(self) -> None:
        # segments: path -> [(position, bytes)] written since the last sync, and the synced content
        self.unsynced: dict[str, list[tuple[int, bytes]]] = {}
        self.synced: dict[str, bytes] = {}
        self.wal: dict[str, int] = {}

    def sync_wal(self, path: Path) -> None:
        self.wal = {each.name: each.stat().st_size for each in path.glob("*.log")}

    def image(self, data: Path, target: Path, random: random.Random) -> None:
        """A folder as it may look when the power comes back. The store may go on meanwhile."""
        shutil.copytree(data, target)
        for path in (target / "segments").glob("*/*.seg"):
            original = str(data / path.relative_to(target))
            content = bytearray(self.synced.get(original, b""))
            for position, written in self.unsynced.get(original, []):
                fate = random.choice(("kept", "kept", "lost", "torn"))
                if fate == "lost":
                    continue
                part = written if fate == "kept" else written[: random.randrange(len(written) + 1)]
                if len(content) < position:
                    content += bytes(position - len(content))
                content[position : position + len(part)] = part
            if original not in self.synced and random.random() < 0.3:
                # the name of a new file may be lost too
                path.unlink()
            else:
                path.write_bytes(bytes(content))
        for path in (target / "db").glob("*.log"):
            size = path.stat().st_size
            least = min(self.wal.get(path.name, 0), size)
            os.truncate(path, random.choice((least, size, random.randint(least, size))))


class Worst(random.Random):
    """Of segments nothing is left that was not synced, neither bytes nor names; of the WAL all."""

    def choice(self, seq: Any) -> Any:
        return "lost" if seq[0] == "kept" else seq[1]

    def random(self) -> float:
        return 0.0


class RecordingFiles(Files):
    def __init__(self, root: Path, recorder: Recorder) -> None:
        super().__init__(root)
        self._recorder = recorder

    def write(self, descriptor: int, buffers: Sequence[bytes], position: int) -> None:
        super().write(descriptor, buffers, position)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._recorder.unsynced.setdefault(path, []).append((position, b"".join(buffers)))

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._recorder.synced[path] = Path(path).read_bytes()
        self._recorder.unsynced.pop(path, None)


class RecordingDatabase(Database):
    recorder: Recorder

    def sync(self) -> None:
        super().sync()
        self.recorder.sync_wal(self.path)

    def settle(self) -> None:
        super().settle()
        self.recorder.sync_wal(self.path)


async def open_recorded(path: Path, recorder: Recorder, **options: Any) -> RocksStore:
    def database(where: Path, **more: Any) -> Database:
        made = RecordingDatabase(where, **more)
        made.recorder = recorder
        return made

    return await rocksdb.open(
        path, files=lambda root: RecordingFiles(root, recorder), database=database, **options
    )
