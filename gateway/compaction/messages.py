"""What the gateway and the process that compacts tell each other, over a pipe: MessagePack behind its length (u32)."""

from __future__ import annotations

import struct
from typing import BinaryIO

import msgspec

from store.rewriting import Mark, Place, Rewritten, Source

LENGTH = struct.Struct(">I")
_ABORTED = struct.Struct(">QQq")


class Segment(msgspec.Struct, array_like=True):
    """A `Source`, and the marks of its index, packed: a segment may have thousands."""

    path: str
    base_offset: int
    next_offset: int
    number: int
    size: int
    max_timestamp: int
    created_at: int
    marks: list[tuple[int, int, int, bytes]]

    @classmethod
    def of(cls, source: Source) -> Segment:
        marks = [(each.position, each.ledger, each.entry, each.skips) for each in source.marks]
        return cls(*source[:7], marks)

    @property
    def source(self) -> Source:
        return Source(
            self.path,
            self.base_offset,
            self.next_offset,
            self.number,
            self.size,
            self.max_timestamp,
            self.created_at,
            [Mark(*each) for each in self.marks],
        )


class Work(msgspec.Struct, tag=True):
    """A pass over one log. All closed segments of it up to where it ends, in order."""

    segments: list[Segment]
    first_dirty: int
    end: int
    # nothing is behind them: the last batch stays, if need be without records
    ends: bool
    tombstones_to: int
    markers_to: int
    # (first offset, offset of the marker, producer) of each, packed
    aborted: bytes
    segment_bytes: int
    # of the map of keys
    memory: int
    # a batch may unfold to so many
    limit: int
    # read and written together; 0 is no limit
    bytes_per_second: float


class Need(msgspec.Struct, tag=True):
    """A file for a segment that begins with this offset, please."""

    base_offset: int


class Given(msgspec.Struct, tag=True):
    """It is this one."""

    path: str
    base_offset: int
    number: int

    @property
    def place(self) -> Place:
        return Place(self.path, self.base_offset, self.number)


class Emptied(msgspec.Struct, tag=True):
    """Nothing is left of these segments, (base offset, number) each."""

    old: list[tuple[int, int]]


class Written(msgspec.Struct, tag=True):
    """This stands in the file that was given last, and comes into the place of these segments, (base offset, number)
    each. `same`: it is what the one segment has.
    """

    old: list[tuple[int, int]]
    next_offset: int
    size: int
    max_timestamp: int
    max_from: int
    created_at: int
    table: bytes
    same: bool

    def rewritten(self, place: Place) -> Rewritten:
        return Rewritten(
            place,
            self.next_offset,
            self.size,
            self.max_timestamp,
            self.max_from,
            self.created_at,
            self.table,
        )


class Finished(msgspec.Struct, tag=True):
    """All is done, up to `end`. Bytes that were read in both passes; keys in the map."""

    end: int
    read: int
    keys: int


class Failed(msgspec.Struct, tag=True):
    """It cannot go on: why, for a person."""

    text: str


ToChild = Work | Given
FromChild = Need | Written | Emptied | Finished | Failed

to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)
_encode = msgspec.msgpack.Encoder().encode


def framed(message: ToChild | FromChild) -> bytes:
    """A message as it goes over the pipe."""
    data = _encode(message)
    return LENGTH.pack(len(data)) + data


def read(stream: BinaryIO) -> bytes | None:
    """The next message, undecoded; None when the other end is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    size = LENGTH.unpack(head)[0]
    data = stream.read(size)
    return data if len(data) == size else None


def pack_aborted(aborted: list[tuple[int, int, int]]) -> bytes:
    """Aborted transactions: first offset, offset of the marker, producer of each."""
    return b"".join([_ABORTED.pack(*each) for each in aborted])


def unpack_aborted(packed: bytes) -> list[tuple[int, int, int]]:
    """The same, back."""
    return list(_ABORTED.iter_unpack(packed))
