"""A table that is written into a page of docs/ between two lines."""

from __future__ import annotations

from collections.abc import Iterable


def row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def put(page: str, begin: str, end: str, table: str) -> str:
    """The page with the table between these two lines. Raises ValueError when it has no place for one."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page lacks the lines {begin} and {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"
