"""Names, types and defaults of Apache Kafka 4.3.0, as its own ConfigDefs print them; ours differ only on purpose."""

from __future__ import annotations

from gateway.config import SETTINGS, Kind
from gateway.config.group_table import GROUP_CONFIGS
from gateway.config.topic_table import TOPIC_CONFIGS
from semantics import policies

BROKER = """
advertised.listeners list null
auto.create.topics.enable boolean true
broker.rack string null
compression.gzip.level int -1
compression.lz4.level int 9
compression.type string producer
compression.zstd.level int 3
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
default.replication.factor int 1
delete.topic.enable boolean true
fetch.max.bytes int 57671680
group.consumer.assignors list uniform,range,failover
group.consumer.heartbeat.interval.ms int 5000
group.consumer.max.heartbeat.interval.ms int 15000
group.consumer.max.session.timeout.ms int 60000
group.consumer.max.size int 2147483647
group.consumer.migration.policy string bidirectional
group.consumer.min.heartbeat.interval.ms int 5000
group.consumer.min.session.timeout.ms int 45000
group.consumer.session.timeout.ms int 45000
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647
group.min.session.timeout.ms int 6000
group.share.delivery.count.limit int 5
group.share.heartbeat.interval.ms int 5000
group.share.max.delivery.count.limit int 10
group.share.max.heartbeat.interval.ms int 15000
group.share.max.partition.max.record.locks int 4000
group.share.max.record.lock.duration.ms int 60000
group.share.max.session.timeout.ms int 60000
group.share.max.share.sessions int 2000
group.share.max.size int 200
group.share.min.delivery.count.limit int 2
group.share.min.heartbeat.interval.ms int 5000
group.share.min.partition.max.record.locks int 100
group.share.min.record.lock.duration.ms int 15000
group.share.min.session.timeout.ms int 45000
group.share.partition.max.record.locks int 2000
group.share.record.lock.duration.ms int 30000
group.share.session.timeout.ms int 45000
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners list PLAINTEXT://:9092
log.cleaner.backoff.ms long 15000
log.cleaner.dedupe.buffer.size long 134217728
log.cleaner.delete.retention.ms long 86400000
log.cleaner.enable boolean true
log.cleaner.io.buffer.load.factor double 0.9
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long 9223372036854775807
log.cleaner.min.cleanable.ratio double 0.5
log.cleaner.min.compaction.lag.ms long 0
log.cleaner.threads int 1
log.cleanup.policy list delete
log.message.timestamp.after.max.ms long 3600000
log.message.timestamp.before.max.ms long 9223372036854775807
log.message.timestamp.type string CreateTime
log.retention.bytes long -1
log.retention.check.interval.ms long 300000
log.retention.hours int 168
log.retention.minutes int null
log.retention.ms long null
log.roll.hours int 168
log.roll.ms long null
log.segment.bytes int 1073741824
max.connections int 2147483647
max.connections.per.ip int 2147483647
max.incremental.fetch.session.cache.slots int 1000
max.request.partition.size.limit int 2000
message.max.bytes int 1048588
min.insync.replicas int 1
node.id int
num.partitions int 1
offset.metadata.max.bytes int 4096
offsets.retention.check.interval.ms long 600000
offsets.retention.minutes int 10080
offsets.topic.num.partitions int 50
producer.id.expiration.ms int 86400000
queued.max.requests int 500
quota.window.num int 11
quota.window.size.seconds int 1
sasl.enabled.mechanisms list GSSAPI
sasl.oauthbearer.clock.skew.seconds int 30
sasl.oauthbearer.expected.audience list
sasl.oauthbearer.expected.issuer string null
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
sasl.oauthbearer.jwks.endpoint.url string null
sasl.oauthbearer.sub.claim.name string sub
sasl.server.max.receive.size int 524288
socket.listen.backlog.size int 50
socket.request.max.bytes int 104857600
socket.send.buffer.bytes int 102400
ssl.cipher.suites list
ssl.client.auth string none
ssl.enabled.protocols list TLSv1.2,TLSv1.3
ssl.key.password password null
ssl.keystore.location string null
ssl.keystore.password password null
ssl.keystore.type string JKS
ssl.principal.mapping.rules string DEFAULT
ssl.truststore.location string null
ssl.truststore.password password null
ssl.truststore.type string JKS
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000
transaction.max.timeout.ms int 900000
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000
transaction.state.log.num.partitions int 50
transactional.id.expiration.ms int 604800000
"""

GROUP = """
consumer.assignment.interval.ms int 1000
consumer.heartbeat.interval.ms int 5000
consumer.session.timeout.ms int 45000
share.assignment.interval.ms int 1000
share.auto.offset.reset string latest
share.delivery.count.limit int 5
share.heartbeat.interval.ms int 5000
share.isolation.level string read_uncommitted
share.partition.max.record.locks int 2000
share.record.lock.duration.ms int 30000
share.renew.acknowledge.enable boolean true
share.session.timeout.ms int 45000
"""

