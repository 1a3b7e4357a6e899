"""One Apache Kafka node (KRaft, broker and controller in one process) for tests and benchmarks.

    with KafkaPeer() as peer:
        client = Producer({"bootstrap.servers": peer.bootstrap})

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import base64
import subprocess
import uuid

from compat.peers.jvm import JvmPeer
from compat.peers.kafka.jars import java_command
from compat.peers.process import PeerError, answers

# What Kafka's own start script sets (kafka-run-class.sh), so that its figures are those its users see.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


class KafkaPeer(JvmPeer):
    """Apache Kafka in a child process. `settings` are those of the broker."""

    name = "Kafka"
    HEAP = "512m"
    PATIENCE = 60.0

    def prepare(self) -> None:
        """Write the configuration; format the data folder unless that was done before."""
        controller = self.more_ports[0]
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
        }
        properties = self.configure("server.properties", values)
        if (self.directory / "data" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):  # would be taken for an option
            cluster = "A" + cluster[1:]
        arguments = ["format", "--cluster-id", cluster, "--config", str(properties)]
        done = subprocess.run(
            java_command(
                "kafka.tools.StorageTool", arguments, options=["-XX:TieredStopAtLevel=1", *self.places()]
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
            options=[f"-Xms{self.heap}", *JVM_OPTIONS, *self.places()],
        )

    def answers(self) -> bool:
        """Whether it answers ApiVersions."""
        return answers(self.host, self.port)
