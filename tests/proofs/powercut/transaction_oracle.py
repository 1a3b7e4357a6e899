"""What must hold of transactions on an image, whatever was synced: each is there as a whole, or not at all.

The end of a transaction is one commit. So if one of its partitions has the marker of a commit, all of them have it, all
of its records are there, and so is the offset that it committed; the same holds of markers of an abort, but for
records, which nobody is given. Where the instance syncs, what was answered is there.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.coordinators import offsets
from store.api import Family
from tests.proofs.powercut.transaction_load import GROUP, PLACES

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic as Row
    from store.rocksdb import RocksStore
    from tests.proofs.powercut.oracle import Found, Verdict
    from tests.proofs.powercut.world import World

_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_CONTROL = 0x20

Place = tuple[str, int]


class Books:
    """One partition as it was found: markers by offset (True: of a commit), and batches without their epoch."""

    def __init__(self, found: Found) -> None:
        self.markers: dict[int, bool] = {}
        self.batches: dict[int, bytes] = {}
        for base, _, at, size in found.batches:
            data = found.data[at : at + size]
            if _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)[0] & _CONTROL:
                # the key of its one record ends with the type
                self.markers[base] = _commits(data)
            else:
                self.batches[base] = data[16:]


def _commits(marker: bytes) -> bool:
    """Of a control batch: whether its record's key, a version and a type of two bytes each, says so."""
    return b"\x00\x00\x00\x01" in marker[61:]


def look(
    store: RocksStore,
    world: World,
    cut: int,
    rows: Mapping[str, Row],
    logs: Mapping[int, Found],
    verdict: Verdict,
) -> None:
    """`logs` by the store's id, with those of the topics of the transactions."""
    books = {
        (topic, index): Books(logs[rows[topic].partitions[index]])
        for topic, index in PLACES
        if topic in rows and rows[topic].partitions[index] in logs
    }
    last = -1
    for it in world.transactions:
        said = {place: _said(books.get(place), offset) for place, offset in it.markers().items()}
        outcomes = set(said.values())
        if True in outcomes or False in outcomes:
            verdict.seen["aborted transactions" if False in outcomes else "committed transactions"] += 1
        if len(outcomes) > 1:
            verdict.wrong(f"transaction {it.number} is torn: {said}")
        elif outcomes == {True}:
            if not it.committed:
                verdict.wrong(f"transaction {it.number} was aborted and is committed")
            last = it.number if it.with_offset else last
            for part in it.parts:
                if books[part.topic, part.index].batches.get(part.offset) != part.data[16:]:
                    verdict.wrong(
                        f"transaction {it.number} is committed, and the record of {part.topic}-{part.index} at "
                        f"{part.offset} is not there"
                    )
        elif outcomes == {False} and it.committed:
            verdict.wrong(f"transaction {it.number} was committed and is aborted")
        elif outcomes == {None} and it.key is not None and world.acked(it.key, cut):
            if world.synced or world.mixed:
                verdict.wrong(f"transaction {it.number} has ended, as was answered, and is open")
            verdict.lost_commits += 1
    _offset(store, world, rows, last, verdict)


def _said(books: Books | None, offset: int) -> bool | None:
    return books.markers.get(offset) if books is not None else None


def _offset(store: RocksStore, world: World, rows: Mapping[str, Row], last: int, verdict: Verdict) -> None:
    """The group stands where the last transaction that is committed here has left it."""
    topic, index = PLACES[0]
    if topic not in rows or not world.transactions:
        return
    value = store.get(Family.OFFSET, offsets.key(GROUP, topic, index))
    found = int(offsets.decode(value).metadata) if value is not None else -1
    if found != last:
        verdict.wrong(f"the group stands at transaction {found}, and {last} was the last with its offset")
