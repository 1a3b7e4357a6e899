"""The picture of the console that README.md shows: it is there, it is small, and it has the size of what draws it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compat.console.picture import HEIGHT, LARGEST, PICTURE, WIDTH, size_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/CONSOLE.md"])
def test_the_picture_that_is_named_is_the_one_that_is_drawn(page: str) -> None:
    named = re.findall(r"!\[[^\]]+\]\(([^)]*console[^)]*)\)", (ROOT / page).read_text())
    assert [((ROOT / page).parent / each).resolve() for each in named] == [PICTURE]


def test_it_has_its_size() -> None:
    assert size_of(PICTURE) == (WIDTH, HEIGHT)
    assert PICTURE.stat().st_size < LARGEST


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no picture at all, though long enough")
    with pytest.raises(ValueError, match="no PNG"):
        size_of(tmp_path / "x.png")
