"""Which topics a consumer subscribed to, read from the metadata that it joins with, and which partitions it was given.

The bytes are ConsumerProtocolSubscription: version int16, then an array of topic names. Every version starts
so (KIP-429, KIP-792), and nothing else of it is a coordinator's business. Assignments are read for queue topics alone,
whose lanes are to know their consumers.
"""

from __future__ import annotations

import struct

CONSUMER = "consumer"
"""The protocol type of Kafka's consumers (Connect's is "connect", Schema Registry's "sr")."""

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">i")


def assignment(metadata: bytes) -> dict[str, list[int]]:
    """Topic -> partitions of a member's assignment (ConsumerProtocolAssignment: version int16, an array of topic names
    with their partitions, then what only consumers know); {} if the bytes are not one.
    """
    found: dict[str, list[int]] = {}
    try:
        version, count = _HEAD.unpack_from(metadata)
        if version < 0 or not 0 <= count <= len(metadata) // 6:
            return {}
        position = _HEAD.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if length < 0 or len(name) != length:
                return {}
            position += length
            (number,) = _COUNT.unpack_from(metadata, position)
            position += _COUNT.size
            if not 0 <= number <= (len(metadata) - position) // 4:
                return {}
            found.setdefault(name.decode(), []).extend(struct.unpack_from(f">{number}i", metadata, position))
            position += 4 * number
    except (struct.error, UnicodeDecodeError):
        return {}
    return found


def topics(metadata: bytes) -> frozenset[str] | None:
    """The topics a subscription names, or None if the bytes are not one."""
    try:
        version, count = _HEAD.unpack_from(metadata)
        # Each name takes two bytes at least: a count beyond that is not worth a loop.
        if version < 0 or not 0 <= count <= len(metadata) // 2:
            return None
        position = _HEAD.size
        names = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            name = metadata[position : position + length]
            if length < 0 or len(name) != length:
                return None
            names.append(name.decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(names)
