"""What every store driver promises, and the writes that it takes.

One call of `Store.commit` is one fact: all of its writes happen or none does, whatever fails. An `Append`
among the writes is the whole trick: on RocksDB it is a segment write and a WriteBatch, on a distributed store
it would be an object and a transaction, in memory it is a list.

A store has one owner: all methods are called from one thread (the event loop's), and `done` callbacks run
there.

What a store keeps lies in scopes, each with one owner: the instance, a partition, a group (`Scope`). A scope is loaded
before it is read; then reads of it answer at once (`Store.load`). What lies over many scopes is read page by page
(`Store.page`).
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from store.limits import Rollover
from store.pending import Pending
from store.rewriting import Place, Rewritten, Source

Buffer = bytes | memoryview


class Stored(abc.ABC):
    """Bytes of a log that were not read yet: `len` of them."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @property
    @abc.abstractmethod
    def below(self) -> int:
        """An offset that all their records lie below; the first that does not is near it, in most cases. On the loop.
        Raises StoreError.
        """

    @abc.abstractmethod
    def read_into(self, buffer: memoryview, *, wait: bool = False) -> bool:
        """Fill a buffer of this length with bytes that are right. False when a disk would have to be waited for and
        `wait` does not allow it, and when the bytes cannot be vouched for: the log's `read` tells what is wrong.

        In any thread. Raises OSError.
        """

    @property
    @abc.abstractmethod
    def known(self) -> bool:
        """Whether they are known to be right: if not, who reads them checks them, 0.1 ms a megabyte."""

    @abc.abstractmethod
    def release(self) -> None:
        """It is not needed any more. To be called once it was read or not, in any thread; again does nothing."""


Piece = Buffer | Stored


class Family(enum.StrEnum):
    """The column families: one name space of keys each.

    All integers in keys are big-endian and of fixed width.
    """

    META = "meta"  # instance id, epoch counter, id counters, clean-shutdown mark
    LOG = "log"  # partition u32 -> start and end of the log, active segment: written with every append
    SEGMENT = "segment"  # partition u32, base offset u64 -> number, size, times
    INDEX = "index"  # partition u32, base offset u64 -> segment, position, times, ledger, entry (sparse)
    JOURNAL = "journal"  # group u64, partition u32 -> payload of a synced group until its segment is synced
    LEDGER = "ledger"  # partition u32, ledger u64 -> first offset, first entry, opened at
    EPOCH = "epoch"  # partition u32, leader epoch u32 -> first offset
    COMPACTION = "compaction"  # partition u32 -> how far the log is compacted, and when it was
    TOUCHED = "touched"  # checkpoint u64, partition u32 -> where recovery begins to check this log
    DOOMED = "doomed"  # partition u32, segment number u32 -> a file to unlink after the commit that says so
    CATALOG = "catalog"  # topics by name, names by topic id
    POLICY = "policy"  # instance, namespace, topic policies; broker and group configs
    DEDUP = "dedup"  # partition u32, producer id u64 -> epoch, the last five batches, the open transaction
    ABORTED = "aborted"  # partition u32, class u8, offset of the marker u64 -> producer, first offset
    GROUP = "group"  # group id -> membership
    MEMBER = "member"  # share group, member -> who it is and what it subscribes to
    OFFSET = "offset"  # group id, topic, partition -> committed offset
    SUBSCRIPTION = "subscription"  # subscriptions by group and topic id, by topic id and group, by id
    CURSOR = "cursor"  # subscription u32, partition u32 -> where it stands
    ACK = "ack"  # subscription, partition, start u64 -> end of what is settled throughout
    COUNT = (
        "count"  # subscription, partition, chunk u64 -> acks in it, deliveries, what is to be dead-lettered
    )
    DUE = "due"  # subscription, partition, due ms u64, offset u64 -> offsets held back until then
    LANE = "lane"
    LETTER = "letter"  # partition u32, chunk u64 -> what became of the dead letters in it
    TXN = "txn"  # transactional ids, what their open transactions have in them, offsets staged there
    ACL = "acl"
    USER = "user"


class ScopeKind(enum.Enum):
    """What rows belong to. `store.scopes` says it of each family."""

    INSTANCE = enum.auto()
    PARTITION = enum.auto()
    GROUP = enum.auto()


class Scope(NamedTuple):
    """Rows, and a log if it is a partition's, that have one owner and are loaded together.

    `id` is the store's id of a partition, the id of a group; 0 for the instance.
    """

    kind: ScopeKind
    id: int | str


