"""One Apache Pulsar standalone (broker, bookie and RocksDB metadata store in one process) for tests and benchmarks.

    with PulsarPeer() as peer:
        client = PulsarClient(peer.service_url)

It listens on 127.0.0.1 only. `kill()` and `start()` on the same object give a restart over the same data.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from compat.peers.kafka.jars import find_java
from compat.peers.process import LOGGING, Peer, free_port
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


class PulsarPeer(Peer):
    """Apache Pulsar in a child process, without functions worker and stream storage.

    `port` 0 picks a free one. `directory` holds the data, the configuration and the logs; without it a temporary one is
    made and removed by `close`. `settings` are settings of standalone.conf and win over ours. `heap` is both -Xms and
    -Xmx; Pulsar's start script says 2 GiB.
    """

    name = "Pulsar"

    def __init__(
        self,
        *,
        port: int = 0,
        directory: Path | None = None,
        heap: str = "2g",
        settings: Mapping[str, str] | None = None,
        start_timeout: float = 120.0,
    ) -> None:
        super().__init__(port, directory, start_timeout)
        self.web_port = free_port()
        # The bookie's name in the metadata has its port: it must be the same after a restart.
        self._bookie_port = free_port()
        self.heap = heap
        self._settings = dict(settings or {})

    @property
    def service_url(self) -> str:
        """For clients: "pulsar://host:port"."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        """For Pulsar's admin clients: "http://host:port"."""
        return f"http://127.0.0.1:{self.web_port}"

    def prepare(self) -> None:
        """Write the configuration."""
        self.directory.mkdir(parents=True, exist_ok=True)
        values = {
            **STANDALONE,
            "bindAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
            **self._settings,
        }
        (self.directory / "standalone.conf").write_text(
            "".join(f"{key}={value}\n" for key, value in values.items())
        )
        (self.directory / "log4j2.properties").write_text(LOGGING.format(folder=self.directory))

    def command(self) -> list[str]:
        """The command line of the standalone; `prepare` must have been called."""
        return [
            find_java(),
            f"-Xms{self.heap}",
            f"-Xmx{self.heap}",
            *JVM_OPTIONS,
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Djava.io.tmpdir={self.directory}",
            *("-cp", classpath(), "org.apache.pulsar.PulsarStandaloneStarter"),
            *("--config", str(self.directory / "standalone.conf")),
            *("--no-functions-worker", "--no-stream-storage", "--advertised-address", "127.0.0.1"),
            *("--bookkeeper-port", str(self._bookie_port)),
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
