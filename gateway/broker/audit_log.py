"""Changes that were made by HTTP, or tried by who may make them, in a topic: `magnetar-audit` of public/default. What
memory forgets is there.

A record says when, who, from where, what, on what, how many, and why, where somebody says that; it has no payloads and
no values. An act that has a commit of its own calls `check` before it changes anything, and `append` in the same turn:
both are stored or neither, and where the topic cannot be written the act is not done. What has none is appended behind.

The topic is made with the first record. It is kept away from users: it takes messages of nobody else, is hidden where
internal topics are, nobody changes or deletes it, and where rights are asked for it shows to super-users only.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from gateway.broker.errors import KafkaError
from gateway.broker.loading import until_loaded
from gateway.wire import records
from gateway.wire.errors import Error
from gateway.wire.records import Record
from semantics.names import AUDIT
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.topics import Topics

log = logging.getLogger("magnetar.audit")

KEPT_MS = 365 * 24 * 3_600_000
"""Retention of the topic."""
WAITING = 1_000
"""Records that wait for the topic."""
_UNWRITTEN = "The audit's topic cannot be written, and what is not told there is not done (audit.topic)."


class Act(msgspec.Struct, rename="camel", omit_defaults=True):
    """A change, as a record has it. Texts are cut and cleaned by who makes it (`gateway.audit.clean`)."""

    time: int
    """ms since 1970"""
    who: str
    host: str
    what: str
    """a method, or what an act is called"""
    target: str
    """a path, without values"""
    outcome: str = "done"
    command: str = ""
    """the line of magnetar-admin that does the same"""
    counts: dict[str, int | str] = {}
    """what was done, in numbers"""
    plan: str = ""
    """of a dry run that was shown before"""
    why: str = ""
    via: str = ""
    """console, of what was done on a page"""


class AuditLog:
    """Of one gateway."""

    def __init__(self, node: Node, catalog: Catalog, topics: Topics, in_use: InUse) -> None:
        self._node = node
        self._catalog = catalog
        self._topics = topics
        self._in_use = in_use
        self._waiting: list[Act] = []
        self._task: asyncio.Task[None] | None = None
        self._encode = msgspec.json.Encoder().encode

    @property
    def topic(self) -> Topic | None:
        """None while there is none; also where somebody had one of this name before."""
        found = self._catalog.get(AUDIT)
        return found if found is not None and found.internal else None

    @property
    def kept(self) -> bool:
        """Whether changes are kept in the topic, by the settings."""
        return self._node.settings.flag("audit.topic")

    def check(self) -> None:
        """That what is appended in this turn goes into its commit, as far as anybody can know before. Somebody's topic
        of this name is no hindrance: then there is none of ours. Raises KafkaError; Loading. `ready` comes before it.
        """
        if not self.kept:
            return
        topic = self.topic
        if topic is None:
            if self._catalog.get(AUDIT) is None:
                raise KafkaError(Error.KAFKA_STORAGE_ERROR, _UNWRITTEN)
            return
        partition = self._in_use.partition(topic, 0)
        if partition.stale or partition.log.refuses:
            raise KafkaError(Error.KAFKA_STORAGE_ERROR, partition.log.refuses or _UNWRITTEN)

    def append(self, act: Act) -> None:
        """Into the open turn, so that it goes into one commit with what else is in it. While the topic is being made it
        waits for that.
        """
        if not self.kept:
            return
        if self._task is None and self._store([act]):
            return
        if len(self._waiting) >= WAITING:
            log.warning("left out of the audit's topic", extra={"target": act.target})
            return
        self._waiting.append(act)
        if self._task is None:
            self._task = self._node.loop.create_task(self._make())

    async def ready(self) -> None:
        """Until `append` goes into the open turn, as far as that can be had."""
        if self.kept and self._task is None and not self._can():
            self._task = self._node.loop.create_task(self._make())
        if self._task is not None:
            await asyncio.wait([self._task])

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _can(self) -> bool:
        topic = self.topic
        try:
            return topic is not None and not self._in_use.partition(topic, 0).stale
        except KafkaError:
            return False

    def _store(self, acts: list[Act]) -> bool:
        """Whether they are in the open turn."""
        topic = self.topic
        if topic is None:
            return False
        try:
            partition = self._in_use.partition(topic, 0)
        except KafkaError:
            return False
        if partition.stale or partition.log.refuses:
            return False
        now = self._node.clock.wall_ms()
        made = [
            Record(number, now, act.who.encode(), self._encode(act), []) for number, act in enumerate(acts)
        ]
        partition.append_carried(records.build_batch(made), len(made), now)
        return True

    async def _make(self) -> None:
        try:
            if self._catalog.get(AUDIT) is None:
                await self._topics.create(
                    AUDIT, 1, {"retention.ms": str(KEPT_MS)}, partitioned=False, internal=True, terminated=[0]
                )
            topic = self.topic
            if topic is None:
                log.warning(
                    "there is a topic of this name that somebody made: delete it to have the audit there",
                    extra={"topic": AUDIT},
                )
                return
            await until_loaded(lambda: self._in_use.partition(topic, 0))
            if self._waiting and not self._store(self._waiting):
                log.warning("the audit's topic cannot be written", extra={"left_out": len(self._waiting)})
        except (KafkaError, StoreError) as error:
            log.warning("the audit's topic cannot be written", extra={"reason": str(error)})
        finally:
            self._waiting = []
            self._task = None
