"""Where rows belong: for each family the kind of scope, and where in the key its id stands.

A store with many owners splits its rows by this table; a proof that nothing is read before it was loaded needs it, too.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from store.api import (
    INSTANCE,
    Append,
    Delete,
    DeleteRange,
    Family,
    Put,
    Scope,
    ScopeKind,
    Write,
    of_group,
    of_partition,
)


class Form(enum.Enum):
    """How an id stands in a key."""

    NONE = enum.auto()
    """not at all: there is one instance"""
    U32 = enum.auto()
    TEXT = enum.auto()
    """length as u32, then so many bytes of UTF-8"""
    WHOLE = enum.auto()
    """the whole key, in UTF-8"""


class KeyLayout(NamedTuple):
    """Where the id of the scope stands in the keys of a family: from which byte on, and how."""

    kind: ScopeKind
    at: int
    form: Form


_INSTANCE = KeyLayout(ScopeKind.INSTANCE, 0, Form.NONE)
_PARTITION = KeyLayout(ScopeKind.PARTITION, 0, Form.U32)
_CURSOR = KeyLayout(ScopeKind.PARTITION, 4, Form.U32)
_NUMBERED = KeyLayout(ScopeKind.PARTITION, 8, Form.U32)

KEY_LAYOUTS: dict[Family, KeyLayout] = {
    Family.META: _INSTANCE,
    Family.CATALOG: _INSTANCE,
    Family.POLICY: _INSTANCE,
    Family.SUBSCRIPTION: _INSTANCE,
    Family.ACL: _INSTANCE,
    Family.USER: _INSTANCE,
    Family.TXN: _INSTANCE,
    Family.LOG: _PARTITION,
    Family.SEGMENT: _PARTITION,
    Family.INDEX: _PARTITION,
    Family.LEDGER: _PARTITION,
    Family.EPOCH: _PARTITION,
    Family.DOOMED: _PARTITION,
    Family.COMPACTION: _PARTITION,
    Family.DEDUP: _PARTITION,
    Family.ABORTED: _PARTITION,
    Family.LANE: _PARTITION,
    Family.LETTER: _PARTITION,
    # behind the number of a group of commits, of a checkpoint
    Family.JOURNAL: _NUMBERED,
    Family.TOUCHED: _NUMBERED,
    # behind the subscription
    Family.CURSOR: _CURSOR,
    Family.ACK: _CURSOR,
    Family.COUNT: _CURSOR,
    Family.DUE: _CURSOR,
    Family.GROUP: KeyLayout(ScopeKind.GROUP, 0, Form.WHOLE),
    Family.MEMBER: KeyLayout(ScopeKind.GROUP, 0, Form.TEXT),
    Family.OFFSET: KeyLayout(ScopeKind.GROUP, 0, Form.TEXT),
}
"""Of all families."""


def of_key(family: Family, key: bytes) -> Scope:
    """The scope of a row. Raises ValueError for a key that is no key of this family."""
    found = of_prefix(family, key)
    if KEY_LAYOUTS[family].form is Form.WHOLE:
        return of_group(_text(key))
    if found is None:
        raise ValueError(f"{key!r} is no key of {family}")
    return found


def of_prefix(family: Family, prefix: bytes) -> Scope | None:
    """The scope of all rows whose key begins so; None where they may be of several."""
    _, at, form = KEY_LAYOUTS[family]
    if form is Form.NONE:
        return INSTANCE
    if form is Form.WHOLE:
        # another group's id may begin with this one's
        return None
    end = at + 4
    if len(prefix) < end:
        return None
    number = int.from_bytes(prefix[at:end], "big")
    if form is Form.U32:
        return of_partition(number)
    text = prefix[end : end + number]
    return of_group(_text(text)) if len(text) == number else None


def _text(name: bytes) -> str:
    """Also of what is no UTF-8: no name that a client can give, but a scope of its own."""
    return name.decode("utf-8", "surrogateescape")


def of_write(write: Write) -> Scope | None:
    """What a write belongs to; None for a range over several scopes."""
    if isinstance(write, Append):
        return of_partition(write.partition)
    if isinstance(write, Put | Delete):
        return of_key(write.family, write.key)
    if isinstance(write, DeleteRange):
        return _of_range(write)
    return of_partition(write.partition)


def _of_range(write: DeleteRange) -> Scope | None:
    """Of a range within one scope; one that ends where the next scope begins is."""
    family, start, end = write
    found = of_prefix(family, start)
    if found is None or found == INSTANCE:
        return found
    if of_prefix(family, end) == found:
        return found
    _, at, form = KEY_LAYOUTS[family]
    if form is Form.U32:
        after = start[: at + 4]
    else:
        after = start[: at + 4 + int.from_bytes(start[at : at + 4], "big")]
    return found if end <= _successor(after) else None


def _successor(prefix: bytes) -> bytes:
    """The first key behind all that begin so."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else b"\xff" * (len(prefix) + 1)
