"""One run of a gateway under load, recorded: events, and what clients were told, each with its place among them."""

from __future__ import annotations

import asyncio
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from compat.peers.magnetar import MagnetarPeer
from tests.proofs.powercut import recorder
from tests.proofs.powercut.disk import Disk
from tests.proofs.powercut.load import Load
from tests.proofs.powercut.recorder import Event, Kind
from tests.proofs.powercut.world import Key, World

POLICIES = ("os", "fsync", "mixed")

OTHER_BOOT = b"ffffffff-ffff-4fff-bfff-ffffffffffff"
"""A run of the machine that is not this one."""


ENTRY = ("tests.proofs.powercut.gateway",)
"""The gateway with small numbers."""


class Recording(NamedTuple):
    # where it is kept
    folder: Path
    policy: str
    # where the gateway's data was: events name it
    root: Path
    events: list[Event]
    world: World
    boot: bytes
    # a copy of the folder as it was before, or None when there was none
    base: Path | None = None
    # of a recovery: before which event of the run before it the power failed. Answers are those of that run
    failed_at: int | None = None


def record(folder: Path, policy: str, seconds: float, seed: int, *, broken: str = "") -> Recording:
    """Run a gateway on `folder`/data under the recorder and a load; stop it cleanly."""
    root = folder.resolve() / "data"
    root.mkdir(parents=True)
    log = folder / "events"
    environ = recorder.environment(root, log) | ({"POWERCUT_BREAK": broken} if broken else {})
    flags: tuple[str, ...] = (
        "--durability",
        "fsync" if policy == "fsync" else "os",
        "--log-level",
        "warning",
    )
    # a client of something else that finds this port must not leave topics here
    flags += ("--set", "auto.create.topics.enable=false", "--set", "message.expiry.check.interval.ms=30")
    flags += ("--set", "log.cleaner.backoff.ms=100")
    # ledgers end early, like everything else
    flags += (
        "--set",
        "managedLedgerMaxEntriesPerLedger=40",
        "--set",
        "managedLedgerMinLedgerRolloverTimeMinutes=0",
    )
    process = MagnetarPeer(*flags, directory=root.parent, data=root, environ=environ, entry=ENTRY)
    with process:
        world = asyncio.run(Load(process.bootstrap, process.admin_url, policy, seed).run(seconds))
        assert process.stop() == 0, process.log()[-4000:]
    events = recorder.events(log)
    world.settle(answers(events))
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    made = Recording(folder, policy, root, events, world, boot)
    _write_world(made)
    return made


def _write_world(recording: Recording) -> None:
    with (recording.folder / "world").open("wb") as file:
        root = str(recording.root)
        pickle.dump((recording.policy, root, recording.world, recording.boot, recording.failed_at), file)


def keep(recording: Recording, log: Path, folder: Path) -> None:
    """Copy a recording, with `log` its events, to the new `folder`: `load` finds it there."""
    folder.mkdir()
    shutil.copyfile(log, folder / "events")
    if recording.base is not None:
        shutil.copytree(recording.base, folder / "base")
    _write_world(recording._replace(folder=folder))


def load(folder: Path) -> Recording:
    """A recording that was kept."""
    with (folder / "world").open("rb") as file:
        policy, root, world, boot, failed_at = pickle.load(file)
    base = folder / "base"
    events = recorder.events(folder / "events")
    return Recording(
        folder, policy, Path(root), events, world, boot, base if base.is_dir() else None, failed_at
    )


def answers(events: Sequence[Event]) -> dict[Key, int]:
    """Where among the events the first byte of each answer left. Those of the admin API have their numbers, from 1 on,
    for a correlation id.
    """
    numbers: dict[int, int] = {}
    found: dict[Key, int] = {}
    # by port: bytes that are not parsed yet, and where each piece of them left
    open_frames: dict[int, tuple[bytearray, list[tuple[int, int]]]] = {}
    for index, event in enumerate(events):
        if event.kind is not Kind.SEND:
            continue
        data, pieces = open_frames.setdefault(event.a, (bytearray(), []))
        pieces.append((len(data), index))
        data += event.first
        if data.startswith(b"HTTP/"):
            at = 0
            while size := _http_answer(data, at):
                numbers[event.a] = numbers.get(event.a, 0) + 1
                found[event.a, numbers[event.a]] = max(i for start, i in pieces if start <= at)
                at += size
            _forget(data, pieces, at)
            continue
        at = 0
        while len(data) - at >= 8:
            size = int.from_bytes(data[at : at + 4], "big")
            if len(data) - at < 4 + size:
                break
            correlation = int.from_bytes(data[at + 4 : at + 8], "big")
            found.setdefault((event.a, correlation), max(i for start, i in pieces if start <= at))
            at += 4 + size
        _forget(data, pieces, at)
    return found


def _forget(data: bytearray, pieces: list[tuple[int, int]], at: int) -> None:
    """The bytes below `at` are parsed."""
    if at:
        rest = [(max(0, start - at), i) for start, i in pieces]
        del data[:at]
        # the piece in which the rest begins, and what came after it
        pieces[:] = rest[-1:] if data else []


def _http_answer(data: bytearray, at: int) -> int:
    """Bytes of the answer that begins there, 0 when it is not whole."""
    end = data.find(b"\r\n\r\n", at) + 4
    if end < 4:
        return 0
    head = bytes(data[at:end]).lower()
    _, named, rest = head.partition(b"content-length:")
    end += int(rest.split(b"\r\n")[0]) if named else 0
    return end - at if end <= len(data) else 0


def complete(recording: Recording) -> list[str]:
    """How the folder differs from what was recorded: nothing, or the recorder missed something."""
    disk = Disk(recording.root, base=recording.base)
    for event in recording.events:
        disk.apply(event)
    return disk.compare(recording.root)
