"""Every ten seconds what subscriptions have open, how old the oldest of it is, and how fast messages come and go.

What is kept of it is in `semantics/console/series.py`. At most MOST subscriptions are followed; where there are more,
those that have consumers or had them last. The age counts from when a message could first be delivered, as in lists
(`oldest_open`). Finding that out may take a read of the log, so each run does so for BUDGET_NS at most and the next one
goes on with the others; what was not looked at has no age at that point.

The work is done in slices: nobody waits for it. What cannot be read at present is a gap.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from gateway.broker import oldest_open
from gateway.broker.errors import KafkaError
from gateway.broker.first_times import NEVER
from gateway.broker.oldest_open import Rest
from gateway.broker.subscriptions import rows
from semantics.console.series import FIELDS, STEP_MS, Points, Series
from semantics.subscriptions.rows import RowError
from store.api import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.broker.catalog import Catalog
    from gateway.broker.first_times import FirstTimes
    from gateway.broker.node import Node
    from gateway.broker.subscriptions.partition import SubscriptionPartition
    from gateway.broker.subscriptions.registry import Subscriptions
    from gateway.broker.subscriptions.rows import SubscriptionRow

MOST = 1_000
"""Subscriptions that are followed: some 15 KB each."""
LOOK_EVERY = 30
"""Runs between two looks for subscriptions that nobody uses."""
SLICE_NS = 2_000_000
BUDGET_NS = 200_000_000
"""Of time in one run for ages."""

_NOTHING = math.nan


class _Followed:
    """One subscription."""

    def __init__(self, row: SubscriptionRow) -> None:
        self.row = row
        self.series = Series()
        # what had come and gone at a time of the monotonic clock
        self.counted: tuple[int, int, int] | None = None
        self.used_at = -1


class _Sums:
    """Of one subscription over its partitions."""

    __slots__ = ("came", "oldest", "open", "went")

    def __init__(self) -> None:
        self.came = self.went = self.open = 0
        # wall ms; None where nothing is old, NaN where that is not known of any
        self.oldest: float | None = None

    def older(self, at: float | None) -> None:
        if at is not None and (self.oldest is None or math.isnan(self.oldest) or at < self.oldest):
            self.oldest = at

    def age(self, wall: int) -> float:
        """In seconds."""
        if self.oldest is None or math.isnan(self.oldest):
            return 0.0 if self.oldest is None else _NOTHING
        return max(0.0, (wall - self.oldest) / 1000)


class Sampling:
    """A job of housekeeping."""

    def __init__(
        self,
        node: Node,
        *,
        catalog: Catalog,
        subscriptions: Subscriptions,
        times: FirstTimes,
        clock_ns: Callable[[], int],
    ) -> None:
        self._node = node
        self._catalog = catalog
        self._subscriptions = subscriptions
        self._times = times
        self._clock_ns = clock_ns
        self._slice = 0
        self._followed: dict[int, _Followed] = {}
        self._of_all = Series()
        self._all_counted: tuple[int, int, int] | None = None
        self._runs = 0
        # where the next run begins to look for ages
        self._turn = 0

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def slot(self) -> int:
        """The number of the ten seconds that it is."""
        return self._node.clock.monotonic_ms() // STEP_MS

    def of(self, subscription: int) -> Series | None:
        """Of a subscription by its id; None of one that is not followed."""
        found = self._followed.get(subscription)
        return found.series if found is not None else None

    @property
    def of_all(self) -> Series:
        """Of the gateway; what is open is the sum over those that are followed."""
        return self._of_all

    def points(self, of: Series, span: str, fields: Sequence[str] = FIELDS) -> tuple[Points, int]:
        """Of a span up to now, and when the first of them begins: ms since 1970. Raises KeyError."""
        found, clock = of.points(span, self.slot, fields), self._node.clock
        return found, clock.wall_ms() - (clock.monotonic_ms() - found.first * STEP_MS)

    async def sample(self) -> None:
        """Measure all. Call it every ten seconds."""
        self._slice = self._clock_ns()
        if self._runs % LOOK_EVERY == 0:
            await self._look()
        self._runs += 1
        for subscription in self._subscriptions.live():
            self._follow(subscription.row, bool(subscription.consumers))
        slot, spent, whole = self.slot, 0, 0
        open_, oldest = 0.0, 0.0
        followed = list(self._followed.values())
        first = self._turn % len(followed) if followed else 0
        for number, one in enumerate(followed[first:] + followed[:first]):
            begun = self._clock_ns()
            ages = spent < BUDGET_NS
            if ages:
                whole = number + 1
            values = await self._measured(one, ages)
            spent += self._clock_ns() - begun
            if values is None:
                continue
            one.series.put(slot, values)
            open_ += values[2]
            if not math.isnan(values[3]):
                oldest = max(oldest, values[3])
            await self._pause()
        self._turn = first + whole
        metrics, now = self._node.metrics, self._node.clock.monotonic_ms()
        counted = int(metrics.produced_messages.value), int(metrics.deliveries.value), now
        came, went = _rates(self._all_counted, counted)
        self._all_counted = counted
        self._of_all.put(slot, [came, went, open_, oldest])

    # -- which ------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Follow those that nobody uses, as far as there is room, and forget those that are deleted."""
        there: set[int] = set()
        async for row in self._subscriptions.every():
            there.add(row.id)
            if len(self._followed) < MOST:
                self._follow(row, False)
            await self._pause()
        for number in [number for number in self._followed if number not in there]:
            del self._followed[number]

    def _follow(self, row: SubscriptionRow, used: bool) -> None:
        one = self._followed.get(row.id)
        if one is None:
            if len(self._followed) >= MOST:
                longest = min(self._followed.values(), key=lambda each: each.used_at)
                if not used or longest.used_at >= self._runs - 1:
                    return
                del self._followed[longest.row.id]
            one = self._followed[row.id] = _Followed(row)
        one.row = row
        if used:
            one.used_at = self._runs

    # -- measured ---------------------------------------------------------------------------------------------------

    async def _measured(self, one: _Followed, ages: bool) -> list[float] | None:
        """What there is of a subscription at present; None where it cannot be told."""
        row, sums = one.row, _Sums()
        topic = self._catalog.by_id(row.topic_id)
        if topic is None:
            return None
        live = self._subscriptions.in_use(row.group, row.topic_id)
        retry = self._subscriptions.configs.base_of(row) is not None
        try:
            for index, number in enumerate(topic.partitions):
                at = live.partitions.get(index) if live is not None else None
                if at is not None and at.cursor is not None and not at.partition.stale:
                    sums.older(await self._add_live(at, sums, ages, retry))
                else:
                    sums.older(await self._add_resting(one, number, sums, ages, retry))
                await self._pause()
        except (KeyError, IndexError, KafkaError, StoreError, RowError):
            return None
        clock = self._node.clock
        counted = sums.came, sums.went, clock.monotonic_ms()
        came, went = _rates(one.counted, counted)
        one.counted = counted
        return [came, went, float(sums.open), sums.age(clock.wall_ms()) if ages else _NOTHING]

    async def _add_live(
        self, at: SubscriptionPartition, sums: _Sums, ages: bool, retry: bool
    ) -> float | None:
        """Of a partition whose cursor is in memory: since when its oldest message is open."""
        cursor = at.cursor
        assert cursor is not None
        end = at.partition.high_watermark
        sums.came += end
        sums.went += cursor.totals["delivered"]
        backlog = cursor.backlog(end)
        sums.open += backlog
        if not backlog or not ages:
            return None
        return _old(await oldest_open.at_work(self._times, at, self._node.clock.wall_ms(), retry=retry))

    async def _add_resting(
        self, one: _Followed, number: int, sums: _Sums, ages: bool, retry: bool
    ) -> float | None:
        """The same of one whose cursor is not, by its row."""
        store = self._node.store
        log = store.log(number)
        sums.came += log.end_offset
        sums.went += self._subscriptions.counted.of(one.row.id, number).get("delivered", 0)
        prefix = rows.prefix(one.row.id, number)
        stands = rows.stands(store, prefix)
        start = read = log.start_offset
        counts = None
        if stands is not None:
            start, read, counts = max(stands.start, start), max(stands.read, start), stands.counts
        unread = max(0, log.end_offset - read)
        open_ = counts.open if counts is not None and start < read else 0
        sums.open += unread + open_
        if not ages or not unread + open_:
            return None
        waiting = (counts.delayed, counts.backoff) if counts is not None and open_ else (0, 0)
        rest = Rest(start, read, log.end_offset, open_, *waiting)
        wall = self._node.clock.wall_ms()
        oldest, _ = await oldest_open.at_rest(self._times, store, prefix, number, rest, wall, retry=retry)
        return _old(oldest)

    async def _pause(self) -> None:
        if self._clock_ns() - self._slice >= SLICE_NS:
            await asyncio.sleep(0)
            self._slice = self._clock_ns()


def _old(since: int) -> float | None:
    return since if since != NEVER else None


def _rates(before: tuple[int, int, int] | None, now: tuple[int, int, int]) -> tuple[float, float]:
    """How many came and went in a second, by what was counted and when."""
    if before is None or now[2] <= before[2]:
        return _NOTHING, _NOTHING
    seconds = (now[2] - before[2]) / 1000
    # a partition that was thrown away after a failed commit may have counted less
    return max(0, now[0] - before[0]) / seconds, max(0, now[1] - before[1]) / seconds
