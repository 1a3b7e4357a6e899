"""Which rights each API asks for, and what becomes of a request without them.

Handlers ask for themselves (`checks.py`): what they do without a right is theirs to know. That they do what stands
here, no less and no more, is tested for every row (`tests/gateway/apis/test_rights_matrix.py`), and
`rights_page.py` writes the rows into docs/SECURITY.md. An API that is registered and has no row fails a test.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics.access.acl import Operation


class Kind(Enum):
    """What a right is to."""

    TOPIC = "topic"
    ANY_TOPIC = "any topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    CLUSTER = "cluster"
    """as the client sees it: for a tenant, its namespace; beside a topic, the namespace of that"""
    GATEWAY = "gateway"
    """all of it: the cluster of public/default"""


class How(Enum):
    """What becomes of a request without a right."""

    WHOLE = "all of the request is refused"
    EACH = "that part is refused"
    LEFT_OUT = "left out of the answer"
    LESS = "done, and the answer tells less"


class Right(NamedTuple):
    """An operation on a resource."""

    kind: Kind
    operation: Operation


class Need(NamedTuple):
    """One thing that is asked for."""

    any_of: tuple[Right, ...]
    """one of these is enough"""
    error: Error
    """what is told without; NONE where nothing is"""
    how: How
    when: str = ""
    """of which requests, or parts of one; all of them, where it says nothing"""


def _topic(operation: Operation) -> Right:
    return Right(Kind.TOPIC, operation)


def _group(operation: Operation) -> Right:
    return Right(Kind.GROUP, operation)


def _cluster(operation: Operation) -> Right:
    return Right(Kind.CLUSTER, operation)


def _gateway(operation: Operation) -> Right:
    return Right(Kind.GATEWAY, operation)


_USE = Right(Kind.TRANSACTIONAL_ID, Operation.WRITE)
_SEE = Right(Kind.TRANSACTIONAL_ID, Operation.DESCRIBE)
_NO_TOPIC, _NO_GROUP = Error.TOPIC_AUTHORIZATION_FAILED, Error.GROUP_AUTHORIZATION_FAILED
_NO_CLUSTER, _NO_ID = Error.CLUSTER_AUTHORIZATION_FAILED, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _each_topic(operation: Operation, when: str = "") -> Need:
    return Need((_topic(operation),), _NO_TOPIC, How.EACH, when)


def _each_group(operation: Operation, when: str = "") -> Need:
    return Need((_group(operation),), _NO_GROUP, How.EACH, when)


def _whole_group(operation: Operation) -> Need:
    return Need((_group(operation),), _NO_GROUP, How.WHOLE)


def _whole_id(when: str = "") -> Need:
    return Need((_USE,), _NO_ID, How.WHOLE, when)


def _whole_cluster(*operations: Operation, when: str = "") -> Need:
    return Need(tuple(map(_cluster, operations)), _NO_CLUSTER, How.WHOLE, when)


def _described_only(right: Right, when: str = "") -> Need:
    return Need((right,), Error.NONE, How.LEFT_OUT, when)


_IN_GROUP = (_whole_group(Operation.READ),)
_MEMBER = (
    _whole_group(Operation.READ),
    Need((_topic(Operation.DESCRIBE),), _NO_TOPIC, How.WHOLE, "each topic that the member subscribes to"),
)
_SHARER = (
    _whole_group(Operation.READ),
    Need((_topic(Operation.READ),), _NO_TOPIC, How.WHOLE, "each topic that the member subscribes to"),
)
_OF_GROUP = (
    _each_group(Operation.DESCRIBE),
    _each_topic(Operation.DESCRIBE, "each topic that members subscribe to"),
)
_SHARED = (_whole_group(Operation.READ), _each_topic(Operation.READ))
_MAKES = (_cluster(Operation.CREATE), _topic(Operation.CREATE))
_DELETES = (_cluster(Operation.DELETE), _topic(Operation.DELETE))
_LETTERS = (
    _each_topic(Operation.WRITE, "a topic that dead letters or retries are written to, in a config"),
    Need(_MAKES, _NO_TOPIC, How.EACH, "the same, if it is not there"),
    _each_group(Operation.READ, "the subscription that a dead letter topic is made with, in a config"),
)
_OPERATIONS = Need(
    (_cluster(Operation.DESCRIBE),), Error.NONE, How.LESS, "what may be done to the cluster, if that is asked"
)


def _configs(operation: Operation) -> tuple[Need, ...]:
    return (
        _each_topic(operation, "a topic's"),
        _each_group(operation, "a group's"),
        Need((_gateway(operation),), _NO_CLUSTER, How.EACH, "those of brokers, and client metrics"),
    )


def _quotas(operation: Operation) -> tuple[Need, ...]:
    return (
        Need((_gateway(operation),), _NO_CLUSTER, How.WHOLE, "of clients that are at home in public/default"),
        _whole_cluster(operation, when="of others, for quotas of their tenant's users"),
    )


def _users(operation: Operation) -> tuple[Need, ...]:
    return (
        Need((_gateway(operation),), _NO_CLUSTER, How.WHOLE, "of clients that are at home in public/default"),
        _whole_cluster(operation, when="of others, for users of their tenant"),
    )


NEEDS: dict[int, tuple[Need, ...]] = {
    ApiKey.PRODUCE: (_whole_id("with batches of a transaction"), _each_topic(Operation.WRITE)),
    ApiKey.FETCH: (_each_topic(Operation.READ),),
    ApiKey.LIST_OFFSETS: (_each_topic(Operation.DESCRIBE),),
    ApiKey.METADATA: (
        _each_topic(Operation.DESCRIBE, "topics by name"),
        Need((_topic(Operation.DESCRIBE),), Error.UNKNOWN_TOPIC_ID, How.EACH, "topics by id"),
        _described_only(_topic(Operation.DESCRIBE), "all topics"),
        Need(_MAKES, _NO_TOPIC, How.EACH, "a topic that is made by this"),
        _OPERATIONS,
    ),
    ApiKey.OFFSET_COMMIT: (_whole_group(Operation.READ), _each_topic(Operation.READ)),
    ApiKey.OFFSET_FETCH: (
        _each_group(Operation.DESCRIBE),
        _each_topic(Operation.DESCRIBE, "topics that are named"),
        _described_only(_topic(Operation.DESCRIBE), "all topics of the group"),
    ),
    ApiKey.FIND_COORDINATOR: (
        _each_group(Operation.DESCRIBE, "of a group"),
        Need((_SEE,), _NO_ID, How.EACH, "of a transactional id"),
    ),
    ApiKey.JOIN_GROUP: _IN_GROUP,
    ApiKey.HEARTBEAT: _IN_GROUP,
    ApiKey.LEAVE_GROUP: _IN_GROUP,
    ApiKey.SYNC_GROUP: _IN_GROUP,
    ApiKey.DESCRIBE_GROUPS: (_each_group(Operation.DESCRIBE),),
    ApiKey.LIST_GROUPS: (
        Need(
            (_cluster(Operation.DESCRIBE), _group(Operation.DESCRIBE)), Error.NONE, How.LEFT_OUT, "each group"
        ),
    ),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: (
        Need(_MAKES, _NO_TOPIC, How.EACH),
        Need((_topic(Operation.DESCRIBE_CONFIGS),), _NO_TOPIC, How.LESS, "to be told its configs"),
        _each_topic(Operation.READ, "the topic that a queue topic is over"),
        _each_group(Operation.READ, "the group that a queue topic is of"),
        Need((_cluster(Operation.ALTER),), _NO_CLUSTER, How.EACH, "a queue topic over a pattern"),
        *_LETTERS,
    ),
    ApiKey.DELETE_TOPICS: (Need(_DELETES, _NO_TOPIC, How.EACH),),
    ApiKey.DELETE_RECORDS: (_each_topic(Operation.DELETE),),
    ApiKey.INIT_PRODUCER_ID: (
        _whole_id("with a transactional id"),
        Need(
            (_cluster(Operation.IDEMPOTENT_WRITE), Right(Kind.ANY_TOPIC, Operation.WRITE)),
            _NO_CLUSTER,
            How.WHOLE,
            "without one",
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Need((_cluster(Operation.CLUSTER_ACTION), _topic(Operation.DESCRIBE)), _NO_TOPIC, How.EACH),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _whole_id("up to version 3"),
        _each_topic(Operation.WRITE, "up to version 3; from then on topics of other namespaces"),
        _whole_cluster(Operation.CLUSTER_ACTION, when="from version 4 on, which is for brokers"),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_whole_id(), _whole_group(Operation.READ)),
    ApiKey.END_TXN: (_whole_id(),),
    ApiKey.WRITE_TXN_MARKERS: (_whole_cluster(Operation.ALTER, Operation.CLUSTER_ACTION),),
    ApiKey.TXN_OFFSET_COMMIT: (_whole_id(), _whole_group(Operation.READ), _each_topic(Operation.READ)),
    ApiKey.DESCRIBE_ACLS: (_whole_cluster(Operation.DESCRIBE),),
    ApiKey.CREATE_ACLS: (_whole_cluster(Operation.ALTER),),
    ApiKey.DELETE_ACLS: (_whole_cluster(Operation.ALTER),),
    ApiKey.DESCRIBE_CONFIGS: _configs(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CONFIGS: (
        *_configs(Operation.ALTER_CONFIGS),
        *_LETTERS,
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (_whole_cluster(Operation.ALTER),),
    ApiKey.DESCRIBE_LOG_DIRS: (_whole_cluster(Operation.DESCRIBE),),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.CREATE_PARTITIONS: (_each_topic(Operation.ALTER),),
    ApiKey.DELETE_GROUPS: (_each_group(Operation.DELETE),),
    ApiKey.ELECT_LEADERS: (_whole_cluster(Operation.ALTER),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        *_configs(Operation.ALTER_CONFIGS),
        *_LETTERS,
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_whole_cluster(Operation.ALTER),),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (_whole_cluster(Operation.DESCRIBE),),
    ApiKey.OFFSET_DELETE: (_whole_group(Operation.DELETE), _each_topic(Operation.READ)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _quotas(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _users(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _users(Operation.ALTER),
    ApiKey.DESCRIBE_QUORUM: (_whole_cluster(Operation.DESCRIBE),),
    ApiKey.UPDATE_FEATURES: (Need((_gateway(Operation.ALTER),), _NO_CLUSTER, How.WHOLE),),
    ApiKey.DESCRIBE_CLUSTER: (_OPERATIONS,),
    ApiKey.DESCRIBE_PRODUCERS: (_each_topic(Operation.READ),),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Need((_SEE,), _NO_ID, How.EACH),
        _described_only(_topic(Operation.DESCRIBE), "each topic of the transaction"),
    ),
    ApiKey.LIST_TRANSACTIONS: (_described_only(_SEE, "each transaction"),),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        *_MEMBER,
        _described_only(_topic(Operation.DESCRIBE), "topics of the member's regular expression"),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _OF_GROUP,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (),
    ApiKey.PUSH_TELEMETRY: (),
    ApiKey.LIST_CONFIG_RESOURCES: (
        _whole_cluster(Operation.DESCRIBE_CONFIGS),
        _described_only(_gateway(Operation.DESCRIBE_CONFIGS), "subscriptions to client metrics"),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        _each_topic(Operation.DESCRIBE, "topics by name"),
        _described_only(_topic(Operation.DESCRIBE), "all topics"),
    ),
    ApiKey.SHARE_GROUP_HEARTBEAT: (
        *_SHARER,
        Need(_MAKES, Error.NONE, How.LEFT_OUT, "the group's RETRY topic that is made by this"),
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: _OF_GROUP,
    ApiKey.SHARE_FETCH: _SHARED,
    ApiKey.SHARE_ACKNOWLEDGE: _SHARED,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (
        _each_group(Operation.DESCRIBE),
        _each_topic(Operation.DESCRIBE, "topics that are named"),
        _described_only(_topic(Operation.DESCRIBE), "all topics of the group"),
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _SHARED,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (_whole_group(Operation.DELETE), _each_topic(Operation.READ)),
}
"""By API. An answer never tells by its error whether a topic is there that the client may not use so."""
