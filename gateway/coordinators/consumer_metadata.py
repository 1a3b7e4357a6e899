"""What classic consumers say of themselves in bytes of their own, and the bytes in which they are told what they have.
A group with members of both protocols reads the ones and writes the others, where else one of the members does.

    ConsumerProtocolSubscription    version int16, topics, user data; from version 1 on the partitions that the member
                                    still has (KIP-429), from 2 on its generation (KIP-792), from 3 on its rack
                                    (KIP-881)
    ConsumerProtocolAssignment      version int16, topics with their partitions, user data
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

NEWEST = 3

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class Said(NamedTuple):
    """A subscription. `owned`: topic and partition; nothing where the version cannot say it, as of members that have
    given up all before they join.
    """

    version: int
    topics: tuple[str, ...]
    owned: frozenset[tuple[str, int]]
    rack: str | None
    # what its assignor says of it
    user_data: bytes = b""


def read(metadata: bytes) -> Said | None:
    """A member's subscription, or None if the bytes are not one."""
    source = _Reader(metadata)
    try:
        version = source.short()
        if version < 0:
            return None
        topics = tuple(sorted({source.string() for _ in range(source.count(2))}))
        own = source.blob()
        owned: set[tuple[str, int]] = set()
        if version >= 1:
            for _ in range(source.count(6)):
                name = source.string()
                owned.update((name, index) for index in source.ints())
        if version >= 2:
            source.long()
        rack = source.nullable() if version >= 3 else None
    except (struct.error, ValueError):
        return None
    return Said(version, topics, frozenset(owned), rack, own)


def assignment(version: int, topics: Iterable[tuple[str, Sequence[int]]]) -> bytes:
    """What a member of this version of the subscription is told: topics with their partitions."""
    parts = []
    for name, indexes in topics:
        text = name.encode()
        parts += [_SHORT.pack(len(text)), text, struct.pack(f">{1 + len(indexes)}i", len(indexes), *indexes)]
    head = _SHORT.pack(min(version, NEWEST)) + _INT.pack(len(parts) // 3)
    return b"".join([head, *parts, _INT.pack(-1)])


def user_data(data: bytes) -> bytes | None:
    """What an assignment says beside partitions, or None if the bytes are not one. No bytes at all say nothing."""
    source = _Reader(data)
    try:
        if not data:
            return b""
        source.short()
        for _ in range(source.count(6)):
            source.string()
            source.ints()
        return source.blob()
    except (struct.error, ValueError):
        return None


class _Reader:
    """Raises struct.error, ValueError where the bytes end or cannot be."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _number(self, form: struct.Struct) -> int:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(value)

    def short(self) -> int:
        return self._number(_SHORT)

    def long(self) -> int:
        return self._number(_INT)

    def count(self, least: int) -> int:
        """Of what takes so many bytes at least: a count beyond that is not worth a loop."""
        count = self.long()
        if not 0 <= count <= (len(self._data) - self._at) // least:
            raise ValueError("a count that cannot be")
        return count

    def nullable(self) -> str | None:
        length = self.short()
        if length == -1:
            return None
        return self._take(length).decode()

    def string(self) -> str:
        return self._take(self.short()).decode()

    def ints(self) -> tuple[int, ...]:
        count = self.count(4)
        found: tuple[int, ...] = struct.unpack_from(f">{count}i", self._data, self._at)
        self._at += 4 * count
        return found

    def blob(self) -> bytes:
        """User data, which is the assignor's; nothing where there is none."""
        length = self.long()
        return self._take(length) if length != -1 else b""

    def _take(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if length < 0 or len(found) != length:
            raise ValueError("a length that cannot be")
        self._at += length
        return found
