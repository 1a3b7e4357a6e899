"""What is written and not yet on disk: which files the next checkpoint has to sync, and which syncs have failed."""

from __future__ import annotations

from typing import NamedTuple

File = tuple[int, int, int]
"""partition, base offset, number of a segment"""


class Snapshot(NamedTuple):
    """What one checkpoint has to sync: all that was written up to a group, under one generation."""

    generation: int
    group: int
    # whether the file is new
    files: dict[File, bool]


class Unsynced:
    """Belongs to the thread that executes groups."""

    __slots__ = ("batches", "bytes", "failed", "files", "generation", "journal_bytes", "of_logs", "unnamed")

    def __init__(self, epoch: int) -> None:
        # of checkpoints, numbered through restarts: the epoch in the upper half
        self.generation = epoch << 32
        # what the next checkpoint has to sync, and whether the file is new
        self.files: dict[File, bool] = {}
        # files whose names no sync of their folder has made durable yet
        self.unnamed: set[File] = set()
        # segments whose sync failed: their journal rows are written again before they are synced again
        self.failed: set[File] = set()
        # of each log: what `LogWriter.unsynced` tells; outlives the writers that failures throw away
        self.of_logs: dict[int, dict[tuple[int, int], int]] = {}
        # since the last checkpoint
        self.bytes = 0
        self.batches = 0
        self.journal_bytes = 0

    def gone(self, file: File) -> None:
        """The file is to be removed, or never held anything that was committed."""
        self.files.pop(file, None)
        self.unnamed.discard(file)

    def trimmed(self, file: File) -> None:
        """The commit that makes the file needless is done."""
        self.gone(file)
        self.of_logs.get(file[0], {}).pop(file[1:], None)

    def dropped(self, partition: int) -> None:
        """The log is gone."""
        self.of_logs.pop(partition, None)

    def folder_synced(self, partition: int) -> None:
        """The names of all files in the folder of this log are durable."""
        folder = partition >> 8
        self.unnamed = {each for each in self.unnamed if each[0] >> 8 != folder}

    def snapshot(self, group: int) -> Snapshot:
        """What was left to sync up to this group; a new generation begins."""
        snapshot = Snapshot(self.generation, group, self.files)
        self.generation += 1
        self.files = {}
        self.bytes = self.batches = self.journal_bytes = 0
        return snapshot

    def synced(self, snapshot: Snapshot) -> None:
        """The files of a snapshot are on disk, but for those whose sync failed."""
        for partition, base, number in snapshot.files:
            if (partition, base, number) in self.failed:
                continue
            self.unnamed.discard((partition, base, number))
            known = self.of_logs.get(partition)
            if known is None:
                continue
            if known.get((base, number), snapshot.generation + 1) <= snapshot.generation:
                del known[base, number]
