"""Rows of ACLs as they are stored: all of a row is its key, so that one that is made twice is there once.

    namespace, 0, (type, pattern, operation, permission) u8 each,
    length of the name u16, name, length of the principal u16, principal, host

The value says whose a row is: of Pulsar's verbs (`p`), which goes with its topic, or of somebody who made it as such.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.names import Namespace
from store.api import Delete, DeleteRange, Family, Put, Store, Write

MOST_NAME = 249
"""Characters of a resource's name."""
MOST_PRINCIPAL = 1_024
"""And of a principal: subjects of certificates are long."""
MOST_HOST = 255

_PULSARS = b"p"
_NUMBERS = struct.Struct(">4BH")
_LENGTH = struct.Struct(">H")


def key(row: Acl) -> bytes:
    name, principal = row.name.encode(), row.principal.encode()
    return b"".join(
        (
            _begin(row.namespace),
            _NUMBERS.pack(row.resource, row.pattern, row.operation, row.permission, len(name)),
            name,
            _LENGTH.pack(len(principal)),
            principal,
            row.host.encode(),
        )
    )


def row_of(raw: bytes) -> Acl:
    """The row of a key."""
    end = raw.index(0)
    resource, pattern, operation, permission, length = _NUMBERS.unpack_from(raw, end + 1)
    at = end + 1 + _NUMBERS.size
    name = raw[at : at + length].decode()
    at += length
    (length,) = _LENGTH.unpack_from(raw, at)
    at += _LENGTH.size
    return Acl(
        ResourceType(resource),
        PatternType(pattern),
        name,
        raw[at : at + length].decode(),
        raw[at + length :].decode(),
        Operation(operation),
        Permission(permission),
        _namespace(raw[:end]),
    )


@lru_cache(1_000)
def _namespace(raw: bytes) -> Namespace:
    return Namespace(*raw.decode().split("/"))


def read(store: Store) -> Iterator[tuple[Acl, bool]]:
    """(a row, whether it is of Pulsar's verbs) for all that there are."""
    for raw, value in store.scan(Family.ACL):
        yield row_of(raw), value == _PULSARS


def write(row: Acl, *, pulsars: bool) -> Write:
    return Put(Family.ACL, key(row), _PULSARS if pulsars else b"")


def write_gone(row: Acl) -> Write:
    return Delete(Family.ACL, key(row))


def write_all_gone(namespace: Namespace) -> Write:
    """Those of a namespace, also what was written just before."""
    begin = _begin(namespace)
    return DeleteRange(Family.ACL, begin, begin[:-1] + b"\1")


def _begin(namespace: Namespace) -> bytes:
    # no namespace has this character
    return str(namespace).encode() + b"\0"
