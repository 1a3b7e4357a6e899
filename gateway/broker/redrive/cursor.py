"""The cursor of our own on a partition of a dead letter topic: what became of each letter, and its part in a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gateway.broker import letter_rows
from gateway.broker.errors import KafkaError
from gateway.broker.loading import check_loaded
from gateway.broker.participant import Gathered, Stage
from gateway.wire.errors import Error
from semantics.console.letter_states import OPEN
from store.api import Store, StoreError, of_partition

if TYPE_CHECKING:
    from gateway.broker.partition import Partition
    from gateway.broker.subscriptions.node import Delivering

MOST = 500
"""Cursors in memory: one without letters that were settled is small, each 1,024 of these take 1 KB."""


class LetterCursor:
    """See the module."""

    __slots__ = ("_joined", "_node", "_partition", "_sent", "id", "stale", "states", "store")

    stage, prepares = Stage.CURSORS, False

    def __init__(self, node: Delivering, partition: Partition) -> None:
        """Raises KafkaError; Loading."""
        self._node = node
        self._partition = partition
        # the store's id of the partition
        self.id = partition.id
        self.store = partition.store
        check_loaded(self.store, of_partition(self.id))
        try:
            self.states = letter_rows.load(self.store, self.id)
        except (StoreError, ValueError) as error:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, str(error)) from error
        # it says what is not stored
        self.stale = False
        self._joined = False
        self._sent = 0

    @property
    def quiet(self) -> bool:
        """Whether nothing of it is in the open turn, or on its way to the disk."""
        return not (self._joined or self._sent)

    def of(self, partition: Partition) -> LetterCursor:
        """The partition may have been opened anew."""
        self._partition = partition
        return self

    def settle(self, offsets: Sequence[int], state: int) -> list[int]:
        """In the open turn: those of these letters that were open."""
        taken = self.states.settle(offsets, state)
        if taken and not self._joined:
            self._joined = True
            self._node.turn.join(self)
        return taken

    def prepare(self) -> None:
        """All of it is said already."""

    def writes(self, commit: Gathered) -> None:
        self._joined = False
        self._sent += 1
        commit.writes += letter_rows.writes(self.id, self.states, self._partition.log_start)

    def committed(self) -> Callable[[], None]:
        self._sent -= 1
        # whoever counts open letters counts again
        return self._partition.changed

    def failed(self, error: StoreError) -> None:
        """What is stored is read again."""
        self._sent -= 1
        self.stale = True

    def dropped(self, error: StoreError) -> None:
        self._joined, self.stale = False, True


class LetterCursors:
    """Those in memory."""

    def __init__(self, node: Delivering) -> None:
        self._node = node
        self._cursors: dict[int, LetterCursor] = {}

    def of(self, partition: Partition) -> LetterCursor:
        """The cursor of a partition that is in charge. Raises KafkaError; Loading."""
        found = self._cursors.pop(partition.id, None)
        if found is not None and found.stale and not found.quiet:
            self._cursors[partition.id] = found
            raise KafkaError(Error.NOT_LEADER_OR_FOLLOWER, "The states of these letters are being written.")
        if found is None or found.stale:
            found = LetterCursor(self._node, partition)
        # the one that was used last stands last
        self._cursors[partition.id] = found
        if len(self._cursors) > MOST:
            old = next((number for number, each in self._cursors.items() if each.quiet), None)
            if old is not None and old != partition.id:
                del self._cursors[old]
        return found.of(partition)

    def open_of(self, store: Store, partition: int, start: int, end: int) -> int:
        """How many letters of [start, end) are open, by the store's id of a partition, which is loaded; nothing is kept
        in memory for that. Raises StoreError, ValueError.
        """
        found = self._cursors.get(partition)
        states = found.states if found is not None and not found.stale else letter_rows.load(store, partition)
        return states.counts(start, end)[OPEN]
