"""Compaction at work: which logs are compacted next, what somebody has asked for, and how it went.

As many passes run at a time as `log.cleaner.threads` says, each in a process of its own. Of the logs for which one is
due that with the largest dirty part comes first, as in Kafka. What is due is looked for also while passes are at work;
when one is over, the next that is due begins. One that failed is tried again after a while that grows. One that was put
off, since something has changed under it, is looked at again with the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.compaction_guard import PutOff
from gateway.broker.errors import KafkaError
from gateway.compaction.running import PassFailed
from gateway.wire.errors import Error
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog, Topic
    from gateway.broker.compacting import Compacting, Outcome
    from gateway.broker.node import Node
    from gateway.config import Settings
    from gateway.config.topic_configs import TopicConfig

log = logging.getLogger("magnetar.compaction")

_SLICE = 100
"""Topics, or partitions, that are looked at before others have their turn."""
_TRIES = 3
"""Of a pass that somebody has asked for and that is put off."""
_AGAIN_MS = 15_000
_AGAIN_MOST_MS = 3_600_000


class State(enum.StrEnum):
    """Of the last pass that was begun, as Pulsar says it."""

    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class Status(NamedTuple):
    state: State = State.NOT_RUN
    error: str = ""


class _Failures(NamedTuple):
    times: int
    # monotonic ms
    again_at: int


class Compaction:
    """A job of housekeeping. What it knows of partitions is by the store's ids of them, and of this start."""

    def __init__(
        self,
        node: Node,
        *,
        catalog: Catalog,
        effective: Callable[[Topic], TopicConfig],
        compacting: Compacting,
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._effective = effective
        self._compacting = compacting
        self._status: dict[int, Status] = {}
        self._failed: dict[int, _Failures] = {}
        self._running: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # what was due when somebody last looked: (how dirty it is, topic, partition), the dirtiest last
        self._due: list[tuple[float, Topic, int]] = []
        self._stopped = False
        self._slots, self._slot_count = asyncio.Semaphore(1), 1
        # names of the topics that are compacted, and what they were found by
        self._names: list[str] = []
        self._found_by: tuple[int, Settings] | None = None

    # -- by time ------------------------------------------------------------------------------------------------------

    async def apply(self) -> None:
        """Look for what is due, and begin it as far as passes may run beside those that do. It waits for none."""
        if not self._node.settings.flag("log.cleaner.enable"):
            return
        due: list[tuple[float, Topic, int]] = []
        there: set[int] = set()
        async for topic in self._topics():
            for index, number in enumerate(topic.partitions):
                there.add(number)
                if len(there) % _SLICE == 0:
                    await asyncio.sleep(0)
                if number in self._running or self._waits(number):
                    continue
                try:
                    verdict = self._compacting.guess(topic, index)
                except (KafkaError, StoreError, KeyError) as error:
                    log.info("compaction is put off", extra=_of(topic, index, reason=str(error)))
                    continue
                if verdict.due:
                    due.append((verdict.dirty / (verdict.clean + verdict.dirty), topic, index))
        for known in (self._status, self._failed):
            for number in known.keys() - there - self._running:
                del known[number]
        due.sort(key=lambda each: each[0])
        self._due = due
        self._begin_due()

    def _begin_due(self) -> None:
        while self._due and len(self._running) < self._threads and not self._stopped:
            _, topic, index = self._due.pop()
            number = topic.partitions[index]
            # somebody may have asked for it since
            if number not in self._running and not self._waits(number):
                self._begin(topic, index, asked=False)

    def _begin(self, topic: Topic, index: int, *, asked: bool) -> None:
        self._running.add(topic.partitions[index])
        task = self._node.loop.create_task(self._pass(topic, index, asked))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin_due()

    @property
    def busy(self) -> bool:
        """Whether passes are at work, or wait until they may be."""
        return bool(self._tasks)

    async def _topics(self) -> AsyncIterator[Topic]:
        """All that are compacted. They are looked for when a topic or the settings have changed."""
        now = self._catalog.version, self._node.settings
        if now != self._found_by:
            names: list[str] = []
            count = 0
            async for topic in self._catalog.every():
                count += 1
                if count % _SLICE == 0:
                    await asyncio.sleep(0)
                if not topic.transient and topic.queue is None and self._effective(topic).compact:
                    names.append(topic.name)
            self._names, self._found_by = names, now
        for name in self._names:
            found = self._catalog.get(name)
            if found is not None and not found.transient and found.queue is None:
                yield found

    def _waits(self, number: int) -> bool:
        """Whether its last pass failed not long ago."""
        failed = self._failed.get(number)
        return failed is not None and self._node.clock.monotonic_ms() < failed.again_at

    # -- when somebody asks -------------------------------------------------------------------------------------------

    def ask(self, topic: Topic, indexes: list[int]) -> bool:
        """Compact these partitions now, whatever is due. False when a pass is at work on one of them. Raises KafkaError
        (INVALID_CONFIG) for a topic that is not compacted.
        """
        if not self._compacts(topic):
            raise KafkaError(
                Error.INVALID_CONFIG,
                f"cleanup.policy of {topic.name} is not compact. Compaction removes all but the last message of each "
                "key here, for all readers: say that with cleanup.policy first.",
            )
        if any(topic.partitions[index] in self._running for index in indexes):
            return False
        for index in indexes:
            self._status[topic.partitions[index]] = Status(State.RUNNING)
            self._begin(topic, index, asked=True)
        return True

    def status(self, topic: Topic, indexes: Sequence[int]) -> Status:
        """How the last passes over these partitions went, together."""
        found = [self._status.get(topic.partitions[index], Status()) for index in indexes]
        for state in (State.RUNNING, State.ERROR, State.NOT_RUN):
            for each in found:
                if each.state is state:
                    return each
        return Status(State.SUCCESS) if found else Status()

    async def held_back(self, topic: Topic, indexes: list[int]) -> str:
        """Which subscription keeps a pass over these partitions from going further, in a sentence, or nothing."""
        if not self._compacts(topic):
            return ""
        found: list[tuple[int, str, int]] = []
        for index in indexes:
            # of a partition that cannot be read whoever compacts it says why
            with contextlib.suppress(KafkaError, StoreError, KeyError):
                if (holder := await self._compacting.holder(topic, index)) is not None:
                    found.append((index, *holder))
        if not found:
            return ""
        index, group, offset = found[0]
        more = f", and {len(found) - 1} more partitions are held back" if len(found) > 1 else ""
        return (
            f"Subscription {group} has not acknowledged offset {offset} of partition {index}: from there on nothing is "
            f"compacted{more}."
        )

    def _compacts(self, topic: Topic) -> bool:
        return not topic.transient and topic.queue is None and self._effective(topic).compact

    async def stop(self) -> None:
        """End what is under way; the next start goes on."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- a pass -------------------------------------------------------------------------------------------------------

    async def _pass(self, topic: Topic, index: int, asked: bool) -> None:
        number = topic.partitions[index]
        before = self._status.get(number, Status())
        metrics = self._node.metrics
        try:
            async with self._slot():
                self._status[number] = Status(State.RUNNING)
                metrics.compactions_running.value += 1
                try:
                    done = await self._passes(topic, index, asked)
                finally:
                    metrics.compactions_running.value -= 1
            if done or asked:
                self._status[number] = Status(State.SUCCESS)
            else:
                # nothing was to be done after all
                self._status[number] = before
        except asyncio.CancelledError:
            self._status[number] = Status(State.ERROR, "The gateway stops.")
            raise
        except PutOff as error:
            self._status[number] = Status(State.ERROR, str(error)) if asked else before
        except (PassFailed, KafkaError, StoreError, KeyError, OSError) as error:
            self._fail(topic, index, str(error))
        except Exception as error:
            log.exception("compaction of %s", topic.name)
            self._fail(topic, index, repr(error))
        finally:
            self._running.discard(number)

    async def _passes(self, topic: Topic, index: int, asked: bool) -> bool:
        """One pass; as many as it takes where somebody waits for it: the map of keys may be full, and one that is put
        off begins anew. Whether there was anything to do. Raises what `Compacting.compact` does.
        """
        left = _TRIES if asked else 1
        target, done = -1, False
        while True:
            try:
                outcome = await self._compacting.compact(topic, index, asked, self._memory())
            except PutOff as error:
                log.info("compaction is put off", extra=_of(topic, index, reason=str(error)))
                left -= 1
                if not left:
                    raise
                continue
            if outcome is None:
                return done
            done = True
            self._tell(topic, index, outcome)
            if target < 0:
                # not what comes while it is at work
                target = outcome.planned
            if not asked or outcome.end >= target:
                return done

    def _tell(self, topic: Topic, index: int, outcome: Outcome) -> None:
        metrics = self._node.metrics
        metrics.compactions.labels("success").value += 1
        metrics.compaction_read.value += outcome.read
        metrics.compaction_removed.value += outcome.removed
        log.info(
            "compacted",
            extra=_of(topic, index, offset=outcome.end, read=outcome.read, removed=outcome.removed),
        )
        self._failed.pop(topic.partitions[index], None)

    def _fail(self, topic: Topic, index: int, reason: str) -> None:
        number = topic.partitions[index]
        self._status[number] = Status(State.ERROR, reason)
        count = self._failed.get(number, _Failures(0, 0)).times + 1
        wait = min(_AGAIN_MS << min(count - 1, 10), _AGAIN_MOST_MS)
        self._failed[number] = _Failures(count, self._node.clock.monotonic_ms() + wait)
        self._node.metrics.compactions.labels("error").value += 1
        log.warning("a log was not compacted", extra=_of(topic, index, reason=reason))

    @property
    def _threads(self) -> int:
        return self._node.settings.integer("log.cleaner.threads")

    def _slot(self) -> asyncio.Semaphore:
        """One pass may run beside so many others."""
        count = self._threads
        if count != self._slot_count:
            self._slots, self._slot_count = asyncio.Semaphore(count), count
        return self._slots

    def _memory(self) -> int:
        """Bytes for the map of keys of one pass."""
        settings = self._node.settings
        size = settings.integer("log.cleaner.dedupe.buffer.size") / self._threads
        return int(size * settings.float("log.cleaner.io.buffer.load.factor"))


def _of(topic: Topic, index: int, **more: object) -> dict[str, object]:
    return {"topic": topic.name, "partition": index, **more}
