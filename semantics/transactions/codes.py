"""The error codes of Kafka's protocol that a transaction is answered with, and what older requests get for them.

A machine answers as the newest version of each API would. What a client knows is `spoken`:

| code | becomes | for                                                                                       |
|------|---------|-------------------------------------------------------------------------------------------|
| 90   | 47      | InitProducerId below 4; AddPartitionsToTxn, AddOffsetsToTxn, EndTxn below 2 (KIP-588);    |
|      |         | Produce, TxnOffsetCommit, WriteTxnMarkers of any version                                  |
| 120  | 48      | Produce below 11, TxnOffsetCommit and EndTxn below 4 (KIP-890)                            |

To a Java producer 90 is the end, while 47 from a Produce lets it abort and go on with another epoch.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Equal to the wire's of the same names: a test holds them."""

    NONE = 0
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    PRODUCER_FENCED = 90
    TRANSACTION_ABORTABLE = 120


class Api(IntEnum):
    """The APIs of Kafka's protocol that a transaction is part of, by their keys."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28


_EVERY = 1 << 15
_KNOWS_FENCED = {
    Api.PRODUCE: _EVERY,
    Api.INIT_PRODUCER_ID: 4,
    Api.ADD_PARTITIONS_TO_TXN: 2,
    Api.ADD_OFFSETS_TO_TXN: 2,
    Api.END_TXN: 2,
    Api.WRITE_TXN_MARKERS: _EVERY,
    Api.TXN_OFFSET_COMMIT: _EVERY,
}
_KNOWS_ABORTABLE = {Api.PRODUCE: 11, Api.TXN_OFFSET_COMMIT: 4, Api.END_TXN: 4}


def spoken(code: int, api: Api, version: int) -> int:
    """What a request of this version is told for a machine's code."""
    if code == Code.PRODUCER_FENCED and version < _KNOWS_FENCED[api]:
        return Code.INVALID_PRODUCER_EPOCH
    if code == Code.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE.get(api, 0):
        return Code.INVALID_TXN_STATE
    return code
