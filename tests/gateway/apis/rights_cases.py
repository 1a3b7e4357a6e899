"""A request or more of every API, and the rights that it needs of those that the table has for its API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.apis.rights_table import NEEDS, Kind, Need
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from tests.gateway.apis import rights_world
from tests.gateway.apis.rights_world import GROUP, METRICS, NEW, OVER, QUEUE, TOPIC, TX, World
from tests.gateway.broker.share_asking import ACCEPT, share_acknowledge_body, share_fetch_body
from tests.gateway.serving import batch, produce_body

Said = dict[str, Any]

OURS = {"queue", "pattern", "letters", "letters_read"}
"""Labels of requests that Kafka does not know: configs and topics of Magnetar's. `make rights` leaves them out."""


@dataclass(frozen=True)
class Case:
    """One request. `rows` are the places in the table of what it needs."""

    key: int
    version: int
    said: Callable[[World], Any]
    """the request, or the values that it is built of"""
    rows: tuple[int, ...]
    label: str = ""
    begin: Callable[[World], Awaitable[None]] | None = None
    """what there is before"""
    names: dict[Kind, str] = field(default_factory=dict)
    """where a name is not that of the world"""
    named: dict[int, str] = field(default_factory=dict)
    """the same for a row"""
    fine: frozenset[int] = frozenset({0})
    """error codes of an answer that refuses nothing"""
    changes: bool = False
    """whether something is stored by it"""
    shown: str = ""
    """the text that is left out without a right; by default the name of what the right is to"""

    @property
    def needs(self) -> list[Need]:
        return [NEEDS[self.key][row] for row in self.rows]

    def name(self, need: Need, kind: Kind) -> str:
        """Of the resource that a right is to."""
        if kind in (Kind.CLUSTER, Kind.GATEWAY):
            return ""
        row = next(row for row in self.rows if NEEDS[self.key][row] is need)
        plain = {Kind.TOPIC: TOPIC, Kind.ANY_TOPIC: TOPIC, Kind.GROUP: GROUP, Kind.TRANSACTIONAL_ID: TX}
        return self.named.get(row) or self.names.get(kind) or plain[kind]

    def __str__(self) -> str:
        return f"{ApiKey(self.key).name}{'-' if self.label else ''}{self.label}"


def _values(**said: Any) -> Callable[[World], Said]:
    return lambda world: said


def _topics(*keys: str, **partition: Any) -> Callable[[World], Said]:
    """The topic with its one partition."""
    name, *_ = keys
    return lambda world: {
        "topics": [{name: TOPIC, "partitions": [{"partition_index": 0, **partition}]}],
    }


def _of_group(*, topics: bool = True, by: str = "name", **partition: Any) -> Callable[[World], Said]:
    return lambda world: {
        "group_id": GROUP,
        **({"topics": [{by: TOPIC, "partitions": [{"partition_index": 0, **partition}]}]} if topics else {}),
    }


def _committed(world: World, *, by_id: bool = False) -> Said:
    named = {"topic_id": world.topic_id} if by_id else {"name": TOPIC}
    partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": ""}
    return {"group_id": GROUP, "topics": [{**named, "partitions": [partition]}]}


def _fetched(world: World, *, by_id: bool = False) -> Said:
    named = {"topic_id": world.topic_id} if by_id else {"topic": TOPIC}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    return {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "session_epoch": -1,
        "topics": [{**named, "partitions": [partition]}],
    }


def _written(world: World) -> Any:
    return produce_body(TOPIC, batch(b"d"))


def _written_in_transaction(world: World) -> Any:
    tx = world.tx
    data = batch(b"d", producer_id=tx.id, producer_epoch=tx.epoch, base_sequence=1, transactional=True)
    body = produce_body(TOPIC, data)
    body.transactional_id = TX
    return body


