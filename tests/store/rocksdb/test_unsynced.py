"""What a checkpoint has to sync, and what is known to be on disk afterwards."""

from __future__ import annotations

from store.rocksdb.unsynced import Unsynced

A, B, OTHER = (1, 0, 1), (1, 100, 2), (300, 0, 1)
"""Two segments of a log, and one of a log whose segments are in another folder."""


def written() -> Unsynced:
    """Three new files, written to under the first generation."""
    unsynced = Unsynced(5)
    for partition, base, number in (A, B, OTHER):
        unsynced.files[partition, base, number] = True
        unsynced.unnamed.add((partition, base, number))
        unsynced.of_logs.setdefault(partition, {})[base, number] = unsynced.generation
    return unsynced


def test_a_snapshot_has_what_was_written_and_all_that_comes_later_is_of_another_generation() -> None:
    unsynced = written()
    unsynced.bytes, unsynced.batches, unsynced.journal_bytes = 1, 2, 3
    snapshot = unsynced.snapshot(77)
    assert snapshot == (5 << 32, 77, {A: True, B: True, OTHER: True})
    assert unsynced.generation == (5 << 32) + 1
    assert (unsynced.files, unsynced.bytes, unsynced.batches, unsynced.journal_bytes) == ({}, 0, 0, 0)
    unsynced.files[A] = False
    assert snapshot.files[A], "it is not the next one's"


def test_what_a_checkpoint_has_synced_is_on_disk_but_for_what_was_written_since_and_what_failed() -> None:
    unsynced = written()
    snapshot = unsynced.snapshot(1)
    unsynced.of_logs[1][0, 1] = unsynced.generation
    unsynced.failed.add(OTHER)
    unsynced.synced(snapshot)
    assert unsynced.of_logs == {1: {(0, 1): unsynced.generation}, 300: {(0, 1): snapshot.generation}}
    assert unsynced.unnamed == {OTHER}


def test_of_what_is_gone_nothing_is_to_be_synced() -> None:
    unsynced = written()
    unsynced.trimmed(A)
    assert (set(unsynced.files), unsynced.unnamed) == ({B, OTHER}, {B, OTHER})
    assert unsynced.of_logs[1] == {(100, 2): unsynced.generation}
    unsynced.gone(B)
    assert unsynced.of_logs[1], "a group that failed may have come after others that did not"
    unsynced.dropped(1)
    unsynced.dropped(1)
    assert (set(unsynced.files), set(unsynced.of_logs)) == ({OTHER}, {300})
    unsynced.trimmed((7, 0, 1))


def test_a_sync_of_a_folder_makes_the_names_in_it_durable_and_no_others() -> None:
    unsynced = written()
    unsynced.folder_synced(2)
    assert unsynced.unnamed == {OTHER}
