"""What time does to groups that nobody asks for: offsets expire, groups without any go, absent members run out.

A sweep walks through all rows of groups, a few at a time so that the loop is free between them, when the gateway starts
and then every offsets.retention.check.interval.ms. What becomes of a group its kind knows (`group_kinds`). Kinds take
groups with members into memory, where their sessions run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.pages import Rows, each_page
from gateway.coordinators import group_rows
from gateway.coordinators.group_rows import RowError
from store.api import Family, StoreError
from store.pending import Asking, drive

if TYPE_CHECKING:
    from gateway.broker.group_kinds import GroupKinds
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class Sweep:
    """The walk over groups of all kinds."""

    def __init__(self, node: Node, kinds: GroupKinds) -> None:
        self._node = node
        self._kinds = kinds

    async def run(self) -> None:
        """One sweep."""
        try:
            rest = drive(self.walk())
            if rest is not None:
                await rest
        except StoreError as error:
            log.error("groups cannot be looked after: %s", error)

    def walk(self) -> Asking[None]:
        """One sweep; others have their turn in between. Raises StoreError."""
        yield from each_page(self._node.store, Family.GROUP, b"", self._take)

    def _take(self, rows: Rows) -> Asking[bool]:
        for key, value in rows:
            group_id = key.decode()
            try:
                yield from self._kinds.sweep(group_id, group_rows.head(value))
            except (RowError, StoreError, KafkaError, ValueError) as error:
                log.error("group %s cannot be looked after: %s", group_id, error)
        return True
