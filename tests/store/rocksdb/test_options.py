"""What a store takes when nobody says: a share of what the process may open."""

from __future__ import annotations

import resource

import pytest

from store.rocksdb.options import Options


@pytest.mark.parametrize(
    ("allowed", "files"),
    [(64, 16), (128, 16), (1024, 128), (8192, 1024), (1 << 20, 1024), (resource.RLIM_INFINITY, 1024)],
)
def test_open_files_are_a_share_of_what_the_process_may_open(
    monkeypatch: pytest.MonkeyPatch, allowed: int, files: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (allowed, resource.RLIM_INFINITY))
    assert Options().open_files == files
    assert Options(open_files=5).open_files == 5
