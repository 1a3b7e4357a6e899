"""Log compaction: segments written anew with the last record of each key. See README.md in this folder."""
