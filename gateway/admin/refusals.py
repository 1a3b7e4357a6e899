"""The broker's errors as HTTP: what Pulsar's clients expect for the same thing."""

from __future__ import annotations

from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error

_STATUS = {
    Error.TOPIC_ALREADY_EXISTS: 409,
    Error.UNKNOWN_TOPIC_OR_PARTITION: 404,
    Error.UNKNOWN_TOPIC_ID: 404,
    Error.INVALID_TOPIC_EXCEPTION: 412,
    Error.INVALID_PARTITIONS: 412,
    Error.INVALID_REPLICATION_FACTOR: 412,
    Error.INVALID_CONFIG: 412,
    Error.INVALID_REQUEST: 400,
    Error.NON_EMPTY_GROUP: 412,
    Error.POLICY_VIOLATION: 412,
    Error.TOPIC_DELETION_DISABLED: 403,
    Error.TOPIC_AUTHORIZATION_FAILED: 403,
    Error.CLUSTER_AUTHORIZATION_FAILED: 403,
    Error.UNSUPPORTED_VERSION: 501,
    Error.KAFKA_STORAGE_ERROR: 503,
    Error.NOT_LEADER_OR_FOLLOWER: 503,
    Error.REQUEST_TIMED_OUT: 503,
}


def from_kafka_error(error: KafkaError) -> tuple[int, str]:
    """Status and reason. What nobody has thought of is 500, with Kafka's name of it."""
    return _STATUS.get(error.code, 500), error.text or error.code.name
