"""Bytes that RocksDB knows nothing of are moved aside, never destroyed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from store.rocksdb.files import Files, sync_folder
from store.steps import step

FOLDER = "quarantine"
_CHUNK = 1 << 20


class Quarantine:
    """`<data folder>/quarantine`, made when the first thing goes there. `epoch` keeps runs apart in names."""

    def __init__(self, data: Path, epoch: int) -> None:
        self._folder = data / FOLDER
        self._epoch = epoch

    def _place(self, name: str) -> Path:
        self._folder.mkdir(exist_ok=True)
        place = self._folder / f"{self._epoch}-{name}"
        copy = 1
        while place.exists():
            place = self._folder / f"{self._epoch}-{name}.{copy}"
            copy += 1
        return place

    @step("start.tail.before", "start.tail.after", inside="tail")
    def tail(self, files: Files, path: str, position: int) -> Path:
        """Copy a file's bytes from `position` on, make the copy durable, then cut them off."""
        place = self._place(f"{os.path.basename(path)}@{position}")
        with open(path, "rb+") as source, open(place, "xb") as target:
            source.seek(position)
            shutil.copyfileobj(source, target, _CHUNK)
            target.flush()
            os.fsync(target.fileno())
            files.truncate(source.fileno(), position)
            # a cut that a power cut undoes would leave the bytes to whoever writes there next
            files.sync(source.fileno())
        sync_folder(self._folder)
        return place

    def whole(self, path: str) -> Path:
        """Move a file here."""
        place = self._place(os.path.basename(path))
        os.rename(path, place)
        for folder in (self._folder, os.path.dirname(path)):
            sync_folder(folder)
        return place
