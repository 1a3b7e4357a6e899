"""Kafka's settings that people bring along and that have no effect here, with what to do about each, or why."""

from __future__ import annotations

from gateway.config.security import SECURITY

SETTINGS_OF_SECURITY = frozenset(row.name for row in SECURITY)
"""Those that there are, of families of which most are not."""

_POOLS = "there are no thread pools to size here"
_CONTROLLER = "there is no controller here"
_SECURITY = "security here has no plug-ins; docs/SECURITY.md says what there is"
_REPLICAS = "a node here has no replicas"
_FILES = "the store here has no such files"
_VIEWS = "Kafka's internal topics are views here, of which nothing is stored"
_ASSIGNMENT = "every member of a share group gets every partition at once"
_TARGETS = "partitions are shared out as soon as members come or go"
_SHARE = "the state of share groups is in the store, not in a topic"
_ALONE = "a node here talks to no other"

ELSEWHERE: dict[str, str] = {
    "advertised.host.name": 'use "advertised.listeners"',
    "advertised.port": 'use "advertised.listeners"',
    "authorizer.class.name": 'use "authorization"',
    "auto.leader.rebalance.enable": _REPLICAS,
    "background.threads": _POOLS,
    "broker.id": 'use "node.id"',
    "broker.id.generation.enable": 'use "node.id"',
    "controlled.shutdown.enable": "a node here always finishes what is in flight before it stops",
    "host.name": 'use "listeners"',
    "log.cleaner.io.buffer.size": "segments are read and written a megabyte at a time",
    "log.dir": 'use "data"',
    "log.dirs": 'use "data"',
    "log.message.downconversion.enable": "stored batches are never converted",
    "log.preallocate": _FILES,
    "log.roll.jitter.hours": "segments roll when they are due",
    "log.roll.jitter.ms": "segments roll when they are due",
    "log.segment.delete.delay.ms": "files of deleted records go at once",
    "max.connection.creation.rate": "connections are not held back by their rate",
    "max.connections.per.ip.overrides": 'use "max.connections.per.ip", which is for all',
    "num.io.threads": _POOLS,
    "num.network.threads": _POOLS,
    "num.recovery.threads.per.data.dir": _POOLS,
    "num.replica.alter.log.dirs.threads": _REPLICAS,
    "num.replica.fetchers": _REPLICAS,
    "port": 'use "listeners"',
    "principal.builder.class": _SECURITY,
    "process.roles": _CONTROLLER,
    "request.timeout.ms": _ALONE,
    "socket.receive.buffer.bytes": "the system sizes the buffers of sockets",
    "unclean.leader.election.enable": _REPLICAS,
}
"""By name."""

FAMILIES: dict[str, str] = {
    "controller.": _CONTROLLER,
    "delegation.token.": _SECURITY,
    "follower.": _REPLICAS,
    "group.consumer.assignment.": _TARGETS,
    "group.consumer.max.assignment.": _TARGETS,
    "group.consumer.min.assignment.": _TARGETS,
    "group.consumer.regex.": "topics are subscribed to by name here",
    "group.share.assign": _ASSIGNMENT,
    "group.share.initialize.": _SHARE,
    "group.share.max.assign": _ASSIGNMENT,
    "group.share.min.assign": _ASSIGNMENT,
    "group.share.persister.": _SHARE,
    "group.streams.": "there are no streams groups here",
    "inter.broker.": _ALONE,
    "leader.": _REPLICAS,
    "log.flush.": 'use "durability"',
    "log.index.": _FILES,
    "metadata.log.": _CONTROLLER,
    "metric.": 'metrics are at /metrics of "admin.listen"',
    "metrics.num.": 'metrics are at /metrics of "admin.listen"',
    "metrics.recording.": 'metrics are at /metrics of "admin.listen"',
    "metrics.sample.": 'metrics are at /metrics of "admin.listen"',
    "offsets.topic.compression.": _VIEWS,
    "offsets.topic.replication.": _VIEWS,
    "offsets.topic.segment.": _VIEWS,
    "password.": _SECURITY,
    "remote.log.": "segments are not moved to other storage here",
    "replica.": _REPLICAS,
    "sasl.": _SECURITY,
    "security.": _SECURITY,
    "share.": _SHARE,
    "ssl.": _SECURITY,
    "transaction.partition.": "batches of transactions are always checked here",
    "transaction.state.log.load.": _VIEWS,
    "transaction.state.log.min.": _VIEWS,
    "transaction.state.log.replication.": _VIEWS,
    "transaction.state.log.segment.": _VIEWS,
    "transaction.two.": "there is no two-phase commit here",
    "zookeeper.": "there is no ZooKeeper here",
}
"""By how the names begin, for things that are not here at all."""


def elsewhere(name: str) -> str | None:
    """Why a setting of Kafka's has no effect here; None for a name that means nothing here."""
    if name in SETTINGS_OF_SECURITY:
        return None
    advice = ELSEWHERE.get(name)
    if advice is None:
        advice = next((each for start, each in FAMILIES.items() if name.startswith(start)), None)
    return None if advice is None else f'Kafka\'s "{name}" has no effect here: {advice}.'
