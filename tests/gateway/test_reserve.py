"""The space kept aside: really there, made when there is plenty, given up once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gateway import reserve


def free(count: int) -> Any:
    return mock.patch("gateway.reserve.shutil.disk_usage", return_value=mock.Mock(free=count))


@pytest.mark.parametrize("allocate", [True, False])
def test_it_takes_blocks_and_gives_them_back_once(
    allocate: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not allocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with free(reserve.PLENTY + 1):
        assert reserve.keep(tmp_path)
    status = (tmp_path / reserve.NAME).stat()
    assert status.st_size == reserve.SIZE
    assert status.st_blocks * 512 >= reserve.SIZE, "a hole keeps nothing aside"
    assert reserve.give_up(tmp_path)
    assert not reserve.give_up(tmp_path)


def test_none_is_made_where_space_is_scarce_and_one_that_is_there_stays(tmp_path: Path) -> None:
    with free(reserve.PLENTY):
        assert not reserve.keep(tmp_path)
        assert not (tmp_path / reserve.NAME).exists()
        (tmp_path / reserve.NAME).write_bytes(bytes(reserve.SIZE))
        assert reserve.keep(tmp_path)


def test_one_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    (tmp_path / reserve.NAME).write_bytes(b"x")
    with free(reserve.PLENTY + 1):
        assert reserve.keep(tmp_path)
    assert (tmp_path / reserve.NAME).stat().st_size == reserve.SIZE


def test_a_disk_that_says_no_leaves_nothing_and_no_error(tmp_path: Path) -> None:
    with free(reserve.PLENTY + 1), mock.patch("gateway.reserve._allocate", side_effect=OSError(28, "full")):
        assert not reserve.keep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not reserve.keep(tmp_path / "gone")
