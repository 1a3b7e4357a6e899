"""What stands beside the names of pages in the head: open dead letters, jobs that run. Of what its reader may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.broker.redrive.job_rows import RUNNING
from semantics.console.ranking import Order
from store.api import StoreError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gateway.admin.asker import Asker
    from gateway.admin.context import Context

LOOKED = 50
"""Subscriptions whose letters are counted, those with the most: a page may not walk over all."""
MOST = 500
"""So many are looked at for those, of which the reader may see some."""


def open_letters(context: Context, asker: Asker) -> tuple[int, bool]:
    """(how many, whether there may be more). They may be some seconds old. Those in a topic that several subscriptions
    have are counted once.
    """
    found: dict[Hashable, int] = {}
    sees: dict[str, bool] = {}
    for count, (place, each) in enumerate(
        context.sums.ranking.each_behind(Order.DEAD_LETTERS, None, MOST + 1)
    ):
        if not each.dead_letters:
            # nor have those behind it
            break
        topic = place[1]
        if topic not in sees:
            sees[topic] = asker.sees(topic)
        where: Hashable = each.letters_in or place
        new = sees[topic] and where not in found
        if count == MOST or (new and len(found) == LOOKED):
            return sum(found.values()), True
        if new:
            found[where] = each.dead_letters
    return sum(found.values()), False


def running(context: Context, asker: Asker) -> int:
    """Jobs."""
    try:
        rows = context.broker.redrive.rows()
    except StoreError:
        return 0
    return sum(1 for row in rows if row.state == RUNNING and asker.sees(row.topic))
