"""A folder as it may look when the power comes back: everything synced, and any part of the rest."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.proofs.powercut.disk import SECTOR, Change, Content, Disk, File, Folder, Naming, Node, unread

PAGE = 4096


def none(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """Only what was synced."""
    return base


def everything(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """All that was written: what SIGKILL leaves."""
    for change in pending:
        base.apply(change)
    return base


def prefix(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """What was written first, the last of it torn at a sector or anywhere."""
    count = chance.randrange(len(pending) + 1)
    for change in pending[:count]:
        base.apply(change)
    if count < len(pending):
        _tear(pending[count], base, chance)
    return base


def subset(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """Each write kept, lost or torn, whatever became of those before it."""
    for change in pending:
        fate = chance.choice(("kept", "kept", "lost", "torn"))
        if fate == "kept":
            base.apply(change)
        elif fate == "torn":
            _tear(change, base, chance)
    return base


def zeros(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """The size of all that was written and the data of the first part only: space that was not filled yet."""
    whole = base.copy()
    for change in pending:
        whole.apply(change)
    made = prefix(pending, base, chance)
    made.size = max(made.size, whole.size)
    return made


def short(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
    """The data of all and an earlier size: what stands behind it is not there."""
    size = base.size
    sizes = [size]
    for change in pending:
        base.apply(change)
        sizes.append(base.size)
    size = chance.choice(sizes)
    if size < base.size:
        base.resize(size)
    return base


def _blocks(size: int) -> Callable[[Sequence[Change], Content, random.Random], Content]:
    def blocks(pending: Sequence[Change], base: Content, chance: random.Random) -> Content:
        """Each block of the file as it was at a moment of its own since the last sync."""
        sizes = [base.size]
        moments = {}
        whole = base
        for number, change in enumerate(pending):
            if change.data is None:
                whole.apply(change)
            else:
                end = change.position + len(change.data)
                for block in range(change.position // size, (end + size - 1) // size):
                    if block not in moments:
                        moments[block] = chance.randrange(len(pending) + 1)
                    if number < moments[block]:
                        left = max(change.position, block * size)
                        right = min(end, block * size + size)
                        whole.write(left, change.data[left - change.position : right - change.position])
                whole.size = max(whole.size, end)
            sizes.append(whole.size)
        if chance.random() < 0.5:
            wanted = chance.choice(sizes)
            if wanted < whole.size:
                whole.resize(wanted)
        return whole

    return blocks


def _tear(change: Change, base: Content, chance: random.Random) -> None:
    if change.data is None:
        return
    size = len(change.data)
    at = chance.randrange(size + 1)
    if change.mapped or chance.random() < 0.5:
        # a border of sectors in the file
        at = max(0, min(size, (change.position + at) // SECTOR * SECTOR - change.position))
    if chance.random() < 0.8:
        base.write(change.position, change.data[:at])
    else:
        # the end of it without its beginning
        base.write(change.position + at, change.data[at:])


STYLES: dict[str, Callable[[Sequence[Change], Content, random.Random], Content]] = {
    "none": none,
    "everything": everything,
    "prefix": prefix,
    "subset": subset,
    "zeros": zeros,
    "short": short,
    "sectors": _blocks(SECTOR),
    "pages": _blocks(PAGE),
}
"""What becomes of the pending writes of one file."""

WHOLE = ("mixed", "none", "everything", "moment", *list(STYLES)[2:])
"""Styles of an image: one for all files, a style of its own for each (mixed), or the disk as it was a moment ago."""

NAMES = ("none", "everything", "prefix", "subset")
"""What becomes of pending names. A journal keeps them in order (prefix); POSIX promises nothing (subset)."""


def build(
    disk: Disk, target: Path, chance: random.Random, *, style: str, names: str, replace: tuple[bytes, bytes]
) -> None:
    """Write an image of `disk` as it is now to the new folder `target`.

    `replace`: the id of this run of the machine, which the mark holds, and another one to stand for it.
    """
    moment = chance.randrange(max(0, disk.index - 400), disk.index + 1)
    tree = _tree(_names(disk.pending_names, names, moment, chance))
    mixed = style == "mixed"

    def content(file: File) -> Content:
        pending = file.pending
        if not pending:
            return file.durable
        if style == "moment":
            before = [change for change in pending if change.when < moment]
            made = everything(before, file.durable.copy(), chance)
            if len(before) < len(pending) and pending[len(before)].when == moment:
                _tear(pending[len(before)], made, chance)
            return made
        chosen = chance.choice(list(STYLES)) if mixed else style
        return STYLES[chosen](pending, file.durable.copy(), chance)

    def write(folder: Folder, path: Path, where: str) -> None:
        path.mkdir()
        for name, node in sorted(tree(folder).items()):
            full = f"{where}{name}"
            if isinstance(node, Folder):
                write(node, path / name, f"{full}/")
            elif not unread(full):
                made = content(node)
                data = bytes(made.data)
                if name.startswith("mark"):
                    data = data.replace(*replace)
                with (path / name).open("wb") as file:
                    file.write(data)
                    if made.size > len(data):
                        os.ftruncate(file.fileno(), made.size)

    write(disk.top, target, "")


def _names(pending: list[Naming], names: str, moment: int, chance: random.Random) -> list[Naming]:
    if names == "none":
        return []
    if names == "everything":
        return pending
    if names == "prefix":
        return pending[: chance.randrange(len(pending) + 1)]
    if names == "moment":
        return [naming for naming in pending if naming.when < moment]
    kept: list[Naming] = []
    barred: set[int] = set()
    for naming in reversed(pending):
        folders = {folder.number for folder, _, _ in naming.changes}
        if folders & barred or chance.random() < 0.6:
            kept.append(naming)
            if len(naming.changes) > 1:
                # a rename: what was named before it in its folder is named
                barred |= folders
    return kept[::-1]


def _tree(kept: list[Naming]) -> Callable[[Folder], dict[str, Node]]:
    changed: dict[int, dict[str, Node]] = {}

    def entries(folder: Folder) -> dict[str, Node]:
        return changed.get(folder.number, folder.durable)

    for naming in kept:
        for folder, name, node in naming.changes:
            own = changed.setdefault(folder.number, dict(folder.durable))
            if node is None:
                own.pop(name, None)
            else:
                own[name] = node
    return entries
