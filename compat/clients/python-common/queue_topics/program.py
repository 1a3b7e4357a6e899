"""A program of queue topics: the cases, or with --member one member in a process of its own, that can be killed."""

from __future__ import annotations

import sys

import common


def main(client: str, version: str) -> None:
    """The command line; ends the process."""
    if sys.argv[1:2] == ["--member"]:
        from queue_topics import process

        process.work(*sys.argv[2:])
        return
    from queue_topics import commits, example, members, names, restarts, times  # noqa: F401 (they register their cases)

    common.main(client, version)
