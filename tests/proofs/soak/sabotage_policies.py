"""Promises of policies that a gateway may be made to break, each of which the proof must notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from gateway.apis.produce_held import HeldPlace, HeldSlot
from gateway.broker.catalog import Topic
from gateway.broker.message_ttl import MessageTtl
from gateway.broker.namespaces import NamespaceRow
from gateway.broker.tenancy import Tenancy
from gateway.broker.topics import Topics
from semantics.names import Namespace
from semantics.subscriptions import rows as cursor_rows
from semantics.subscriptions.administration import Administration
from store.api import Family
from store.rocksdb.database import Database
from tests.proofs.soak.at_start import at_start

APART = 0.1
"""Seconds between two commits that should be one."""
ID_ROW = 12
"""Bytes of the key of a producer's row; a name's has more."""


def _half(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str] | None:
    """The first of several changes; None where there is one only."""
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if len(changed) < 2:
        return None
    half = {name: value for name, value in old.items() if name != changed[0]}
    return half | ({changed[0]: new[changed[0]]} if changed[0] in new else {})


def halve_policies() -> None:
    """A policy of several values is two commits."""
    configure, change_namespace = Topics.configure, Tenancy.change

    async def of_topic(
        self: Topics, name: str, change: Callable[[dict[str, str]], dict[str, str]], **options: bool
    ) -> None:
        before = self.get(name).configs
        half = _half(before, change(before))
        if half is not None:
            await configure(self, name, lambda _: half)
            await asyncio.sleep(APART)
        await configure(self, name, change, **options)

    async def of_namespace(
        self: Tenancy, namespace: Namespace, change: Callable[[NamespaceRow], NamespaceRow]
    ) -> None:
        before = self.namespace(namespace)
        half = _half(before.policies, change(msgspec.structs.replace(before)).policies)
        if half is not None:
            await change_namespace(self, namespace, lambda row: msgspec.structs.replace(row, policies=half))
            await asyncio.sleep(APART)
        await change_namespace(self, namespace, change)

    Topics.configure = of_topic  # type: ignore[method-assign]
    Tenancy.change = of_namespace  # type: ignore[method-assign]


def terminate_early() -> None:
    """That a topic has ended is answered before it is stored."""
    terminate = Topics.terminate

    async def early(self: Topics, name: str, indexes: Iterable[int]) -> None:
        wanted = list(indexes)
        topic: Topic = self.get(name)
        runtime = self._in_use.topic(topic.name.encode())
        assert runtime is not None
        self._end_turn()
        for index in wanted:
            partition = runtime.partitions[index]
            if partition is not None:
                partition.terminate()
        _later(2.0, lambda: terminate(self, name, wanted))

    Topics.terminate = early  # type: ignore[method-assign]


_tasks: set[asyncio.Future[Any]] = set()


def _later(seconds: float, work: Callable[[], Any]) -> None:
    async def wait() -> None:
        await asyncio.sleep(seconds)
        await work()

    task = asyncio.ensure_future(wait())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def expire_twice() -> None:
    """What expires counts twice."""
    expire, expire_open = Administration.expire, Administration.expire_open

    def twice(self: Administration, before: int) -> int:
        taken = expire(self, before)
        self._records.totals["expired"] += taken
        return taken

    def open_twice(self: Administration, first: int, end: int, *keep: Any, **how: Any) -> int:
        before = self._records.totals["expired"]
        taken = expire_open(self, first, end, *keep, **how)
        if self._records.totals["expired"] == before + taken:
            self._records.totals["expired"] += taken
        return taken

    Administration.expire = twice  # type: ignore[method-assign]
    Administration.expire_open = open_twice  # type: ignore[method-assign]


def expire_early() -> None:
    """Messages have a quarter of their time to live."""
    of_topic = MessageTtl._topic

    async def sooner(self: MessageTtl, topic: Topic, ttl: int, *rest: Any) -> int:
        return await of_topic(self, topic, ttl // 4, *rest)

    MessageTtl._topic = sooner  # type: ignore[method-assign, assignment]


def forget_expired() -> None:
    """What has expired is settled, and its count is not stored."""
    cursor = cursor_rows.cursor

    def uncounted(*fields: Any) -> Any:
        return cursor(*fields[:-1])

    cursor_rows.cursor = uncounted  # type: ignore[assignment]


def forget_names() -> None:
    """A start drops what is known of named producers: what they send again is stored twice."""

    def change(database: Database, batch: Any) -> None:
        for key, _ in database.scan(Family.DEDUP):
            if len(key) > ID_ROW:
                batch.delete(key, database.handles["dedup"])

    at_start(change)


def lose_held() -> None:
    """Of the batches that waited for a backlog one in four is answered, and not stored."""
    go_on = HeldSlot.go_on
    count = 0

    def lost(self: HeldSlot, place: HeldPlace) -> bool:
        nonlocal count
        count += 1
        if count % 4:
            return go_on(self, place)
        each = next(each for each in self._held if each.place == place)
        runtime = self._broker.topic_by_id(place[0])
        partition = runtime.partitions[place[1]] if runtime is not None else None
        if partition is None:
            return go_on(self, place)
        self._tell(each.where, (place[1], 0, partition.next_offset, -1, 0, (), None))
        self._held.remove(each)
        self._over([place], [])
        return True

    HeldSlot.go_on = lost  # type: ignore[method-assign]


POLICIES = {
    "halve-policies": halve_policies,
    "terminate-early": terminate_early,
    "expire-twice": expire_twice,
    "expire-early": expire_early,
    "forget-expired": forget_expired,
    "forget-names": forget_names,
    "lose-held": lose_held,
}
