"""A batch without the messages that a partition has taken already, where its topic has deduplication.

Offsets that a client computes from the answer are right for what was taken, as long as the duplicates come first in the
batch: so it is after a producer that begins again where it had saved its work.

Batches of transactions do not come here: the same messages come again after an abort, and must be stored then.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.errors import KafkaError
from gateway.broker.producer_names import MOST_NAME
from gateway.wire.batch import Header
from gateway.wire.errors import Error
from gateway.wire.records import build_batch, records

if TYPE_CHECKING:
    from gateway.broker.producer_names import Named, ProducerNames
    from gateway.wire.sequences import Said


class Left(NamedTuple):
    """What is left of a batch."""

    batch: bytes
    """nothing, where all of it was taken before"""
    named: Sequence[Named | None]
    """of its messages"""
    dropped: int
    """how many messages it has no more"""
    ahead: int
    """how many of these come before all that are left"""


MOST_NAMED = 20_000
"""Messages of a batch that may say which they are: each is looked at while others wait."""


def named_by(said: Sequence[Said | None], client: bytes) -> list[Named | None]:
    """With the client's id as the name of those who say none. Nobody's messages are nobody's duplicates. Raises
    KafkaError RECORD_LIST_TOO_LARGE for more than MOST_NAMED.
    """
    if len(said) > MOST_NAMED:
        raise KafkaError(
            Error.RECORD_LIST_TOO_LARGE,
            f"A batch whose messages have sequence ids has {MOST_NAMED} of them at most where a topic has "
            f"deduplication; this one has {len(said)}. Send smaller batches.",
        )
    found: list[Named | None] = []
    for each in said:
        name = (each[0] or client) if each is not None else b""
        if len(name) > MOST_NAME:
            name = sha256(name).digest()
        found.append((name, each[1]) if each is not None and name else None)
    return found


def left_of(
    names: ProducerNames, batch: bytes, found: Header, named: Sequence[Named | None], limit: int
) -> Left:
    """`limit` bounds what the batch may decompress to, in bytes. Raises BatchError."""
    duplicates = names.duplicates(named)
    if not duplicates:
        return Left(batch, named, 0, 0)
    gone = set(duplicates)
    if len(gone) == len(named):
        return Left(b"", (), len(gone), 0)
    kept = [at for at in range(len(named)) if at not in gone]
    listed = records(batch, limit)
    made = build_batch(
        [listed[at]._replace(offset_delta=place) for place, at in enumerate(kept)],
        codec=found.codec,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        base_sequence=found.base_sequence,
    )
    return Left(made, [named[at] for at in kept], len(gone), kept[0])