INSTANCE = Scope(ScopeKind.INSTANCE, 0)
"""The catalog: topics, subscriptions, policies, users. Loaded when the store is opened, and stays loaded."""


def of_partition(partition: int) -> Scope:
    """A log, and what is kept of its producers and of the cursors that read it."""
    return Scope(ScopeKind.PARTITION, partition)


def of_group(group_id: str) -> Scope:
    """A group, its members and the offsets that it has committed."""
    return Scope(ScopeKind.GROUP, group_id)


class Durability(enum.StrEnum):
    """What an acknowledgement survives: `os` the death of the process, `fsync` the death of the machine."""

    OS = "os"
    FSYNC = "fsync"


class Append(NamedTuple):
    """Record batches for the end of one log, offsets already assigned and patched in.

    `batches` holds one RecordBatch v2 each, in offset order; the first starts at the log's end (or beyond it:
    gaps are legal, going back is not): the first one makes the log. `max_timestamp` is the largest of the batches,
    in ms since 1970. Several batches for one log cost least as one Append. An Append is never split over two segments
    or ledgers. `carried`: the payload must be in the WriteBatch itself because the same fact makes something
    disappear elsewhere (a dead letter with its ack), or the segment must be synced first.
    """

    partition: int
    base_offset: int
    next_offset: int
    max_timestamp: int
    batches: Sequence[bytes]
    leader_epoch: int = 0
    carried: bool = False


class Put(NamedTuple):
    family: Family
    key: bytes
    value: bytes


class Delete(NamedTuple):
    family: Family
    key: bytes


class DeleteRange(NamedTuple):
    """Every key from `start` (inclusive) to `end` (exclusive)."""

    family: Family
    start: bytes
    end: bytes


class DropLog(NamedTuple):
    """A log and everything the store keeps for it; its files go after the commit. Of one that was never written there
    is nothing to do.

    The partition id is not used again: nothing may be written under it from then on.
    """

    partition: int


class Trim(NamedTuple):
    """Move the log start forward to `offset` (at most the log's end; never back).

    Whole segments below it go after the commit, the active one too when all of it is below.
    """

    partition: int
    offset: int


class Roll(NamedTuple):
    """The active segment takes no more: the next append begins another one. Nothing where there is none."""

    partition: int


class Swap(NamedTuple):
    """Put a segment that somebody has written in the place of closed ones (compaction).

    `old` are all segments of a stretch of the log, (base offset, number) each; `new` has what is left of them, offsets
    and batches as they were, and is None when nothing is. Where no segment is behind them, the new one ends where they
    ended: a log has no gap at its end. Readers see the old ones until this is done, and then the new one. Refused, and
    nothing else fails for it, when the log has other segments there by now: it was trimmed or swapped meanwhile. In its
    commit are only rows beside it.
    """

    partition: int
    old: tuple[tuple[int, int], ...]
    new: Rewritten | None


Write = Append | Put | Delete | DeleteRange | DropLog | Trim | Roll | Swap


class StoreError(Exception):
    """A commit that did not happen, or a read that could not be served. The text is for a person."""


class Refused(StoreError):
    """Nothing was written: the writes may be tried again."""


class DiskFull(Refused):
    """No space left on the device."""


class Fenced(StoreError):
    """Nothing was written, since another owner has the log now. Not `Refused`: a retry here is useless. The caller
    throws away its state of what was written to, and sends its clients to the new owner.
    """


class Unknown(StoreError):
    """Whether the writes are durable is not known. The caller loads its state of them again."""


class Corrupt(StoreError):
    """Stored bytes do not check out: offsets from `first` to below `next_offset` cannot be read.

    A read goes on at `next_offset`. `what` says which file, where, and what is wrong there.
    """

    def __init__(self, text: str, first: int, next_offset: int, what: str) -> None:
        super().__init__(text)
        self.first = first
        self.next_offset = next_offset
        self.what = what


class Locked(StoreError):
    """Another process has the folder open."""


FORMAT = b"store.format"
"""Key of META: the format of all that is kept, as text. A store begins with the newest; an older one stays so until who
keeps rows there has rewritten them, and puts the newest with them. An older program refuses what is newer.
"""
NEWEST_FORMAT = b"2"
"""1 had dotted names of topics of all namespaces."""