def _created(name: str, **configs: str) -> Callable[[World], Said]:
    given = [{"name": key.replace("__", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": given}
    return _values(topics=[topic], timeout_ms=1000)


def _in_transaction(**more: Any) -> Callable[[World], Said]:
    return lambda world: {**world.tx.who, **more}


def _left(world: World) -> Said:
    return {"group_id": GROUP, "member_id": world.member_id}


def _added(world: World) -> Said:
    return {
        "v3_and_below_transactional_id": TX,
        "v3_and_below_producer_id": world.tx.id,
        "v3_and_below_producer_epoch": world.tx.epoch,
        "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
    }


def _added_by_broker(world: World) -> Said:
    topics = [{"name": TOPIC, "partitions": [0]}]
    return {"transactions": [{**world.tx.who, "verify_only": False, "topics": topics}]}


def _marked(world: World) -> Said:
    marker = {
        "producer_id": world.tx.id,
        "producer_epoch": world.tx.epoch,
        "transaction_result": False,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
    }
    return {"markers": [marker]}


def _configs(kind: int, name: str) -> Callable[[World], Said]:
    return _values(resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}])


def _altered(kind: int, name: str, config: str, value: str, **more: int) -> Callable[[World], Said]:
    configs = [{"name": config, "value": value, **more}]
    return _values(resources=[{"resource_type": kind, "resource_name": name, "configs": configs}])


def _log_dirs(world: World) -> Said:
    folder, _, _ = world.gateway.broker.disk()
    return {"dirs": [{"path": folder, "topics": [{"name": TOPIC, "partitions": [0]}]}]}


def _share_fetched(world: World) -> Any:
    return share_fetch_body(rights_world.MEMBER, 0, world.topic_id, [0], group=GROUP)


def _share_acknowledged(world: World) -> Any:
    epoch = world.share_epoch
    return share_acknowledge_body(
        rights_world.MEMBER, epoch, world.topic_id, {0: [(0, 0, ACCEPT)]}, group=GROUP
    )


def _quota(key: str) -> Callable[[World], Said]:
    return _values(
        entries=[
            {
                "entity": [{"entity_type": "user", "entity_name": "ada"}],
                "ops": [{"key": key, "value": 0.0, "remove": True}],
            }
        ],
        validate_only=False,
    )


_ANY_ACL = {
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_CREDENTIAL = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}

_MADE_NEW = {Kind.TOPIC: NEW}
_ALL: dict[str, Any] = {"topics": None}
_LOGIN = frozenset({int(Error.ILLEGAL_SASL_STATE)})
_NOT_NEEDED = frozenset({0, int(Error.ELECTION_NOT_NEEDED)})

CASES = [
    Case(ApiKey.PRODUCE, 9, _written, (1,), "by_name", changes=True),
    Case(
        ApiKey.PRODUCE,
        10,
        _written_in_transaction,
        (0, 1),
        "in_a_transaction",
        World.transaction,
        changes=True,
    ),
    Case(ApiKey.FETCH, 12, _fetched, (0,), "by_name"),
    Case(ApiKey.FETCH, 16, lambda world: _fetched(world, by_id=True), (0,), "by_id"),
    Case(ApiKey.LIST_OFFSETS, 7, _topics("name", timestamp=-1), (0,)),
    Case(ApiKey.METADATA, 12, _values(topics=[{"name": TOPIC}]), (0,), "by_name"),
    Case(
        ApiKey.METADATA,
        12,
        lambda world: {"topics": [{"name": None, "topic_id": world.topic_id}]},
        (1,),
        "by_id",
    ),
    Case(ApiKey.METADATA, 9, _values(**_ALL), (2,), "all"),
    Case(
        ApiKey.METADATA,
        9,
        _values(topics=[{"name": NEW}], allow_auto_topic_creation=True),
        (0, 3),
        "made",
        names=_MADE_NEW,
        changes=True,
    ),
    Case(ApiKey.METADATA, 9, _values(topics=[], include_cluster_authorized_operations=True), (4,), "bits"),
    Case(ApiKey.OFFSET_COMMIT, 8, _committed, (0, 1), "by_name", changes=True),
    Case(
        ApiKey.OFFSET_COMMIT, 10, lambda world: _committed(world, by_id=True), (0, 1), "by_id", changes=True
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        1,
        _values(group_id=GROUP, topics=[{"name": TOPIC, "partition_indexes": [0]}]),
        (0, 1),
        "old",
        World.offsets,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        9,
        _values(groups=[{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]),
        (0, 1),
        "by_name",
        World.offsets,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        10,
        lambda world: {
            "groups": [
                {"group_id": GROUP, "topics": [{"topic_id": world.topic_id, "partition_indexes": [0]}]}
            ]
        },
        (0, 1),
        "by_id",
        World.offsets,
    ),
    Case(
        ApiKey.OFFSET_FETCH,
        9,
        _values(groups=[{"group_id": GROUP, "topics": None}]),
        (0, 2),
        "all",
        World.offsets,
    ),
    Case(ApiKey.FIND_COORDINATOR, 4, _values(key_type=0, coordinator_keys=[GROUP]), (0,), "group"),
    Case(ApiKey.FIND_COORDINATOR, 3, _values(key_type=1, key=TX), (1,), "transaction"),
    Case(ApiKey.JOIN_GROUP, 3, lambda world: rights_world.join(), (0,), changes=True),
    Case(ApiKey.HEARTBEAT, 3, World.member, (0,), begin=World.stable),
    Case(ApiKey.LEAVE_GROUP, 2, _left, (0,), begin=World.stable, changes=True),
    Case(ApiKey.SYNC_GROUP, 3, World.sync, (0,), begin=World.classic, changes=True),
    Case(ApiKey.DESCRIBE_GROUPS, 5, _values(groups=[GROUP]), (0,), begin=World.stable),
    Case(ApiKey.LIST_GROUPS, 4, _values(), (0,), begin=World.offsets),
    Case(ApiKey.SASL_HANDSHAKE, 1, _values(mechanism="PLAIN"), (), fine=_LOGIN),
    Case(ApiKey.SASL_AUTHENTICATE, 1, _values(auth_bytes=b""), (), fine=_LOGIN),
    Case(ApiKey.API_VERSIONS, 3, _values(client_software_name="mine", client_software_version="1"), ()),
    Case(ApiKey.CREATE_TOPICS, 7, _created(NEW), (0, 1), names=_MADE_NEW, changes=True),
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        _created(QUEUE),
        (0, 1, 2, 3),
        "queue",
        named={0: QUEUE, 1: QUEUE},
        changes=True,
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        _created(OVER, pulsar__queue__pattern="ord.*", pulsar__max__redeliver__count="0"),
        (0, 1, 3, 4),
        "pattern",
        named={0: OVER, 1: OVER},
        changes=True,
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        _created(QUEUE, pulsar__dead__letter__topic=NEW),
        (0, 1, 2, 3, 5, 6),
        "letters",
        named={0: QUEUE, 1: QUEUE, 5: NEW, 6: NEW},
        changes=True,
    ),
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        _created(QUEUE, pulsar__dead__letter__initial__subscription=NEW),
        (0, 1, 2, 3, 7),
        "letters_read",
        named={0: QUEUE, 1: QUEUE, 7: NEW},
        changes=True,
    ),
    Case(
        ApiKey.DELETE_TOPICS, 5, _values(topic_names=[TOPIC], timeout_ms=1000), (0,), "by_name", changes=True
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        6,
        lambda world: {"topics": [{"name": None, "topic_id": world.topic_id}], "timeout_ms": 1000},
        (0,),
        "by_id",
        changes=True,
    ),
    Case(ApiKey.DELETE_RECORDS, 2, _topics("name", offset=2), (0,), changes=True),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        4,
        _values(transactional_id=TX, transaction_timeout_ms=60_000),
        (0,),
        "transactional",
        changes=True,
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        4,
        _values(transactional_id=None, transaction_timeout_ms=60_000),
        (1,),
        "idempotent",
        changes=True,
    ),
    Case(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        _values(
            topics=[
                {
                    "topic": TOPIC,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ]
        ),
        (0,),
    ),
    Case(ApiKey.ADD_PARTITIONS_TO_TXN, 3, _added, (0, 1), "client", World.producer, changes=True),
    Case(ApiKey.ADD_PARTITIONS_TO_TXN, 5, _added_by_broker, (2,), "broker", World.producer, changes=True),
    Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        _in_transaction(group_id=GROUP),
        (0, 1),
        begin=World.producer,
        changes=True,
    ),
    Case(ApiKey.END_TXN, 4, _in_transaction(committed=True), (0,), begin=World.transaction, changes=True),
    Case(ApiKey.WRITE_TXN_MARKERS, 1, _marked, (0,), begin=World.transaction, changes=True),
    Case(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        lambda world: {
            **_committed(world),
            **world.tx.who,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
        },
        (0, 1, 2),
        begin=World.transaction,
        changes=True,
    ),
    Case(
        ApiKey.DESCRIBE_ACLS,
        3,
        _values(resource_type_filter=2, resource_name_filter=TOPIC, **_ANY_ACL),
        (0,),
        begin=World.acl,
    ),
    Case(ApiKey.CREATE_ACLS, 3, _values(creations=[rights_world.ACL]), (0,), changes=True),
    Case(
        ApiKey.DELETE_ACLS,
        3,
        _values(filters=[{"resource_type_filter": 2, "resource_name_filter": TOPIC, **_ANY_ACL}]),
        (0,),
        begin=World.acl,
        changes=True,
    ),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, _configs(2, TOPIC), (0,), "topic"),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, _configs(32, GROUP), (1,), "group"),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, _configs(4, ""), (2,), "brokers"),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, _configs(4, "1"), (2,), "broker"),
    Case(ApiKey.DESCRIBE_CONFIGS, 4, _configs(16, METRICS), (2,), "metrics"),
    Case(ApiKey.ALTER_CONFIGS, 2, _altered(2, TOPIC, "retention.ms", "1000"), (0,), "topic", changes=True),
    Case(
        ApiKey.ALTER_CONFIGS,
        2,
        _altered(32, GROUP, "consumer.session.timeout.ms", "50000"),
        (1,),
        "group",
        changes=True,
    ),
    Case(ApiKey.ALTER_CONFIGS, 2, _altered(4, "", "log.retention.ms", "1000"), (2,), "broker", changes=True),
    Case(
        ApiKey.ALTER_CONFIGS, 2, _altered(16, METRICS, "interval.ms", "1000"), (2,), "metrics", changes=True
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(2, TOPIC, "retention.ms", "1000", config_operation=0),
        (0,),
        "topic",
        changes=True,
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(32, GROUP, "consumer.session.timeout.ms", "50000", config_operation=0),
        (1,),
        "group",
        changes=True,
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(4, "", "log.retention.ms", "1000", config_operation=0),
        (2,),
        "broker",
        changes=True,
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        _altered(16, METRICS, "interval.ms", "1000", config_operation=0),
        (2,),
        "metrics",
        changes=True,
    ),
    *(
        Case(
            key,
            version,
            _altered(32, GROUP, "errors.deadletterqueue.topic.name", NEW, **more),
            (1, 3, 4),
            "letters",
            names=_MADE_NEW,
            changes=True,
        )
        for key, version, more in (
            (ApiKey.ALTER_CONFIGS, 2, {}),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"config_operation": 0}),
        )
    ),
    *(
        Case(
            key,
            version,
            _altered(32, GROUP, "pulsar.dead.letter.initial.subscription", NEW, **more),
            (1, 5),
            "letters_read",
            named={5: NEW},
            changes=True,
        )
        for key, version, more in (
            (ApiKey.ALTER_CONFIGS, 2, {}),
            (ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"config_operation": 0}),
        )
    ),
    Case(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, _log_dirs, (0,)),
    Case(ApiKey.DESCRIBE_LOG_DIRS, 4, _values(topics=None), (0,)),
    Case(
        ApiKey.CREATE_PARTITIONS,
        3,
        _values(topics=[{"name": TOPIC, "count": 2, "assignments": None}], timeout_ms=1000),
        (0,),
        changes=True,
    ),
    Case(ApiKey.DELETE_GROUPS, 2, _values(groups_names=[GROUP]), (0,), begin=World.offsets, changes=True),
    Case(
        ApiKey.ELECT_LEADERS,
        2,
        _values(election_type=0, topic_partitions=[{"topic": TOPIC, "partitions": [0]}], timeout_ms=1000),
        (0,),
        "named",
        fine=_NOT_NEEDED,
    ),
    Case(
        ApiKey.ELECT_LEADERS, 2, _values(election_type=0, topic_partitions=None, timeout_ms=1000), (0,), "all"
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        lambda world: {
            "topics": [
                {
                    "name": TOPIC,
                    "partitions": [{"partition_index": 0, "replicas": [world.gateway.broker.node_id]}],
                }
            ],
            "timeout_ms": 1000,
        },
        (0,),
    ),
    Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, _values(topics=None, timeout_ms=1000), (0,)),
    Case(
        ApiKey.OFFSET_DELETE,
        0,
        _of_group(),
        (0, 1),
        begin=World.offsets,
        changes=True,
    ),
    Case(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, _values(components=[], strict=False), (0,)),
    Case(ApiKey.ALTER_CLIENT_QUOTAS, 1, _quota("producer_byte_rate"), (0,)),
    Case(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, _values(users=[]), (0,)),
    Case(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        _values(deletions=[], upsertions=[{"name": "bob", **_CREDENTIAL}]),
        (0,),
        changes=True,
    ),
    Case(
        ApiKey.DESCRIBE_QUORUM,
        1,
        _values(topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]),
        (0,),
    ),
    Case(
        ApiKey.UPDATE_FEATURES,
        1,
        _values(
            timeout_ms=1000,
            feature_updates=[{"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}],
        ),
        (0,),
    ),
    Case(ApiKey.DESCRIBE_CLUSTER, 0, _values(include_cluster_authorized_operations=True), (0,)),
    Case(ApiKey.DESCRIBE_PRODUCERS, 0, _values(topics=[{"name": TOPIC, "partition_indexes": [0]}]), (0,)),
    Case(ApiKey.DESCRIBE_TRANSACTIONS, 0, _values(transactional_ids=[TX]), (0, 1), begin=World.transaction),
    Case(ApiKey.LIST_TRANSACTIONS, 0, _values(), (0,), begin=World.transaction),
    Case(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, lambda world: rights_world.beat(), (0, 1), changes=True),
    Case(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, _values(group_ids=[GROUP]), (0, 1), begin=World.consumer),
    Case(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, _values(client_instance_id=b"i" * 16), ()),
    Case(ApiKey.PUSH_TELEMETRY, 0, _values(client_instance_id=b"i" * 16, subscription_id=0, metrics=b""), ()),
    Case(
        ApiKey.LIST_CONFIG_RESOURCES,
        1,
        _values(resource_types=[]),
        (0, 1),
        begin=World.metrics,
        shown=METRICS,
    ),
    Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        _values(topics=[{"name": TOPIC}], response_partition_limit=10),
        (0,),
        "by_name",
    ),
    Case(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, _values(topics=[], response_partition_limit=10), (1,), "all"),
    Case(ApiKey.SHARE_GROUP_HEARTBEAT, 1, lambda world: rights_world.share_beat(), (0, 1), changes=True),
    Case(ApiKey.SHARE_GROUP_DESCRIBE, 1, _values(group_ids=[GROUP]), (0, 1), begin=World.shared),
    Case(ApiKey.SHARE_FETCH, 2, _share_fetched, (0, 1), begin=World.shared, changes=True),
    Case(ApiKey.SHARE_ACKNOWLEDGE, 2, _share_acknowledged, (0, 1), begin=World.holding, changes=True),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        _values(groups=[{"group_id": GROUP, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]),
        (0, 1),
        "named",
        World.subscription,
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        _values(groups=[{"group_id": GROUP, "topics": None}]),
        (0, 2),
        "all",
        World.subscription,
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        _of_group(by="topic_name", start_offset=2),
        (0, 1),
        changes=True,
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        _values(group_id=GROUP, topics=[{"topic_name": TOPIC}]),
        (0, 1),
        begin=World.subscription,
        changes=True,
    ),
]
