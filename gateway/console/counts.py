"""What stands beside the names of pages in the head: open dead letters, jobs that run. Of what its reader may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.redrive.job_rows import RUNNING
from semantics.console.ranking import Order
from store.api import StoreError

if TYPE_CHECKING:
    from gateway.admin.asker import Asker
    from gateway.admin.context import Context

LOOKED = 50
"""Subscriptions whose letters are counted, those with the most: a page may not walk over all."""


def open_letters(context: Context, asker: Asker) -> tuple[int, bool]:
    """(how many, whether there may be more). They may be some seconds old."""
    rows = context.sums.ranking.behind(Order.DEAD_LETTERS, None, LOOKED)
    found = [(place, each) for place, each in rows if each.dead_letters]
    count = sum(each.dead_letters for place, each in found if asker.sees(place[1]))
    return count, len(found) == LOOKED


def running(context: Context, asker: Asker) -> int:
    """Jobs."""
    try:
        rows = context.broker.redrive.rows()
    except StoreError:
        return 0
    return sum(1 for row in rows if row.state == RUNNING and asker.sees(row.topic))
