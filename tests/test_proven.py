"""The tests that docs/SECURITY.md names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "SECURITY.md"


def named() -> list[tuple[str, str]]:
    """(file, test) of the last table of the page."""
    table = PAGE.read_text().partition("## What is proven, and by which test")[2]
    found = []
    for line in table.splitlines():
        file = ""
        for said in re.findall(r"`([\w/]+\.py|test_\w+)`", line):
            if said.endswith(".py"):
                file = said
            else:
                found.append((file, said))
    return found


def test_each_test_that_the_page_of_security_names_is_there() -> None:
    pairs = named()
    assert len(pairs) > 40
    there = {
        file: {
            node.name
            for node in ast.walk(ast.parse((TESTS / file).read_text()))
            if isinstance(node, ast.FunctionDef)
        }
        for file in {file for file, _ in pairs}
    }
    assert [f"{file}: {name}" for file, name in pairs if name not in there[file]] == []
