"""Participants of a turn that have nothing to store: they hear of its failure, or bring it about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.participant import Stage

if TYPE_CHECKING:
    from gateway.broker.participant import Gathered
    from store.api import Store, StoreError


class Lost:
    """Part of the open turn: it hears that the turn was not stored before anybody is told so."""

    __slots__ = ("_lost", "store")

    stage, prepares = Stage.CURSORS, False

    def __init__(self, store: Store, lost: Callable[[StoreError], None]) -> None:
        self.store = store
        self._lost = lost

    def prepare(self) -> None:
        """There is nothing to prepare."""

    def writes(self, commit: Gathered) -> None:
        """There is nothing to write."""

    def committed(self) -> None:
        """All is as it is in memory."""

    def failed(self, error: StoreError) -> None:
        self._lost(error)

    def dropped(self, error: StoreError) -> None:
        self._lost(error)


class Broken(Lost):
    """What the open turn has is not to be stored."""

    __slots__ = ()

    def writes(self, commit: Gathered) -> None:
        raise RuntimeError("half of what belongs together is in this turn")
