"""What the end of a transaction needs before it can be put into one turn: its partitions, its groups, and the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError, from_store
from gateway.broker.loading import Loading, check_loaded, load, until_loaded
from gateway.broker.producers import row_key
from gateway.wire.errors import Error
from semantics.transactions.states import State
from store.api import Family, StoreError, of_group, of_partition

if TYPE_CHECKING:
    from gateway.broker.committing import Committing
    from gateway.broker.in_use import InUse
    from gateway.broker.node import Node
    from gateway.broker.partition import Partition
    from gateway.broker.staged_offsets import StagedOffsets
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.broker.transacted_acks import TransactedAcks
    from semantics.transactions.transaction import Transaction
    from store.api import Store

PAGE = 500
"""Partitions of a transaction that are looked at before others have their turn."""


class TransactionEnds:
    """See the module. While it is seen to, the transaction takes nothing more."""

    def __init__(
        self,
        node: Node,
        *,
        store: Store,
        in_use: InUse,
        staged: StagedOffsets,
        acks: TransactedAcks,
        groups: Callable[[], Committing],
    ) -> None:
        """`store`: where topics are that are persistent."""
        self._node = node
        self._store = store
        self._in_use = in_use
        self._staged = staged
        self._acks = acks
        self._groups = groups

    async def ready(self, machine: Transaction, *, committed: bool) -> Sequence[Partition]:
        """See to it that the open transaction can be ended in one turn: its groups can be read, what a power cut could
        take of it is on the disk, and the answer are the partitions that have batches of it. Raises KafkaError,
        StoreError.
        """
        while True:
            count = len(machine.partitions)
            found = await self._partitions(machine)
            loading = load(self._node.store, map(of_group, self._staged.groups_of(machine.transactional_id)))
            if loading is not None:
                await loading
            await self._acks.ready(machine.transactional_id)
            if machine.state is not State.ONGOING or machine.head is None:
                return ()
            producer_id = machine.head.producer.id
            if committed and await self._synced(found, producer_id):
                continue
            # from here on nothing waits
            for group_id in self._staged.groups_of(machine.transactional_id):
                self._check_group(group_id)
            try:
                self._acks.check(machine.transactional_id)
            except Loading:
                continue
            if count == len(machine.partitions):
                return [each for each in found if each.transacting.check_end(producer_id, committed)]

    def _check_group(self, group_id: str) -> None:
        """Whether offsets of a group can be committed, or need not be. Raises KafkaError."""
        try:
            self._groups().check(group_id)
        except KafkaError as error:
            if error.code is not Error.INCONSISTENT_GROUP_PROTOCOL:
                raise KafkaError(Error.COORDINATOR_NOT_AVAILABLE, error.text) from error

    async def _synced(self, partitions: Sequence[Partition], producer_id: int) -> bool:
        """Make batches durable that a power cut could take while it leaves the commit. Whether that took some time."""
        logs = [found for each in partitions if (found := each.transacting.to_sync(producer_id)) is not None]
        syncing = self._node.store.sync(logs) if logs else None
        firsts = {(each.id): each for each in partitions}
        if syncing is None:
            return False
        for partition, first in logs:
            # what comes meanwhile is noted again
            firsts[partition].open.unsynced.discard(first)
        try:
            await syncing
        except BaseException:
            for partition, first in logs:
                firsts[partition].open.unsynced.add(first)
            raise
        return True

    async def _partitions(self, machine: Transaction) -> list[Partition]:
        """Those of the open transaction that have batches of it, as far as they still are. Raises KafkaError."""
        found: list[Partition] = []
        assert machine.head is not None
        producer_id = machine.head.producer.id
        for count, (topic_id, index) in enumerate(list(machine.partitions), 1):
            if count % PAGE == 0:
                await asyncio.sleep(0)
            runtime = self._in_use.topic_by_id(topic_id)
            if runtime is None or runtime.deleting:
                # it was deleted: nobody will read it
                continue
            loaded = await until_loaded(partial(self._open_in, runtime, index, producer_id))
            if loaded is not None:
                found.append(loaded)
        return found

    def _open_in(self, runtime: TopicRuntime, index: int, producer_id: int) -> Partition | None:
        """A partition, if a transaction of this producer is open there. Raises KafkaError; Loading."""
        number = runtime.topic.partitions[index]
        if runtime.partitions[index] is None:
            check_loaded(self._store, of_partition(number))
            try:
                if self._store.get(Family.DEDUP, row_key(number, producer_id)) is None:
                    # it was added, and has no batches: not worth loading
                    return None
            except StoreError as error:
                raise from_store(error) from error
        partition = self._in_use.partition_of(runtime, index)
        return partition if partition.producers.open_from(producer_id) >= 0 else None
