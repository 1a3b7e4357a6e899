"""One Apache Kafka node (KRaft, broker and controller in one process) for tests and benchmarks.

    with KafkaPeer() as peer:
        client = Producer({"bootstrap.servers": peer.bootstrap})

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from compat.peers.kafka.jars import java_command

# What Kafka's own start script sets (kafka-run-class.sh), so that its figures are those its users see.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)

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


class PeerError(Exception):
    """The peer did not start; the text ends with the end of its log."""


class KafkaPeer:
    """Apache Kafka in a child process.

    `port` 0 picks a free one. `directory` holds the data, the configuration and the logs; without it a
    temporary one is made and removed by `close`. `settings` are broker settings and win over ours. `heap` is
    both -Xms and -Xmx.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        directory: Path | None = None,
        heap: str = "512m",
        settings: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self._controller_port = free_port()
        self.heap = heap
        self.start_timeout = start_timeout
        self._temporary = directory is None
        self.directory = (directory or Path(tempfile.mkdtemp(prefix="kafka-peer-"))).resolve()
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """ "host:port" for clients."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The pid of the running JVM."""
        if self._process is None:
            raise PeerError("Kafka is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def prepare(self) -> None:
        """Write the configuration; format the data folder unless that was done before."""
        properties = self.directory / "server.properties"
        self.directory.mkdir(parents=True, exist_ok=True)
        controller = self._controller_port
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.host}:{controller}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "true",
            # One node: the internal topics can have one replica only.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._settings,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        (self.directory / "log4j2.properties").write_text(LOGGING.format(folder=self.directory))
        if (self.directory / "data" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):  # would be taken for an option
            cluster = "A" + cluster[1:]
        arguments = ["format", "--cluster-id", cluster, "--config", str(properties)]
        done = subprocess.run(
            java_command(
                "kafka.tools.StorageTool", arguments, options=["-XX:TieredStopAtLevel=1", *self._places()]
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise PeerError(f"formatting {self.directory} failed:\n{done.stdout.strip()}")

    def command(self) -> list[str]:
        """The command line of the broker; `prepare` must have been called."""
        return java_command(
            "kafka.Kafka",
            [str(self.directory / "server.properties")],
            heap=self.heap,
            options=[f"-Xms{self.heap}", *JVM_OPTIONS, *self._places()],
        )

    def start(self) -> Self:
        """Start and wait until it answers ApiVersions. Raises `PeerError` if it ends or takes too long."""
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
            answered = answers(self.host, self.port)
            if self._process.poll() is not None:
                code = self._process.returncode
                self._reap()
                raise PeerError(f"Kafka ended with code {code} while starting:\n{self.log_tail()}")
            if answered:
                break
            if time.monotonic() > deadline:
                self.kill()
                raise PeerError(f"Kafka did not answer within {self.start_timeout:.0f} s:\n{self.log_tail()}")
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
            raise PeerError("Kafka is not running")
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

    def _places(self) -> list[str]:
        # what it unpacks for itself goes with the folder, also when it is killed
        return [
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Djava.io.tmpdir={self.directory}",
        ]

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None


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
