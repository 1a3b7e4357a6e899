"""Pulsar's permissions as rows of ACLs, and back.

|  | rows that allow it, on the topic or on `*` |
|---|---|
| produce | WRITE and CREATE |
| consume | READ, and READ on all groups of the namespace |
| functions, sources, sinks, packages | operations of these names, which Kafka does not know |

A role `ada` is the principal `User:ada`, from every host. It may produce where there is its row for WRITE, or one for
ALL, whoever made it; and so with the others. What is taken from a role is every row by which it could.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from semantics.access.acl import ANYWHERE, Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.roles import principal_of, role_of
from semantics.names import Namespace

PRODUCE, CONSUME = "produce", "consume"

_SHOWN_BY = {
    PRODUCE: Operation.WRITE,
    CONSUME: Operation.READ,
    "functions": Operation.FUNCTIONS,
    "sources": Operation.SOURCES,
    "sinks": Operation.SINKS,
    "packages": Operation.PACKAGES,
}
ACTIONS = tuple(_SHOWN_BY)
"""What a role may be allowed, as Pulsar calls it, in the order in which it is told."""
_OF = {action: (operation,) for action, operation in _SHOWN_BY.items()} | {
    PRODUCE: (Operation.WRITE, Operation.CREATE)
}


def _row(namespace: Namespace, role: str, resource: ResourceType, name: str, operation: Operation) -> Acl:
    return Acl(
        resource,
        PatternType.LITERAL,
        name,
        principal_of(role),
        ANYWHERE,
        operation,
        Permission.ALLOW,
        namespace,
    )


def rows(namespace: Namespace, topic: str, role: str, actions: Iterable[str]) -> list[Acl]:
    """What allows a role these on a topic of a namespace, by its name there, or on `*`."""
    found = [
        _row(namespace, role, ResourceType.TOPIC, topic, operation)
        for action in actions
        for operation in _OF[action]
    ]
    if CONSUME in actions:
        found.append(groups_row(namespace, role))
    return found


def groups_row(namespace: Namespace, role: str) -> Acl:
    """What lets a role be in all groups of a namespace, for all topics there that it may consume."""
    return _row(namespace, role, ResourceType.GROUP, ANYWHERE, Operation.READ)


def by_which(namespace: Namespace, topic: str, role: str, there: Container[Acl]) -> list[Acl]:
    """The rows on a topic (or `*`) by which a role may do something, of those that are there."""
    operations = [each for action in ACTIONS for each in _OF[action]] + [Operation.ALL]
    found = [_row(namespace, role, ResourceType.TOPIC, topic, each) for each in operations]
    return [each for each in found if each in there]


def granted(found: Iterable[Acl]) -> dict[str, list[str]]:
    """By role, what rows on one topic, or on `*`, allow it. Others than grants are passed over."""
    operations: dict[str, set[Operation]] = {}
    for row in found:
        role = role_of(row.principal)
        if role is not None and is_grant(row):
            operations.setdefault(role, set()).add(row.operation)
    told = {role: _told(its) for role, its in sorted(operations.items())}
    return {role: actions for role, actions in told.items() if actions}


def _told(operations: set[Operation]) -> list[str]:
    whole = Operation.ALL in operations
    return [
        action
        for action, operation in _SHOWN_BY.items()
        if operation in operations or (whole and operation.shown)
    ]


def is_grant(row: Acl) -> bool:
    """Whether a row could be one of Pulsar's: it allows, by a literal name, from every host."""
    return (
        row.resource is ResourceType.TOPIC
        and row.pattern is PatternType.LITERAL
        and row.permission is Permission.ALLOW
        and row.host == ANYWHERE
    )


def consumed(found: Iterable[Acl]) -> Iterator[Acl]:
    """Of a role's rows, those by which it consumes something: its row on groups is for them."""
    for row in found:
        if is_grant(row) and row.operation in (Operation.READ, Operation.ALL):
            yield row
