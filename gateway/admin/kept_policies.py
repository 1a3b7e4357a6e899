"""Answers about all policies of a namespace, kept for who asks again.

An answer says what the namespace's row says, and what roles may do. It is good as long as that row is the very one it
was made from, and neither the catalog nor the rows of ACLs count a change since: all are renewed by the commit of a
change, before the change is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gateway.admin.exchange import Reply
    from gateway.broker.namespaces import NamespaceRow
    from semantics.names import Namespace

MOST = 1_000
"""Namespaces whose answers are kept; beyond that all are forgotten."""
LONGEST = 16 * 1024
"""Bytes of an answer that is kept: one is as long as the permissions of a namespace's topics."""

Version = tuple[int, int]
"""Of the catalog, and of what rights go by."""


class _Kept(NamedTuple):
    row: NamespaceRow
    version: Version
    reply: Reply


class KeptPolicies:
    """By namespace. `row` is its row as the catalog gives it."""

    def __init__(self) -> None:
        self._kept: dict[Namespace, _Kept] = {}

    def get(self, namespace: Namespace, row: NamespaceRow, version: Version) -> Reply | None:
        """The answer if it is still what would be said."""
        kept = self._kept.get(namespace)
        if kept is None or kept.row is not row or kept.version != version:
            return None
        return kept.reply

    def keep(self, namespace: Namespace, row: NamespaceRow, version: Version, reply: Reply) -> None:
        """Both as they were before the answer was made."""
        if len(reply.body) > LONGEST:
            self._kept.pop(namespace, None)
            return
        if len(self._kept) >= MOST and namespace not in self._kept:
            self._kept.clear()
        self._kept[namespace] = _Kept(row, version, reply)
