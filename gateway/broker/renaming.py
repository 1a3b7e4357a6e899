"""Names of topics in a store that an older Magnetar has written, which called a topic of shop/eu `shop.eu.orders`: they
get the names that the catalog has now, all in one commit, before anybody reads them.

Whether a dotted name was one of `public/default` the namespaces said that there were. So this is done once: the commit
puts the new format into the store, and an older Magnetar refuses the folder from then on. A crash before it leaves
everything as it was.

| family | what has names of topics |
|---|---|
| catalog | the rows of topics, and those that lead to them; configs of queue topics |
| offset | keys |
| txn | keys of offsets that are staged |
| group, member | topics of consumer groups and of share groups, and what their members subscribe to |
| subscription | its topic, its queue topic, configs in what it was made with and in its properties |
| policy | configs of groups |

Members of classic groups write names in bytes of their own, and as they always did (`coordinators/wording.py`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gateway.broker import group_configs
from gateway.broker.catalog import Catalog
from gateway.broker.staged_offsets import PREFIX as STAGED
from gateway.broker.staged_offsets import key_of, split
from gateway.broker.subscriptions import rows
from gateway.config.group_table import NAME_TOPICS
from gateway.coordinators import consumer_rows, group_rows, offsets
from gateway.coordinators.group_rows import Kind
from semantics.group_names import home_of
from semantics.names import DEFAULT
from semantics.transactions.rows import RowError
from store.api import FORMAT, NEWEST_FORMAT, Delete, Durability, Family, Put, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from store.api import Store

log = logging.getLogger("magnetar.broker")

_DOTTED = b"1"
"""The format in which names had dots."""
_PAGE = 5_000
_Row = TypeVar("_Row", consumer_rows.ConsumerMemberRow, group_rows.ShareMemberRow)


async def rename(store: Store) -> int:
    """Give names of topics in an older store their new form: how many topics have another name now. Nothing is looked
    at where the store is of the newest format. Raises StoreError.
    """
    if store.get(Family.META, FORMAT) != _DOTTED:
        return 0
    renaming = _Renaming(store)
    writes = [each async for each in renaming.writes()]
    await store.write([*writes, Put(Family.META, FORMAT, NEWEST_FORMAT)], Durability.FSYNC)
    if writes:
        log.info("topics of other namespaces are kept by new names", extra={"count": renaming.topics})
    return renaming.topics


class _Renaming:
    """What is to be written, family by family."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = Catalog(store)
        self.topics = 0

    async def writes(self) -> AsyncIterator[Write]:
        for each in self._topics():
            yield each
        for row in rows.every(self._store):
            for each in self._subscription(row):
                yield each
        for key, value in self._store.scan(Family.POLICY, group_configs.PREFIX):
            for each in self._group_configs(key, value):
                yield each
        for key, value in self._store.scan(Family.TXN, STAGED):
            for each in self._staged(key, value):
                yield each
        async for key, value in self._pages(Family.OFFSET):
            renamed = self._offset(key)
            if renamed != key:
                yield Delete(Family.OFFSET, key)
                yield Put(Family.OFFSET, renamed, value)
        async for key, value in self._pages(Family.GROUP):
            changed = self._group(key, value)
            if changed is not None:
                yield Put(Family.GROUP, key, changed)
        async for key, value in self._pages(Family.MEMBER):
            changed = self._member(key, value)
            if changed is not None:
                yield Put(Family.MEMBER, key, changed)

    async def _pages(self, family: Family) -> AsyncIterator[tuple[bytes, bytes]]:
        """All rows of a family, of whatever scope."""
        start: bytes | None = None
        while True:
            found = self._store.page(family, b"", start, _PAGE)
            page = found if isinstance(found, list) else await found
            for row in page:
                yield row
            if len(page) < _PAGE:
                return
            start = page[-1][0] + b"\0"

    # -- names ------------------------------------------------------------------------------------------------------

    def _now(self, name: str) -> str:
        """What the catalog calls a topic now that it called so."""
        return self._catalog.namespaces.elsewhere(name) or name

    def _subscribed(self, group_id: str, name: str) -> str:
        """The same of what a member subscribes to, which may be no topic's name."""
        if "/" not in name:
            return self._now(name)
        home = home_of(group_id)
        if home == DEFAULT:
            return f"//{name}"
        # what could be no topic of its home had the home before it
        return f"{home}//{name.removeprefix(f'{home}/')}"

    def _configs(self, configs: Mapping[str, str]) -> dict[str, str]:
        return {name: self._now(value) if name in NAME_TOPICS else value for name, value in configs.items()}

    # -- rows -------------------------------------------------------------------------------------------------------

    def _topics(self) -> Iterator[Write]:
        for topic in self._catalog.topics():
            name = self._now(topic.name)
            changed = msgspec.structs.replace(topic, name=name)
            if topic.queue is not None:
                its = msgspec.structs.replace(topic.queue, overrides=self._configs(topic.queue.overrides))
                changed = msgspec.structs.replace(changed, queue=its)
            if name != topic.name:
                self.topics += 1
                yield from self._catalog.writes_renamed(topic, changed)
            elif changed != topic:
                yield from self._catalog.writes_update(changed)

    def _subscription(self, row: rows.SubscriptionRow) -> Iterator[Write]:
        changed = msgspec.structs.replace(
            row,
            topic=self._now(row.topic),
            queue=self._now(row.queue),
            overrides=self._configs(row.overrides),
            properties=self._configs(row.properties),
        )
        if changed != row:
            yield rows.writes_changed(changed)

    def _group_configs(self, key: bytes, value: bytes) -> Iterator[Write]:
        configs = msgspec.msgpack.decode(value, type=dict[str, str])
        changed = self._configs(configs)
        if changed != configs:
            yield Put(Family.POLICY, key, msgspec.msgpack.encode(changed))

    def _offset(self, key: bytes) -> bytes:
        try:
            place = offsets.place(key)
        except ValueError:
            # who reads it for its group says so
            return key
        return offsets.key(place.group, self._now(place.topic), place.partition)

    def _staged(self, key: bytes, value: bytes) -> Iterator[Write]:
        try:
            transactional_id, offset = split(key)
        except RowError:
            return
        renamed = self._offset(offset)
        if renamed != offset:
            yield Delete(Family.TXN, key)
            yield Put(Family.TXN, key_of(transactional_id, renamed), value)

    def _group(self, key: bytes, value: bytes) -> bytes | None:
        """The row of a group, None where it stays."""
        try:
            head = group_rows.head(value)
            if head.kind == Kind.CONSUMER:
                return self._with_topics(consumer_rows.group(value))
            if head.kind == Kind.SHARE:
                return self._with_topics(group_rows.share(value), key.decode())
        except (group_rows.RowError, UnicodeDecodeError):
            # who reads it says so
            return None
        return None

    def _with_topics(
        self, row: consumer_rows.ConsumerRow | group_rows.ShareRow, group_id: str = ""
    ) -> bytes | None:
        topics = [(self._now(name), topic_id, count) for name, topic_id, count in row.topics]
        changed = msgspec.structs.replace(row, topics=sorted(topics))
        if isinstance(changed, group_rows.ShareRow):
            changed.members = [self._renamed(group_id, each) or each for each in changed.members]
        return msgspec.msgpack.encode(changed) if changed != row else None

    def _member(self, key: bytes, value: bytes) -> bytes | None:
        """The row of a member of a consumer group or of a share group, None where it stays."""
        end = 4 + int.from_bytes(key[:4], "big")
        try:
            group_id = key[4:end].decode()
            raw = self._store.get(Family.GROUP, key[4:end])
            if raw is None:
                return None
            kind = group_rows.head(raw).kind
            changed: msgspec.Struct | None
            if kind == Kind.CONSUMER:
                changed = self._renamed(group_id, consumer_rows.member(value))
            else:
                changed = self._renamed(group_id, group_rows.share_member(value))
        except (group_rows.RowError, UnicodeDecodeError):
            return None
        return msgspec.msgpack.encode(changed) if changed is not None else None

    def _renamed(self, group_id: str, row: _Row) -> _Row | None:
        found = [self._subscribed(group_id, name) for name in row.names]
        return msgspec.structs.replace(row, names=sorted(found)) if found != row.names else None
