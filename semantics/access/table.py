"""Rows of ACLs, and what they come to for who asks: Kafka's rules (KIP-11, KIP-290), within one namespace.

A row speaks of a resource by its pattern: a literal name, the literal `*` (every name), or a prefix. Of all rows whose
pattern covers a name, whose principal is who asks or everybody, and whose host is theirs or every host:

1. one that denies the operation decides, whatever others say;
2. else one that allows it does. READ, WRITE, DELETE and ALTER allow DESCRIBE, too, and ALTER_CONFIGS DESCRIBE_CONFIGS;
   they deny themselves only;
3. else it is denied. With `everyone` it is allowed where no row, of whatever principal, has a pattern that covers the
   name, to who is at home in the namespace.

Rows with one pattern, principal and host are two numbers, a bit for each operation that they allow or deny. So a
decision looks up the name, `*` and the prefixes of each length that there is: what it takes does not depend on how many
rows there are.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from semantics.access.acl import (
    ANYBODY,
    ANYWHERE,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from semantics.names import Namespace

ALL = 1 << Operation.ALL

_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_DENIED_BY = {each: 1 << each | ALL for each in map(int, Operation)}
"""By operation, the bits of those that deny it."""
_IMPLIED_BY = [(1 << each, sum(1 << other for other in others)) for each, others in _IMPLIED.items()]


class _Cell:
    """What rows of one pattern, principal and host say, as bits of operations."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        self.denied = 0


class _Pattern:
    """All rows of one pattern."""

    __slots__ = ("cells", "name", "shown", "type")

    def __init__(self, type: PatternType, name: str) -> None:
        self.type = type
        self.name = name
        # by principal and host
        self.cells: dict[str, dict[str, _Cell]] = {}
        # rows of operations that Kafka has
        self.shown = 0


class _Kind:
    """All patterns of one type of resource in one namespace."""

    __slots__ = ("by_principal", "lengths", "literal", "prefixed", "uses")

    def __init__(self) -> None:
        self.literal: dict[str, _Pattern] = {}
        self.prefixed: dict[str, _Pattern] = {}
        # lengths of prefixes, ascending, and how many have each
        self.lengths: list[int] = []
        self.uses: dict[int, int] = {}
        # which patterns have rows of a principal; as keys, in the order in which they came
        self.by_principal: dict[str, dict[_Pattern, None]] = {}

    def of(self, type: PatternType) -> dict[str, _Pattern]:
        return self.prefixed if type is PatternType.PREFIXED else self.literal

    def covering(self, name: str) -> list[_Pattern]:
        """Patterns that a name has."""
        found = []
        one = self.literal.get(name)
        if one is not None:
            found.append(one)
        every = self.literal.get(ANYWHERE)
        if every is not None and every is not one:
            found.append(every)
        for length in self.lengths:
            if length > len(name):
                break
            one = self.prefixed.get(name[:length])
            if one is not None:
                found.append(one)
        return found

    def add(self, pattern: _Pattern) -> None:
        self.of(pattern.type)[pattern.name] = pattern
        if pattern.type is PatternType.PREFIXED:
            length = len(pattern.name)
            if length not in self.uses:
                insort(self.lengths, length)
            self.uses[length] = self.uses.get(length, 0) + 1

    def drop(self, pattern: _Pattern) -> None:
        del self.of(pattern.type)[pattern.name]
        if pattern.type is PatternType.PREFIXED:
            length = len(pattern.name)
            self.uses[length] -= 1
            if not self.uses[length]:
                del self.uses[length]
                self.lengths.remove(length)


class Said(NamedTuple):
    """What all rows that concern who asks say of one resource."""

    allowed: int
    denied: int
    # whether any row is about it, of whatever principal
    spoken_of: bool


_SILENCE = Said(0, 0, False)


