"""One Apache Kafka node (KRaft, broker and controller in one process) for tests and benchmarks.

    with KafkaPeer() as peer:
        client = Producer({"bootstrap.servers": peer.bootstrap})

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from compat.peers.kafka.jars import java_command
from compat.peers.process import LOGGING, Peer, PeerError, free_port

# What Kafka's own start script sets (kafka-run-class.sh), so that its figures are those its users see.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class KafkaPeer(Peer):
    """Apache Kafka in a child process.

    `port` 0 picks a free one. `directory` holds the data, the configuration and the logs; without it a
    temporary one is made and removed by `close`. `settings` are broker settings and win over ours. `heap` is
    both -Xms and -Xmx.
    """

    name = "Kafka"

    def __init__(
        self,
        *,
        port: int = 0,
        directory: Path | None = None,
        heap: str = "512m",
        settings: Mapping[str, str] | None = None,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(port, directory, start_timeout)
        self._controller_port = free_port()
        self.heap = heap
        self._settings = dict(settings or {})

    @property
    def bootstrap(self) -> str:
        """ "host:port" for clients."""
        return f"{self.host}:{self.port}"

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

    def answers(self) -> bool:
        """Whether it answers ApiVersions."""
        return answers(self.host, self.port)

    def _places(self) -> list[str]:
        # what it unpacks for itself goes with the folder, also when it is killed
        return [
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Djava.io.tmpdir={self.directory}",
        ]


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
