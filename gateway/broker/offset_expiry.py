"""Committed offsets that are over their time, or whose topic is gone, are deleted: `gateway.coordinators.offsets` says
when. A commit names the id of its topic and is not seen once that is gone; here its row goes, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.loading import asking, check_loaded
from gateway.broker.pages import Rows, each_page
from gateway.coordinators import offsets
from store.api import Delete, Family, Outcome, of_group
from store.pending import Asking

if TYPE_CHECKING:
    from gateway.broker.catalog import Catalog
    from gateway.broker.clock_watch import ClockWatch
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class OffsetExpiry:
    """For every kind of groups that commits offsets."""

    def __init__(self, node: Node, catalog: Catalog, watch: ClockWatch) -> None:
        self._node = node
        self._catalog = catalog
        self._watch = watch

    def expire(self, group_id: str, rule: offsets.Retention | None, busy: Callable[[], bool]) -> Asking[bool]:
        """Delete what is over; others have their turn in between. Whether the group has no offsets now.

        `busy` says whether something of the group is on its way to the store. Raises StoreError.
        """
        left = False

        def take(rows: Rows) -> Asking[bool]:
            nonlocal left
            left = yield from self._take(rows, group_id, rule, busy)
            return not left

        pages = yield from each_page(self._node.store, Family.OFFSET, offsets.group_prefix(group_id), take)
        # After several pages commits may have come in between: the next sweep finds the group without any.
        return not left and pages <= 1

    def _take(
        self, rows: Rows, group_id: str, rule: offsets.Retention | None, busy: Callable[[], bool]
    ) -> Asking[bool]:
        """Delete what is over of some rows. Whether one is left, or may be."""
        if busy():
            # A row read now may be replaced by a commit under way: its deletion would come behind that.
            return True
        store, dead = self._node.store, self._dead(rows, rule)
        if dead:
            yield from asking(lambda: check_loaded(store, of_group(group_id)))
            if busy():
                return True
            # as they are now: somebody may have committed since they were read
            now = [(key, value) for key in dead if (value := store.get(Family.OFFSET, key)) is not None]
            dead = self._dead(now, rule)
            self._node.commit([Delete(Family.OFFSET, key) for key in dead], _done)
        return len(dead) < len(rows)

    def _dead(self, rows: Rows, rule: offsets.Retention | None) -> list[bytes]:
        """The keys of those rows that are over."""
        wall = self._node.clock.wall_ms()
        keep_for = self._node.settings.integer("offsets.retention.minutes") * 60_000
        dead: list[bytes] = []
        name, topic_id = "", b""
        for key, value in rows:
            place, committed = offsets.place(key), offsets.decode(value)
            if place.topic != name:
                topic = self._catalog.get(place.topic)
                name, topic_id = place.topic, topic.topic_id if topic is not None else b""
            if committed.topic_id != topic_id or (
                rule is not None
                and self._watch.trusted
                and offsets.expired(rule, name, committed, wall, keep_for)
            ):
                dead.append(key)
        return dead


def _done(outcome: Outcome) -> None:
    if outcome is not None:
        log.warning("expired offsets were not deleted, the next sweep will try again: %s", outcome)
