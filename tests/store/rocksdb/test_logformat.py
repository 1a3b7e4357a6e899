"""RocksDB's log format: fragments, records over blocks, and where they end that are not whole."""

from __future__ import annotations

from store.rocksdb import powerloss
from store.rocksdb.logformat import BLOCK, HEAD, records
from tests.store.rocksdb.test_powerloss import fragment


def test_records_over_blocks_are_joined() -> None:
    whole = fragment(1, b"one")
    filled = fragment(2, b"a" * (BLOCK - len(whole) - HEAD.size))
    data = whole + filled + fragment(3, b"b" * (BLOCK - HEAD.size)) + fragment(4, b"c")
    found = list(records(data))
    assert [record.data[:1] + record.data[-1:] for record in found] == [b"oe", b"ac"]
    assert found[1].end == len(data)
    assert list(records(data[:-1])) == found[:1]
    assert powerloss.torn_at(data) is None
    assert powerloss.torn_at(data[:-1]) == len(whole)
