"""What each API needs, in docs/SECURITY.md: `python -m gateway.apis.rights_page` writes it anew."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway import apis
from gateway.apis.registry import APIS
from gateway.apis.rights_table import NEEDS, Need
from gateway.config.page_table import put, row
from gateway.wire.errors import Error

PAGE = Path(__file__).parents[2] / "docs" / "SECURITY.md"

BEGIN = "<!-- rights: written by python -m gateway.apis.rights_page -->"
END = "<!-- end of rights -->"


def table() -> str:
    """The table in Markdown: a line for each right that an API asks for."""
    apis.load_all()
    lines = ["| API | needs | for | without it |", "|---|---|---|---|"]
    lines += [row(cells) for key in sorted(APIS) for cells in _rows(key)]
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ValueError when it has no place for one."""
    return put(page, BEGIN, END, table())


def _rows(key: int) -> Iterator[tuple[str, str, str, str]]:
    name = f"{key} {APIS[key].name}"
    if not NEEDS[key]:
        yield name, "nothing", "", ""
    for number, need in enumerate(NEEDS[key]):
        yield ("" if number else name), _rights(need), need.when, _without(need)


def _rights(need: Need) -> str:
    return " or ".join(f"{right.operation.name} on {right.kind.value}" for right in need.any_of)


def _without(need: Need) -> str:
    told = f" (error {int(need.error)})" if need.error is not Error.NONE else ""
    return need.how.value + told


def main() -> int:
    argparse.ArgumentParser(prog="python -m gateway.apis.rights_page", description=__doc__).parse_args()
    PAGE.write_text(with_table(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
