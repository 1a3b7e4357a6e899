"""Bytes that nobody knows: they are moved aside under names of their own, and durable there before they go here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store import batch
from store.api import Durability
from store.rocksdb.files import Files
from store.rocksdb.quarantine import Quarantine
from store.rocksdb.verify import verify
from tests.store.making import append, bases, content
from tests.store.rocksdb.faults import crash
from tests.store.rocksdb.starting import in_a_loop, opened, segment_files


def test_a_tail_is_cut_off_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.seg"
    # more than what is copied at once
    path.write_bytes(b"good" + bytes(2_500_000) + b"end")
    kept = Quarantine(tmp_path, 7).tail(Files(tmp_path), str(path), 4)
    assert path.read_bytes() == b"good"
    assert kept.read_bytes() == bytes(2_500_000) + b"end"
    assert kept == tmp_path / "quarantine" / "7-a.seg@4"


def test_nothing_that_was_put_aside_is_written_over(tmp_path: Path) -> None:
    """The same place of the same file again, in one start and in the next."""
    path = tmp_path / "a.seg"
    kept = []
    for number, epoch in enumerate((7, 7, 7, 8)):
        path.write_bytes(b"good%d" % number)
        kept.append(Quarantine(tmp_path, epoch).tail(Files(tmp_path), str(path), 4))
    path.write_bytes(b"all of it")
    kept.append(Quarantine(tmp_path, 8).whole(str(path)))
    assert [place.read_bytes() for place in kept] == [b"0", b"1", b"2", b"3", b"all of it"]
    assert len(set(kept)) == 5
    assert not path.exists()


def test_no_folder_is_made_before_something_goes_there(tmp_path: Path) -> None:
    Quarantine(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_tail_that_cannot_be_kept_is_not_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.seg"
    path.write_bytes(b"good and more")

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        Quarantine(tmp_path, 1).tail(Files(tmp_path), str(path), 4)
    assert path.read_bytes() == b"good and more"


@in_a_loop
async def test_bytes_behind_the_last_commit_go_to_quarantine(data: Path) -> None:
    store = await opened(data)
    await store.write([append(1, 0)], Durability.OS)
    await crash(store)
    (path,) = segment_files(data)
    extra = batch.build(1, b"not committed")
    with path.open("ab") as file:
        file.write(extra)
    stranger = path.with_name("00000001-00000000000000000001-7.seg")
    stranger.write_bytes(extra)
    empty = path.with_name("00000001-00000000000000000001-8.seg")
    empty.touch()
    again = await opened(data)
    assert len(again.notices) == 1
    assert f"{2 * len(extra)} bytes" in again.notices[0]
    kept = sorted((data / "quarantine").iterdir())
    assert [each.read_bytes() for each in kept] == [extra, extra]
    assert bases(await content(again.log(1))) == [0]
    assert segment_files(data) == [path]
    await again.write([append(1, 1)], Durability.OS)
    assert bases(await content(again.log(1))) == [0, 1]
    await again.close()
    assert verify(data).ok
