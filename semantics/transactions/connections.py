"""Requests of producers of the old protocol that come late, known by the connection they come on. Pure.

A producer that does not change its epoch with every transaction (before KIP-890) may lose its connection, try again on
another, be answered there, and begin its next transaction. If the first try arrives only now, id and epoch are right:
an EndTxn would end the transaction that has just begun, and a Produce would be part of it (KAFKA-17754).

A client opens a connection after it has given up the one before. So a request on a connection older than the newest
one seen is late, and nobody reads its answer. That holds for each API by itself: librdkafka sends EndTxn on a
connection of its own for the coordinator, beside the one for batches.

A proxy that mixes connections of its clients breaks this rule: its users have to do without.
"""

from __future__ import annotations

from semantics.transactions.states import Producer


class NewestConnections:
    """By producer and API, the newest connection that a request came on.

    Connections are numbered in the order in which they were accepted. Only who is the producer is to be noted: else
    one that was fenced, or a stranger, could make the requests of the producer late.
    """

    __slots__ = ("_newest",)

    def __init__(self) -> None:
        # producer id -> its epoch, and by API the newest connection
        self._newest: dict[int, tuple[int, dict[int, int]]] = {}

    def takes(self, producer: Producer, api: int, connection: int) -> bool:
        """Whether a request is to be served: False if the producer has used this API on a newer connection."""
        producer_id, epoch = producer
        known = self._newest.get(producer_id)
        if known is None or known[0] != epoch:
            known = self._newest[producer_id] = epoch, {}
        by_api = known[1]
        newest = by_api.get(api)
        if newest is not None and connection < newest:
            return False
        by_api[api] = connection
        return True

    def forget(self, producer_id: int) -> None:
        """The producer id is not used any more."""
        self._newest.pop(producer_id, None)

    def __len__(self) -> int:
        """How many producer ids are known."""
        return len(self._newest)
