"""The durable store of one node: batches in segment files, everything else in RocksDB.

`open()` gives one. Read `store/README.md` first, then `group_commit.py`: the commit protocol.
"""

from store.rocksdb.driver import RocksStore
from store.rocksdb.opening import open

__all__ = ["RocksStore", "open"]
