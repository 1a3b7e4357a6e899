"""Spark's list of the files that count, `_spark_metadata`: which they are, and where the archive lay when they
were listed.

The list is a file for each batch (`7`), and each tenth holds all before it as well (`9.compact`). A file is a
line with a version and then a line of JSON for each data file, with its absolute path. So an archive that was
copied or moved names files where it lay before: the copy's own files are known by their place below the
archive's folder instead, and `moved` writes the list anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from pipeline.hadoop import HadoopFiles

SPARK_LOG = "_spark_metadata"

_BATCH = re.compile(r"(\d+)(\.compact)?")
_BELOW = re.compile(r"/(topic=[^/]+/date=[^/]+/[^/]+)$")


class Listed(NamedTuple):
    """A data file that the list names."""

    root: str
    """Where the archive lay: comparable with `place`."""
    below: str
    """`topic=…/date=…/part-…`, not percent-encoded."""


def live(names: Iterable[str]) -> list[str]:
    """The batches' files that count, in order: the last compact one and those that follow it."""
    found = sorted(
        (int(match[1]), match[2] is not None, name) for name in names if (match := _BATCH.fullmatch(name))
    )
    compact = max((number for number, is_compact, _ in found if is_compact), default=-1)
    return [
        name for number, is_compact, name in found if number > compact or (number == compact and is_compact)
    ]


def listed(text: str) -> Iterator[Listed]:
    """The data files that a batch's file names."""
    for line in text.splitlines()[1:]:
        entry = json.loads(line)
        if entry.get("action", "add") == "add" and (match := _BELOW.search(entry["path"])):
            yield Listed(place(entry["path"][: match.start()]), unquote(match[1]))


def moved(text: str, uri: str) -> str:
    """A batch's file for an archive that now lies at `uri` (percent-encoded)."""
    version, *lines = text.splitlines()
    result = [version]
    for line in lines:
        entry = json.loads(line)
        if match := _BELOW.search(entry["path"]):
            entry["path"] = f"{uri}/{match[1]}"
        result.append(json.dumps(entry, separators=(",", ":")))
    return "\n".join(result)


def place(uri: str) -> str:
    """A folder's name for comparing: file:/a, file:///a and /a are one; percent-encoding is undone."""
    return unquote(re.sub(r"^file:(?://[^/]*)?", "", uri)).rstrip("/")


class FileLists:
    """The list of one archive, read when it is first asked for. Raises py4j's `Py4JError`."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files
        self._roots: set[str] = set()
        self._counted: set[str] | None = None

    def counted(self) -> set[str]:
        """The data files that count, below the archive's folder; none when there is no list yet."""
        if self._counted is None:
            self._counted = set()
            for name in self._batches():
                for each in listed(self._files.read(name)):
                    self._roots.add(each.root)
                    self._counted.add(each.below)
        return self._counted

    def elsewhere(self) -> list[str]:
        """Other folders that the list places data files in: where the archive was copied or moved from."""
        self.counted()
        return sorted(self._roots - {place(self._files.uri)})

    def move(self) -> None:
        """Write the list anew, file by file, so that it names this folder. May be done again after a kill."""
        for name in self._batches():
            text = self._files.read(name)
            if any(each.root != place(self._files.uri) for each in listed(text)):
                self._files.replace(name, moved(text, self._files.uri))

    def _batches(self) -> list[str]:
        folder = f"{self._files.root}/{SPARK_LOG}"
        return [f"{folder}/{name}" for name in live(self._files.names(folder))]
