"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs."""

from __future__ import annotations

import time
from typing import Any

from compat.compare.scripts.common import create
from compat.compare.server import Server

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def script(server: Server) -> None:
    create(server, "c", retention__ms="1000")
    for version in server.versions("DescribeConfigs"):
        described(server, version)
    for version in server.versions("IncrementalAlterConfigs"):
        altered(server, version)
    for version in server.versions("AlterConfigs"):
        replaced(server, version)
    broker(server)


def describe(
    server: Server,
    label: str,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = True,
) -> None:
    """Ask for one resource."""
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": synonyms,
        "include_documentation": False,
    }
    server.ask(label, "DescribeConfigs", version, body)


def described(server: Server, version: int) -> None:
    node = str(server.node)
    some = [
        "num.partitions",
        "log.retention.ms",
        "compression.type",
        "delete.topic.enable",
        "no.such.config",
    ]
    for label, kind, name, keys in (
        ("a topic", TOPIC, "c", None),
        ("two of a topic", TOPIC, "c", ["retention.ms", "no.such.config"]),
        ("one twice", TOPIC, "c", ["retention.ms", "retention.ms"]),
        ("nothing of a topic", TOPIC, "c", []),
        ("a missing topic", TOPIC, "missing", None),
        ("an illegal topic", TOPIC, "no/slash", None),
        ("an empty topic", TOPIC, "", None),
        ("some of the broker", BROKER, node, some),
        ("the default of brokers", BROKER, "", None),
        ("a missing broker", BROKER, "77", None),
        ("a broker that is no number", BROKER, "x", None),
        ("a type that is none", 3, "c", None),
        ("type 0", 0, "c", None),
        ("a negative type", -1, "c", None),
        ("a group", GROUP, "g", None),
        ("client metrics", CLIENT_METRICS, "x", None),
        ("some of client metrics", CLIENT_METRICS, "x", some),
        ("client metrics without a name", CLIENT_METRICS, "", None),
        ("loggers of a missing broker", LOGGER, "77", None),
    ):
        describe(server, label, kind, name, keys, version=version)
    describe(server, "without synonyms", TOPIC, "c", version=version, synonyms=False)
    resources = [
        {"resource_type": TOPIC, "resource_name": each, "configuration_keys": ["retention.ms"]}
        for each in "cc"
    ]
    server.ask("a resource twice", "DescribeConfigs", version, {"resources": resources})
    server.ask("no resources", "DescribeConfigs", version, {"resources": []})


