"""Which cases and client programs there are: cases.toml, and one client.toml in each program's folder."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from compat import tools

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
TOOLS_SECTION = "Kafka's console tools"
RESTART = "restart_"  # a case whose name starts so asks for a restart of the server


@dataclass(frozen=True)
class Client:
    """One program. `cases` are those it must report; `lacks` says of each other one why it has none."""

    name: str
    title: str
    language: str
    folder: Path
    command: list[str]
    cases: list[str]
    lacks: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    """Case -> why it fails through a fault of the client's own."""

    def command_line(self) -> list[str]:
        """The program's command, tools and jars fetched. Raises `tools.MissingToolError`."""
        return [_fill(part) for part in self.command]


@cache
def sections() -> dict[str, dict[str, str]]:
    """Section title -> case -> what it proves, in the order of the table."""
    return _toml(CLIENTS / "cases.toml")


@cache
def not_yet() -> dict[str, str]:
    """Case -> the later issue that brings it. Until then a clear refusal is the right answer."""
    table: dict[str, str] = _toml(CLIENTS / "not_yet.toml")
    return table


@cache
def clients() -> dict[str, Client]:
    """The programs by name, i.e. by folder."""
    found = (_client(path) for path in sorted(CLIENTS.glob("*/client.toml")))
    return {client.name: client for client in found}


def chosen(names: Iterable[str]) -> list[Client]:
    """The programs with these names, all without a name. Raises KeyError with the wrong name."""
    wanted = list(names)
    return [clients()[name] for name in wanted] if wanted else list(clients().values())


def _client(path: Path) -> Client:
    table = _toml(path)
    wanted = table.get("sections") or [title for title in sections() if title != TOOLS_SECTION]
    reasons: dict[str, str] = table.get("lacks", {})
    cases, lacks = [], {}
    for title, names in sections().items():
        for name in names:
            reason = reasons.get(name) or reasons.get(title)
            if title not in wanted:
                continue
            if reason:
                lacks[name] = reason
            else:
                cases.append(name)
    return Client(
        name=path.parent.name,
        title=table["title"],
        language=table["language"],
        folder=path.parent,
        command=table["command"],
        cases=cases,
        lacks=lacks,
        known=table.get("known", {}),
    )


def _toml(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return tomllib.load(file)


def _fill(part: str) -> str:
    """`{python}`, `{java}`, `{jdk}`, `{kcat}` and `{jars:NAME}` in a command."""
    if not part.startswith("{"):
        return part
    name, _, rest = part[1:].partition("}")
    kind, _, argument = name.partition(":")
    if kind == "python":
        return sys.executable + rest
    if kind == "java":
        return str(tools.ensure_java()) + rest
    if kind == "jdk":
        return str(tools.ensure_jdk()) + rest
    if kind == "kcat":
        return str(tools.ensure_kcat()) + rest
    if kind == "jars":
        return str(tools.ensure_jars(argument)) + rest
    raise ValueError(f"{{{name}}} means nothing in a client.toml")
