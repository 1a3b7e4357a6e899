"""DescribeCluster, DescribeLogDirs, ListConfigResources, ApiVersions."""

from __future__ import annotations

from typing import Any

from compat.compare.scripts.common import batch, create, store
from compat.compare.server import Server


def script(server: Server) -> None:
    for version in server.versions("DescribeCluster"):
        for operations in (False, True):
            for endpoints in (1, 2, 0, 7):
                body = {
                    "include_cluster_authorized_operations": operations,
                    "endpoint_type": endpoints,
                    "include_fenced_brokers": True,
                }
                server.ask(f"the cluster, {operations}, {endpoints}", "DescribeCluster", version, body)
    create(server, "dirs", 2)
    store(server, "dirs", batch(b"v"))
    for version in server.versions("DescribeLogDirs"):
        for label, topics in (
            (
                "log dirs",
                [{"topic": "dirs", "partitions": [0, 1, 7]}, {"topic": "missing", "partitions": [0]}],
            ),
            ("log dirs of none", []),
            ("log dirs without partitions", [{"topic": "dirs", "partitions": []}]),
            ("log dirs of one twice", [{"topic": "dirs", "partitions": [0, 0]}]),
        ):
            server.ask(label, "DescribeLogDirs", version, {"topics": topics})
    for version in server.versions("ListConfigResources"):
        for kinds in ([], [16], [4], [32], [4, 8], [99], [8], [-1]):
            filtered: dict[str, Any] = {"resource_types": kinds} if version else {}
            server.ask(f"resources {kinds}", "ListConfigResources", version, filtered)
    for version in server.versions("ApiVersions"):
        for label, name, software in (
            ("versions", "compare", "1.0"),
            ("no name", "", ""),
            ("an odd name", "com pare", "1/0"),
            ("a name that begins with a dash", "-compare", "1.0"),
        ):
            told: dict[str, Any] = {"client_software_name": name, "client_software_version": software}
            server.ask(label, "ApiVersions", version, told if version >= 3 else {})
    for version in (5, 99, 32767, -1):
        server.main.send(18, version, b"", flexible=False, client_id=b"compare", tags=b"")
        try:
            frame = server.main.receive()
            server.keep(f"ApiVersions v{version}", "error_code", frame[4:6].hex())
        except Exception as error:
            server.keep(f"ApiVersions v{version}", "<connection>", type(error).__name__)
            server.close()
