"""What the broker does without being asked: retention, forgotten producers, idle partitions and connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from gateway import logs
from gateway.broker.clock_watch import KEEP_MS, keep_time
from gateway.broker.subscriptions import left_dying
from store.api import Family, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

log = logging.getLogger("magnetar.housekeeping")

_IDLE_SECONDS = 60.0
_BURY_SECONDS = 1.0
"""After the start: whoever waits to connect comes first."""


class HasConnections(Protocol):
    def second(self) -> None: ...


class Housekeeping:
    """Its own timers on the loop; `stop` ends them."""

    def __init__(self, broker: Broker, listeners: Sequence[HasConnections]) -> None:
        self._broker = broker
        self._listeners = listeners
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        settings = self._broker.settings
        self._every(1.0, self._connections)
        self._every(KEEP_MS / 1000, self._time)
        keep_time(self._broker)
        self._every(settings.integer("log.retention.check.interval.ms") / 1000, self.apply_retention)
        self._every(
            settings.integer("producer.id.expiration.check.interval.ms") / 1000, self.expire_producers
        )
        self._every(_IDLE_SECONDS, self._idle)
        self._tasks.append(self._broker.loop.create_task(self._bury()))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        async def repeat() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await action()
                except StoreError as error:
                    log.warning("housekeeping is put off", extra={"reason": str(error)})
                except Exception:
                    log.exception("housekeeping failed")

        self._tasks.append(self._broker.loop.create_task(repeat()))

    async def _connections(self) -> None:
        self._broker.receiving.second()
        self._broker.clock_watch.look()
        for listener in self._listeners:
            listener.second()
        logs.tell_untold()

    async def _bury(self) -> None:
        """What was dying when the gateway stopped; once."""
        while True:
            await asyncio.sleep(_BURY_SECONDS)
            try:
                if count := await left_dying.bury(self._broker):
                    log.info("burials that the last stop left go on", extra={"cursors": count})
            except StoreError as error:
                log.warning("burials are put off", extra={"reason": str(error)})
            except Exception:
                log.exception("burials failed")
                return
            else:
                return

    async def _time(self) -> None:
        keep_time(self._broker)

    async def _idle(self) -> None:
        self._broker.subscriptions.release_idle()
        self._broker.release_idle()

    async def apply_retention(self) -> None:
        """Trim what retention.ms and retention.bytes no longer keep."""
        await self._broker.retention.apply()

    async def expire_producers(self) -> None:
        """Forget the sequences of producers that were silent for producer.id.expiration.ms."""
        broker = self._broker
        if not broker.clock_watch.trusted:
            return
        before = broker.clock.wall_ms() - broker.settings.integer("producer.id.expiration.ms")
        writes: list[Write] = []
        in_use: set[int] = set()
        for runtime in broker.runtimes():
            for partition in runtime.partitions:
                if partition is not None:
                    in_use.add(partition.id)
                    writes += partition.producers.expire(before)
        # Rows of partitions that nobody uses now.
        from gateway.broker.producers import expired

        for number, (key, value) in enumerate(broker.store.scan(Family.DEDUP)):
            if int.from_bytes(key[:4], "big") not in in_use:
                writes += expired(key, value, before)
            if number % 2000 == 1999:
                await asyncio.sleep(0)
        if writes:
            await broker.write(writes)
