"""The two servers under test behind one face: start fresh, answer, stop, be killed, be weighed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from compat.peers.kafka.peer import KafkaPeer, answers, resident_bytes
from compat.peers.process import Peer, PeerError, free_port

PROJECT = Path(__file__).resolve().parents[2]
SCRATCH = PROJECT / ".cache" / "bench"


class ServerError(Exception):
    """A server did not start, or ended; the text says what it said."""


class Server(ABC):
    """One server with a data folder of its own, on a free port of 127.0.0.1.

    As a context manager it removes its processes and its folder at the end; it is not started by entering,
    since some loads measure just that.
    """

    name: str

    def __init__(self) -> None:
        SCRATCH.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name.lower()}-", dir=SCRATCH))
        self.port = free_port()

    @property
    def address(self) -> str:
        """ "host:port" for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    @abstractmethod
    def pid(self) -> int:
        """Of the running server."""

    @abstractmethod
    def prepare(self) -> None:
        """What an operator does once before the first start (Kafka: format the folder)."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that `start` runs; `prepare` must have been called."""

    @abstractmethod
    def start(self) -> None:
        """Start and wait for the first answer. Raises `ServerError`."""

    @abstractmethod
    def stop(self) -> None:
        """End it in order; SIGKILL if it takes too long."""

    @abstractmethod
    def kill(self) -> None:
        """SIGKILL."""

    def resident_mib(self) -> float:
        """Resident memory of the server and the processes below it, MiB."""
        return sum(resident_bytes(pid) for pid in process_tree(self.pid)) / 2**20

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is KeyboardInterrupt:
            self.kill()
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class PeerServer(Server):
    """A server that a peer runs."""

    _peer: Peer

    @property
    def pid(self) -> int:
        return self._peer.pid

    def prepare(self) -> None:
        self._peer.prepare()

    def command(self) -> list[str]:
        return self._peer.command()

    def start(self) -> None:
        try:
            self._peer.start()
        except PeerError as error:
            raise ServerError(str(error)) from error

    def stop(self) -> None:
        self._peer.stop()

    def kill(self) -> None:
        self._peer.kill()


class Kafka(PeerServer):
    """Apache Kafka with the heap of its distribution (1 GiB)."""

    name = "Kafka"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._peer = KafkaPeer(port=self.port, directory=self.directory, heap="1g", settings=settings)


class Magnetar(Server):
    """Magnetar as `magnetar serve` starts it."""

    name = "Magnetar"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("Magnetar is not running")
        return self._process.pid

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        settings = [part for key, value in self._settings.items() for part in ("--set", f"{key}={value}")]
        return [
            sys.executable,
            *("-m", "gateway.cli.main", "serve"),
            *("--listen", self.address, "--admin", "127.0.0.1:0", "--data", str(self.directory / "data")),
            *settings,
        ]

    def start(self) -> None:
        self._output = open(self.directory / "output.log", "ab")  # noqa: SIM115 (closed in _reap)
        self._process = subprocess.Popen(
            self.command(),
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while True:
            answered = answers("127.0.0.1", self.port)
            if self._process.poll() is not None:
                code = self._process.returncode
                self._reap()
                raise ServerError(f"Magnetar ended with code {code} while starting:\n{self._log()}")
            if answered:
                return
            if time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"Magnetar did not answer within a minute:\n{self._log()}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self._reap()

    def _log(self) -> str:
        return "\n".join((self.directory / "output.log").read_text(errors="replace").splitlines()[-15:])

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None


def process_tree(pid: int) -> list[int]:
    """The process and all below it (Linux)."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in task.read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def settle_disk() -> None:
    """Let the kernel write what the turn before left behind, so that the next does not pay for it."""
    os.sync()
