"""One Apache Kafka node (KRaft, broker and controller in one process) for tests and benchmarks.

    with KafkaPeer() as peer:
        client = Producer({"bootstrap.servers": peer.bootstrap})

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from typing import Any

from compat.peers.jvm import JvmPeer
from compat.peers.kafka.jars import java_command
from compat.peers.process import PeerError, answers
from compat.peers.secured import Secured

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
    """Apache Kafka in a child process. `settings` are those of the broker.

    With `secured`, `port` is that of a listener with TLS, logins or both; `plain_port` asks for nothing.
    """

    name = "Kafka"
    HEAP = "512m"
    PATIENCE = 60.0

    def __init__(self, *, secured: Secured | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.secured = secured

    @property
    def plain_port(self) -> int:
        """Of the listener that asks nobody who they are."""
        return self.more_ports[1] if self.secured is not None else self.port

    def prepare(self) -> None:
        """Write the configuration; format the data folder unless that was done before."""
        controller, inner = self.more_ports[0], self.more_ports[1] if self.secured else self.port
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self.host}:{controller}",
            "listeners": f"PLAINTEXT://{self.host}:{inner},CONTROLLER://{self.host}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{inner}",
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
        if self.secured is not None:
            self.secured.prepare()
            own = f"SECURED://{self.host}:{self.port}"
            values["listeners"] += f",{own}"
            values["advertised.listeners"] += f",{own}"
            values["listener.security.protocol.map"] = (
                f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:{self.secured.protocol}"
            )
            values |= self.secured.kafka("SECURED")
        properties = self.configure("server.properties", values)
        if (self.directory / "data" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if cluster.startswith("-"):  # would be taken for an option
            cluster = "A" + cluster[1:]
        arguments = ["format", "--cluster-id", cluster, "--config", str(properties)]
        if self.secured is not None:
            arguments += self.secured.kafka_users()
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
            options=[
                f"-Xms{self.heap}",
                *JVM_OPTIONS,
                *self.places(),
                *(self.secured.kafka_options() if self.secured else ()),
            ],
        )

    def answers(self) -> bool:
        """Whether it answers ApiVersions."""
        return answers(self.host, self.plain_port)
