"""What a disk may hold: the recorded events applied to files and names, with what is surely there kept apart.

A write is *pending* until a sync of its file that began after it is over; a name, until such a sync of its folder.
What is pending may be there after a power cut, or not, or in part. `image.py` chooses.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tests.proofs.powercut.recorder import Event, Kind

SECTOR = 512


def unread(path: str) -> bool:
    """RocksDB's log for people: no program reads it, and most of what is written is that."""
    return path.startswith("db/LOG")


class Content:
    """Bytes of a file. It may be larger than its data: the rest is zeros."""

    __slots__ = ("data", "size")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.size = len(data)

    def copy(self) -> Content:
        made = Content()
        made.data = bytearray(self.data)
        made.size = self.size
        return made

    def write(self, position: int, data: bytes | memoryview) -> None:
        have = len(self.data)
        if have < position:
            self.data += bytes(position - have)
        self.data[position : position + len(data)] = data
        self.size = max(self.size, position + len(data))

    def resize(self, size: int) -> None:
        del self.data[size:]
        self.size = size

    def apply(self, change: Change) -> None:
        if change.data is not None:
            self.write(change.position, change.data)
        elif change.grow:
            self.size = max(self.size, change.position)
        else:
            self.resize(change.position)


class Change(NamedTuple):
    """A write at `position`, or without data a new size: `grow` never shortens."""

    when: int
    position: int
    data: memoryview | bytes | None = None
    grow: bool = False
    mapped: bool = False
    """of mapped memory: whole sectors, and a disk has each as it was or as it is now"""


