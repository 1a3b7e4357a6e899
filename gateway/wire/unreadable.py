"""Records that cannot be read: how that is said, and the varint of which all of them consist."""

from __future__ import annotations


class Unreadable(ValueError):
    """A batch that cannot be opened: damaged, larger than the limit, or not what its header says."""


class TooLarge(Unreadable):
    """A batch that unfolds to more than the limit."""


def wide(payload: bytes, position: int, most: int = 10) -> tuple[int, int]:
    """(value, still in zigzag, position behind it) of a varint of at most `most` bytes. Raises Unreadable, or
    IndexError at the end.
    """
    value = shift = 0
    for _ in range(most):
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise damaged("a varint")


def damaged(what: str) -> Unreadable:
    return Unreadable(f"The records are damaged: {what} is wrong.")
