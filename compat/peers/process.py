"""A server in a child process: started until it answers, stopped, killed, started again over the same data."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Self

LOGGING = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/server.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""
"""A log4j2.properties: all into one file, as `Peer.log_tail` expects."""


class PeerError(Exception):
    """The peer did not start; the text ends with the end of its log."""


class Peer(ABC):
    """A server in a child process that listens on `port` of 127.0.0.1.

    `port` 0 picks a free one. `directory` holds the data, the configuration and the logs; without it a
    temporary one is made and removed by `close`.
    """

    name: str

    def __init__(self, port: int, directory: Path | None, start_timeout: float) -> None:
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.start_timeout = start_timeout
        self._temporary = directory is None
        made = directory or Path(tempfile.mkdtemp(prefix=f"{self.name.lower()}-peer-"))
        self.directory = made.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Write the configuration, and what else must be there before the first start."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line of the server; `prepare` must have been called."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves clients."""

    @property
    def pid(self) -> int:
        """The pid of the running process."""
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until it answers. Raises `PeerError` if it ends or takes too long."""
        if not _free(self.port):
            # Else the other server's answers would pass for ours.
            raise PeerError(f"port {self.port} of {self.host} is in use")
        self.prepare()
        self._output = open(self.directory / "stdout.log", "ab")  # noqa: SIM115 (closed in _reap)
        self._process = subprocess.Popen(
            self.command(),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C in the terminal is ours to handle: we stop it in order.
            start_new_session=True,
        )
        deadline = time.monotonic() + self.start_timeout
        while True:
            answered = self.answers()
            if self._process.poll() is not None:
                code = self._process.returncode
                self._reap()
                raise PeerError(f"{self.name} ended with code {code} while starting:\n{self.log_tail()}")
            if answered:
                break
            if time.monotonic() > deadline:
                self.kill()
                raise PeerError(
                    f"{self.name} did not answer within {self.start_timeout:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(0.05)
        return self

    def stop(self, timeout: float = 20.0) -> None:
        """SIGTERM, then SIGKILL after `timeout` seconds. Nothing happens if it does not run."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._reap()

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._reap()

    def close(self) -> None:
        """Stop, and remove the folder if it is a temporary one."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """The end of its output and log, for messages."""
        text = ""
        for name in ("stdout.log", "server.log"):
            path = self.directory / name
            if path.exists():
                text += "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) + "\n"
        return text.strip()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.kill()
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is KeyboardInterrupt and self._temporary:
            # nobody needs what it would take its time to save
            self.kill()
        self.close()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None


def run(peer: Peer, told: Callable[[], str]) -> int:
    """Run a peer in the foreground until SIGTERM or Ctrl-C, `told` on stdout once it answers: the exit code."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        with peer:
            print(f"listening on {told()}", flush=True)
            code = peer.wait()
            print(f"{peer.name} ended with code {code}\n{peer.log_tail()}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """What `--set K=V` said. Raises PeerError."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise PeerError(f"--set {pair}: expected key=value")
        found[key] = value
    return found


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do, so that a closed connection in TIME_WAIT does not count as use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
