"""Offsets that groups have committed inside of transactions that are open: in force when these commit, or never.

They are rows beside the transaction's own, in the family `txn`:

    key     2 u8, length u32, transactional id, then the key that the row has in the family `offset`
    value   as it is there

A commit outside of a transaction that comes after a staged one beats it, as in Kafka; so does the deletion of the
offset, or of the group. What is staged does not expire.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.coordinators import offsets
from semantics.transactions.rows import RowError
from store.api import Delete, Family, Put, Write

PREFIX = b"\x02"
_LENGTH_AT, _ID_AT = 1, 5


def _prefix(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return PREFIX + len(name).to_bytes(4, "big") + name


def split(key: bytes) -> tuple[str, bytes]:
    """The transactional id, and the key of an offset. Raises RowError."""
    end = _ID_AT + int.from_bytes(key[_LENGTH_AT:_ID_AT], "big")
    if len(key) <= end:
        raise RowError(f"the key {key.hex()} of a staged offset ends too early")
    return key[_ID_AT:end].decode("utf-8", "surrogateescape"), key[end:]


class StagedOffsets:
    """All that is staged on this node. What a method answers is to be stored in the open turn."""

    def __init__(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """`rows`: those whose keys begin with PREFIX. Why some could not be read is in `unreadable`."""
        self.unreadable: list[str] = []
        # transactional id -> key of an offset -> its value
        self._of: dict[str, dict[bytes, bytes]] = {}
        # key of an offset -> the transactional ids that have staged it
        self._by: dict[bytes, set[str]] = {}
        # group -> the keys of its offsets that are staged
        self._of_group: dict[str, set[bytes]] = {}
        for key, value in rows:
            try:
                self._enter(*split(key), value)
            except RowError as error:
                # one of them keeps no gateway from its start
                self.unreadable.append(str(error))

    def _enter(self, transactional_id: str, key: bytes, value: bytes) -> None:
        self._of.setdefault(transactional_id, {})[key] = value
        self._by.setdefault(key, set()).add(transactional_id)
        self._of_group.setdefault(offsets.place(key).group, set()).add(key)

    def _leave(self, transactional_id: str, key: bytes) -> None:
        its = self._of[transactional_id]
        del its[key]
        if not its:
            del self._of[transactional_id]
        those = self._by[key]
        those.discard(transactional_id)
        if not those:
            del self._by[key]
            group_id = offsets.place(key).group
            keys = self._of_group[group_id]
            keys.discard(key)
            if not keys:
                del self._of_group[group_id]

    def stage(self, transactional_id: str, puts: Iterable[Put]) -> list[Write]:
        """Rows of the family `offset` are staged instead of stored."""
        prefix = _prefix(transactional_id)
        writes: list[Write] = []
        for _, key, value in puts:
            self._enter(transactional_id, key, value)
            writes.append(Put(Family.TXN, prefix + key, value))
        return writes

    def end(self, transactional_id: str, *, committed: bool) -> tuple[dict[str, list[Put]], list[Write]]:
        """A transaction ends: what each group has committed by that, and what of it is no longer staged."""
        taken: dict[str, list[Put]] = {}
        prefix = _prefix(transactional_id)
        writes: list[Write] = []
        for key, value in list(self._of.get(transactional_id, {}).items()):
            self._leave(transactional_id, key)
            writes.append(Delete(Family.TXN, prefix + key))
            if committed:
                taken.setdefault(offsets.place(key).group, []).append(Put(Family.OFFSET, key, value))
        return taken, writes

    def beaten(self, keys: Iterable[bytes]) -> tuple[set[str], list[Write]]:
        """These offsets are committed or deleted outside of transactions: what was staged of them before, and by whom,
        is never in force.
        """
        names: set[str] = set()
        writes: list[Write] = []
        for key in keys:
            for transactional_id in list(self._by.get(key, ())):
                self._leave(transactional_id, key)
                names.add(transactional_id)
                writes.append(Delete(Family.TXN, _prefix(transactional_id) + key))
        return names, writes

    def groups_of(self, transactional_id: str) -> set[str]:
        """The groups with something staged by it."""
        return {offsets.place(key).group for key in self._of.get(transactional_id, ())}

    def of_group(self, group_id: str) -> list[bytes]:
        """The keys of a group's offsets that are staged by anybody. Others' are not looked at."""
        return list(self._of_group.get(group_id, ()))

    def __contains__(self, key: bytes) -> bool:
        """Whether an offset is staged by anybody."""
        return key in self._by

    def __len__(self) -> int:
        return len(self._by)

    def renew(self, transactional_id: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What is in memory may not be what is stored, which is `rows`. Raises RowError."""
        for key in list(self._of.get(transactional_id, ())):
            self._leave(transactional_id, key)
        for key, value in rows:
            self._enter(*split(key), value)


def key_of(transactional_id: str, offset: bytes) -> bytes:
    """The key of a row, of the key that it has in the family `offset`."""
    return _prefix(transactional_id) + offset


def prefix_of(transactional_id: str) -> bytes:
    """How the keys of a transactional id's rows begin."""
    return _prefix(transactional_id)
