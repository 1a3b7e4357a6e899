"""What is denied, by the way that requests ask: all operations on a resource at once."""

from __future__ import annotations

import pytest

from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.table import Table
from semantics.names import DEFAULT

ADA, HOST = "User:ada", "10.0.0.1"
EVERYTHING = sum(1 << each for each in Operation if each > Operation.ALL)
ALLOWED = [Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.DELETE]


def row(operation: Operation, permission: Permission, principal: str = ADA, host: str = "*") -> Acl:
    return Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", principal, host, operation, permission)


@pytest.mark.parametrize("principal", [ADA, "User:*"])
@pytest.mark.parametrize("host", [HOST, "*"])
@pytest.mark.parametrize("operation", ALLOWED)
def test_all_is_denied_to_whom_something_is_allowed(principal: str, host: str, operation: Operation) -> None:
    denied = row(Operation.ALL, Permission.DENY, principal, host)
    table = Table([row(operation, Permission.ALLOW), denied])
    bits = table.operations(DEFAULT, ADA, HOST, ResourceType.TOPIC, "orders", EVERYTHING)
    assert bits == 0
    assert not table.decide(DEFAULT, ADA, HOST, operation, ResourceType.TOPIC, "orders")


def test_who_is_elsewhere_is_not_denied() -> None:
    table = Table(
        [row(Operation.ALL, Permission.ALLOW), row(Operation.ALL, Permission.DENY, host="10.0.0.2")]
    )
    bits = table.operations(DEFAULT, ADA, HOST, ResourceType.TOPIC, "orders", EVERYTHING)
    assert bits & EVERYTHING == EVERYTHING


@pytest.mark.parametrize("operation", ALLOWED)
def test_one_operation_is_denied_of_all(operation: Operation) -> None:
    table = Table([row(Operation.ALL, Permission.ALLOW), row(operation, Permission.DENY)])
    bits = table.operations(DEFAULT, ADA, HOST, ResourceType.TOPIC, "orders", EVERYTHING)
    assert bits == EVERYTHING & ~(1 << operation)
