"""A disk of a few megabytes for one gateway: a tmpfs that a process of its own keeps mounted."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class SmallDisk(NamedTuple):
    """`root` is the disk as the test sees it, `folder` as a gateway sees it that `wrapper` runs."""

    root: Path
    folder: Path
    wrapper: tuple[str, ...]

    def fill(self, leave: int = 0) -> None:
        """Take all that is free, but for so many bytes."""
        free = shutil.disk_usage(self.root).free - leave
        with open(self.root / "ballast", "ab", buffering=0) as file, contextlib.suppress(OSError):
            while free > 0:
                free -= file.write(bytes(min(free, 1 << 20)))
        if not leave:
            with open(self.root / "crumbs", "ab", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass

    def free(self, least: int | None = None) -> None:
        """Give all of it back, or no more than it takes that so many bytes are free."""
        (self.root / "crumbs").unlink(missing_ok=True)
        ballast = self.root / "ballast"
        if least is None:
            ballast.unlink(missing_ok=True)
        else:
            missing = least - shutil.disk_usage(self.root).free
            os.truncate(ballast, max(0, ballast.stat().st_size - max(0, missing)))


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mounted at `folder` within the name space of the wrapper."""
    if shutil.which("unshare") is None:
        pytest.fail("unshare (util-linux) is missing: it gives this test a small disk of its own")
    folder.mkdir()
    mount = f"mount -t tmpfs -o size={megabytes}m tmpfs {folder} && echo mounted && exec cat"
    holder = subprocess.Popen(
        ["unshare", "-rm", "sh", "-c", mount], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"mounted\n"
        wrapper = ("nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials")
        try:
            yield SmallDisk(Path(f"/proc/{holder.pid}/root{folder}"), folder, wrapper)
        finally:
            holder.stdin.close()
