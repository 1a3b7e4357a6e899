"""The disk with the data folder: how large it is, and how much of it the gateway may still write."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gateway.metrics import head, number

FAMILIES = {
    "magnetar_data_disk_size_bytes": "Bytes of the file system with the data folder.",
    "magnetar_data_disk_available_bytes": "Bytes of it that are free for this user.",
}


def lines(folder: str) -> Iterator[str]:
    """Lines for a scrape; none where the folder cannot be looked at."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return
    sizes = (found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
    for (name, text), size in zip(FAMILIES.items(), sizes, strict=True):
        yield head(name, "gauge", text)
        yield f"{name} {number(size)}"
