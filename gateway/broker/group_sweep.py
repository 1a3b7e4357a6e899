"""What time does to groups that nobody asks for: offsets expire, groups without any go, absent members run
out.

A sweep walks through all rows of groups, a few at a time so that the loop is free between them, when the
gateway starts and then every offsets.retention.check.interval.ms. It takes groups with members into memory,
where their sessions run; deletes offsets that are over their time or whose topic is gone; and deletes empty
groups that have none left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.group_rows import GroupHead, Kind, RowError, State
from store.api import Delete, Family, Outcome, StoreError, Write

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.groups import Groups

log = logging.getLogger("magnetar.groups")

ROWS = 500
"""Rows looked at in one go: about a millisecond."""


class Sweep:
    """The walk. `expire` deletes an empty group."""

    def __init__(self, broker: Broker, groups: Groups, expire: Callable[[str], None]) -> None:
        self._broker = broker
        self._groups = groups
        self._expire = expire

    async def run(self) -> None:
        """One sweep."""
        try:
            for _ in self.walk():
                await asyncio.sleep(0)
        except StoreError as error:
            log.error("groups cannot be looked after: %s", error)

    def walk(self) -> Iterator[None]:
        """One sweep; yields when others should have their turn."""
        for rows in self._chunks(Family.GROUP, b""):
            yield
            for key, value in rows:
                group_id = key.decode()
                try:
                    yield from self._group(group_id, group_rows.head(value))
                except (RowError, StoreError, KafkaError, ValueError) as error:
                    log.error("group %s cannot be looked after: %s", group_id, error)

    def _group(self, group_id: str, head: GroupHead) -> Iterator[None]:
        if head.kind == Kind.SHARE:
            # It commits no offsets, and stays until it is deleted: its subscriptions hold what it has not read.
            if head.state != State.EMPTY:
                self._broker.share_groups.get(group_id)
            return
        if head.state != State.EMPTY:
            # Its members may never come back, and only in memory do their sessions run out.
            self._groups.get(group_id)
        core = self._groups.look(group_id)
        if core is not None:
            state, since, protocol_type, subscribed = (
                core.state,
                core.since,
                core.protocol_type,
                core.subscribed,
            )
        else:
            state, since, protocol_type, subscribed = State(head.state), head.since, head.protocol_type, None
        rule = offsets.retention(protocol_type, state, since, subscribed)
        chunks = 0
        for rows in self._chunks(Family.OFFSET, offsets.group_prefix(group_id)):
            if chunks:
                yield
            chunks += 1
            if self._groups.busy(group_id):
                # A row read now may be replaced by a commit under way: its deletion would come behind that.
                return
            dead = self._dead(rows, rule)
            if dead:
                self._broker.commit(dead, self._done)
            if len(dead) < len(rows):
                return
        idle = core is None or core.idle
        # After several chunks commits may have come in between: the next sweep finds the group without any.
        if chunks <= 1 and state is State.EMPTY and idle and not self._groups.busy(group_id):
            self._expire(group_id)

    def _dead(self, rows: list[tuple[bytes, bytes]], rule: offsets.Retention | None) -> list[Write]:
        """The deletions of those rows that are over."""
        broker = self._broker
        wall = broker.clock.wall_ms()
        keep_for = broker.settings.integer("offsets.retention.minutes") * 60_000
        dead: list[Write] = []
        name, topic_id = "", b""
        for key, value in rows:
            place, committed = offsets.place(key), offsets.decode(value)
            if place.topic != name:
                topic = broker.catalog.get(place.topic)
                name, topic_id = place.topic, topic.topic_id if topic is not None else b""
            if committed.topic_id != topic_id or (
                rule is not None
                and broker.clock_watch.trusted
                and offsets.expired(rule, name, committed, wall, keep_for)
            ):
                dead.append(Delete(Family.OFFSET, key))
        return dead

    def _chunks(self, family: Family, prefix: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """The rows under a prefix, some at a time: no iterator of the store stays open in between."""
        start = prefix
        while True:
            rows = list(self._broker.store.scan(family, prefix, start, ROWS))
            if rows:
                yield rows
            if len(rows) < ROWS:
                return
            start = rows[-1][0] + b"\0"

    def _done(self, outcome: Outcome) -> None:
        if outcome is not None:
            log.warning("expired offsets were not deleted, the next sweep will try again: %s", outcome)
