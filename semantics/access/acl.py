"""What a row of ACLs is made of, with Kafka's numbers (KIP-11, KIP-290).

A row belongs to a namespace: `orders` in a row of shop/eu is the topic that clients at home there call orders. Beside
that it is Kafka's: a resource by type, name and kind of pattern; a principal and a host, each or `*`; an operation;
allowed or denied.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from semantics.names import DEFAULT, Namespace

ANYBODY = "User:*"
"""The principal that everybody is."""
ANYWHERE = "*"
"""The host that everybody comes from, and the literal name that every resource has."""
CLUSTER_NAME = "kafka-cluster"
"""What the one cluster is called, as a resource."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15
    # Pulsar's, which Kafka has no words for: its clients are never told of them, and nothing asks for them yet
    FUNCTIONS = 101
    SOURCES = 102
    SINKS = 103
    PACKAGES = 104

    @property
    def shown(self) -> bool:
        """Whether it is one of Kafka's."""
        return self < 100


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One row. `host` is an address without Kafka's slash."""

    resource: ResourceType
    pattern: PatternType
    name: str
    principal: str
    host: str
    operation: Operation
    permission: Permission
    namespace: Namespace = DEFAULT
