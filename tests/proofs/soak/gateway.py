"""The process that is killed: `magnetar serve`, or the same with numbered steps at which it kills itself."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from compat.peers import magnetar, process
from compat.peers.magnetar import MagnetarPeer

VICTIM = "tests.proofs.soak.victim"
SETTINGS = (
    "--set=message.expiry.check.interval.ms=100",
    # members of the new protocol are missed as soon as others
    "--set=group.consumer.min.session.timeout.ms=6000",
    "--set=group.consumer.session.timeout.ms=6000",
    "--set=group.consumer.min.heartbeat.interval.ms=500",
    "--set=group.consumer.heartbeat.interval.ms=500",
)
"""What is old is looked for ten times a second."""


class Gateway(MagnetarPeer):
    """One data folder and one port; started and killed many times."""

    stdin = subprocess.PIPE

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self.durability = "os"

    def begin(self, *, victim: bool = False, arm: str = "", sabotage: str = "") -> None:
        """Begin a start. `arm` is "STEP PASS" for steps of the start itself."""
        entry = [VICTIM] if victim or sabotage else [magnetar.MODULE]
        if arm:
            entry += ["--arm", arm]
        if sabotage:
            entry += ["--sabotage", sabotage]
        self.entry = tuple(entry)
        self.flags = ["--durability", self.durability, *SETTINGS]
        self.spawn()

    def answers(self) -> bool:
        """Whether it serves clients; the admin API may follow."""
        return process.answers(self.host, self.port, 1.0)

    def arm(self, step: str, passes: int) -> None:
        """A victim is to die at the `passes`-th pass of a step from now on."""
        with contextlib.suppress(BrokenPipeError):
            self.input.write(f"{step} {passes}\n".encode())
            self.input.flush()
