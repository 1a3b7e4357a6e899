"""Every setting of a gateway: one table for flags, the TOML file, environment variables and DescribeConfigs.

A setting that Apache Kafka's broker has carries Kafka's name and means the same. Its default is Kafka 4.3's
unless the row says why not. Nothing stands here that has no effect.
"""

from __future__ import annotations

from gateway.config.cleaner import CLEANER
from gateway.config.consumer_groups import CONSUMER_GROUPS
from gateway.config.ledgers import LEDGERS
from gateway.config.listeners import check_advertised, check_listener, check_listeners
from gateway.config.policy_settings import OF_BROKER
from gateway.config.schema import INT_MAX, LONG_MAX, Kind, Setting, Value, at_least, between, each_of, one_of
from gateway.config.security import SECURITY
from gateway.config.share_groups import SHARE_GROUPS

_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


def _send_buffer(value: Value) -> str | None:
    wrong = isinstance(value, int) and value != -1 and value < 16_384
    return "must be at least 16384, or -1" if wrong else None


_ROWS = [
    # -- this node, and where it is reached
    Setting(
        "node.id",
        Kind.INT,
        1,
        "The number of this node, as Metadata and DescribeCluster show it.",
        at_least(0),
    ),
    Setting(
        "broker.rack",
        Kind.STRING,
        None,
        "The rack or zone of this node, as Metadata shows it. Clients may prefer a node near them.",
    ),
    Setting(
        "listeners",
        Kind.LIST,
        ("127.0.0.1:9092",),
        "Addresses for Kafka clients: host:port or NAME://host:port. Port 0 takes a free one, an empty host "
        "means every interface.",
        check_listeners,
        flag="--listen",
    ),
    Setting(
        "advertised.listeners",
        Kind.LIST,
        (),
        "Addresses that clients are told to come back to, matched with the listeners by name, or by position "
        "when they have none. Empty: the listeners themselves. Port 0 stands for the port of the listener.",
        check_advertised,
    ),
    Setting(
        "admin.listen",
        Kind.STRING,
        "127.0.0.1:8080",
        "Address for HTTP: the admin API, /metrics and /health. Empty switches HTTP off.",
        check_listener,
        flag="--admin",
    ),
    Setting(
        "admin.allowed.hosts",
        Kind.LIST,
        (),
        "Names by which HTTP clients may call this gateway, beside addresses, localhost and the names that listeners "
        "bind or advertise. Another name is refused, since a web page can make its own name lead here. * allows all.",
    ),
    Setting(
        "admin.console",
        Kind.STRING,
        "auto",
        "The web pages under /ui/ beside the admin API: off, there are none; read, they change nothing; write, they "
        "change what their user may change by the API. auto: write where only this machine reaches admin.listen, or "
        "clients of HTTP must say who they are, else read.",
        one_of("auto", "off", "read", "write"),
    ),
    Setting(
        "metrics.topics",
        Kind.STRING,
        "active",
        "Which topics have lines of their own in /metrics. active: those that were written to or read in the last "
        "minutes, and groups that are connected or have something to read; all, also idle ones; none, sums only.",
        one_of("active", "all", "none"),
        dynamic=True,
    ),
    Setting(
        "insecure",
        Kind.BOOLEAN,
        False,
        "Allow listeners that other machines can reach, although they are without TLS, or ask nobody who they are.",
        flag="--insecure",
    ),
    # -- security
    *SECURITY,
    # -- the store
    Setting(
        "data",
        Kind.STRING,
        "data",
        "The folder that holds everything. It is made when missing.",
        lambda value: None if value and "\0" not in str(value) else "must be the name of a folder",
        flag="--data",
    ),
    Setting(
        "durability",
        Kind.STRING,
        "os",
        "What an acknowledgement survives: os, the death of the process (as in Kafka); fsync, a power cut as "
        "well. A topic may set its own.",
        one_of("os", "fsync"),
        dynamic=True,
        flag="--durability",
    ),
    Setting(
        "store.driver",
        Kind.STRING,
        "rocksdb",
        "Where data lives: rocksdb, in the data folder; memory, nowhere: it is gone when the gateway stops.",
        one_of("rocksdb", "memory"),
    ),
    Setting(
        "store.tail.cache.bytes",
        Kind.LONG,
        67_108_864,
        "Bytes of newly written batches kept in memory, so that consumers who keep up need no disk.",
        at_least(0),
    ),
    Setting(
        "non.persistent.max.bytes",
        Kind.LONG,
        268_435_456,
        "Bytes of messages of all non-persistent topics in memory. The oldest go first, whichever topic they are of. "
        "0: no such topics can be made.",
        at_least(0),
    ),
    Setting(
        "non.persistent.partition.max.bytes",
        Kind.INT,
        16_777_216,
        "Bytes of messages of one partition of a non-persistent topic in memory. The oldest go first. No batch may be "
        "larger.",
        at_least(1024),
        dynamic=True,
    ),
    Setting(
        "non.persistent.max.ms",
        Kind.INT,
        60_000,
        "How long a message of a non-persistent topic stays in memory for who is about to read it, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "store.page.cache.bytes",
        Kind.LONG,
        -1,
        "Bytes of large streams that stay in the system's page cache after they were written; older ones are given "
        "back once they are on disk, and consumers that far behind read from the disk. -1: half of the memory that is "
        "available, looked at while it runs, container limits included. 0 leaves it to the system.",
        at_least(-1),
    ),
    # -- topics
    Setting(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Make a topic when a client asks for one that does not exist and allows it.",
    ),
    Setting("delete.topic.enable", Kind.BOOLEAN, True, "Whether topics may be deleted."),
    Setting(
        "num.partitions",
        Kind.INT,
        1,
        "Partitions of a topic that is made without saying how many.",
        between(1, 1_000_000),
    ),
    Setting(
        "default.replication.factor",
        Kind.INT,
        1,
        "Copies of a topic that is made without saying how many. One node keeps one copy.",
        between(1, 1),
    ),
    Setting(
        "max.request.partition.size.limit",
        Kind.INT,
        2000,
        "Partitions in one answer of DescribeTopicPartitions at most; clients ask on for the rest.",
        at_least(1),
    ),
    # -- defaults of topic configs: a topic's own config wins
    Setting(
        "message.max.bytes",
        Kind.INT,
        5_242_880,  # Pulsar's payload limit; Kafka's own default is 1 MiB
        "The largest record batch that is taken, in bytes, as it is compressed.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "log.retention.ms",
        Kind.LONG,
        None,
        "How long records are kept, in milliseconds; -1 is for ever. Open: log.retention.minutes decides.",
        at_least(-1),
        dynamic=True,
    ),
    Setting(
        "log.retention.minutes",
        Kind.INT,
        None,
        "How long records are kept, in minutes; -1 is for ever. Open: log.retention.hours decides.",
        at_least(-1),
    ),
    Setting(
        "log.retention.hours",
        Kind.INT,
        168,
        "How long records are kept, in hours; -1 is for ever.",
        at_least(-1),
    ),
    Setting(
        "log.retention.bytes",
        Kind.LONG,
        -1,
        "How many bytes a partition keeps; -1 is no limit.",
        at_least(-1),
        dynamic=True,
    ),
    Setting(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often old segments are looked for, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "log.segment.bytes",
        Kind.INT,
        1_073_741_824,
        "Size of a segment file, in bytes. Old records go a whole segment at a time.",
        at_least(1_048_576),
        dynamic=True,
    ),
    Setting(
        "log.roll.ms",
        Kind.LONG,
        None,
        "Age at which a new segment is begun, in milliseconds. Open: log.roll.hours decides.",
        at_least(1),
        dynamic=True,
    ),
    Setting("log.roll.hours", Kind.INT, 168, "Age at which a new segment is begun, in hours.", at_least(1)),
    *LEDGERS,
    Setting(
        "log.cleanup.policy",
        Kind.LIST,
        ("delete",),
        "What happens to old records: delete, by age and size; compact, the last of each key stays.",
        each_of("delete", "compact"),
        dynamic=True,
    ),
    *CLEANER,
    Setting(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock stamps a record: the producer's (CreateTime) or the gateway's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        dynamic=True,
    ),
    Setting(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie in the past, in milliseconds.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        3_600_000,
        "How far a producer's timestamp may lie in the future, in milliseconds.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "compression.type",
        Kind.STRING,
        "producer",
        "How batches are stored: producer, as they come, or compressed again with the one named.",
        one_of(*_COMPRESSIONS),
        dynamic=True,
    ),
    Setting(
        "compression.gzip.level",
        Kind.INT,
        -1,
        "Level for compression.type gzip, 1 to 9; -1 leaves it to the library.",
        lambda value: None if value == -1 or value in range(1, 10) else "must be -1 or from 1 to 9",
        dynamic=True,
    ),
    Setting(
        "compression.lz4.level",
        Kind.INT,
        9,
        "Level for compression.type lz4, 1 to 17.",
        between(1, 17),
        dynamic=True,
    ),
    Setting(
        "compression.zstd.level",
        Kind.INT,
        3,
        "Level for compression.type zstd, up to 22; negative ones are faster.",
        between(-131_072, 22),
        dynamic=True,
    ),
    Setting(
        "corrupt.message.policy",
        Kind.STRING,
        "error",
        "What readers of damaged batches get: error, CORRUPT_MESSAGE until they seek past them; skip, what comes "
        "behind them. A topic may set its own.",
        one_of("error", "skip"),
        dynamic=True,
    ),
    Setting(
        "pulsar.group.holds.backlog",
        Kind.BOOLEAN,
        False,
        "Whether retention keeps what a consumer group has not read, from its committed offset on, as it does for "
        "subscriptions. A topic may set its own.",
        dynamic=True,
    ),
    Setting(
        "pulsar.ttl.from",
        Kind.STRING,
        "available",
        "What the age counts from by which messages expire: available, when a message was sent or is due, the later; "
        "publish, when it was sent, as in Pulsar: then a delayed message may expire before it is due. A topic may set "
        "its own.",
        one_of("available", "publish"),
        dynamic=True,
    ),
    Setting(
        "min.insync.replicas",
        Kind.INT,
        1,
        "Copies that must have a record before acks=all is answered, counted up to the copies there are: one.",
        at_least(1),
        dynamic=True,
    ),
    # -- Pulsar's policies: what a topic or its namespace says wins
    *OF_BROKER,
    Setting(
        "message.expiry.check.interval.ms",
        Kind.LONG,
        30_000,
        "How often messages are looked for whose time to live is over, in milliseconds.",
        at_least(1),
    ),
    # -- groups and committed offsets
    Setting(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "The shortest session timeout a group member may ask for, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "The longest session timeout a group member may ask for, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        300,  # Kafka waits 3000; with newcomers extending it 300 settles a group of 20 four times sooner
        "How long a new group waits for more members before partitions are dealt out, in milliseconds. "
        "Newcomers extend it, to one second in all at the default.",
        at_least(0),
    ),
    Setting("group.max.size", Kind.INT, INT_MAX, "Members a group may have.", at_least(1)),
    Setting(
        "offsets.retention.minutes",
        Kind.INT,
        10_080,
        "How long the offsets of a group without members are kept, in minutes.",
        at_least(1),
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often expired offsets are looked for, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "offset.metadata.max.bytes",
        Kind.INT,
        4096,
        "The longest text a client may store beside a committed offset, in bytes.",
        at_least(0),
    ),
    *CONSUMER_GROUPS,
    # -- share groups
    *SHARE_GROUPS,
    # -- idempotent producers
    Setting(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "How long the sequence numbers of a silent producer are remembered, in milliseconds.",
        at_least(1),
        dynamic=True,
    ),
    Setting(
        "producer.id.expiration.check.interval.ms",
        Kind.INT,
        600_000,
        "How often forgotten producers are looked for, in milliseconds.",
        at_least(1),
    ),
    # -- transactions
    Setting(
        "transaction.max.timeout.ms",
        Kind.INT,
        900_000,
        "The longest time that a producer may ask for as its transaction.timeout.ms, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "transactional.id.expiration.ms",
        Kind.INT,
        604_800_000,
        "How long a transactional id is remembered that nobody uses, in milliseconds.",
        at_least(1),
    ),
    Setting(
        "offsets.topic.num.partitions",
        Kind.INT,
        50,
        "Partitions of __consumer_offsets, in which tools read what groups have committed.",
        between(1, 1_000),
    ),
    Setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        50,
        "Partitions of __transaction_state, in which tools read what becomes of transactions.",
        between(1, 1_000),
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        "How often transactions are looked for that have been open for too long, in milliseconds: these are aborted.",
        at_least(1),
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        3_600_000,
        "How often transactional ids are looked for that nobody uses any more, in milliseconds.",
        at_least(1),
    ),
    # -- fetching
    Setting(
        "fetch.max.bytes",
        Kind.INT,
        57_671_680,
        "The most that one Fetch answers, in bytes, whatever the client asks for. A first batch comes whole.",
        at_least(1024),
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "Fetch sessions that are remembered. Clients beyond that name all partitions in each fetch.",
        at_least(0),
    ),
    # -- connections and memory
    Setting(
        "max.connections",
        Kind.INT,
        INT_MAX,
        "Connections of Kafka clients a listener takes at once.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "max.connections.per.ip",
        Kind.INT,
        INT_MAX,
        "Connections of Kafka clients from one address.",
        at_least(0),
        dynamic=True,
    ),
    Setting(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection on which nothing was asked for this long is closed, in milliseconds; -1 never.",
        at_least(-1),
    ),
    Setting(
        "socket.request.max.bytes",
        Kind.INT,
        104_857_600,
        "The largest request, in bytes. A connection that announces more is closed.",
        at_least(1),
    ),
    Setting(
        "socket.listen.backlog.size",
        Kind.INT,
        1024,  # Kafka's 50 makes a burst of clients wait a second for their second try
        "Connections that may wait to be accepted.",
        at_least(1),
    ),
    Setting(
        "socket.send.buffer.bytes",
        Kind.INT,
        393_216,  # Kafka's 102,400 takes four waits for each megabyte
        "The send buffer of each connection (SO_SNDBUF), in bytes. A client that is far away gets at most about twice "
        "as much in one round trip. -1: the system chooses, up to some megabytes; clients that are near then read "
        "large answers more slowly.",
        _send_buffer,
    ),
    Setting(
        "queued.max.requests",
        Kind.INT,
        500,
        "Requests of one connection that may wait for their answers; no more are read until some have left.",
        at_least(1),
    ),
    Setting(
        "memory.connection.max.bytes",
        Kind.LONG,
        16_777_216,
        "Bytes of answers that may wait for one slow client; no more is read from it until some were taken.",
        at_least(65_536),
    ),
    Setting(
        "memory.max.bytes",
        Kind.LONG,
        268_435_456,
        "Bytes that requests and answers of all connections may hold together; reading pauses above it.",
        at_least(1_048_576),
    ),
    # -- the process
    Setting(
        "shutdown.timeout.ms",
        Kind.INT,
        10_000,
        "How long a stop waits for requests in flight, in milliseconds.",
        at_least(0),
    ),
    Setting(
        "log.level",
        Kind.STRING,
        "info",
        "How much is logged: debug, info, warning or error.",
        one_of("debug", "info", "warning", "error"),
        flag="--log-level",
    ),
    Setting(
        "log.format",
        Kind.STRING,
        "text",
        "How log lines look: text, for people; json, for machines.",
        one_of("text", "json"),
        flag="--log-format",
    ),
]

SETTINGS: dict[str, Setting] = {row.name: row for row in _ROWS}
"""Every setting by name, in the order in which they are shown."""
