"""The store: `api` is its protocol; `rocksdb` and `memory` are its drivers."""