class Table:
    """`super_users` may do everything. `everyone`: everybody may use what no row is about, at home."""

    def __init__(
        self, rows: Iterable[Acl] = (), *, super_users: frozenset[str] = frozenset(), everyone: bool = False
    ) -> None:
        self.super_users = super_users
        self.everyone = everyone
        self._kinds: dict[tuple[Namespace, ResourceType], _Kind] = {}
        # the same
        self._quick: dict[tuple[str, str, ResourceType], _Kind] = {}
        self._count: dict[Namespace, int] = {}
        # the same by principal
        self._counts_of: dict[str, dict[Namespace, int]] = {}
        self._of_tenant: Counter[str] = Counter()
        self._total = 0
        for row in rows:
            self.add(row)

    # -- rows -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._total

    def count(self, namespace: Namespace) -> int:
        """Rows of a namespace."""
        return self._count.get(namespace, 0)

    def namespaces_of(self, principal: str) -> list[Namespace]:
        """Those that have rows of a principal."""
        return list(self._counts_of.get(principal, ()))

    def count_of(self, tenant: str) -> int:
        """Rows of all namespaces of a tenant."""
        return self._of_tenant[tenant]

    def __contains__(self, row: object) -> bool:
        if not isinstance(row, Acl):
            return False
        kind = self._kinds.get((row.namespace, row.resource))
        pattern = kind.of(row.pattern).get(row.name) if kind is not None else None
        cell = pattern.cells.get(row.principal, {}).get(row.host) if pattern is not None else None
        return cell is not None and bool(_bits(cell, row.permission) & 1 << row.operation)

    def add(self, row: Acl) -> bool:
        """Whether it is new. A row has a literal or a prefixed pattern, and allows or denies."""
        if row in self:
            return False
        kind = self._kinds.get((row.namespace, row.resource))
        if kind is None:
            kind = self._kinds[row.namespace, row.resource] = _Kind()
            self._quick[row.namespace.tenant, row.namespace.name, row.resource] = kind
        pattern = kind.of(row.pattern).get(row.name)
        if pattern is None:
            pattern = _Pattern(row.pattern, row.name)
            kind.add(pattern)
        cell = pattern.cells.setdefault(row.principal, {}).setdefault(row.host, _Cell())
        _flip(cell, row)
        kind.by_principal.setdefault(row.principal, {})[pattern] = None
        pattern.shown += row.operation.shown
        self._count[row.namespace] = self.count(row.namespace) + 1
        theirs = self._counts_of.setdefault(row.principal, {})
        theirs[row.namespace] = theirs.get(row.namespace, 0) + 1
        self._of_tenant[row.namespace.tenant] += 1
        self._total += 1
        return True

    def remove(self, row: Acl) -> bool:
        """Whether it was there. What it was the last row of goes."""
        if row not in self:
            return False
        kind = self._kinds[row.namespace, row.resource]
        pattern = kind.of(row.pattern)[row.name]
        hosts = pattern.cells[row.principal]
        cell = hosts[row.host]
        _flip(cell, row)
        pattern.shown -= row.operation.shown
        self._total -= 1
        self._count[row.namespace] -= 1
        self._of_tenant[row.namespace.tenant] -= 1
        if not self._count[row.namespace]:
            del self._count[row.namespace]
        counts = self._counts_of[row.principal]
        counts[row.namespace] -= 1
        if not counts[row.namespace]:
            del counts[row.namespace]
            if not counts:
                del self._counts_of[row.principal]
        if cell.allowed or cell.denied:
            return True
        del hosts[row.host]
        if hosts:
            return True
        del pattern.cells[row.principal]
        theirs = kind.by_principal[row.principal]
        del theirs[pattern]
        if not theirs:
            del kind.by_principal[row.principal]
        if not pattern.cells:
            kind.drop(pattern)
            if not kind.literal and not kind.prefixed:
                del self._kinds[row.namespace, row.resource]
                del self._quick[row.namespace.tenant, row.namespace.name, row.resource]
        return True

    def rows(
        self,
        namespace: Namespace | None = None,
        resource: ResourceType | None = None,
        principal: str | None = None,
    ) -> Iterator[Acl]:
        """Those of a namespace, of a type of resource, of a principal: None is all. Rows may come and go meanwhile:
        each that stays is told once.
        """
        for (its, type), kind in list(self._kinds.items()):
            if namespace not in (None, its) or resource not in (None, type):
                continue
            if principal is not None:
                patterns = list(kind.by_principal.get(principal, ()))
            else:
                patterns = [*kind.literal.values(), *kind.prefixed.values()]
            for pattern in patterns:
                yield from list(_rows(its, type, pattern, principal))

    def named(self, namespace: Namespace, resource: ResourceType, name: str) -> Iterator[Acl]:
        """Rows whose pattern has this very name, literal or prefixed."""
        kind = self._kinds.get((namespace, resource))
        if kind is not None:
            for patterns in (kind.literal, kind.prefixed):
                if name in patterns:
                    yield from list(_rows(namespace, resource, patterns[name]))

    def covering(self, namespace: Namespace, resource: ResourceType, name: str) -> Iterator[Acl]:
        """Rows that are about a resource of this name."""
        kind = self._kinds.get((namespace, resource))
        if kind is not None:
            for pattern in kind.covering(name):
                yield from list(_rows(namespace, resource, pattern))

    # -- decisions --------------------------------------------------------------------------------------------------

    def said(
        self, namespace: Namespace, principal: str, host: str, resource: ResourceType, name: str
    ) -> Said:
        """What rows say of a resource to who asks; not what follows from it."""
        # a namespace's own hash is slow, and this is asked often
        kind = self._quick.get((namespace.tenant, namespace.name, resource))
        if kind is None:
            return _SILENCE
        allowed = denied = shown = 0
        for pattern in kind.covering(name):
            shown += pattern.shown
            for hosts in (pattern.cells.get(principal), pattern.cells.get(ANYBODY)):
                if hosts is None:
                    continue
                for cell in (hosts.get(host), hosts.get(ANYWHERE)):
                    if cell is not None:
                        allowed |= cell.allowed
                        denied |= cell.denied
        return Said(allowed, denied, shown > 0)

    def decide(
        self,
        namespace: Namespace,
        principal: str,
        host: str,
        operation: Operation,
        resource: ResourceType,
        name: str,
        *,
        at_home: bool = True,
    ) -> bool:
        """Whether a principal may do this, from this address (without a slash)."""
        one = 1 << operation
        return self.operations(namespace, principal, host, resource, name, one, at_home=at_home) == one

    def operations(
        self,
        namespace: Namespace,
        principal: str,
        host: str,
        resource: ResourceType,
        name: str,
        among: int,
        *,
        at_home: bool = True,
    ) -> int:
        """Which of some operations it may do, as bits (KIP-430)."""
        if principal in self.super_users:
            return among
        said = self.said(namespace, principal, host, resource, name)
        if said.denied & ALL:
            return 0
        if said.allowed & ALL or (self.everyone and at_home and not said.spoken_of):
            return among & ~said.denied
        allowed = said.allowed
        for implied, by in _IMPLIED_BY:
            if allowed & by:
                allowed |= implied
        return among & allowed & ~said.denied

    def any(
        self,
        namespace: Namespace,
        principal: str,
        host: str,
        operation: Operation,
        resource: ResourceType,
        *,
        at_home: bool = True,
    ) -> bool:
        """Whether there can be a resource of this type that it may use so (KIP-679): one that a row allows, by the
        operation itself or ALL, and that no row that denies covers whole. Resources of which no row speaks count with
        `everyone`.
        """
        if principal in self.super_users:
            return True
        # one of a name that no row has thought of
        if self.decide(namespace, principal, host, operation, resource, "", at_home=at_home):
            return True
        kind = self._kinds.get((namespace, resource))
        if kind is None:
            return False
        bits = _DENIED_BY[operation]
        allowed, denied = list[_Pattern](), set[tuple[PatternType, str]]()
        for who in {principal, ANYBODY}:
            for pattern in kind.by_principal.get(who, ()):
                hosts = pattern.cells[who]
                cells = [cell for cell in map(hosts.get, {host, ANYWHERE}) if cell is not None]
                if any(cell.denied & bits for cell in cells):
                    denied.add((pattern.type, pattern.name))
                if any(cell.allowed & bits for cell in cells):
                    allowed.append(pattern)
        if (PatternType.LITERAL, ANYWHERE) in denied:
            return False
        lengths = sorted({len(name) for type, name in denied if type is PatternType.PREFIXED})
        for pattern in allowed:
            name = pattern.name
            if (pattern.type, name) in denied:
                continue
            if not any((PatternType.PREFIXED, name[:length]) in denied for length in lengths):
                return True
        return False


def _bits(cell: _Cell, permission: Permission) -> int:
    return cell.denied if permission is Permission.DENY else cell.allowed


def _flip(cell: _Cell, row: Acl) -> None:
    if row.permission is Permission.DENY:
        cell.denied ^= 1 << row.operation
    else:
        cell.allowed ^= 1 << row.operation


def _rows(
    namespace: Namespace, resource: ResourceType, pattern: _Pattern, principal: str | None = None
) -> Iterator[Acl]:
    for who, hosts in pattern.cells.items():
        if principal not in (None, who):
            continue
        for host, cell in hosts.items():
            for permission in (Permission.DENY, Permission.ALLOW):
                bits = _bits(cell, permission)
                while bits:
                    operation = Operation(bits.bit_length() - 1)
                    bits ^= 1 << operation
                    yield Acl(
                        resource, pattern.type, pattern.name, who, host, operation, permission, namespace
                    )
