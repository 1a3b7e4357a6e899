"""Findings that no sums of subscriptions tell: jobs over dead letters that did not do all, and transactions that hold
readers up. Which they are says `semantics/console/mishaps.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.open_transactions import places, still_open
from gateway.admin.slices import Pace
from gateway.broker.redrive.job_rows import DONE, RUNNING, STOPPED
from semantics.console.attention import WAITED_LONG, Finding
from semantics.console.mishaps import Ended, Waited, of_job, of_transaction
from semantics.console.replay import dies_again
from semantics.group_names import bare
from semantics.names import dotted
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.ranked import Filter
    from gateway.broker.redrive.job_rows import JobRow

MOST = 50
"""Transactions whose partitions are looked at, the oldest that the asker may see."""


async def mishaps(context: Context, wanted: Filter, pace: Pace) -> list[Finding]:
    """Of both, in no order."""
    return [*await _jobs(context, wanted, pace), *await _transactions(context, wanted, pace)]


async def _jobs(context: Context, wanted: Filter, pace: Pace) -> list[Finding]:
    broker, found = context.broker, list[Finding]()
    try:
        rows = broker.redrive.rows()
    except StoreError:
        # of what cannot be read nothing is known, and the rest is told
        return []
    seen = set[tuple[str, str]]()
    now = broker.clock.wall_ms()
    for row in rows:
        name = row.topic, row.subscription
        if name not in seen:
            seen.add(name)
            standing = context.sums.ranking.get(*name)
            if (
                standing is not None
                and _by_itself(row)
                and wanted.takes(broker, *name)
                and wanted.sees(row.topic)
            ):
                one = Ended(
                    row.id, row.what, *name, row.ended or row.began, row.state, row.why, row.done, row.planned,
                    standing.dead_letters, standing.letters_in,
                )  # fmt: skip
                finding = of_job(one, now, f"{bare(row.subscription)} on {dotted(row.topic)}", dotted)
                found += [finding] if finding is not None else []
        await pace.rest()
    return found


def _by_itself(row: JobRow) -> bool:
    """Whether it ended without having done all, and nobody has stopped it."""
    if row.state == STOPPED:
        return dies_again(row.done, row.died_again)
    return row.state not in (DONE, RUNNING)


async def _transactions(context: Context, wanted: Filter, pace: Pace) -> list[Finding]:
    broker, found = context.broker, list[Finding]()
    now = broker.clock.wall_ms()
    long = [each for each in await still_open(broker, wanted.asker, pace) if now - each[0] >= WAITED_LONG]
    for start, name, one in long[:MOST]:
        waits = [
            Waited(at.topic.name, at.partition, at.held_back)
            async for at in places(broker, wanted.asker, one, pace)
            if at.held_back >= 0 and wanted.takes(broker, at.topic.name, name)
        ]
        if waits:
            finding = of_transaction(name, bare(name), start, waits, now, dotted(waits[0].topic))
            found += [finding] if finding is not None else []
    return found
