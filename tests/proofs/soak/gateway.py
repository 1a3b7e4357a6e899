"""The process that is killed: `magnetar serve`, or the same with numbered steps at which it kills itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from compat.peers import magnetar, process
from compat.peers.magnetar import MagnetarPeer

VICTIM = "tests.proofs.soak.victim"
SETTINGS = (
    # what is old is looked for ten times a second, what may be compacted once
    "--set=message.expiry.check.interval.ms=100",
    "--set=log.cleaner.backoff.ms=1000",
    # members of the new protocol are heard and missed as soon as others
    "--set=group.consumer.min.heartbeat.interval.ms=100",
    "--set=group.consumer.heartbeat.interval.ms=300",
    "--set=group.consumer.min.session.timeout.ms=1000",
    "--set=group.consumer.session.timeout.ms=6000",
)


class Gateway(MagnetarPeer):
    """One data folder and one port; started and killed many times."""

    stdin = subprocess.PIPE

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self.durability = "os"
        self.proxied_port = process.free_port()
        """Of a listener that is reached over a proxy."""
        self.proxy_port = 0
        """What that listener tells clients: where the proxy listens; 0 without one."""

    def begin(self, *, victim: bool = False, arm: str = "", sabotage: str = "") -> None:
        """Begin a start. `arm` is "STEP PASS" for steps of the start itself."""
        entry = [VICTIM] if victim or sabotage else [magnetar.MODULE]
        if arm:
            entry += ["--arm", arm]
        if sabotage:
            entry += ["--sabotage", sabotage]
        self.entry = tuple(entry)
        self.flags = ["--durability", self.durability, *SETTINGS]
        if self.proxy_port:
            self.flags += [f"--listen=PROXIED://{self.host}:{self.proxied_port}"]
            self.flags += [f"--set=advertised.listeners=PROXIED://{self.host}:{self.proxy_port}"]
        self.spawn()

    def answers(self) -> bool:
        """Whether it serves clients; the admin API may follow."""
        return process.answers(self.host, self.port, 1.0)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long: time passes it by."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def arm(self, step: str, passes: int) -> None:
        """A victim is to die at the `passes`-th pass of a step from now on."""
        with contextlib.suppress(BrokenPipeError):
            self.input.write(f"{step} {passes}\n".encode())
            self.input.flush()
