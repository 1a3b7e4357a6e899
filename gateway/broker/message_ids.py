"""Where a record is in Pulsar's words. Every id that is written is made here.

A plain topic's ids have partition -1, as Pulsar's have; a partitioned topic's the partition, also when it is the only
one. Which of the two a topic is stands in its row (`Topic.partitioned`). Whoever reads an id takes both forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semantics.message_id import MessageId

if TYPE_CHECKING:
    from gateway.broker.partition import Partition


def id_at(partition: Partition, offset: int) -> MessageId:
    """The id of the record at an offset. Raises StoreError, LookupError where there is none."""
    ledger, entry, batch_index = partition.log.position_of(offset)
    index = partition.index if partition.topic.topic.partitioned else -1
    return MessageId(ledger, entry, index, batch_index)
