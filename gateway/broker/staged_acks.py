"""What was said of messages inside of transactions that are open: done when these commit, or never.

It is kept as rows beside the transaction's own, in the family `txn`:

    key     3 u8, length u32, transactional id, subscription u32, partition u32, number u32
    value   1 u8, partition's number in its topic u32, topic id of 16 bytes, length u32, group, then for each span:
            verb u8, ms i64 (-1: none are said), first u64, last u64

Subscription and partition are the store's ids: one that is made anew under an old name is another one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
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
        # transactional id -> place -> number -> what is said, in the order in which it was
        self._of: dict[str, dict[Place, dict[int, Said]]] = {}
        # place -> the transactional ids with something said there
        self._at: dict[Place, dict[str, None]] = {}
        # transactional id -> how many spans
        self._spans: dict[str, int] = {}
        for key, value in rows:
            try:
                self._load(key, value)
            except RowError as error:
                # one of them keeps no gateway from its start
                self.unreadable.append(str(error))

    def _load(self, key: bytes, value: bytes) -> None:
        self._enter(_name_of(key), _PLACE.unpack(key[-_PLACE.size :])[2], _decode(key, value))

    def _enter(self, transactional_id: str, number: int, said: Said) -> None:
        self._of.setdefault(transactional_id, {}).setdefault(said.place, {})[number] = said
        self._at.setdefault(said.place, {})[transactional_id] = None
        self._spans[transactional_id] = self.spans(transactional_id) + len(said.spans)

    def _leave(self, transactional_id: str, place: Place) -> None:
        its = self._of[transactional_id]
        self._spans[transactional_id] -= sum(len(said.spans) for said in its.pop(place).values())
        if not its:
            del self._of[transactional_id], self._spans[transactional_id]
        names = self._at[place]
        del names[transactional_id]
        if not names:
            del self._at[place]

    def stage(self, transactional_id: str, said: Said) -> list[Write]:
        """This is said in a transaction."""
        there = self._of.get(transactional_id, {}).get(said.place)
        number = next(reversed(there)) + 1 if there else 0
        self._enter(transactional_id, number, said)
        return [Put(Family.TXN, _key(transactional_id, said.place, number), _encode(said))]

    def spans(self, transactional_id: str) -> int:
        """Of how many ranges of records something is said in a transaction."""
        return self._spans.get(transactional_id, 0)

    def of(self, transactional_id: str) -> dict[Place, list[Said]]:
        """What is said in a transaction: by place, in the order in which it was."""
        return {place: list(its.values()) for place, its in self._of.get(transactional_id, {}).items()}

    def said_at(self, transactional_id: str, place: Place) -> list[Said]:
        """The same of one partition of a subscription."""
        return list(self._of.get(transactional_id, {}).get(place, {}).values())

    def end(self, transactional_id: str) -> list[Write]:
        """The transaction ends."""
        writes: list[Write] = []
        for place, its in list(self._of.get(transactional_id, {}).items()):
            writes += [Delete(Family.TXN, _key(transactional_id, place, number)) for number in its]
            self._leave(transactional_id, place)
        return writes

    def withdraw(
        self, place: Place, holds: Callable[[str, Sequence[tuple[int, int]]], Sequence[tuple[int, int]]]
    ) -> tuple[list[str], list[Write]]:
        """Records of one partition of a subscription were moved from outside: what a transaction does not hold any more
        is not said any more. `holds`: what of some records the one of a transactional id holds. Of which anything was
        withdrawn, and what is to be stored.
        """
        names: list[str] = []
        writes: list[Write] = []
        for name in list(self._at.get(place, ())):
            its, before = self._of[name][place], len(writes)
            for number, said in list(its.items()):
                kept = tuple(
                    each._replace(first=first, last=last)
                    for each in said.spans
                    for first, last in holds(name, [each[:2]])
                )
                key = _key(name, place, number)
                self._spans[name] += len(kept) - len(said.spans)
                if not kept:
                    del its[number]
                    writes.append(Delete(Family.TXN, key))
                elif kept != said.spans:
                    its[number] = said._replace(spans=kept)
                    writes.append(Put(Family.TXN, key, _encode(its[number])))
            if len(writes) > before:
                names.append(name)
            if not its:
                self._leave(name, place)
        return names, writes

    def at(self, place: Place) -> list[tuple[str, list[tuple[int, int]]]]:
        """Transactional id -> records, ascending, of one partition of a subscription, of which something is said."""
        return [
            (name, joined(each[:2] for said in self.said_at(name, place) for each in said.spans))
            for name in self._at.get(place, ())
        ]

    def __len__(self) -> int:
        return len(self._of)

    def renew(self, transactional_id: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What is in memory may not be what is stored, which is `rows`. Raises RowError."""
        for place in list(self._of.get(transactional_id, ())):
            self._leave(transactional_id, place)
        for key, value in rows:
            self._load(key, value)


def _key(transactional_id: str, place: Place, number: int) -> bytes:
    return prefix_of(transactional_id) + _PLACE.pack(*place, number)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(first, last), ascending; those that meet or touch are one."""
    found: list[tuple[int, int]] = []
    before = -2
    for first, last in sorted(ranges):
        if first <= before + 1:
            before = max(before, last)
            found[-1] = found[-1][0], before
        else:
            found.append((first, last))
            before = last
    return found


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
