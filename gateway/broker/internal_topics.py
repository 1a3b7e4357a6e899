"""Kafka's internal topics, `__consumer_offsets` and `__transaction_state`, as views of what the store has.

Nothing is stored for them, and while nobody reads one nothing is done for it. Whoever asks where it ends, or fetches,
opens it: its records are made of the rows there are, and from then on each commit that changes one of these brings a
record at the end. A view that nobody has asked for during IDLE_MS is closed, and memory has nothing of it.

Offsets go on where those of before were left, also over a restart: a reader that comes back to a view that was opened
anew is out of range, and begins by its own rule. The oldest records are forgotten beyond MOST_BYTES of memory.

Only what is of public/default is told, and only to its clients: names in other namespaces are other topics.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker import internal_records
from gateway.broker.catalog import Topic
from gateway.broker.errors import KafkaError
from gateway.broker.internal_log import InternalLog, Making
from gateway.broker.internal_records import Said
from gateway.broker.loading import Loading
from gateway.broker.pages import Rows, each_page
from gateway.wire.errors import Error
from gateway.wire.internal_records import partition_of
from semantics.transactions.rows import heads_prefix
from store.api import Delete, DeleteRange, Durability, Family, Put, StoreError, Write, of_partition
from store.pending import Asking, drive
from store.transient import FIRST_TRANSIENT

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.commit_watch import CommitWatch
    from gateway.broker.node import Node
    from gateway.broker.topic_runtime import TopicRuntime

log = logging.getLogger("magnetar.internal_topics")

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
FEW_PARTS, PART_OF = 100, 8
"""A transaction with so many partitions and groups is told anew when it has grown by this part, or changed otherwise"""
IDLE_MS = 600_000
"""For so long a view stays in memory that nobody asks for."""
MOST_BYTES = 64 * 1024 * 1024
"""Of memory that the records of one view may take."""
MOST_PARTITIONS = 1_000
_EVICTED = 16
"""One part of so many is forgotten at a time."""
_OPENED = b"internal-topics/offset"
_SPAN = 1 << 32
"""Offsets that a view may give before it is opened again."""
# no log of the store has these numbers
_FIRST_NUMBER = FIRST_TRANSIENT - 2 * MOST_PARTITIONS
_NAMESPACE = uuid.UUID("5d1c9f4e-6c3b-4d0b-9d0a-6f5f0c7f3b11")


class InternalTopics:
    """Both of them."""

    def __init__(
        self, node: Node, catalog: Catalog, watch: CommitWatch, cluster_id: str, changed: Callable[[], None]
    ) -> None:
        """`changed` is called when one more is to be listed."""
        self._watch = watch
        self._changed = changed
        # a task is kept by who waits for it
        self._looking: list[asyncio.Task[None]] = []
        settings, store = node.settings, node.store
        offsets = View(
            node,
            catalog,
            OFFSETS,
            settings.integer("offsets.topic.num.partitions"),
            cluster_id,
            _FIRST_NUMBER,
        )
        transactions = View(
            node,
            catalog,
            TRANSACTIONS,
            settings.integer("transaction.state.log.num.partitions"),
            cluster_id,
            _FIRST_NUMBER + MOST_PARTITIONS,
        )
        self._views = {view.topic.name: view for view in (offsets, transactions)}
        # as Kafka, which makes them when somebody looks for a coordinator
        self._listed = dict.fromkeys(self._views, False)
        for name, family, prefix in (
            (OFFSETS, Family.GROUP, b""),
            (TRANSACTIONS, Family.TXN, heads_prefix()),
        ):
            rows = store.page(family, prefix, limit=1)
            if isinstance(rows, list):
                self._listed[name] = bool(rows)
            else:
                self._looking.append(node.loop.create_task(self._look(name, rows)))
        catalog.views = {name: view.topic for name, view in self._views.items()}

    async def _look(self, name: str, rows: Awaitable[Rows]) -> None:
        with contextlib.suppress(StoreError):
            if await rows:
                self.looked_for(name)

    def listed(self) -> list[Topic]:
        """Those that lists of all topics have."""
        return [view.topic for name, view in self._views.items() if self._listed[name]]

    def looked_for(self, name: str) -> None:
        """Somebody looks for a coordinator whose topic it is, or reads it."""
        if not self._listed[name]:
            self._listed[name] = True
            self._changed()

    def readable(self, runtime: TopicRuntime, index: int) -> InternalLog:
        """A partition. Raises KafkaError; Loading while its view is being opened."""
        self.looked_for(runtime.name)
        self._watch.tap = self._committed
        return self._views[runtime.name].readable(index)

    def close_idle(self) -> None:
        """Close what nobody has asked for."""
        for view in self._views.values():
            view.close_idle()
        if not any(view.busy for view in self._views.values()):
            self._watch.tap = None

    def _committed(self, writes: Sequence[Write]) -> Callable[[], None] | None:
        """What was stored, as records; who is to be woken then."""
        try:
            told = [each for view in self._views.values() if (each := view.committed(writes)) is not None]
        except Exception:
            # whoever waits for the commit must not wait for ever; who reads the view begins anew
            log.exception("an internal topic did not take what was stored")
            for view in self._views.values():
                view.close()
            return None

        def wake() -> None:
            for each in told:
                each()

        return wake if told else None


class View:
    """One of them: its row as the catalog would have it, and its records while somebody reads."""

    def __init__(
        self, node: Node, catalog: Catalog, name: str, partitions: int, cluster_id: str, number: int
    ) -> None:
        self._node = node
        self._catalog = catalog
        count = min(partitions, MOST_PARTITIONS)
        self.topic = Topic(
            name=name,
            topic_id=uuid.uuid5(_NAMESPACE, f"{cluster_id}/{name}").bytes,
            partitions=list(range(number, number + count)),
            created_at=0,
            configs={"cleanup.policy": "compact"},
            internal=True,
        )
        # one for each partition; none while it is closed
        self.logs: list[InternalLog] = []
        self._opening: asyncio.Task[None] | None = None
        # groups whose offsets were deleted meanwhile: rows of theirs are of before, or known already
        self._deleted: set[str] = set()
        self._making = Making(lambda call: node.loop.call_soon(call))
        # transactional id -> how many parts its transaction had when it was told last, and has got since
        self._grown: dict[str, tuple[int, int]] = {}
        self._used_at = 0
        self._cost = 0

    @property
    def busy(self) -> bool:
        """Whether it is open, or about to be."""
        return bool(self.logs) or self._opening is not None

    def readable(self, index: int) -> InternalLog:
        """Raises KafkaError; Loading."""
        if not 0 <= index < len(self.topic.partitions):
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION)
        self._used_at = self._node.clock.monotonic_ms()
        if self._opening is None and not self.logs:
            self._opening = self._node.loop.create_task(self._open())
        if self._opening is not None:
            raise Loading(of_partition(self.topic.partitions[index]), self._opening)
        return self.logs[index]

    # -- opened and closed ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Raises StoreError."""
        node, store = self._node, self._node.store
        try:
            key = _OPENED + b"/" + self.topic.name.encode()
            raw = store.get(Family.META, key)
            begin = int.from_bytes(raw, "big") if raw else 0
            await node.write([Put(Family.META, key, (begin + _SPAN).to_bytes(8, "big"))], Durability.FSYNC)
            self._cost = 0
            epochs = [store.leader_epoch(number) for number in self.topic.partitions]
            self.logs = [InternalLog(index, begin, epoch, self._making) for index, epoch in enumerate(epochs)]
            for family, prefix in self._families():
                rest = drive(each_page(store, family, prefix, partial(self._take, family)))
                if isinstance(rest, Awaitable):
                    await rest
        except BaseException:
            self.close()
            raise
        finally:
            self._opening = None
            self._deleted.clear()

    def _families(self) -> tuple[tuple[Family, bytes], ...]:
        if self.topic.name == TRANSACTIONS:
            return ((Family.TXN, heads_prefix()),)
        return ((Family.GROUP, b""), (Family.OFFSET, b""))

    def _take(self, family: Family, rows: Rows) -> Asking[bool]:
        """What was stored before. A row that has changed since it was opened is known already."""
        for key, value in rows:
            said = self._said(family, key, value)
            if said is None or said.value is None or said.name in self._deleted:
                continue
            if said.row not in self._of(said.name):
                self._append(said)
        return bool(self.logs)
        yield  # a generator, as `each_page` asks for

    def close(self) -> None:
        """Whoever reads it opens it again."""
        logs, self.logs = self.logs, []
        self._grown.clear()
        for each in logs:
            each.close()

    def close_idle(self) -> None:
        """Close it if nobody has asked for it for a while, nor waits for more."""
        idle = self._node.clock.monotonic_ms() - self._used_at >= IDLE_MS
        if idle and self._opening is None and not any(each.watchers for each in self.logs):
            self.close()

    # -- what is stored ---------------------------------------------------------------------------------------------

    def committed(self, writes: Sequence[Write]) -> Callable[[], None] | None:
        """Have what these say as records; who is to be woken then."""
        if not self.logs:
            return None
        grown: dict[InternalLog, int] = {}
        for said in self._changes(writes):
            known = self._of(said.name)
            # what is deleted while it is opened may still be met
            if said.value is not None or said.row in known or self._opening is not None:
                grown[known] = grown.get(known, 0) + self._append(said)
        if not grown:
            return None

        def wake() -> None:
            for each, size in grown.items():
                each.wake(size)

        return wake

    def _changes(self, writes: Sequence[Write]) -> Iterable[Said]:
        families = {family for family, _ in self._families()}
        if Family.TXN in families:
            # its partitions are rows of their own, and go in one commit with its head
            for name, added in internal_records.of_transactions(writes).items():
                if self._worth(name, added) and (said := self._transaction(name)) is not None:
                    yield said
            return
        for write in writes:
            if isinstance(write, Put | Delete) and write.family in families:
                value = write.value if isinstance(write, Put) else None
                if (said := self._said(write.family, write.key, value)) is not None:
                    yield said
            elif isinstance(write, DeleteRange) and write.family in families:
                yield from self._gone(write)

    def _worth(self, name: str, added: int | None) -> bool:
        """Whether a transactional id is told anew, for so many partitions and groups more of its transaction, or (None)
        for something else. A record has all of them: one for each that is added would be n² of them.
        """
        if added is None:
            self._grown.pop(name, None)
            return True
        told, since = self._grown.get(name, (0, 0))
        since += added
        if told >= FEW_PARTS and since * PART_OF < told:
            self._grown[name] = told, since
            return False
        self._grown[name] = told + since, 0
        return True

    def _gone(self, write: DeleteRange) -> Iterable[Said]:
        start, end = (internal_records.row_of(write.family, key) for key in (write.start, write.end))
        name = internal_records.group_of_range(write.start)
        now = self._node.clock.wall_ms()
        if self._opening is not None and name is not None:
            self._deleted.add(name)
        for each in self.logs if name is None else [self._of(name)]:
            for row, entry in each.within(start, end):
                if entry.value is not None:
                    yield Said(name or "", row, entry.key, None, now)

    def _said(self, family: Family, key: bytes, value: bytes | None) -> Said | None:
        now = self._node.clock.wall_ms()
        if family is Family.OFFSET:
            return internal_records.of_offset(key, value, now)
        if family is Family.GROUP:
            return internal_records.of_group(key, value, now)
        name = internal_records.transactional_id(key)
        return self._transaction(name) if name is not None else None

    def _transaction(self, name: str) -> Said | None:
        now = self._node.clock.wall_ms()
        return internal_records.of_transaction(self._node.store, self._catalog, name, now)

    def _of(self, name: str) -> InternalLog:
        return self.logs[partition_of(name, len(self.logs))]

    def _append(self, said: Said) -> int:
        target = self._of(said.name)
        before = target.cost
        size = target.append(said.row, said.key, said.value, said.timestamp)
        self._cost += target.cost - before
        if self._cost > MOST_BYTES:
            largest = max(self.logs, key=lambda each: each.cost)
            self._cost -= largest.evict(largest.cost // _EVICTED)
        return size
