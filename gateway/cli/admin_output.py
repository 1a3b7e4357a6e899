"""How answers are printed: as pulsar-admin does (`text`), as JSON for programs, as a table for people."""

from __future__ import annotations

from typing import Any

from gateway.cli.terminal import as_json, visible

FORMS = ("text", "json", "table")


def render(value: Any, form: str, title: str = "value") -> str:
    """An answer as text without a last newline. `title` heads a table of bare values."""
    if form == "json":
        return as_json(value, 2)
    return _table(value, title) if form == "table" else _plain(value)


def _plain(value: Any) -> str:
    """A list by line, a flat map as `key    value`, an object as JSON in Jackson's way, nothing as `null`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        return "\n".join(_bare(item) for item in value)
    return jackson(value)


def plain_map(value: dict[str, Any]) -> str:
    """A map whose keys are data, not fields: `key`, four spaces, `value`, a line each."""
    return "\n".join(f"{key}    {_bare(item)}" for key, item in value.items())


def jackson(value: Any, indent: int = 0) -> str:
    """JSON as Java's Jackson lays it out, which scripts over pulsar-admin's output may lean on."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        inner = " " * (indent + 2)
        fields = [f"{inner}{_scalar(key)} : {jackson(item, indent + 2)}" for key, item in value.items()]
        return "{\n" + ",\n".join(fields) + "\n" + " " * indent + "}"
    if isinstance(value, list):
        return "[ " + ", ".join(jackson(item, indent) for item in value) + " ]" if value else "[ ]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return as_json(value)


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else _scalar(value)


def _table(value: Any, title: str) -> str:
    if isinstance(value, dict):
        rows = _flat(value, "")
        return columns(["name", "value"], [[key, _bare(item)] for key, item in rows])
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        keys = list(dict.fromkeys(key for item in value for key in item))
        return columns(keys, [[_bare(item.get(key, "")) for key in keys] for item in value])
    items = value if isinstance(value, list) else [value]
    return columns([title], [[_bare(item)] for item in items])


def _flat(value: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
    """Fields of objects within as `outer.inner`."""
    rows: list[tuple[str, Any]] = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            rows.extend(_flat(item, f"{prefix}{key}."))
        else:
            rows.append((prefix + key, item))
    return rows


def columns(heads: list[str] | None, rows: list[list[str]], widths: list[int] | None = None) -> str:
    """A table, without heads rows only. `widths` are the least of the columns; without them what is in them decides.
    What cannot be seen in a cell is escaped: it would break the line, or make it read otherwise.
    """
    rows = [[visible(cell) for cell in row] for row in rows]
    if widths is None:
        shown = rows if heads is None else [heads, *rows]
        widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]

    def line(cells: list[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    top = [] if heads is None else [line(heads), line(["-" * width for width in widths])]
    return "\n".join([*top, *[line(row) for row in rows]])


def hexdump(payload: bytes) -> str:
    """Bytes as text where they are text, else sixteen a line in hexadecimal with the printable ones beside."""
    try:
        text = payload.decode()
        if all(letter.isprintable() or letter in "\n\t" for letter in text):
            return text
    except UnicodeDecodeError:
        pass
    lines = []
    for at in range(0, len(payload), 16):
        row = payload[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines)
