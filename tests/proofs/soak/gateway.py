"""The process that is killed: `magnetar serve`, or the same with numbered steps at which it kills itself."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from tests.proofs.soak.wire import Wire


class DidNotStart(Exception):
    """It ended, or did not answer in time; the log says why."""


def free_port(chance: random.Random) -> int:
    """A port below those that the system gives to clients: between two starts it must not become somebody else's."""
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return port


class Gateway:
    """One data folder and one port; started and killed many times."""

    def __init__(self, data: Path, log: Path, port: int) -> None:
        self.data = data
        self.log = log
        self.port = port
        self.durability = "os"
        self.flags: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def spawn(self, *, victim: bool = False, arm: str = "", sabotage: str = "") -> None:
        """Begin a start. `arm` is "STEP PASS" for steps of the start itself."""
        module = "tests.proofs.soak.victim" if victim or sabotage else "gateway.cli.main"
        extra = []
        if arm:
            extra += ["--arm", arm]
        if sabotage:
            extra += ["--sabotage", sabotage]
        command = [sys.executable, "-m", module, *extra, "serve"]
        command += ["--listen", f"127.0.0.1:{self.port}", "--admin", "127.0.0.1:0"]
        command += ["--data", str(self.data), "--durability", self.durability, *self.flags]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        self._began = time.monotonic()

    def ready(self, timeout: float = 60.0) -> float | None:
        """Wait for the first answer: seconds since the start, None when it died by SIGKILL. Raises DidNotStart."""
        process = self._running()
        while time.monotonic() - self._began < timeout:
            code = process.poll()
            if code == -signal.SIGKILL:
                return None
            if code is not None:
                raise DidNotStart(f"it ended with {code}; see {self.log}")
            with contextlib.suppress(OSError), Wire(self.port, 1.0) as wire:
                wire.api_versions()
                return time.monotonic() - self._began
            time.sleep(0.01)
        raise DidNotStart(f"no answer in {timeout:.0f} s; see {self.log}")

    def arm(self, step: str, passes: int) -> None:
        """A victim is to die at the `passes`-th pass of a step from now on."""
        stdin = self._running().stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(f"{step} {passes}\n".encode())
            stdin.flush()

    def terminate(self) -> None:
        self._running().send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        self._gone(process.wait(30))

    def wait(self, timeout: float) -> int | None:
        """Its exit code when it ended in time."""
        try:
            return self._gone(self._running().wait(timeout))
        except subprocess.TimeoutExpired:
            return None

    def _gone(self, code: int) -> int:
        process, self._process = self._running(), None
        stdin: IO[bytes] | None = process.stdin
        if stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
        return code

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "no gateway is running"
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        if self._process is not None:
            self.kill()
