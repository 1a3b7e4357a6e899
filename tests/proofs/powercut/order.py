"""No answer leaves before what it promises is on disk: read off the recorded order of syncs and answers.

RocksDB's WAL is parsed as far as it is durable, name and all, and so are the segments. When an answer leaves, the
rows of its commit must be in the one, and its batch in the one (as journal rows) or the other. Of a share group more is
looked at, see `share_order.py`.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from gateway.broker.catalog import Topic as Row
from gateway.broker.namespaces import NamespaceRow, Namespaces
from gateway.coordinators import offsets
from semantics.names import Namespace, dotted
from store import batch as layout
from store.api import Delete, Family
from store.rocksdb import logformat, powerloss, rows
from store.rocksdb.logformat import varint
from tests.proofs.powercut import share_order
from tests.proofs.powercut.disk import Disk, File, Folder
from tests.proofs.powercut.policy_load import SAID
from tests.proofs.powercut.recorder import Kind
from tests.proofs.powercut.recording import Recording
from tests.proofs.powercut.share_order import Shares
from tests.proofs.powercut.world import Batch, Key, Saying, Topic, Transaction, Verdict

BLOCK = 32 * 1024
COMMITS = "commits of a share group"
_FRAGMENT = struct.Struct("<IHB")
_LAST = (1, 4)
_MORE = (2, 3)


def wal_records(data: bytes | bytearray, at: int = 0) -> Iterator[tuple[int, bytes]]:
    """(where it ends, record) of a RocksDB WAL (its log format) from the record at `at` on, up to the first that is
    not whole.
    """
    parts: list[bytes] = []
    while at + _FRAGMENT.size <= len(data):
        left = BLOCK - at % BLOCK
        if left < _FRAGMENT.size:
            at += left
            continue
        _, size, kind = _FRAGMENT.unpack_from(data, at)
        begin = at + _FRAGMENT.size
        at = begin + size
        if kind == 0 or at > len(data):
            return
        if kind in _LAST:
            yield at, b"".join([*parts, bytes(data[begin:at])])
            parts = []
        elif kind in _MORE:
            parts.append(bytes(data[begin:at]))


class Change(NamedTuple):
    """Of a WriteBatch: a put, or a deletion of `key`, or of all keys from it up to `end`."""

    family: int
    key: bytes
    value: bytes | None = None
    end: bytes | None = None


def changes_of(record: bytes) -> Iterator[Change]:
    """What a WriteBatch says, in order."""
    at = 12

    def number() -> int:
        nonlocal at
        found, at = varint(record, at)
        return found

    def text() -> bytes:
        nonlocal at
        size = number()
        at += size
        return record[at - size : at]

    while at < len(record):
        tag = record[at]
        at += 1
        if tag == 13:
            continue
        family = number() if tag in (4, 5, 14) else 0
        if tag in (1, 5):
            key = text()
            yield Change(family, key, text())
        elif tag in (0, 4):
            yield Change(family, text())
        elif tag in (14, 15):
            key = text()
            yield Change(family, key, end=text())
        else:
            raise AssertionError(f"a WriteBatch with a part of type {tag}, which nobody here writes")


def families(manifest: bytes) -> Iterator[tuple[int, Family]]:
    """The column families by the numbers that a WAL has for them."""
    for record in logformat.records(manifest):
        found = powerloss.numbers(record.data)
        if powerloss.FAMILY_NAME in found:
            size, at = varint(record.data, found[powerloss.FAMILY_NAME])
            name = record.data[at : at + size].decode()
            if name != "default":
                yield found[powerloss.COLUMN_FAMILY], Family(name)


@dataclass(slots=True)
class Facts:
    """What is durable."""

    ends: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    # (partition, base offset) -> the batch behind its leader epoch
    batches: dict[tuple[int, int], bytes] = field(default_factory=dict)
    topics: dict[bytes, Row] = field(default_factory=dict)
    by_name: dict[str, bytes] = field(default_factory=dict)
    deleted: set[bytes] = field(default_factory=set)
    stamps: set[tuple[bytes, str]] = field(default_factory=set)
    # rows of tenants and namespaces
    tenancy: dict[bytes, bytes] = field(default_factory=dict)

    def row(self, family: Family, key: bytes, value: bytes | None) -> None:
        if family is Family.CATALOG and key.startswith(b"t/"):
            name = dotted(key[2:].decode())
            if value is None:
                self.deleted.add(self.by_name.get(name, b""))
            else:
                found = msgspec.msgpack.decode(value, type=Row)
                self.topics[found.topic_id] = found
                self.by_name[name] = found.topic_id
        elif value is None:
            return
        elif family is Family.LOG:
            partition = rows.U32.unpack(key)[0]
            row = rows.log_row(value)
            self.ends[partition] = row.end
            self.starts[partition] = row.start
        elif family is Family.JOURNAL and len(value) > rows.JOURNAL_HEAD.size:
            self.payload(rows.JOURNAL_KEY.unpack(key)[1], value[rows.JOURNAL_HEAD.size :])
        elif family is Family.POLICY:
            self.tenancy[key] = value
        elif family is Family.OFFSET:
            self.stamps.add((key, offsets.decode(value).metadata))

    def topic(self, name: str) -> Row | None:
        """As it was made last."""
        return self.topics.get(self.by_name.get(name, b""))

    def payload(self, partition: int, data: bytes) -> int:
        """Take over whole batches; how many bytes they have."""
        end = 0
        for at, size, base, _ in layout.walk(data):
            if at + size > len(data):
                break
            self.batches[partition, base] = data[at + 16 : at + size]
            end = at + size
        return end


class Order:
    """One pass over a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._facts = Facts()
        self._shares = Shares(recording.world, self._facts)
        self._families: dict[int, Family] = {}
        self._disk = Disk(recording.root, base=recording.base)
        # how much of each file was taken over
        self._taken: dict[int, int] = {}
        # where the first record or batch begins that was not
        self._ends: dict[int, int] = {}
        self.checked: Counter[str] = Counter()
        self.violations: list[str] = []

    def run(self) -> Order:
        """Look at every answer in the order in which they left."""
        due: dict[int, list[Callable[[], None]]] = {}
        for key, look in self._promises():
            due.setdefault(self._recording.world.answered[key], []).append(look)
        for index, event in enumerate(self._recording.events):
            for look in due.get(index, ()):
                look()
            self._disk.apply(event)
            if event.kind is Kind.SYNC_END:
                self._walk(self._disk.top, "")
        return self

    def _walk(self, folder: Folder, where: str) -> None:
        for name, node in folder.durable.items():
            if isinstance(node, Folder):
                self._walk(node, f"{where}{name}/")
            elif len(node.durable.data) != self._taken.get(node.number):
                self._take(f"{where}{name}", name, node)

    def _take(self, path: str, name: str, file: File) -> None:
        data = file.durable.data
        if path.startswith("db/") and name.endswith(".log"):
            for end, record in wal_records(data, self._ends.get(file.number, 0)):
                self._ends[file.number] = end
                self._committed_rows(list(changes_of(record)))
        elif name.endswith(".seg"):
            begin = self._ends.get(file.number, 0)
            self._ends[file.number] = begin + self._facts.payload(int(name[:8], 16), bytes(data[begin:]))
        self._taken[file.number] = len(data)

    def _committed_rows(self, changes: list[Change]) -> None:
        touched: set[Family] = set()
        for family, key, value, end in changes:
            which = self._family(family)
            touched.add(which)
            if which in share_order.FAMILIES:
                if value is None:
                    self._shares.durable.delete(which, key, end)
                else:
                    self._shares.durable.put(which, key, value)
            elif end is None:
                self._facts.row(which, key, value)
        if touched & {Family.LOG, Family.CURSOR, Family.COUNT, Family.ACK} and self._recording.world.shared:
            both = self._shares.committed()
            if both is not None:
                ended, letters = both
                text = f"a commit after which {ended} records have ended unaccepted, and {letters} are dead letters"
                self._check(COMMITS, ended == letters, text)

    def _family(self, number: int) -> Family:
        if number not in self._families:
            for name, node in self._database().durable.items():
                if name.startswith("MANIFEST-") and isinstance(node, File):
                    self._families.update(families(bytes(node.durable.data)))
        return self._families[number]

    def _database(self) -> Folder:
        found = self._disk.top.durable["db"]
        assert isinstance(found, Folder)
        return found

    def _promises(self) -> Iterator[tuple[Key, Callable[[], None]]]:
        """Each request whose answer promised something, and how to look whether it is kept."""
        world = self._recording.world
        for topic in world.topics:
            if world.synced:
                yield topic.created, partial(self._created, topic)
                if topic.deleted is not None:
                    yield topic.deleted, partial(self._deleted, topic)
            for index in range(topic.partitions):
                if topic.synced:
                    for batch in topic.batches[index]:
                        yield batch.key, partial(self._batch, topic, index, batch)
                if world.synced:
                    for trim in topic.trims[index]:
                        yield trim.key, partial(self._trimmed, topic, index, trim.offset)
        if world.synced:
            for place, commits in world.commits.items():
                for commit in commits:
                    yield commit.key, partial(self._committed, place, commit.stamp)
            for saying in world.sayings:
                yield saying.key, partial(self._said, saying)
            for name, ended in world.ended.items():
                yield ended.key, partial(self._ended, name)
            for it in world.transactions:
                if it.key is not None:
                    yield it.key, partial(self._transaction, it)
            for key, index, verdict in share_order.promises(world):
                yield key, partial(self._acknowledged, index, verdict)

    def _check(self, kind: str, held: bool, text: str) -> None:
        self.checked[kind] += 1
        if not held:
            self.violations.append(f"event {self._disk.index}: {text}")

    def _partition(self, topic: Topic, index: int) -> int:
        row = self._facts.topics.get(topic.topic_id)
        return row.partitions[index] if row is not None else -1

    def _created(self, topic: Topic) -> None:
        held = topic.topic_id in self._facts.topics
        self._check("topics created", held, f"topic {topic.name} was acknowledged and is not durable")

    def _deleted(self, topic: Topic) -> None:
        held = topic.topic_id in self._facts.deleted
        self._check("topics deleted", held, f"the deletion of {topic.name} is not durable")

    def _batch(self, topic: Topic, index: int, batch: Batch) -> None:
        partition = self._partition(topic, index)
        known = self._facts.ends.get(partition, 0) >= batch.next_offset
        there = self._facts.batches.get((partition, batch.offset)) == batch.data[16:]
        what = "its rows are" if not known else "its bytes are"
        self._check("batches", known and there, f"{topic.name}-{index} at {batch.offset}: {what} not durable")

    def _trimmed(self, topic: Topic, index: int, offset: int) -> None:
        held = self._facts.starts.get(self._partition(topic, index), 0) >= offset
        self._check("trims", held, f"the trim of {topic.name}-{index} to {offset} is not durable")

    def _committed(self, place: tuple[str, str, int], stamp: str) -> None:
        held = (offsets.key(*place), stamp) in self._facts.stamps
        self._check("offsets committed", held, f"commit {stamp} of {place} is not durable")

    def _said(self, saying: Saying) -> None:
        """Of a topic or a namespace."""
        if "/" in saying.of:
            gone = Namespaces.write(Namespace(*saying.of.split("/")), None)
            assert isinstance(gone, Delete)
            raw = self._facts.tenancy.get(gone.key)
            said = msgspec.msgpack.decode(raw, type=NamespaceRow).policies if raw is not None else {}
            found = said.get("pulsar.dispatch.rate.messages", "0")
        else:
            row = self._facts.topic(saying.of)
            found = row.configs.get(SAID[0], "0") if row is not None else "0"
        text = f"change {saying.number} of the policies of {saying.of} is not durable"
        self._check("policies said", int(found) >= saying.number, text)

    def _ended(self, name: str) -> None:
        row = self._facts.topic(name)
        self._check(
            "topics ended", row is not None and bool(row.terminated), f"the end of {name} is not durable"
        )

    def _transaction(self, it: Transaction) -> None:
        rows = {dotted(row.name): row for row in self._facts.topics.values()}
        for (topic, index), offset in it.markers().items():
            partition = rows[topic].partitions[index] if topic in rows else -1
            held = (partition, offset) in self._facts.batches
            text = f"the end of transaction {it.number} in {topic}-{index} is not durable"
            self._check("ends of transactions", held, text)

    def _acknowledged(self, index: int, verdict: Verdict) -> None:
        held = self._shares.kept(index, verdict)
        text = f"acknowledgement {verdict.kind} of {verdict.offset} in partition {index} is not durable"
        self._check("acknowledgements", held, text)