class File:
    __slots__ = ("durable", "live", "number", "pending")

    def __init__(self, number: int) -> None:
        self.number = number
        self.durable = Content()
        self.live = Content()
        self.pending: list[Change] = []

    def change(self, change: Change) -> None:
        self.live.apply(change)
        self.pending.append(change)

    def mapped(self, when: int, position: int, data: memoryview | bytes) -> None:
        """Bytes of mapped memory are other ones now. It is the system that writes these, in whole sectors: half of a
        number is never there.
        """
        self.live.write(position, data)
        begin = position // SECTOR * SECTOR
        end = -(-(position + len(data)) // SECTOR) * SECTOR
        sectors = bytes(self.live.data[begin:end]).ljust(end - begin, b"\0")
        self.pending.append(Change(when, begin, sectors, mapped=True))

    def synced(self, before: int) -> None:
        """What was written before event `before` is durable."""
        pending = self.pending
        count = 0
        while count < len(pending) and pending[count].when < before:
            self.durable.apply(pending[count])
            count += 1
        del pending[:count]


class Folder:
    __slots__ = ("durable", "live", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.durable: dict[str, Node] = {}
        self.live: dict[str, Node] = {}


Node = File | Folder


class Naming(NamedTuple):
    """Names that came, went or moved at once: (folder, name, what it leads to now)."""

    when: int
    changes: tuple[tuple[Folder, str, Node | None], ...]


class Disk:
    """Apply events in order with `apply`; look at any point."""

    def __init__(self, root: Path, *, base: Path | None = None) -> None:
        """`base` is a folder with what was there, and durable, before the first event."""
        self._root = str(root)
        self._count = 0
        self.top = self._folder()
        self.pending_names: list[Naming] = []
        self.index = 0
        self._open: dict[tuple[int, int], Node | None] = {}
        self._maps: dict[tuple[int, int], File] = {}
        self._syncs: dict[tuple[int, int], tuple[Node, int]] = {}
        self.syncs = 0
        if base is not None:
            self._load(base, self.top)

    def _load(self, path: Path, into: Folder) -> None:
        for entry in os.scandir(path):
            if entry.is_dir():
                made: Node = self._folder()
                assert isinstance(made, Folder)
                self._load(Path(entry.path), made)
            else:
                made = self._file()
                made.durable = Content(Path(entry.path).read_bytes())
                made.live = made.durable.copy()
            into.durable[entry.name] = into.live[entry.name] = made

    def _folder(self) -> Folder:
        self._count += 1
        return Folder(self._count)

    def _file(self) -> File:
        self._count += 1
        return File(self._count)

    # names

    def _parts(self, path: str) -> list[str]:
        return [part for part in path[len(self._root) :].split("/") if part]

    def find(self, path: str) -> Node | None:
        node: Node | None = self.top
        for part in self._parts(path):
            if not isinstance(node, Folder):
                return None
            node = node.live.get(part)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        *above, name = self._parts(path)
        node: Node = self.top
        for part in above:
            assert isinstance(node, Folder)
            node = node.live[part]
        assert isinstance(node, Folder)
        return node, name

    def _name(self, *changes: tuple[Folder, str, Node | None]) -> None:
        for folder, name, node in changes:
            if node is None:
                folder.live.pop(name, None)
            else:
                folder.live[name] = node
        self.pending_names.append(Naming(self.index, changes))

    # events

    def apply(self, event: Event) -> None:
        kind = event.kind
        if kind is Kind.WRITE:
            self._file_of(event).change(Change(self.index, event.a, event.first))
        elif kind is Kind.MAPPED:
            self._maps[event.pid, event.fd].mapped(self.index, event.a, event.first)
        elif kind is Kind.OPEN:
            self._opened(event)
        elif kind is Kind.CLOSE:
            self._open.pop((event.pid, event.fd), None)
        elif kind is Kind.TRUNCATE:
            file = self._file_of(event) if event.fd >= 0 else self.find(str(event.first, "utf-8"))
            assert isinstance(file, File)
            file.change(Change(self.index, event.a))
        elif kind is Kind.ALLOCATE:
            assert int.from_bytes(event.first, "little") == 0, "only plain fallocate is known"
            self._file_of(event).change(Change(self.index, event.a + event.b, grow=True))
        elif kind is Kind.SYNC_BEGIN:
            node = self._open.get((event.pid, event.fd))
            if node is not None:
                self._syncs[event.pid, event.a] = (node, self.index)
        elif kind is Kind.SYNC_END:
            self._synced(event)
        elif kind is Kind.MAP:
            self._maps[event.pid, event.a] = self._file_of(event)
        elif kind not in (Kind.SEND, Kind.FAILED):
            self._named(event)
        self.index += 1

    def _file_of(self, event: Event) -> File:
        node = self._open[event.pid, event.fd]
        assert isinstance(node, File), "data for something that is no file"
        return node

    def _opened(self, event: Event) -> None:
        path = str(event.first, "utf-8")
        node = self.find(path)
        if node is None and event.a & os.O_CREAT:
            node = self._file()
            folder, name = self._parent(path)
            self._name((folder, name, node))
        elif isinstance(node, File) and event.a & os.O_TRUNC and node.live.size:
            node.change(Change(self.index, 0))
        self._open[event.pid, event.fd] = node

    def _named(self, event: Event) -> None:
        one, two = str(event.first, "utf-8"), str(event.second, "utf-8")
        if event.kind is Kind.MKDIR:
            if self.find(one) is None:
                folder, name = self._parent(one)
                self._name((folder, name, self._folder()))
            return
        node = self.find(one)
        if node is None:
            # a file that stdio made
            return
        folder, name = self._parent(one)
        if event.kind is Kind.UNLINK:
            self._name((folder, name, None))
        elif event.kind is Kind.RENAME:
            self._name((folder, name, None), (*self._parent(two), node))
        else:
            self._name((*self._parent(two), node))

    def _synced(self, event: Event) -> None:
        node, began = self._syncs.pop((event.pid, event.a), (None, 0))
        self.syncs += 1
        if isinstance(node, File):
            node.synced(began)
        elif isinstance(node, Folder):
            left = []
            for naming in self.pending_names:
                if naming.when < began and any(folder is node for folder, _, _ in naming.changes):
                    self._settle(naming)
                else:
                    left.append(naming)
            self.pending_names = left

    @staticmethod
    def _settle(naming: Naming) -> None:
        for folder, name, node in naming.changes:
            if node is None:
                folder.durable.pop(name, None)
            else:
                folder.durable[name] = node

    # the proof that nothing was missed

    def compare(self, folder: Path) -> list[str]:
        """How the real folder differs from all events applied. Nothing, when the recorder saw everything."""
        found: list[str] = []
        self._compare(folder, self.top, "", found)
        return found

    def _compare(self, path: Path, node: Folder, where: str, found: list[str]) -> None:
        real = {entry.name: entry for entry in os.scandir(path)}
        for name in sorted(real.keys() | node.live.keys()):
            full = f"{where}{name}"
            if unread(full):
                continue
            here, there = node.live.get(name), real.get(name)
            if here is None or there is None:
                found.append(f"{full}: only {'recorded' if there is None else 'in the folder'}")
            elif isinstance(here, Folder):
                self._compare(Path(there.path), here, f"{full}/", found)
            elif there.stat().st_size != here.live.size:
                found.append(f"{full}: {there.stat().st_size} bytes, recorded {here.live.size}")
            else:
                data = Path(there.path).read_bytes()
                recorded = bytes(here.live.data).ljust(here.live.size, b"\0")
                if data != recorded:
                    at = next(i for i, (x, y) in enumerate(zip(data, recorded, strict=True)) if x != y)
                    found.append(f"{full}: differs from byte {at} on")
