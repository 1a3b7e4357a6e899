"""The broker's errors as HTTP: what Pulsar's clients expect for the same thing. And who may not, as 403."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.exchange import RefusedError
from gateway.broker.errors import KafkaError
from gateway.wire.errors import Error

if TYPE_CHECKING:
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker

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
    Error.COORDINATOR_NOT_AVAILABLE: 503,
    Error.COORDINATOR_LOAD_IN_PROGRESS: 503,
    Error.REQUEST_TIMED_OUT: 503,
}


def from_kafka_error(error: KafkaError) -> tuple[int, str]:
    """Status and reason. What nobody has thought of is 500, with Kafka's name of it."""
    return _STATUS.get(error.code, 500), error.text or error.code.name


def may_not(call: Call, says: str) -> RefusedError:
    """403: who asks, and what it would take."""
    return RefusedError(403, f"{call.asker.principal[:200]} may not do this: {says}.")


def check_tenant(call: Call, tenant: str) -> None:
    """Refuse with 403 who does not look after a tenant that a body names."""
    if not call.asker.administers(tenant):
        raise may_not(call, "it takes an admin of the tenant")


def check_called(call: Call, broker: Broker, name: str) -> None:
    """Refuse with 412 a topic of the catalog that is to be made, where Kafka's clients would call it as one of another
    namespace, and so find it in the other's place. Who may do everything may do that.
    """
    catalog = broker.catalog
    if call.asker.checked and catalog.namespaces.reads_as_elsewhere(name) and catalog.get(name) is None:
        raise RefusedError(
            412, f"Clients call topics of another namespace so: {name} would be found in the place of one."
        )
