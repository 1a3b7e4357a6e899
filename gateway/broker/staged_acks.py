"""What was said of messages inside of transactions that are open: done when these commit, or never.

It is kept as rows beside the transaction's own, in the family `txn`:

    key     3 u8, length u32, transactional id, subscription u32, partition u32, number u32
    value   1 u8, partition's number in its topic u32, topic id of 16 bytes, length u32, group, then for each span:
            verb u8, ms i64 (-1: none are said), first u64, last u64

Subscription and partition are the store's ids: one that is made anew under an old name is another one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from semantics.lanes.marks import Verb
from semantics.transactions.rows import RowError
from store.api import Delete, Family, Put, Write

PREFIX = b"\x03"
_LENGTH_AT, _ID_AT = 1, 5
_PLACE = struct.Struct(">III")
_HEAD = struct.Struct(">BI16sI")
_SPAN = struct.Struct(">cqQQ")
_VERSION = 1
_NONE = -1

Place = tuple[int, int]
"""Subscription, partition: the store's ids."""


class Span(NamedTuple):
    """Records `first` to `last` and what is said of them."""

    first: int
    last: int
    verb: Verb
    delay_ms: int | None = None


class Said(NamedTuple):
    """What one commit says of one partition of a subscription."""

    place: Place
    group: str
    topic_id: bytes
    number: int
    """of the partition in its topic"""
    spans: tuple[Span, ...]


def prefix_of(transactional_id: str) -> bytes:
    """How the keys of a transactional id's rows begin."""
    name = transactional_id.encode()
    return PREFIX + len(name).to_bytes(4, "big") + name


class StagedAcks:
    """All that is staged on this node. What a method answers is to be stored in the open turn."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """`rows`: those whose keys begin with PREFIX. Why some could not be read is in `unreadable`."""
        self.unreadable: list[str] = []
        # transactional id -> key -> what is said
        self._of: dict[str, dict[bytes, Said]] = {}
        # place -> the transactional ids with something said there
        self._at: dict[Place, dict[str, int]] = {}
        for key, value in rows:
            try:
                self._enter(_name_of(key), key, value)
            except RowError as error:
                # one of them keeps no gateway from its start
                self.unreadable.append(str(error))

    def _enter(self, transactional_id: str, key: bytes, value: bytes) -> None:
        said = _decode(key, value)
        self._of.setdefault(transactional_id, {})[key] = said
        names = self._at.setdefault(said.place, {})
        names[transactional_id] = names.get(transactional_id, 0) + 1

    def _leave(self, transactional_id: str) -> list[tuple[bytes, Said]]:
        its = list(self._of.pop(transactional_id, {}).items())
        for _, said in its:
            names = self._at[said.place]
            names[transactional_id] -= 1
            if not names[transactional_id]:
                del names[transactional_id]
            if not names:
                del self._at[said.place]
        return its

    def stage(self, transactional_id: str, said: Said) -> list[Write]:
        """This is said in a transaction."""
        its = self._of.get(transactional_id)
        # as they were loaded the last one need not have the highest number
        number = 1 + max((_PLACE.unpack(key[-_PLACE.size :])[2] for key in its or ()), default=-1)
        key, value = prefix_of(transactional_id) + _PLACE.pack(*said.place, number), _encode(said)
        self._enter(transactional_id, key, value)
        return [Put(Family.TXN, key, value)]

    def of(self, transactional_id: str) -> list[Said]:
        """What is said in a transaction, in the order in which it was."""
        return list(self._of.get(transactional_id, {}).values())

    def end(self, transactional_id: str) -> list[Write]:
        """The transaction ends."""
        return [Delete(Family.TXN, key) for key, _ in self._leave(transactional_id)]

    def at(self, place: Place) -> list[tuple[str, list[tuple[int, int]]]]:
        """Transactional id -> records, ascending, of one partition of a subscription, of which something is said."""
        return [
            (name, sorted(each[:2] for said in self.of(name) if said.place == place for each in said.spans))
            for name in self._at.get(place, ())
        ]

    def __len__(self) -> int:
        return len(self._of)

    def renew(self, transactional_id: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What is in memory may not be what is stored, which is `rows`. Raises RowError."""
        self._leave(transactional_id)
        for key, value in rows:
            self._enter(transactional_id, key, value)


def _name_of(key: bytes) -> str:
    end = _ID_AT + int.from_bytes(key[_LENGTH_AT:_ID_AT], "big")
    if len(key) != end + _PLACE.size:
        raise RowError(f"the key {key.hex()} of a staged acknowledgement has another length than it says")
    return key[_ID_AT:end].decode("utf-8", "surrogateescape")


def _encode(said: Said) -> bytes:
    group = said.group.encode()
    return b"".join(
        (
            _HEAD.pack(_VERSION, said.number, said.topic_id, len(group)),
            group,
            *(
                _SPAN.pack(
                    each.verb.encode(),
                    _NONE if each.delay_ms is None else each.delay_ms,
                    each.first,
                    each.last,
                )
                for each in said.spans
            ),
        )
    )


def _decode(key: bytes, value: bytes) -> Said:
    """Raises RowError."""
    subscription, partition, _ = _PLACE.unpack(key[-_PLACE.size :])
    try:
        version, number, topic_id, length = _HEAD.unpack_from(value)
        if version != _VERSION:
            raise ValueError(f"its format is {version}")
        end = _HEAD.size + length
        group = value[_HEAD.size : end].decode()
        spans = tuple(
            Span(first, last, Verb(verb.decode()), None if ms == _NONE else ms)
            for verb, ms, first, last in _SPAN.iter_unpack(value[end:])
        )
    except (ValueError, struct.error) as error:
        raise RowError(f"the staged acknowledgement {key.hex()} cannot be read: {error}") from error
    return Said((subscription, partition), group, topic_id, number, spans)


def spans_of(ranges: Iterable[tuple[int, int]], verb: Verb, delay_ms: int | None = None) -> Sequence[Span]:
    """The same said of ranges."""
    return [Span(first, last, verb, delay_ms) for first, last in ranges]
