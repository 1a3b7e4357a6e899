"""Pulsar's permissions: what roles may do in a namespace or on a topic, granted, taken back and told by rows of ACLs.

So what Kafka's tools allow shows here, where Pulsar has words for it, and the other way round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.broker.access import Change
from semantics import names
from semantics.access import bundles
from semantics.access.acl import ANYWHERE, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway.broker.access import Access
    from semantics.access.acl import Acl
    from semantics.names import Namespace

    Granted = dict[str, list[str]]
    """By role, its actions."""

PAGE = 500
"""Rows that are read before the loop may do something else."""
EVERY = ANYWHERE
"""In place of a topic's name: all topics of the namespace."""


class Permissions:
    """Topics are named as their namespace calls them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def on(self, namespace: Namespace, topic: str = EVERY) -> Granted:
        """By role, what is allowed on a topic itself, or on all topics of a namespace."""
        return bundles.granted(self._access.table.named(namespace, ResourceType.TOPIC, topic))

    async def on_topics(self, namespace: Namespace) -> dict[str, Granted]:
        """By topic, by role, what is allowed on topics themselves; whether these are there or not."""
        by_topic: dict[str, list[Acl]] = {}
        for count, row in enumerate(self._access.table.rows(namespace, ResourceType.TOPIC)):
            if count % PAGE == PAGE - 1:
                await asyncio.sleep(0)
            if bundles.is_grant(row) and names.is_local(row.name):
                by_topic.setdefault(row.name, []).append(row)
        told = {topic: bundles.granted(rows) for topic, rows in sorted(by_topic.items())}
        return {topic: granted for topic, granted in told.items() if granted}

    async def grant(
        self,
        namespace: Namespace,
        topic: str,
        role: str,
        actions: Sequence[str],
        check: Callable[[Granted], object] = lambda _: None,
    ) -> None:
        """The role may do these from now on, and nothing else that Pulsar has words for. `check` is called with all
        that is allowed there then. Raises KafkaError, and what `check` raises.
        """

        def change() -> Change:
            check({**self.on(namespace, topic), role: list(actions)})
            return self._instead(namespace, topic, role, actions)

        await self._access.change(change)

    async def revoke(self, namespace: Namespace, topic: str, role: str) -> bool:
        """Whether the role might do something. Raises KafkaError."""
        found: list[Acl] = []

        def change() -> Change:
            made = self._instead(namespace, topic, role, ())
            found.extend(made.remove)
            return made

        await self._access.change(change)
        return bool(found)

    def first(self, namespace: Namespace, granted: Granted) -> Change:
        """What a namespace is made with."""
        rows = [
            row for role, actions in granted.items() for row in bundles.rows(namespace, EVERY, role, actions)
        ]
        return Change(add=rows, pulsars=True)

    def _instead(self, namespace: Namespace, topic: str, role: str, actions: Iterable[str]) -> Change:
        """Rows for these actions, in place of those by which a role may do something."""
        access = self._access
        add = bundles.rows(namespace, topic, role, actions)
        remove = [row for row in bundles.by_which(namespace, topic, role, access.table) if row not in add]
        if bundles.groups_row(namespace, role) not in add:
            remove += access.unused_groups(namespace, remove)
        return Change(add, remove, pulsars=True)
