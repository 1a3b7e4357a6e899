"""The table of group configs in docs/SEMANTICS.md: `python -m gateway.config.group_page` writes it anew."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gateway.config.group_table import GROUP_CONFIGS, SLOTS, Row
from gateway.config.page_table import put
from gateway.config.page_table import row as line_of
from gateway.config.schema import Kind
from gateway.config.table import SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "SEMANTICS.md"

BEGIN = "<!-- group configs: written by python -m gateway.config.group_page -->"
END = "<!-- end of group configs -->"


_LISTS = {
    "pulsar.key.shared.ranges": f"name:first-last, … with slots from 0 to {SLOTS - 1}",
    "pulsar.failover.priorities": "name=level, … with levels from 0",
}


def table() -> str:
    """The table in Markdown."""
    lines = ["| config | type | default | values | what it is |", "|---|---|---|---|---|"]
    for name, row in GROUP_CONFIGS.items():
        cells = (f"`{name}`", row.setting.kind.name.lower(), _default(row), _values(row), row.setting.doc)
        lines.append(line_of(cells))
    return "\n".join(lines)


def with_table(page: str) -> str:
    """The page with the table as it is now. Raises ValueError when it has no place for one."""
    return put(page, BEGIN, END, table())


def _default(row: Row) -> str:
    if row.setting.default is None:
        return row.open
    text = row.setting.render(row.setting.default) or "empty"
    return f"{text} (`{row.broker}`)" if row.broker and row.effect else text


def _values(row: Row) -> str:
    setting = row.setting
    if setting.kind is Kind.BOOLEAN:
        return "true, false"
    if setting.kind is Kind.LIST:
        return _LISTS[setting.name]
    if row.bounds is not None:
        low, high = (SETTINGS[bound] for bound in row.bounds)
        return f"{low.default} (`{low.name}`) to {high.default} (`{high.name}`)"
    assert setting.check is not None, setting.name
    # what every check says to a value that cannot be good
    said = setting.check("" if setting.kind is Kind.STRING else -(10**30))
    assert said is not None, setting.name
    return said.removeprefix("must be ").removeprefix("must ")


def main() -> int:
    argparse.ArgumentParser(prog="python -m gateway.config.group_page", description=__doc__).parse_args()
    PAGE.write_text(with_table(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
