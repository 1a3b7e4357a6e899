"""Batches that Apache Kafka's Java client 4.3.0 made: the same four records in each compression.

They hold what differs between clients: Java's snappy framing, its LZ4 flags, zstd without a content size,
timestamps that go back (negative deltas), a null key, a null value, empty ones, a header without a value.
"""

from __future__ import annotations

import pytest

from gateway.wire import compression, records
from gateway.wire.records import Record

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value" * 20, [("h", b"1"), ("n", None)]),
    Record(1, 1_700_000_000_005, None, b"value" * 20, []),
    Record(2, 1_699_999_999_990, b"tombstone", None, []),
    Record(3, 1_700_000_000_007, b"", b"", []),
]

JAVA = {
    "none": """
        00000000000000000000012c0000000502cbd51f190000000000030000018bcfe568000000018bcfe568070000000000
        00000700030000000b00000004ea01000000066b6579c80176616c756576616c756576616c756576616c756576616c75
        6576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c75657661
        6c756576616c756576616c756576616c756576616c756576616c75650402680231026e01d601000a0201c80176616c75
        6576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c75657661
        6c756576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c756576616c7565
        001e00130412746f6d6273746f6e6501000c000e06000000
    """,
    "gzip": """
        00000000000000000000007f0000000502b7d2c6fd0001000000030000018bcfe568000000018bcfe568070000000000
        00000700030000000b000000041f8b08000000000000ff7bc5c8c0c0c0969d5a7982b12c31a73495c6040b5306932153
        1ee33546062e2646fad8c920c720cc2254929f9b545c929f97cac8c0c3c0c706f43500e07124b3fb000000
    """,
    "snappy": """
        00000000000000000000008d0000000502f7346e7c0002000000030000018bcfe568000000018bcfe568070000000000
        00000700030000000b0000000482534e4150505900000000010000000100000048fb013cea01000000066b6579c80176
        616c7565fe05007a0500380402680231026e01d601000a0201c8fe74009274005c001e00130412746f6d6273746f6e65
        01000c000e06000000
    """,
    "lz4": """
        00000000000000000000008100000005024ae50bd30003000000030000018bcfe568000000018bcfe568070000000000
        00000700030000000b0000000404224d1860408241000000ff01ea01000000066b6579c80176616c756505004cef0402
        680231026e01d601000a0201740053f009001e00130412746f6d6273746f6e6501000c000e0600000000000000
    """,
    "zstd": """
        00000000000000000000007e00000005028e6fc21a0004000000030000018bcfe568000000018bcfe568070000000000
        00000700030000000b0000000428b52ffd00580c02006403ea01000000066b6579c80176616c75650402680231026e01
        d601000a0201001e00130412746f6d6273746f6e6501000c000e060000000200e30ea9c298ca12010000
    """,
}


@pytest.mark.parametrize("codec", compression.NAMES)
def test_batches_of_the_java_client(codec: str) -> None:
    batch = bytes.fromhex(JAVA[codec])
    found = records.admit(batch)
    assert compression.NAMES[found.codec] == codec
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 3, 11)
    assert (found.count, found.base_timestamp, found.max_timestamp) == (
        4,
        RECORDS[0].timestamp,
        RECORDS[3].timestamp,
    )
    assert records.records(batch) == RECORDS


def test_ours_is_the_same_byte_for_byte() -> None:
    ours = records.build_batch(RECORDS, leader_epoch=5, producer_id=7, producer_epoch=3, base_sequence=11)
    assert ours == bytes.fromhex(JAVA["none"])
    # compressed bytes are each library's own, but what is inside and around them is not
    for codec, name in enumerate(compression.NAMES):
        assert records.reencode(bytes.fromhex(JAVA[name]), compression.NONE) == ours
        again = records.records(records.reencode(ours, codec))
        assert again == RECORDS
