"""Committed offsets that are over their time, or whose topic is gone, are deleted: `gateway.coordinators.offsets` says
when. A commit names the id of its topic and is not seen once that is gone; here its row goes, too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from gateway.broker.group_sweep import pages
from gateway.coordinators import offsets
from store.api import Delete, Family, Outcome, Write

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

    def expire(
        self, group_id: str, rule: offsets.Retention | None, busy: Callable[[], bool]
    ) -> Generator[None, None, bool]:
        """Delete what is over; yields when others should have their turn. Whether the group has no offsets now.

        `busy` says whether something of the group is on its way to the store. Raises StoreError.
        """
        count = 0
        for rows in pages(self._node.store, Family.OFFSET, offsets.group_prefix(group_id)):
            if count:
                yield
            count += 1
            if busy():
                # A row read now may be replaced by a commit under way: its deletion would come behind that.
                return False
            dead = self._dead(rows, rule)
            if dead:
                self._node.commit(dead, _done)
            if len(dead) < len(rows):
                return False
        # After several pages commits may have come in between: the next sweep finds the group without any.
        return count <= 1

    def _dead(self, rows: list[tuple[bytes, bytes]], rule: offsets.Retention | None) -> list[Write]:
        """The deletions of those rows that are over."""
        wall = self._node.clock.wall_ms()
        keep_for = self._node.settings.integer("offsets.retention.minutes") * 60_000
        dead: list[Write] = []
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
                dead.append(Delete(Family.OFFSET, key))
        return dead


def _done(outcome: Outcome) -> None:
    if outcome is not None:
        log.warning("expired offsets were not deleted, the next sweep will try again: %s", outcome)
