"""Whether a data folder can be used: it is made, or one sentence says what is wrong with it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from store.api import DiskFull, Refused, StoreError
from store.rocksdb import folder as folders
from store.rocksdb.folder import check_folder


def test_a_folder_is_made_with_those_above_it_and_their_names_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    monkeypatch.setattr(folders, "sync_folder", lambda path: synced.add(Path(path)))
    data = tmp_path / "a" / "b" / "data"
    check_folder(data)
    assert list(data.iterdir()) == [], "the probe is gone"
    assert synced == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    check_folder(data)
    assert synced == set()


def test_what_is_in_a_folder_stays(tmp_path: Path) -> None:
    for name in ("db", "segments"):
        (tmp_path / name).mkdir()
    (tmp_path / "mark").write_bytes(b"x")
    (tmp_path / "notes.txt").write_bytes(b"somebody's")
    check_folder(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["db", "mark", "notes.txt", "segments"]
    assert (tmp_path / "mark").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "kind"), [("db", "folder"), ("segments", "folder"), ("mark", "file"), ("mark.new", "file")]
)
def test_what_has_the_name_of_something_else_is_named(tmp_path: Path, name: str, kind: str) -> None:
    there = tmp_path / name
    if kind == "folder":
        there.touch()
    else:
        there.mkdir()
    with pytest.raises(StoreError, match=f"{name} is no {kind}, so .* is no data folder of Magnetar"):
        check_folder(tmp_path)
    assert there.exists()


def test_names_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, said in [
        (file, "is a file, or would lie in one"),
        (file / "below" / "it", "is a file, or would lie in one"),
        (tmp_path / ("x" * 300), "too long \\(300 letters\\)"),
        (tmp_path / "nul\0byte", "cannot be the name of a folder"),
    ]:
        with pytest.raises(StoreError, match=said) as raised:
            check_folder(path)
        assert "choose another folder with --data" in str(raised.value)


@pytest.mark.parametrize("action", ["mkdir", "touch"])
@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.ENOSPC, DiskFull, "no space is left"),
        (errno.EROFS, Refused, "read-only"),
        (errno.EMFILE, Refused, "too many files are open"),
        (errno.EIO, StoreError, os.strerror(errno.EIO)),
    ],
)
def test_a_system_that_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
    number: int,
    kind: type[StoreError],
    said: str,
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, action, fails)
    with pytest.raises(StoreError, match=said) as raised:
        check_folder(tmp_path / "data" if action == "mkdir" else tmp_path)
    assert type(raised.value) is kind, "who asks for a folder need not know of unknown outcomes"
