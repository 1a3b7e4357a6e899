"""Images of one recording, each examined: which cuts, in which style, over several processes."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from compat.stopping import deaf
from tests.proofs.powercut import image, oracle, recorder
from tests.proofs.powercut import recording as recordings
from tests.proofs.powercut.disk import Disk
from tests.proofs.powercut.recorder import Event, Kind
from tests.proofs.powercut.recording import OTHER_BOOT, Recording

MEMORY = Path("/dev/shm")
TURNING = (Kind.SYNC_BEGIN, Kind.SYNC_END, Kind.RENAME, Kind.UNLINK, Kind.MKDIR, Kind.TRUNCATE)
"""Moments beside which cuts are set on purpose."""

AGAIN = 25
"""One image of so many has its recovery recorded and cut as well."""

CUTS_OF_A_RECOVERY = 5
CHUNK = 25


class Cut(NamedTuple):
    """An image: what stood before event `at`, put together by the numbers that `seed` gives."""

    at: int
    style: str
    names: str
    seed: float

    def __str__(self) -> str:
        return f"--cut {self.at} --style {self.style} --names {self.names} --chance {self.seed!r}"


@dataclass(slots=True)
class Tally:
    """What the images of a policy showed."""

    images: int = 0
    failed: list[tuple[str, list[str]]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    lossy: int = 0
    lost_batches: int = 0
    lost_commits: int = 0
    recoveries_cut: int = 0

    def add(self, cut: str, verdict: oracle.Verdict) -> None:
        self.images += 1
        if verdict.problems:
            self.failed.append((cut, verdict.problems))
        # images that have a property, not how often
        self.seen.update(dict.fromkeys(verdict.seen, 1))
        self.lossy += bool(verdict.lost_batches or verdict.lost_commits)
        self.lost_batches += verdict.lost_batches
        self.lost_commits += verdict.lost_commits

    def merge(self, other: Tally) -> None:
        self.images += other.images
        self.failed += other.failed
        self.seen.update(other.seen)
        self.lossy += other.lossy
        self.lost_batches += other.lost_batches
        self.lost_commits += other.lost_commits
        self.recoveries_cut += other.recoveries_cut


def choose(recording: Recording, count: int, seed: int) -> list[Cut]:
    """Cuts over all of a recording; half of them beside a moment at which something turns, some while RocksDB notes a
    change of its files.
    """
    chance = random.Random(seed)
    events = recording.events
    turning = [index for index, event in enumerate(events) if event.kind in TURNING]
    noting = list(_manifest_writes(events))
    found = []
    for _ in range(count):
        kind = chance.random()
        style = chance.choice(image.WHOLE)
        if kind < 0.5:
            at = chance.choice(turning) + chance.randint(0, 2)
        elif kind < 0.65 and noting:
            # not synced yet: its size may be there, and not all of its data
            at = chance.choice(noting) + chance.randint(1, 2)
            style = chance.choice((style, "zeros"))
        else:
            at = chance.randrange(len(events) + 1)
        found.append(Cut(min(at, len(events)), style, chance.choice(image.NAMES), chance.random()))
    return sorted(found)


def _manifest_writes(events: Sequence[Event]) -> Iterator[int]:
    """Where RocksDB writes to its MANIFEST."""
    open_ones: set[tuple[int, int]] = set()
    for index, event in enumerate(events):
        if event.kind is Kind.OPEN:
            name = bytes(event.first).rpartition(b"/")[2]
            (open_ones.add if name.startswith(b"MANIFEST-") else open_ones.discard)((event.pid, event.fd))
        elif event.kind is Kind.WRITE and (event.pid, event.fd) in open_ones:
            yield index


def look(recording: Recording, cuts: list[Cut], *, again: int = AGAIN, within: Path | None = None) -> Tally:
    """Build and examine the images of these cuts, which ascend; `within` a folder, or in memory."""
    quiet = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        tally = Tally()
        disk = Disk(recording.root, base=recording.base)
        with Scratch(within) as place:
            for number, cut in enumerate(cuts):
                while disk.index < cut.at:
                    disk.apply(recording.events[disk.index])
                target = place / "image"
                build(disk, target, recording, cut)
                if again and number % again == again // 2:
                    _recovery(recording, cut, target, place, tally)
                verdict = examine(target, recording, cut)
                tally.add(str(cut), verdict)
                shutil.rmtree(target)
        return tally
    finally:
        logging.disable(quiet)


class Scratch:
    """A folder in memory for images, gone at the end."""

    def __init__(self, within: Path | None = None) -> None:
        self._within = within or (MEMORY if MEMORY.is_dir() else None)

    def __enter__(self) -> Path:
        self._path = Path(tempfile.mkdtemp(prefix="magnetar-", dir=self._within))
        return self._path

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def build(disk: Disk, target: Path, recording: Recording, cut: Cut) -> None:
    image.build(
        disk,
        target,
        random.Random(cut.seed),
        style=cut.style,
        names=cut.names,
        replace=(recording.boot, OTHER_BOOT),
    )


def examine(target: Path, recording: Recording, cut: Cut) -> oracle.Verdict:
    # what was acknowledged is what was before the first cut; and what is lost was said by the recovery, perhaps
    told = recording.failed_at is not None
    at = cut.at if recording.failed_at is None else recording.failed_at
    try:
        return asyncio.run(oracle.examine(target, recording.world, at, random.Random(cut.seed), told=told))
    except Exception as error:
        return oracle.Verdict([f"the examination ended with {type(error).__name__}: {error}"])


def _recovery(recording: Recording, cut: Cut, target: Path, place: Path, tally: Tally) -> None:
    """The power comes back, and goes again while the store recovers or right after."""
    base, root, log = place / "base", place / "again", place / "events"
    shutil.copytree(target, base)
    shutil.copytree(target, root)
    done = subprocess.run(
        [sys.executable, "-m", "tests.proofs.powercut.recover", str(root)],
        env={**os.environ, **recorder.environment(root.resolve(), log)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        tally.add(f"{cut}, its recovery", oracle.Verdict([done.stderr[-500:]]))
    else:
        second = recording._replace(
            root=root.resolve(), events=recorder.events(log), base=base, failed_at=cut.at
        )
        disk = Disk(second.root, base=base)
        kept = recording.folder / f"recovery-{cut.at}-{cut.seed}"
        right = True
        for each in choose(second, CUTS_OF_A_RECOVERY, int(cut.seed * 1e9)):
            while disk.index < each.at:
                disk.apply(second.events[disk.index])
            build(disk, place / "image-again", second, each)
            verdict = examine(place / "image-again", second, each)
            tally.add(f"{cut}, then its recovery {kept.name} {each}", verdict)
            tally.recoveries_cut += 1
            right = right and not verdict.problems
            shutil.rmtree(place / "image-again")
        if not right:
            recordings.keep(second, log, kept)
        del second, disk
    for path in (base, root):
        shutil.rmtree(path)
    log.unlink(missing_ok=True)


_at_work: tuple[Recording, Path]
"""Of the worker processes, which inherit it."""


def _working() -> None:
    # Ctrl-C is for who ends this process; what it runs itself hears it, and goes
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _chunk(cuts: list[Cut]) -> Tally:
    recording, place = _at_work
    return look(recording, cuts, within=place)


def all_of(recording: Recording, cuts: list[Cut], jobs: int) -> Generator[Tally, None, None]:
    """`look` in several processes, some cuts at a time; with one job in this process.

    The processes are forked, since a recording is large: not from one that has used RocksDB, whose threads are not in
    a child, which would wait for them for ever.
    """
    global _at_work
    chunks = [cuts[at : at + CHUNK] for at in range(0, len(cuts), CHUNK)]
    # the folder is this process's own: workers that are ended in the middle leave nothing behind
    with Scratch() as place:
        _at_work = recording, place
        if jobs == 1:
            yield from map(_chunk, chunks)
            return
        with deaf():
            workers = multiprocessing.get_context("fork").Pool(jobs, _working)
        with workers as pool:
            yield from pool.imap_unordered(_chunk, chunks)
