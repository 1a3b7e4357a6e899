"""Who takes part in a turn: partitions, cursors, groups, dead letters, and whatever else wants something stored."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

from store.api import Durability, Store, StoreError, Write

_OS = Durability.OS  # Python 3.11 takes 0.1 us to look up a member of an enum


class Stage(enum.IntEnum):
    """In this order participants write; what they have stored shows in the opposite one."""

    ROWS = 0
    """The catalog, groups, offsets. First, so that a producer that is forgotten and comes back in the same turn has its
    row again.
    """
    CURSORS = 1
    RECORDS = 2


class Gathered:
    """What participants say when a turn ends: what is to be stored in one commit, and how safely."""

    __slots__ = ("batches", "durability", "messages", "size", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        # the highest that one of them needs
        self.durability = _OS
        # what is appended: batches, records, bytes
        self.batches = self.messages = self.size = 0


class Participant(Protocol):
    """One that has something to store. It calls `Turn.join` once a turn and keeps what it has to say to itself.

    When the turn ends it is asked to `prepare`, then for its `writes`; these end in one call of `committed` or of
    `failed`. By then it may have joined the next turn, and the one after that: its commits end in the order in which it
    wrote into them. When one fails, those behind it fail too, and the open turn drops it.
    """

    @property
    def stage(self) -> Stage: ...

    @property
    def prepares(self) -> bool:
        """Whether it is asked to prepare."""

    @property
    def store(self) -> Store:
        """Where it writes. It stays the same."""

    def prepare(self) -> None:
        """The turn ends: last changes. Others may join for them; they are asked, too."""

    def writes(self, commit: Gathered) -> None:
        """Put what is to be stored into the commit, and be ready for the next turn.

        To raise is a fault of ours: the whole turn fails, and this participant with it.
        """

    def committed(self) -> Callable[[], None] | None:
        """Its oldest commit is done: what was stored shows from now on.

        The answer wakes those who wait for that; it is called when the answers have left.
        """

    def failed(self, error: StoreError) -> None:
        """Its oldest commit was not done, or nobody knows: what is in memory is not what is stored."""

    def dropped(self, error: StoreError) -> None:
        """The same for what it has joined the open turn with, which it will not be asked for."""
