"""One Apache Pulsar standalone (broker, bookie and RocksDB metadata store in one process) for tests and benchmarks.

    with PulsarPeer() as peer:
        client = PulsarClient(peer.service_url)

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from compat.peers.jvm import JvmPeer
from compat.peers.kafka.jars import find_java
from compat.peers.pulsar.jars import classpath

# What Pulsar's own start script sets on Java 17 (bin/pulsar, conf/pulsar_env.sh), but the heap and the garbage
# collector's log.
JVM_OPTIONS = (
    "-XX:MaxDirectMemorySize=4g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
    "-XX:+PerfDisableSharedMem",
    "-XX:+AlwaysPreTouch",
    "-Djute.maxbuffer=10485760",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dpulsar.allocator.exit_on_oom=true",
    "-Dio.netty.recycler.maxCapacityPerThread=4096",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.io",
            "java.base/java.nio",
            "java.base/java.util.zip",
            "java.base/jdk.internal.misc",
            "java.base/sun.net",
            "java.management/sun.management",
            "jdk.management/com.sun.management.internal",
        )
    ),
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
)

# Where conf/standalone.conf, as it is shipped, differs from what broker and bookie take without a file.
STANDALONE = {
    "clusterName": "standalone",
    "managedLedgerDefaultEnsembleSize": "1",
    "managedLedgerDefaultWriteQuorum": "1",
    "managedLedgerDefaultAckQuorum": "1",
    "managedLedgerDefaultMarkDeleteRateLimit": "0.1",
    "managedLedgerNumSchedulerThreads": "4",
    "bookkeeperClientMinNumRacksPerWriteQuorum": "1",
    "bookkeeperClientReorderReadSequenceEnabled": "false",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.NoopLoadManager",
    "loadBalancerEnabled": "false",
    "topicPublisherThrottlingTickTimeMillis": "2",
    "webSocketServiceEnabled": "true",
    # of the bookie
    "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    "nettyMaxFrameSizeBytes": "5253120",
    "flushInterval": "60000",
    "dbStorage_rocksDB_writeBufferSizeMB": "4",
    "dbStorage_rocksDB_sstSizeInMB": "4",
    "dbStorage_rocksDB_blockSize": "4096",
    "dbStorage_rocksDB_bloomFilterBitsPerKey": "10",
    "dbStorage_rocksDB_numLevels": "-1",
    "dbStorage_rocksDB_numFilesInLevel0": "4",
    "dbStorage_rocksDB_maxSizeInLevel1MB": "256",
    "journalMaxGroupWaitMSec": "1",
    "journalSyncData": "false",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.99",
    "allowLoopback": "true",
    "gcWaitTime": "300000",
}


class PulsarPeer(JvmPeer):
    """Apache Pulsar in a child process, without functions worker and stream storage.

    `settings` are those of standalone.conf. The heap is that of Pulsar's start script.
    """

    name = "Pulsar"
    HEAP = "2g"
    PATIENCE = 120.0

    @property
    def web_port(self) -> int:
        return self.more_ports[0]

    @property
    def service_url(self) -> str:
        """For clients: "pulsar://host:port"."""
        return f"pulsar://{self.bootstrap}"

    @property
    def admin_url(self) -> str:
        """For Pulsar's admin clients: "http://host:port"."""
        return f"http://127.0.0.1:{self.web_port}"

    @property
    def told(self) -> str:
        return f"{self.service_url}, admin {self.admin_url}"

    def prepare(self) -> None:
        """Write the configuration."""
        values = {
            **STANDALONE,
            "bindAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
        }
        self.configure("standalone.conf", values)

    def command(self) -> list[str]:
        """The command line of the standalone; `prepare` must have been called."""
        return [
            find_java(),
            f"-Xms{self.heap}",
            f"-Xmx{self.heap}",
            *JVM_OPTIONS,
            *self.places(),
            *("-cp", classpath(), "org.apache.pulsar.PulsarStandaloneStarter"),
            *("--config", str(self.directory / "standalone.conf")),
            *("--no-functions-worker", "--no-stream-storage", "--advertised-address", "127.0.0.1"),
            # The bookie's name in the metadata has its port.
            *("--bookkeeper-port", str(self.more_ports[1])),
            *("--bookkeeper-dir", str(self.directory / "bookkeeper")),
            *("--metadata-dir", str(self.directory / "metadata")),
        ]

    def answers(self) -> bool:
        """Whether its default namespace is there."""
        return serves(self.admin_url)


def serves(admin_url: str, timeout: float = 2.0) -> bool:
    """Whether a Pulsar broker whose admin API is there has its default namespace: topics can be made from then on."""
    try:
        with urllib.request.urlopen(f"{admin_url}/admin/v2/namespaces/public", timeout=timeout) as answer:
            namespaces = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return False
    return "public/default" in namespaces
