"""Which rows of ACLs somebody means, as Kafka's AclBindingFilter says it (KIP-290)."""

from __future__ import annotations

from typing import NamedTuple

from semantics.access.acl import ANYWHERE, Acl, Operation, PatternType, Permission, ResourceType


class Filter(NamedTuple):
    """None, and ANY, is whatever it be. All else is compared as it is: `User:*` means rows of that principal, and not
    rows of everybody.

    `pattern` LITERAL and PREFIXED mean rows whose pattern is such and has this very name, ANY both of these; MATCH
    means rows that are about a resource of this name.
    """

    resource: ResourceType = ResourceType.ANY
    pattern: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, row: Acl) -> bool:
        return (
            self.resource in (ResourceType.ANY, row.resource)
            and self.principal in (None, row.principal)
            and self.host in (None, row.host)
            and self.operation in (Operation.ANY, row.operation)
            and self.permission in (Permission.ANY, row.permission)
            and self._names(row)
        )

    def _names(self, row: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, row.pattern):
            return False
        if self.name is None or self.name == row.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        if row.pattern is PatternType.PREFIXED:
            return self.name.startswith(row.name)
        return row.name == ANYWHERE
