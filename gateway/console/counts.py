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
MOST = 500
"""Of which its reader may see those, at most."""


def open_letters(context: Context, asker: Asker) -> tuple[int, bool]:
    """(how many, whether there may be more). They may be some seconds old."""
    found, sees = list[int](), dict[str, bool]()
    for place, each in context.sums.ranking.each_behind(Order.DEAD_LETTERS, None, MOST):
        if not each.dead_letters or len(found) == LOOKED:
            break
        topic = place[1]
        if topic not in sees:
            sees[topic] = asker.sees(topic)
        if sees[topic]:
            found.append(each.dead_letters)
    return sum(found), len(found) == LOOKED


def running(context: Context, asker: Asker) -> int:
    """Jobs."""
    try:
        rows = context.broker.redrive.rows()
    except StoreError:
        return 0
    return sum(1 for row in rows if row.state == RUNNING and asker.sees(row.topic))
