"""READMEs with a table of files name all that there are beside them; and what a table lists is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_FILE = re.compile(r"`([\w/]+\.py)`")
_UNNAMED = re.compile(r"__\w+__\.py|test_\w+\.py|conftest\.py")
"""What needs no words."""


def listed(readme: Path) -> set[str]:
    """What the first columns of its tables list."""
    rows = [line for line in readme.read_text().splitlines() if line.startswith("|")]
    return {name for row in rows for name in _FILE.findall(row.split("|")[1])}


def files(readme: Path) -> set[str]:
    return {each.name for each in readme.parent.glob("*.py")}


TABLES = [
    each
    for folder in ("compat", "gateway", "magnetar", "pipeline", "semantics", "store", "tests")
    for each in sorted((ROOT / folder).rglob("README.md"))
    if listed(each) & files(each)
]
"""READMEs that list files beside them."""


def name_of(readme: Path) -> str:
    return str(readme.parent.relative_to(ROOT))


def test_packages_have_such_tables() -> None:
    assert {"gateway/broker", "gateway/config", "semantics", "store"} <= set(map(name_of, TABLES))


@pytest.mark.parametrize("readme", TABLES, ids=name_of)
def test_a_table_of_files_names_those_there_are(readme: Path) -> None:
    # some have a sentence before the table
    named = set(_FILE.findall(readme.read_text()))
    assert [each for each in sorted(files(readme) - named) if not _UNNAMED.fullmatch(each)] == [], "not named"
    assert [each for each in sorted(listed(readme)) if not (readme.parent / each).exists()] == [], "not there"
