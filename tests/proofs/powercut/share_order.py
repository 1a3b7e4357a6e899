"""A share group in the order of commits and answers: what one commit has to hold together, and what is durable when.

Commits are read off the WAL, one record each, whatever the durability: a record that ends without having been accepted
and its letter in the dead letter topic are rows of one commit. Under `fsync` an answered acknowledgement is durable.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gateway.broker.subscriptions import rows
from semantics.subscriptions.cursor import Cursor
from store.api import Family
from tests.proofs.powercut import share_oracle
from tests.proofs.powercut.share_load import ACCEPT, GROUP, LEFT, REJECT
from tests.proofs.powercut.world import Key, Verdict, World

if TYPE_CHECKING:
    from tests.proofs.powercut.order import Facts

_HEAD = struct.Struct(">qii")
"""What a batch begins with and `Facts` leaves out: base offset, bytes behind the next one, leader epoch."""

FAMILIES = {Family.SUBSCRIPTION, *rows.FAMILIES.values()}


class Durable:
    """Rows of subscriptions as a store that can be asked."""

    def __init__(self) -> None:
        self._rows: dict[Family, dict[bytes, bytes]] = {family: {} for family in FAMILIES}
        self._keys: dict[Family, list[bytes]] = {family: [] for family in FAMILIES}

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        if key not in self._rows[family]:
            insort(self._keys[family], key)
        self._rows[family][key] = value

    def delete(self, family: Family, key: bytes, end: bytes | None = None) -> None:
        """One key, or all from `key` up to `end`."""
        gone = {each for each in self._keys[family] if key <= each < end} if end is not None else {key}
        self._keys[family] = [each for each in self._keys[family] if each not in gone]
        for each in gone:
            self._rows[family].pop(each, None)

    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._rows[family].get(key)

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        found = [each for each in self._keys[family] if each.startswith(prefix) and each >= (start or prefix)]
        for each in found[:limit]:
            yield each, self._rows[family][each]


class Shares:
    """What is durable of the load's share group."""

    def __init__(self, world: World, facts: Facts) -> None:
        self._world = world
        self._facts = facts
        self.durable = Durable()
        # batches of dead letters that were looked at, and (partition, offset) of the records that died
        self._seen: set[tuple[int, int]] = set()
        self._letters: set[tuple[int, int]] = set()
        self._cursors: list[Cursor] = []
        # offsets by partition that were never accepted and have not ended yet
        self._mortal: list[list[int]] = []
        self._ended = 0
        if world.shared is not None:
            for index, batches in enumerate(world.shared.batches):
                last = max((batch.next_offset for batch in batches), default=0)
                said = world.verdicts[index]
                self._mortal.append(
                    [at for at in range(last) if ACCEPT not in {each.kind for each in said.get(at, ())}]
                )

    def committed(self) -> tuple[int, int] | None:
        """After a commit: how many records ended without having been accepted, and how many letters there are.

        None while there is no subscription.
        """
        topic, ends = self._world.shared, self._facts.ends
        row = self._facts.topic(topic.name) if topic is not None else None
        found = rows.find(self.durable, GROUP, row.topic_id) if row is not None else None
        if row is None or found is None:
            return None
        self._cursors = [
            share_oracle.cursor(self.durable, rows.prefix(found.id, partition), 0, ends.get(partition, 0))
            for partition in row.partitions
        ]
        for index, cursor in enumerate(self._cursors):
            waiting = [at for at in self._mortal[index] if cursor.look(at).state != "DONE"]
            self._ended += len(self._mortal[index]) - len(waiting)
            self._mortal[index] = waiting
        return self._ended, sum(ends.get(partition, 0) for partition in self._of_letters())

    def kept(self, index: int, verdict: Verdict) -> bool:
        """Whether what was said of a record is durable."""
        if not self._cursors:
            return False
        state = self._cursors[index].look(verdict.offset)
        if verdict.kind == REJECT:
            self._read_letters()
        return not share_oracle.missing(verdict, state, (index, verdict.offset) in self._letters)

    def _of_letters(self) -> list[int]:
        """The partitions of the dead letter topic."""
        topic = self._world.shared
        row = self._facts.topic(share_oracle.dead_letters(topic.name)) if topic is not None else None
        return row.partitions if row is not None else []

    def _read_letters(self) -> None:
        """Of which records the letters are durable, bytes and all."""
        own = set(self._of_letters())
        for place, rest in self._facts.batches.items():
            if place[0] in own and place not in self._seen:
                self._seen.add(place)
                self._letters.update(share_oracle.places(_HEAD.pack(place[1], len(rest) + 4, 0) + rest))


def promises(world: World) -> Iterable[tuple[Key, int, Verdict]]:
    """(request, partition, verdict) of each acknowledgement that was answered."""
    for index, by_offset in world.verdicts.items():
        for verdicts in by_offset.values():
            for verdict in verdicts:
                # nobody is promised that a leave is counted: a crash in its place would not be
                if verdict.key is not None and verdict.kind != LEFT:
                    yield verdict.key, index, verdict
