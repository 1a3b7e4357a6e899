"""What goes into the writer and what comes out: commits, and the results of their groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from store.api import Durability, Outcome, Write
from store.rocksdb.append import Rolled


class QueuedCommit:
    """One fact in the queue. `task` is set instead of writes for what must run between groups."""

    __slots__ = ("alone", "done", "durability", "failed", "generation", "size", "task", "told", "writes")

    def __init__(
        self,
        writes: Sequence[Write],
        durability: Durability,
        done: Callable[[Outcome], None],
        size: int,
        generation: int,
    ) -> None:
        self.writes = writes
        self.durability = durability
        self.done = done
        # bytes of batches
        self.size = size
        # counts failures: commits queued before one was seen fail with it
        self.generation = generation
        self.task: Callable[[], None] | None = None
        # it shares its group with no other
        self.alone = False
        # an outcome known beforehand, waiting for its turn
        self.failed: Outcome = None
        # True once `done` was called
        self.told = False


class Published:
    """What the reading end of a log learns from a group."""

    __slots__ = ("chunks", "partition", "rolled", "row", "swapped", "trimmed")

    def __init__(
        self,
        partition: int,
        row: tuple[int, ...],
        chunks: list[tuple[int, bytes]],
        rolled: list[Rolled],
        trimmed: bool,
        swapped: bool = False,
    ) -> None:
        self.partition = partition
        self.row = row
        self.chunks = chunks
        self.rolled = rolled
        self.trimmed = trimmed
        self.swapped = swapped


class Result:
    """A group that is over. `stalled` means that nothing happened and that a thread should try."""

    __slots__ = (
        "commits",
        "declined",
        "doomed",
        "outcome",
        "published",
        "replaced",
        "size",
        "stalled",
        "sync_seconds",
        "syncs",
    )

    def __init__(self, commits: list[QueuedCommit]) -> None:
        self.commits = commits
        self.outcome: Outcome = None
        # why its one commit was not made, which is no failure for those behind it
        self.declined: Outcome = None
        self.published: list[Published] = []
        # files to unlink: (partition, base offset, number)
        self.doomed: list[tuple[int, int, int]] = []
        # of these, those that a swap replaced: somebody may still read them
        self.replaced: list[tuple[int, int, int]] = []
        self.size = 0
        self.syncs = 0
        self.sync_seconds = 0.0
        self.stalled = False