TOPIC = """
cleanup.policy list delete
compression.gzip.level int -1
compression.lz4.level int 9
compression.type string producer
compression.zstd.level int 3
delete.retention.ms long 86400000
file.delete.delay.ms long 60000
flush.messages long 9223372036854775807
flush.ms long 9223372036854775807
follower.replication.throttled.replicas list
index.interval.bytes int 4096
leader.replication.throttled.replicas list
local.retention.bytes long -2
local.retention.ms long -2
max.compaction.lag.ms long 9223372036854775807
max.message.bytes int 1048588
message.timestamp.after.max.ms long 3600000
message.timestamp.before.max.ms long 9223372036854775807
message.timestamp.type string CreateTime
min.cleanable.dirty.ratio double 0.5
min.compaction.lag.ms long 0
min.insync.replicas int 1
preallocate boolean false
remote.log.copy.disable boolean false
remote.log.delete.on.disable boolean false
remote.storage.enable boolean false
retention.bytes long -1
retention.ms long 604800000
segment.bytes int 1073741824
segment.index.bytes int 10485760
segment.jitter.ms long 0
segment.ms long 604800000
unclean.leader.election.enable boolean false
"""

OTHERWISE = {
    # Kafka has one port for every interface, and no value for "what I listen on"
    "listeners": "127.0.0.1:9092",
    "advertised.listeners": "",
    # Pulsar's payload limit
    "message.max.bytes": "5242880",
    "max.message.bytes": "5242880",
    "group.initial.rebalance.delay.ms": "300",
    # room for Pulsar's maxRedeliverCount, and for one stuck record beside many others
    "group.share.max.delivery.count.limit": "1000",
    "group.share.max.partition.max.record.locks": "1000000",
    # Pulsar has no bound on the consumers of a subscription
    "group.share.max.size": "10000",
    "group.share.max.share.sessions": "50000",
    "socket.listen.backlog.size": "1024",
    "socket.send.buffer.bytes": "393216",
    # without a default in Kafka
    "node.id": "1",
    # a listener that is not named speaks what it is called
    "listener.security.protocol.map": "",
    # there is no Kerberos here
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
    # strangers get less
    "sasl.server.max.receive.size": "65536",
    # JKS is Java's own
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
"""Where our default is another one, and what it is."""

OURS = {
    "admin.allowed.hosts",
    "admin.console",
    "admin.authentication",
    "admin.listen",
    "admin.security.protocol",
    # Kafka's authorizer has these two, and its broker does not list them
    "allow.everyone.if.no.acl.found",
    "super.users",
    "audit.max.per.second",
    "audit.topic",
    "authorization",
    "corrupt.message.policy",
    "data",
    "durability",
    "insecure",
    "log.format",
    "log.level",
    "managedLedgerMaxEntriesPerLedger",
    "managedLedgerMaxLedgerRolloverTimeMinutes",
    "managedLedgerMaxSizePerLedgerMbytes",
    "managedLedgerMinLedgerRolloverTimeMinutes",
    "memory.connection.max.bytes",
    "memory.max.bytes",
    "message.expiry.check.interval.ms",
    "metrics.topics",
    "non.persistent.max.bytes",
    "non.persistent.max.ms",
    "non.persistent.partition.max.bytes",
    # Kafka has it, and keeps it to itself
    "producer.id.expiration.check.interval.ms",
    "pulsar.group.holds.backlog",
    "pulsar.ttl.from",
    "sasl.login.timeout.ms",
    # a property of Java's there
    "sasl.oauthbearer.allowed.urls",
    "sasl.oauthbearer.home.claim.name",
    "sasl.plain.insecure",
    "shutdown.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.handshake.timeout.ms",
    "ssl.handshakes.per.ip.per.second",
    "ssl.handshakes.per.second",
    "ssl.key.location",
    "store.driver",
    "store.page.cache.bytes",
    "store.tail.cache.bytes",
    "tenancy.unbound",
    "token.auth.claim",
    "token.public.key",
    "token.secret.key",
    "users.file",
}
"""Settings that Kafka does not have, or does not list."""


def facts(text: str) -> dict[str, tuple[Kind, str | None]]:
    rows = [line.split(" ", 2) for line in text.strip().splitlines()]
    return {row[0]: (Kind[row[1].upper()], None if row[2:] == ["null"] else "".join(row[2:])) for row in rows}


def test_broker_settings() -> None:
    kafka = facts(BROKER)
    assert set(SETTINGS) - set(kafka) == OURS | {each.setting for each in policies.TABLE if each.setting}
    for name, (kind, default) in kafka.items():
        assert SETTINGS[name].kind is kind, name
        assert SETTINGS[name].render(SETTINGS[name].default) == OTHERWISE.get(name, default), name


def test_topic_configs() -> None:
    kafka = facts(TOPIC)
    assert set(TOPIC_CONFIGS) - set(kafka) == {
        "corrupt.message.policy",
        "durability",
        "internal.segment.bytes",
        "pulsar.group.holds.backlog",
        "pulsar.ttl.from",
        "pulsar.non.persistent.max.bytes",
        "pulsar.persistence",
        *(each.name for each in policies.TABLE if policies.Level.TOPIC in each.levels),
    }
    for name, (kind, default) in kafka.items():
        setting = TOPIC_CONFIGS[name].setting
        assert setting.kind is kind, name
        # these two are open on the broker's side, where coarser settings decide
        if name not in ("retention.ms", "segment.ms"):
            assert setting.render(setting.default) == OTHERWISE.get(name, default), name


def test_group_configs() -> None:
    """Those of share groups and consumer groups: streams.* are of a protocol that is not served."""
    kafka = facts(GROUP)
    ours = {name for name in GROUP_CONFIGS if not name.startswith("pulsar.")}
    # KIP-1191, of Kafka 4.4
    assert ours - set(kafka) == {"errors.deadletterqueue.topic.name"}
    for name, (kind, default) in kafka.items():
        setting = GROUP_CONFIGS[name].setting
        assert setting.kind is kind, name
        assert setting.render(setting.default) == default, name
