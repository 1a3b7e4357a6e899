"""The durable driver: append-only segment files beside RocksDB."""