def alter(
    server: Server,
    label: str,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> None:
    """IncrementalAlterConfigs: set 0, delete 1, append 2, subtract 3."""
    rows = [{"name": n, "config_operation": o, "value": v} for n, o, v in changes]
    body = {
        "resources": [{"resource_type": kind, "resource_name": name, "configs": rows}],
        "validate_only": validate_only,
    }
    server.ask(label, "IncrementalAlterConfigs", version, body)


def altered(server: Server, version: int) -> None:
    name = f"c{version}"
    create(server, name, retention__ms="1000")

    def change(
        label: str, *changes: tuple[str, int, str | None], topic: str = name, only: bool = False
    ) -> None:
        alter(server, label, TOPIC, topic, *changes, version=version, validate_only=only)

    def look(label: str) -> None:
        settle(server)
        describe(server, f"{label} of v{version}", TOPIC, name, ["cleanup.policy", "retention.ms"])

    change("set", ("retention.ms", 0, "2000"))
    change("append", ("cleanup.policy", 2, "compact"))
    change("append what is there", ("cleanup.policy", 2, "compact"))
    look("after append")
    change("subtract", ("cleanup.policy", 3, "compact"))
    change("subtract what is not there", ("cleanup.policy", 3, "compact"))
    look("after subtract")
    change("subtract all", ("cleanup.policy", 3, "delete"))
    change("append to what is no list", ("retention.ms", 2, "1"))
    change("append nothing", ("cleanup.policy", 2, None))
    change("delete", ("retention.ms", 1, None))
    change("delete what is not set", ("retention.ms", 1, None))
    change("set nothing", ("retention.ms", 0, None))
    change("an unknown operation", ("retention.ms", 9, "1"))
    change("an unknown config", ("retention.m", 0, "1"))
    change("delete an unknown config", ("retention.m", 1, None))
    change("a config without a name", ("", 0, "1"))
    change("a bad value", ("retention.ms", 0, "soon"))
    change("one twice", ("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    change("one good, one bad", ("retention.ms", 0, "5"), ("retention.bytes", 0, "many"))
    change("no changes")
    change("only checked", ("retention.ms", 0, "7"), only=True)
    change("only checked, bad", ("retention.ms", 0, "soon"), only=True)
    change("a missing topic", ("retention.ms", 0, "1"), topic="missing")
    change("an illegal topic", ("retention.ms", 0, "1"), topic="no/slash")
    change("an empty topic", ("retention.ms", 0, "1"), topic="")
    alter(server, "a type that is none", 3, "c", ("retention.ms", 0, "1"), version=version)
    look("after that")
    both = [
        {"resource_type": TOPIC, "resource_name": name, "configs": [{"name": "retention.ms", "value": value}]}
        for value in ("1", "2")
    ]
    server.ask("a resource twice", "IncrementalAlterConfigs", version, {"resources": both})
    server.ask("no resources", "IncrementalAlterConfigs", version, {"resources": []})


def replaced(server: Server, version: int) -> None:
    name = f"r{version}"
    create(server, name, retention__ms="1000")

    def replace(
        label: str, topic: str = name, kind: int = TOPIC, only: bool = False, **values: str | None
    ) -> None:
        rows = [{"name": n.replace("__", "."), "value": v} for n, v in values.items()]
        resource: dict[str, Any] = {"resource_type": kind, "resource_name": topic, "configs": rows}
        server.ask(label, "AlterConfigs", version, {"resources": [resource], "validate_only": only})

    def look(label: str) -> None:
        settle(server)
        keys = ["cleanup.policy", "retention.ms", "retention.bytes"]
        describe(server, f"{label} of v{version}", TOPIC, name, keys)

    replace("replace", retention__bytes="5000")
    look("after replace")
    replace("replace, no value", retention__bytes=None)
    replace("replace, only checked", only=True, retention__bytes="1")
    replace("replace, a bad value", retention__bytes="many")
    replace("replace, an unknown config", retention__m="1")
    replace("replace, a missing topic", topic="missing", retention__bytes="1")
    replace("replace, an illegal topic", topic="no/slash", retention__bytes="1")
    replace("replace, a type that is none", kind=3, retention__bytes="1")
    replace("replace by nothing")
    look("after replacing by nothing")
    server.ask("replace nothing", "AlterConfigs", version, {"resources": []})


def broker(server: Server) -> None:
    node = str(server.node)
    alter(server, "a broker", BROKER, node, ("message.max.bytes", 0, "2000000"))
    alter(server, "all brokers", BROKER, "", ("message.max.bytes", 0, "3000000"))
    settle(server, 0.5)
    describe(server, "the broker altered", BROKER, node, ["message.max.bytes"])
    describe(server, "all brokers altered", BROKER, "", ["message.max.bytes"])
    describe(server, "a topic under it", TOPIC, "c", ["max.message.bytes"])
    alter(server, "a broker, read only", BROKER, node, ("node.id", 0, "2"))
    alter(server, "a broker, bad value", BROKER, node, ("message.max.bytes", 0, "many"))
    alter(server, "a broker, unknown", BROKER, node, ("no.such.config", 0, "1"))
    alter(server, "a missing broker", BROKER, "77", ("message.max.bytes", 0, "1"))
    alter(server, "a broker that is no number", BROKER, "x", ("message.max.bytes", 0, "1"))
    alter(server, "a broker, only checked", BROKER, node, ("message.max.bytes", 0, "9"), validate_only=True)
    alter(server, "a broker, back", BROKER, node, ("message.max.bytes", 1, None))
    alter(server, "all brokers, back", BROKER, "", ("message.max.bytes", 1, None))
    settle(server, 0.5)
    describe(server, "the broker, back", BROKER, node, ["message.max.bytes"])
    alter(server, "a group", GROUP, "g", ("share.session.timeout.ms", 0, "50000"))
    client_metrics(server)


def client_metrics(server: Server) -> None:
    for name, operation, value in (
        ("interval.ms", 0, "1000"),
        ("interval.ms", 0, "99"),
        ("interval.ms", 0, "3600001"),
        ("interval.ms", 0, "x"),
        ("interval.ms", 0, ""),
        ("interval.ms", 1, None),
        ("interval.ms", 2, "1"),
        ("metrics", 0, "*"),
        ("metrics", 0, " a , b "),
        ("metrics", 0, "a,a"),
        ("metrics", 0, ""),
        ("metrics", 0, None),
        ("metrics", 2, "d"),
        ("match", 0, "client_id=x.*,client_source_port=1"),
        ("match", 0, "bogus=1"),
        ("match", 0, "client_id"),
        ("match", 0, "client_id=("),
        ("match", 0, "client_id=a=b"),
        ("match", 0, ""),
        ("bogus", 0, "1"),
    ):
        label = f"client metrics, {name} by {operation} to {value!r}"
        alter(server, label, CLIENT_METRICS, "v", (name, operation, value), validate_only=True)
    alter(server, "client metrics without a name", CLIENT_METRICS, "", ("interval.ms", 0, "1000"))
    alter(server, "client metrics", CLIENT_METRICS, "x", ("interval.ms", 0, "1000"), ("metrics", 0, "a,b"))
    settle(server, 0.5)
    describe(server, "client metrics that were altered", CLIENT_METRICS, "x")
    for version in server.versions("ListConfigResources"):
        body = {"resource_types": [CLIENT_METRICS]} if version else {}
        server.ask("client metrics listed", "ListConfigResources", version, body)
    alter(server, "client metrics, back", CLIENT_METRICS, "x", ("interval.ms", 1, None), ("metrics", 1, None))
    settle(server, 0.5)
    describe(server, "client metrics, back", CLIENT_METRICS, "x")


def settle(server: Server, seconds: float = 0.2) -> None:
    """Kafka shows an altered config when its broker has read the metadata log; nothing tells when."""
    if server.name == "kafka":
        time.sleep(seconds)