POWER_LOST = b"store.power-lost"
"""Key of META: the number of the last start that found that the machine had stopped before the process did. Under `os`
that took what it took: who has told somebody something else of it has to know.
"""

Outcome = StoreError | None
"""None is success."""


class Position(NamedTuple):
    """Where Pulsar's message id finds an offset: `ledger:entry`, and the batch index within the entry."""

    ledger: int
    entry: int
    batch_index: int


class SegmentInfo(NamedTuple):
    """One segment of a log: offsets [base, next), bytes, and the largest timestamp (ms) with the base offset
    of the first batch that has it (-1 and -1 when empty).
    """

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    created_at: int
    active: bool
    number: int = 0
    """Tells segments of one base offset apart, of which each is there at another time."""


class LedgerInfo(NamedTuple):
    ledger: int
    first_offset: int
    entries: int
    size: int
    opened_at: int


class Log(Protocol):
    """One partition's log as the store has committed it.

    A failed commit makes the object stale: open it anew.
    """

    @property
    def partition(self) -> int: ...
    @property
    def stale(self) -> bool:
        """True after a failed commit (or DropLog): this object shows nothing new any more."""

    @property
    def refuses(self) -> str:
        """Why this log takes no appends (acknowledged bytes were found damaged), or an empty string."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int:
        """One past the last committed record."""

    @property
    def size(self) -> int:
        """Bytes in its segments."""

    def read(self, offset: int, max_bytes: int, *, whole_first: bool = True) -> Pending[list[Buffer]]:
        """Stored batches from the one that holds `offset` on, at most about `max_bytes`, up to the committed
        end.

        The first batch comes whole even if it is larger (unless not `whole_first`: then nothing comes); the
        last may be cut anywhere, as in Kafka. Answers at once when the bytes are in memory (the tail cache,
        the page cache) and with an awaitable when a disk must be asked. An offset at the end gives []. Before
        damaged batches the answer ends. Raises (from the call or the awaitable) Corrupt when what holds the offset
        is damaged, StoreError when it cannot be read at present, IndexError for an offset outside [start, end].
        """

    def look(self, offset: int, max_bytes: int) -> Pending[list[Buffer]]:
        """As `read`, for who gives it to nobody: a log that forgets still counts it as unread."""

    def read_at_once(self, offset: int, max_bytes: int, *, least: int) -> list[Piece] | None:
        """As `lend`, but only where the bytes are found at next to no cost: what was just written, and what follows an
        answer that was lent. None for everything else, and for an offset outside the log.
        """

    def lend(
        self, offset: int, max_bytes: int, *, least: int, whole_first: bool = True
    ) -> Pending[list[Piece]]:
        """As `read`, for who can send bytes from a thread: `least` or more of them may come as `Stored`, to be
        released.
        """

    def batch_at_or_after(self, timestamp: int, from_offset: int = 0) -> Pending[list[Buffer]]:
        """The first batch whose largest timestamp is >= `timestamp` (ms), whole, or [] if there is none.

        Of those that hold `from_offset` or come after it. Raises as `read` does; Corrupt also where the batch may
        be one that is damaged.
        """

    def max_timestamp_batch(self) -> Pending[list[Buffer]]:
        """The first batch that holds the largest timestamp of the log, whole, or []."""

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """(largest known epoch <= the asked one, its end offset), or (-1, -1).

        As OffsetForLeaderEpoch asks.
        """

    def position_of(self, offset: int) -> Position:
        """The stored message id of a record (batch_index 0 for the batch's first)."""

    def offset_of(self, ledger: int, entry: int) -> int:
        """First offset of an entry. KeyError when there is no such entry any more."""

    def size_from(self, offset: int) -> int:
        """Bytes of the batch that holds `offset` and of all behind it; 0 at the end. Where damage lies before it in its
        stretch of the index, the stretch counts whole.
        """

    def configure(self, *, segment_bytes: int | None = None, segment_ms: int | None = None) -> None:
        """When an append begins a new segment: at so many bytes, or so long (ms) after the active one was
        begun.

        Holds for the partition until the store is closed, also for the object that replaces a stale one; it
        is not stored. The defaults are Kafka's: 1 GiB and seven days.
        """

    def segments(self) -> list[SegmentInfo]: ...

    def sources(self, first: int, end: int) -> list[Source]:
        """Closed segments, as files: those that end behind `first`, not behind `end`. [] in a store without files."""

    def ledgers(self) -> list[LedgerInfo]: ...


class StoreStats(NamedTuple):
    """Counters since the start, for /metrics. Times in seconds."""

    commits: int
    groups: int
    bytes_appended: int
    syncs: int
    sync_seconds: float
    tail_cache_bytes: int
    tail_cache_hits: int
    tail_cache_misses: int
    open_files: int
    inline_groups: int
    threaded_groups: int


class Store(Protocol):
    """A driver. Open one with its module's `open(...)`; all state is as the last durable commit left it."""

    notices: list[str]
    """What recovery found and did, in plain sentences."""

    rollover: Rollover
    """When ledgers are closed, of all logs from the next append on. May be replaced at any time; it is not stored."""

    @property
    def read_only(self) -> str:
        """Why every commit is refused, or an empty string."""

    def commit(
        self, writes: Sequence[Write], durability: Durability, done: Callable[[Outcome], None]
    ) -> None:
        """Queue one fact. `done` is called exactly once, possibly before this returns.

        Of commits that write to one scope (of the instance: to one row) `done` is called in the order in which they
        came; of others in any order. A commit without writes is done behind all that came before it.

        Commits that queue behind a busy writer may be merged into one group. After a commit that was not done those
        behind it that write to a scope of its writes fail too, and all of them may; the logs written to are stale, and
        the scopes are to be loaded again. A commit that writes to a scope which another owner has taken meanwhile ends
        with Fenced, whatever else is in it.

        Programming errors are raised here and queue nothing: ValueError for an append below the log's end, a
        trim beyond it, a Swap with others than rows; KeyError for what comes behind the DropLog of its log: in one
        commit, or while that is on its way.
        """

    async def write(self, writes: Sequence[Write], durability: Durability) -> None:
        """`commit` to wait for. Raises what the outcome is."""

    def sync(self, logs: Sequence[tuple[int, int]]) -> Pending[None]:
        """Make durable what is committed of logs, each from an offset on: it survives what a commit under `fsync` does.
        None at once where it does already.

        Rows are not made durable. Of these a power cut leaves what some first commits wrote, no matter of what: so
        whatever is written from now on is not there without the batches. A commit that is on its way counts as
        committed. It is under way once it is awaited. Raises StoreError, from the call or the awaitable: then it is not
        known what is durable.
        """

    async def reserve(self, partition: int, bases: Sequence[int]) -> list[Place]:
        """Files for segments that are to be swapped in, one for each base offset. A start removes those that were not.
        Raises StoreError.
        """

    def unreserve(self, partition: int, places: Sequence[Place]) -> None:
        """These are not needed: they go. Not to be said of one that was swapped in, or may have been."""

    def load(self, scope: Scope) -> Pending[None]:
        """Make what there is of a scope readable with `get`, `scan` and `log`: for as long as this node owns it, and no
        commit that wrote to it has failed. None at once when it is already, as the instance always is.

        Else it is under way when this returns, awaited or not; all who ask meanwhile get the same awaitable, which any
        number may await. Raises StoreError (from the awaitable).
        """

    def get(self, family: Family, key: bytes) -> bytes | None:
        """A row of a scope that is loaded."""

    def scan(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, ascending, from `start` on. All of one scope, which is loaded: of
        partitions and groups the prefix names it.
        """

    def page(
        self, family: Family, prefix: bytes = b"", start: bytes | None = None, limit: int | None = None
    ) -> Pending[list[tuple[bytes, bytes]]]:
        """As `scan`, over whatever scopes, loaded or not: what was stored at some moment between the call and the
        answer. Who writes because of it loads the scope and looks again. Raises StoreError.
        """

    def log(self, partition: int) -> Log:
        """The log of a partition whose scope is loaded (cached while fresh); an empty one where nothing was ever
        written: no log is made before its first append.

        KeyError from the moment a DropLog is queued until its `done` was told. From then on whoever gave the
        partition its id has to know that it is gone: the store does not remember.
        """

    def leader_epoch(self, partition: int) -> int:
        """The number that appends to this log carry and clients are told. It belongs to the owner of the log, and is
        greater than that of every owner before.

        From memory, and without a log object, so that it can be asked for every partition of many topics; also for a
        log that is still to be made. It is durable before anything is appended. It may differ from log to log, and
        stays the same while a `Log` object is not stale.
        """

    def stats(self) -> StoreStats: ...

    async def close(self) -> None:
        """Finish what is queued, checkpoint, mark the shutdown clean, release the folder."""
