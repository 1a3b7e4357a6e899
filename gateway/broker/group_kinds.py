"""The kinds of groups that there are: classic groups, share groups. A group id belongs to one group of one kind.

What concerns groups of all kinds is asked of the registry: who has an id, the list of groups, a deletion, the sweep. It
asks the kind that has the group. No kind knows another: a new one is a class that is a `GroupKind`, and one `add`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gateway.broker.errors import KafkaError
from gateway.broker.loading import after, check_loaded, load
from gateway.broker.pages import ROWS, Rows, each_page
from gateway.coordinators import group_rows, offsets
from gateway.coordinators.group_rows import GroupHead, Kind, RowError
from gateway.wire.errors import Error
from store.api import DeleteRange, Family, StoreError, Write, of_group
from store.pending import Asking, Pending, drive

if TYPE_CHECKING:
    from gateway.broker.node import Node

log = logging.getLogger("magnetar.groups")


class Listed(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    kind: Kind
    members: int


class GroupKind(Protocol):
    """What a kind of groups says and does."""

    @property
    def kind(self) -> Kind:
        """What stands in its rows; `Kind.shown` is its name in ListGroups."""
        ...

    def claims(self, group_id: str) -> bool:
        """Whether it has a group of that id in memory: then a row, if there is one, is not the last word."""
        ...

    def refusal(self, group_id: str) -> KafkaError:
        """What requests of this kind are told about a group of another kind."""
        ...

    def listed(self, group_id: str, head: GroupHead, row: bytes) -> Listed | None:
        """One of its groups, from its row or as it is in memory; None if it is as good as gone. Raises RowError."""
        ...

    def unwritten(self) -> Iterable[Listed]:
        """Groups to be listed that may have no row yet. They may change while this is walked through."""
        ...

    def reads(self, group_id: str, topic: str) -> bool:
        """Whether members of its group subscribe to a topic. Raises KafkaError."""
        ...

    def deletion(self, group_id: str) -> Pending[int]:
        """Delete a group, which must be empty: the error code, or a future of it."""
        ...

    def sweep(self, group_id: str, head: GroupHead) -> Asking[None]:
        """See to one of its groups, by its row: what is over goes. Others have their turn in between. `head` was read
        some time before.

        Raises KafkaError, StoreError, RowError.
        """
        ...

    def release_idle(self) -> None:
        """Let go of groups that nobody asked for since the last call."""
        ...

    def drop(self, group_id: str) -> None:
        """Let go of one of its groups, whoever is in it: its rows are deleted in the open turn."""
        ...

    def yields(self, group_id: str) -> bool:
        """Let go of one of its groups, in favour of another kind that goes on with its offsets, if it has no members.
        Whether it did. Raises StoreError, RowError.
        """
        ...


class GroupKinds:
    """All of them, by the number that stands in rows."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._kinds: dict[int, GroupKind] = {}
        self.changed: set[str] = set()
        """Groups that had something stored, members or offsets, since whoever asks about that took them out."""

    def add(self, kind: GroupKind) -> None:
        assert kind.kind not in self._kinds
        self._kinds[kind.kind] = kind

    def check(self, asking: Kind, group_id: str, row: bytes | None) -> None:
        """Whether a group of the kind that asks may have this id; `row` is what is stored for it.

        Raises KafkaError, as that kind says it, when the id belongs to another. Raises RowError.
        """
        others = [kind for kind in self._kinds.values() if kind.kind != asking]
        if any(kind.claims(group_id) for kind in others) or (
            row is not None and group_rows.head(row).kind != asking
        ):
            raise self._kinds[asking].refusal(group_id)

    def claimed_by_another(self, asking: Kind, group_id: str) -> bool:
        """Whether another kind has a group of that id in memory, which is to overwrite the row of an older one."""
        return any(kind.claims(group_id) for kind in self._kinds.values() if kind.kind != asking)

    def give_way(self, asking: Kind, group_id: str) -> bool:
        """Have another kind let go of an id, for a member that joins. Whether it did: then the id is free until the
        group of the kind that asks is in memory, and nobody may be let in between. Raises KafkaError; Loading.
        """
        owner = self.owner(group_id)
        if owner is None or owner.kind == asking:
            return False
        with reading(group_id):
            return owner.yields(group_id)

    def load(self, group_ids: Iterable[str]) -> Pending[None]:
        """Until the groups of these ids are loaded: they, their members, their offsets."""
        return load(self._node.store, map(of_group, group_ids))

    def owner(self, group_id: str) -> GroupKind | None:
        """The kind that has a group of that id. Raises KafkaError; Loading."""
        for kind in self._kinds.values():
            if kind.claims(group_id):
                return kind
        check_loaded(self._node.store, of_group(group_id))
        with reading(group_id):
            row = self._node.store.get(Family.GROUP, group_rows.key(group_id))
            return self._kinds.get(group_rows.head(row).kind) if row is not None else None

    def listing(self) -> Pending[list[Listed]]:
        """Every group there is, by id; of many each as it is at some moment of that. Raises StoreError."""
        return drive(self._listing())

    def _listing(self) -> Asking[list[Listed]]:
        """Others have their turn after a page of rows, or of groups in memory."""
        found: dict[str, Listed] = {}
        yield from each_page(self._node.store, Family.GROUP, b"", lambda rows: self._list(rows, found))
        for kind in self._kinds.values():
            for count, listed in enumerate(kind.unwritten(), 1):
                found[listed.group_id] = listed
                if count % ROWS == 0:
                    yield asyncio.sleep(0)
        return [found[group_id] for group_id in sorted(found)]

    def _list(self, rows: Rows, found: dict[str, Listed]) -> Asking[bool]:
        for key, row in rows:
            group_id = key.decode()
            try:
                head = group_rows.head(row)
                kind = self._kinds.get(head.kind)
                if kind is None:
                    raise RowError(f"its type is {head.kind}, which this release does not know")
                listed = kind.listed(group_id, head, row)
            except RowError as error:
                log.error("group %s: %s", group_id, error)
                continue
            if listed is not None:
                found[group_id] = listed
        return True
        yield  # a generator, as `each_page` asks for

    def reads(self, listed: Listed, topic: str) -> bool:
        """Whether members of a group subscribe to a topic. Raises KafkaError."""
        return self._kinds[listed.kind].reads(listed.group_id, topic)

    def deletion(self, group_id: str) -> Pending[int]:
        """Delete a group, which must be empty: the error code, or a future of it."""
        return after(self.load((group_id,)), lambda: self._deletion(group_id))

    def _deletion(self, group_id: str) -> Pending[int]:
        try:
            kind = self.owner(group_id)
        except KafkaError as error:
            return error.code
        return kind.deletion(group_id) if kind is not None else Error.GROUP_ID_NOT_FOUND

    async def drop(self, prefix: str) -> None:
        """Delete the groups whose ids begin so, also those with members, with what they have committed. Raises
        StoreError.
        """
        listed = self.listing()
        groups = listed if isinstance(listed, list) else await listed
        writes: list[Write] = []
        for group_id in (each.group_id for each in groups if each.group_id.startswith(prefix)):
            for kind in self._kinds.values():
                kind.drop(group_id)
            members = group_rows.members_prefix(group_id)
            writes += [
                group_rows.delete(group_id),
                DeleteRange(Family.MEMBER, members, members[:-1] + bytes((members[-1] + 1,))),
                DeleteRange(Family.OFFSET, *offsets.group_range(group_id)),
            ]
        if writes:
            await self._node.write(writes)

    def sweep(self, group_id: str, head: GroupHead) -> Asking[None]:
        """See to one group, by its row. Raises KafkaError, StoreError, RowError."""
        kind = self._kinds.get(head.kind)
        if kind is not None:
            yield from kind.sweep(group_id, head)

    def release_idle(self) -> None:
        """Let go of groups that nobody asked for since the last call."""
        for kind in self._kinds.values():
            kind.release_idle()


@contextlib.contextmanager
def reading(group_id: str) -> Iterator[None]:
    """What a client is told when a group's row cannot be read. Raises KafkaError."""
    try:
        yield
    except StoreError as error:
        log.error("group %s cannot be read: %s", group_id, error)
        raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, str(error)) from error
    except RowError as error:
        log.error("group %s: %s", group_id, error)
        raise KafkaError(Error.UNKNOWN_SERVER_ERROR, str(error)) from error
