"""Whether a data folder can be used, before anything is opened in it: what is wrong is said in one sentence."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from store.api import Refused, StoreError
from store.rocksdb.database import plain
from store.rocksdb.files import sync_folder
from store.rocksdb.layout import DATABASE, MARK, SEGMENTS

_OTHER = "choose another folder with --data"


def check_folder(path: Path) -> None:
    """Make the folder if need be, and see that it can be written to. Raises DiskFull, Refused or StoreError."""
    try:
        made = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for each in made:
            # a folder that is gone after a power cut takes everything in it along
            sync_folder(each.parent)
    except (OSError, ValueError) as error:
        raise _not_made(error, path) from error
    try:
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "not writable")
        probe = path / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        found = plain(error, f"write to the data folder {path}")
        raise found if isinstance(found, Refused) else StoreError(str(found)) from error
    for name, kind in ((DATABASE, "folder"), (SEGMENTS, "folder"), (MARK, "file"), (MARK + ".new", "file")):
        there = path / name
        if there.exists() and there.is_dir() is not (kind == "folder"):
            raise StoreError(
                f"{there} is no {kind}, so {path} is no data folder of Magnetar: move it away, or {_OTHER}."
            )


def _not_made(error: OSError | ValueError, path: Path) -> StoreError:
    if isinstance(error, FileExistsError | NotADirectoryError):
        return StoreError(f"The data folder {path} is a file, or would lie in one: {_OTHER}.")
    if isinstance(error, OSError):
        found = plain(error, f"make the data folder {path}")
        if isinstance(found, Refused):
            return found
        if error.errno == errno.ENAMETOOLONG:
            return StoreError(
                f"The name of the data folder is too long ({len(path.name)} letters): {_OTHER}."
            )
        # /proc and its like
        return StoreError(
            f"The data folder {path} cannot be made there ({os.strerror(error.errno or 0)}): {_OTHER}."
        )
    return StoreError(f"{str(path)!r} cannot be the name of a folder: {_OTHER}.")
