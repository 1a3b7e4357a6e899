"""A server in a child process: started until it answers, stopped, killed, started again over the same data."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_PORTS = range(20_000, 32_000)


class PeerError(Exception):
    """The peer did not start, or does not run. The text ends with the end of its log."""

    def __init__(self, text: str, code: int | None = None) -> None:
        """`code` is the exit code of one that ended while it started."""
        super().__init__(text)
        self.code = code


class Peer(ABC):
    """A server in a child process that listens on `port` of 127.0.0.1.

    `port` 0 picks a free one. `directory` holds the data, the configuration and the logs, and stays; without it a
    temporary one is made, in `scratch` if that is given, and removed by `close`.
    """

    name: str

    stdin: int = subprocess.DEVNULL
    """What its standard input is; with PIPE it is `input`."""
    pause: float = 0.05
    """Seconds between two looks whether it answers."""

    def __init__(
        self, port: int, directory: Path | None, start_timeout: float, scratch: Path | None = None
    ) -> None:
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.start_timeout = start_timeout
        self._temporary = directory is None
        if directory is None:
            if scratch is not None:
                scratch.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(prefix=f"{self.name.lower()}-peer-", dir=scratch))
        self.directory = directory.resolve()
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

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
    def folder(self) -> Path:
        """Where it is run."""
        return self.directory

    @property
    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def bootstrap(self) -> str:
        """ "host:port" for clients."""
        return f"{self.host}:{self.port}"

    @property
    def told(self) -> str:
        """All its addresses, for a person."""
        return self.bootstrap

    @property
    def pid(self) -> int:
        """The pid of the running process."""
        return self._running().pid

    @property
    def input(self) -> IO[bytes]:
        """What it reads; `stdin` must be PIPE."""
        found = self._running().stdin
        assert found is not None
        return found

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def exit_code(self) -> int | None:
        """Of a process that ended by itself and was neither stopped nor waited for; None while it runs."""
        return self._running().poll()

    def start(self) -> Self:
        """Start and wait until it answers. Raises `PeerError` if it ends or takes too long."""
        self.spawn()
        self.ready()
        return self

    def spawn(self) -> None:
        """Begin a start. Raises `PeerError` if the port is in use."""
        if not _free(self.port):
            # Else the other server's answers would pass for ours.
            raise PeerError(f"port {self.port} of {self.host} is in use")
        self.prepare()
        with (
            open(self.directory / "stdout.log", "ab") as output,
            open(self.directory / "stderr.log", "ab") as errors,
        ):
            self._process = subprocess.Popen(
                self.command(),
                cwd=self.folder,
                env=self.environment,
                stdin=self.stdin,
                stdout=output,
                stderr=errors,
                # A Ctrl-C in the terminal is ours to handle: we stop it in order.
                start_new_session=True,
            )
        self._began = time.monotonic()

    def ready(self) -> float:
        """Wait until what `spawn` began answers: seconds since then. Raises `PeerError`, the process is gone then."""
        process = self._running()
        while True:
            answered = self.answers()
            if (code := process.poll()) is not None:
                self._reap()
                raise PeerError(
                    f"{self.name} ended with code {code} while starting:\n{self.log_tail()}", code
                )
            took = time.monotonic() - self._began
            if answered:
                return took
            if took > self.start_timeout:
                self.kill()
                raise PeerError(
                    f"{self.name} did not answer within {self.start_timeout:.0f} s:\n{self.log_tail()}"
                )
            time.sleep(self.pause)

    def terminate(self) -> None:
        """SIGTERM, and no waiting."""
        self._running().send_signal(signal.SIGTERM)

    def stop(self, timeout: float = 30.0) -> int | None:
        """SIGTERM, then SIGKILL after `timeout` seconds: its exit code, None if it did not run."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self.terminate()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._reap()

    def kill(self) -> None:
        """SIGKILL, at once: what a crash of the process looks like."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._reap()

    def restart(self) -> None:
        """Stop in order and start again. Raises `PeerError`, also if its exit code was not 0."""
        if code := self.stop():
            raise PeerError(f"{self.name} ended with code {code}:\n{self.log_tail()}", code)
        self.start()

    def close(self) -> None:
        """Stop, and remove the folder if it is a temporary one."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until it ends by itself: its exit code, None when that did not happen in time."""
        try:
            self._running().wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return self._reap()

    def resident_bytes(self) -> int:
        """Resident memory of the server and the processes below it."""
        return sum(resident_bytes(pid) for pid in process_tree(self.pid))

    def log_tail(self, lines: int = 30) -> str:
        """The end of its output and log, for messages."""
        text = ""
        for name in ("stdout.log", "stderr.log", "server.log"):
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
        if kind is KeyboardInterrupt:
            # whoever pressed Ctrl-C does not wait for what a stop saves
            self.kill()
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process

    def _reap(self) -> int:
        process, self._process = self._running(), None
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        return process.wait()


def answers(host: str, port: int, timeout: float = 2.0) -> bool:
    """Whether a Kafka broker at this address answers ApiVersions (v0) without error."""
    body = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            head = b""
            while len(head) < 10:
                more = connection.recv(10 - len(head))
                if not more:
                    return False
                head += more
    except OSError:
        return False
    _, correlation, error = struct.unpack(">iih", head)
    return bool(correlation == 1 and error == 0)


def resident_bytes(pid: int) -> int:
    """Resident memory (RSS) of a process, in bytes (Linux)."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on.

    It lies below those that the system gives to clients: between two starts it must not become somebody else's. And
    whoever asks after this one, in whatever process of this user, gets another: there is a time between the choice
    and the listening, in which nothing shows that the port is taken.
    """
    # not where TMPDIR says: whoever has one of its own asks for ports all the same
    place = f"/tmp/.magnetar-ports-{os.getuid()}"
    with open(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        last = file.read()
        # not the tests' generator, which may have been seeded
        port = int(last) if last.isdecimal() else random.SystemRandom().choice(_PORTS)
        while True:
            port = port + 1 if port + 1 in _PORTS else _PORTS.start
            if _free(port):
                break
        file.seek(0)
        file.truncate()
        file.write(str(port))
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
