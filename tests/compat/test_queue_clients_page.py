"""docs/QUEUE-CLIENTS.md shows what `make compat` runs: a block under the name of a file is what stands there. (The
programs in Python and Rust read their blocks from the page.)
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "QUEUE-CLIENTS.md").read_text()
BLOCKS = re.findall(r"<!-- (\S+) -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL)


def shown(path: str) -> str:
    """What lies between the marks "page: begin" and "page: end" of a source file, without its indentation."""
    source = (PROJECT / path).read_text()
    (part,) = re.findall(r"page: begin\n(.*?\n)[^\n]*page: end", source, re.DOTALL)
    return textwrap.dedent(part).strip("\n") + "\n"


@pytest.mark.parametrize(("path", "block"), BLOCKS)
def test_the_page_shows_what_is_run(path: str, block: str) -> None:
    assert block == shown(path)


def test_every_block_of_these_languages_says_where_it_comes_from() -> None:
    assert len(BLOCKS) == len(re.findall(r"^```(?:java|go|javascript)$", PAGE, re.MULTILINE))
