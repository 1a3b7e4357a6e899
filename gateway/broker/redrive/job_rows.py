"""Jobs as the store keeps them: a row each under META, `job` and the number."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

import msgspec

from store.api import Delete, Family, Put, Write

PREFIX = b"redrive-job/"
MOST = 100
"""Rows of a tenant that are kept: those of its oldest jobs go."""
MOST_IN_ALL = 1_000
"""Above that the tenant with most loses its oldest."""

RUNNING, DONE, STOPPED, FAILED, INTERRUPTED = "running", "done", "stopped", "failed", "interrupted"

_NUMBER = struct.Struct(">Q")


class JobRow(msgspec.Struct, omit_defaults=True):
    """One job. Times in ms since 1970; topics as the catalog calls them."""

    id: int
    what: str
    topic: str
    subscription: str
    letters: str
    to: str
    rate: int
    by: str
    began: int
    planned: int
    state: str = RUNNING
    ended: int = 0
    why: str = ""
    # letters that were sent, or discarded; of these with an edit
    done: int = 0
    edited: int = 0
    left_out: int = 0
    # that were sent, and are dead letters again
    died_again: int = 0


class Rows(Protocol):
    """A store, as far as it is read here."""

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]: ...


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(JobRow)


def write(row: JobRow) -> Write:
    """How far it is."""
    return Put(Family.META, PREFIX + _NUMBER.pack(row.id), _encoder.encode(row))


def forget(number: int) -> Write:
    """A job that is too old."""
    return Delete(Family.META, PREFIX + _NUMBER.pack(number))


def load(rows: Rows) -> list[JobRow]:
    """All that are kept, the oldest first."""
    return [_decoder.decode(value) for _, value in rows.scan(Family.META, PREFIX)]
