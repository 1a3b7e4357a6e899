"""`magnetar serve` with small numbers, so that seconds of load meet what usually takes hours; and broken on purpose.

    python -m tests.proofs.powercut.gateway serve --data DIR ...

Memtables of 128 KB and checkpoints a tenth of a second apart make RocksDB switch WALs, write tables and compact, and
the store roll ledgers, empty the journal and unlink segments, some times a second. POWERCUT_BREAK names one of
`BREAKS`, a promise that this gateway then does not keep: the proof must notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.broker.broker import Broker
from gateway.broker.commit import Commit
from gateway.broker.participant import Gathered
from gateway.broker.producer_names import ProducerNames
from gateway.broker.queues.lane import LaneAtWork
from gateway.cli.main import main
from semantics.subscriptions import due
from semantics.subscriptions import recovery as cursor_recovery
from store import rocksdb
from store.api import Append, Delete, Durability, Family, Outcome, Put, Write
from store.rocksdb.database import Database
from store.rocksdb.files import Files
from tests.proofs.soak import sabotage, sabotage_policies, sabotage_transactions

SMALL = {
    "memtable_bytes": 128 * 1024,
    "journal_memtable_bytes": 512 * 1024,
    "wal_bytes": 1 << 20,
    "journal_bytes": 8 * 1024,
    "journal_log_bytes": 64 * 1024,
    "checkpoint_seconds": 0.2,
    "checkpoint_pause": 0.1,
    "checkpoint_batches": 400,
    "checkpoint_journal_bytes": 100_000,
    "open_files": 16,
}
"""Options of the store with which everything happens early."""


def small() -> None:
    """Everything happens early."""
    opened = rocksdb.open

    async def open_small(path: Path, **given: Any) -> rocksdb.RocksStore:
        return await opened(path, **{**given, **SMALL})

    rocksdb.open = open_small
    # acknowledgements of one chunk are logged, too, and logs and bundles go early
    cursor_recovery.FEW, cursor_recovery.LOGGED, cursor_recovery.LOGS = 0, 100, 5
    due.LINGERING = 2


def no_wal_sync() -> None:
    """The WAL is not synced: acknowledged rows and journal payload go with the power."""
    Database.sync = lambda self: None  # type: ignore[method-assign]


def no_segment_sync() -> None:
    """Segments are not synced, neither by a group nor by a checkpoint, and the journal rows go all the same."""
    Files.sync = lambda self, descriptor: None  # type: ignore[method-assign]


def no_folder_sync() -> None:
    """Names of new segments are not synced."""
    Files.sync_folder = lambda self, partition: None  # type: ignore[method-assign]


def os_for_fsync() -> None:
    """Every turn goes to the store as if it were `os`."""
    send = Commit.send

    def weakened(self: Commit, broken: str) -> None:
        self.durability = Durability.OS
        send(self, broken)

    Commit.send = weakened  # type: ignore[method-assign]


def answer_first() -> None:
    """What is produced, committed and acknowledged is answered when its commit is queued, not when it is done."""
    from store.rocksdb.driver import RocksStore

    commit = RocksStore.commit

    def early(
        self: RocksStore, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        # who makes a tenant or a subscription reads it again, and who ends a topic its last message: they would fail
        read_again = (Family.SUBSCRIPTION, Family.CATALOG, Family.POLICY)
        if all(
            type(write) is Append or (isinstance(write, Put | Delete) and write.family not in read_again)
            for write in writes
        ):
            commit(self, writes, durability, lambda outcome: None)
            done(None)
        else:
            commit(self, writes, durability, done)

    RocksStore.commit = early  # type: ignore[method-assign]


def bury_in_two() -> None:
    """A dead letter is one commit, and the end of the record that it was another one."""
    sabotage.bury_in_two(0.05)


def lanes_in_two() -> None:
    """What a lane is given and has settled is one commit, and what cursors say of it another one."""
    writes = LaneAtWork.writes

    def apart(self: LaneAtWork, commit: Gathered) -> None:
        own = Gathered()
        writes(self, own)
        later = partial(self.queue.node.turn.write, own.writes, lambda outcome: None)
        self.queue.node.loop.call_later(0.05, later)

    LaneAtWork.writes = apart  # type: ignore[method-assign]


def halve_policies() -> None:
    """A policy of several values is two commits."""
    sabotage_policies.APART = 0.02
    sabotage_policies.halve_policies()


def names_in_two() -> None:
    """What a named producer has sent is one commit, and that it has another one, behind it."""
    ahead = Broker.__init__
    flush = ProducerNames.flush
    brokers: list[Broker] = []

    def known(self: Broker, *given: Any, **named: Any) -> None:
        ahead(self, *given, **named)
        brokers.append(self)

    def apart(self: ProducerNames) -> list[Write]:
        own = flush(self)
        if own:
            later = partial(brokers[-1].turn.write, own, lambda outcome: None)
            brokers[-1].loop.call_later(0.05, later)
        return []

    Broker.__init__ = known  # type: ignore[method-assign]
    ProducerNames.flush = apart  # type: ignore[method-assign]


def tear_transactions() -> None:
    """Each second transaction ends in all of its partitions but the last one."""
    sabotage_transactions.tear(2)


BREAKS = {
    each.__name__.replace("_", "-"): each
    for each in (
        no_wal_sync,
        no_segment_sync,
        no_folder_sync,
        os_for_fsync,
        answer_first,
        bury_in_two,
        lanes_in_two,
        halve_policies,
        names_in_two,
        tear_transactions,
    )
}


if __name__ == "__main__":
    small()
    if os.environ.get("POWERCUT_BREAK"):
        BREAKS[os.environ["POWERCUT_BREAK"]]()
    main()
