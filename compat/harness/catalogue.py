"""Which cases and client programs there are: cases.toml, and one client.toml in each client's folder."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from compat import tools

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
BUILDS = tools.PROJECT / ".cache" / "compat-build"
SUITES = ("test", "compat")
SECURED = "secured-"  # under [lacks], in front of a way to log in
RESTART = "restart_"  # a case whose name starts so asks for a restart of the server


@dataclass(frozen=True)
class Client:
    """One client. `cases` are those its program must report; `lacks` says of each other one why it has none."""

    name: str
    title: str
    language: str
    folder: Path
    command: list[str]
    cases: list[str]
    lacks: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    """Case -> why it fails through a fault of the client's own."""
    build: list[list[str]] = field(default_factory=list)
    """What must be run, in the folder, before the command can be."""
    suite: str = "test"
    """"test": part of `make test` and `make compat`; "compat": of `make compat` alone."""
    quick: list[str] = field(default_factory=list)
    """Of a client of the suite "compat": the cases that are part of `make test`, too."""
    family: str = ""
    """The chapter of the page that it stands in."""
    limit: float = 45.0
    """Seconds for a case: far more than it takes, as all of them share two cores with the server."""
    ways_lacked: dict[str, str] = field(default_factory=dict)
    """Way to log in -> why the client has none of it."""
    no_reference: str = ""
    """Why Apache Kafka's answers to this client say nothing; "" when they do."""

    @property
    def build_folder(self) -> Path:
        """`{build}`: for what the build makes. It may be removed at any time."""
        return BUILDS / self.name

    @property
    def shared_folder(self) -> Path:
        """`{shared}`: what the programs of one language share. Need not exist."""
        return self.folder.parent / f"{self.name.split('-')[0]}-common"

    def command_line(self) -> list[str]:
        """The program's command, tools and jars fetched. Raises `tools.MissingToolError`."""
        return [self._fill(part) for part in self.command]

    def build_lines(self) -> list[list[str]]:
        """The build's commands, likewise."""
        return [[self._fill(part) for part in command] for command in self.build]

    def _fill(self, part: str) -> str:
        return re.sub(r"\{([a-z]+)(?::([^{}]*))?\}", self._meaning, part)

    def _meaning(self, found: re.Match[str]) -> str:
        kind, argument = found.groups()
        if argument is not None and kind == "jars":
            return str(tools.ensure_jars(argument))
        if argument is None and kind in TOOLS:
            return str(TOOLS[kind]())
        if argument is None and kind in ("folder", "build", "shared"):
            return str(
                {"folder": self.folder, "build": self.build_folder, "shared": self.shared_folder}[kind]
            )
        raise ValueError(f"{found[0]} means nothing in {self.name}/client.toml")


TOOLS: dict[str, Callable[[], Path | str]] = {
    "python": lambda: sys.executable,
    "java": lambda: tools.ensure_java(),
    "jdk": lambda: tools.ensure_jdk(),
    "javac": lambda: tools.ensure_javac(),
    "kcat": lambda: tools.ensure_kcat(),
    "go": lambda: tools.ensure_go(),
    "cargo": lambda: tools.ensure_cargo(),
    "node": lambda: tools.ensure_node(),
    "npm": lambda: tools.ensure_npm(),
}
"""What the placeholders of a client.toml stand for; `{jars:NAME}` besides, and the client's folders."""


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
def ways() -> dict[str, str]:
    """Way to log in -> what it is, as `--secured` takes it."""
    return _toml(CLIENTS / "secured.toml")["ways"]  # type: ignore[no-any-return]


@cache
def script() -> list[str]:
    """The cases that programs run over TLS and logins."""
    return _toml(CLIENTS / "secured.toml")["cases"]["names"]  # type: ignore[no-any-return]


@cache
def clients() -> dict[str, Client]:
    """The clients by name, i.e. by folder, those of `make test` first."""
    tables = {path.parent: _toml(path) for path in sorted(CLIENTS.glob("*/client.toml"))}
    own = {table["section"] for table in tables.values() if "section" in table}
    found = [_client(folder, table, own) for folder, table in tables.items()]
    return {client.name: client for client in sorted(found, key=lambda client: SUITES.index(client.suite))}


def chosen(names: Iterable[str], suites: Collection[str] = SUITES) -> list[Client]:
    """The clients with these names; without a name all of these suites. KeyError with the wrong name."""
    wanted = list(names)
    if wanted:
        return [clients()[name] for name in wanted]
    return [client for client in clients().values() if client.suite in suites]


def tested() -> list[tuple[Client, str]]:
    """What `make test` runs: all cases of the clients of its suite, and a few of some others."""
    return [
        (client, case)
        for client in clients().values()
        for case in (client.cases if client.suite == SUITES[0] else client.quick)
    ]


def _client(folder: Path, table: dict[str, Any], own: Collection[str]) -> Client:
    only = table.get("section")
    reasons: dict[str, str] = table.get("lacks", {})
    cases, lacks = [], {}
    for title, names in sections().items():
        if title != only if only else title in own:
            continue
        for name in names:
            if reason := reasons.get(name) or reasons.get(title):
                lacks[name] = reason
            else:
                cases.append(name)
    return Client(
        name=folder.name,
        title=table["title"],
        language=table["language"],
        folder=folder,
        command=table["command"],
        cases=cases,
        lacks=lacks,
        known=table.get("known", {}),
        build=table.get("build", []),
        suite=table.get("suite", SUITES[0]),
        quick=table.get("quick", []),
        family=table.get("family", table["language"]),
        limit=table.get("limit", Client.limit),
        ways_lacked={
            name.removeprefix(SECURED): reason for name, reason in reasons.items() if name.startswith(SECURED)
        },
        no_reference=table.get("no_reference", ""),
    )


def _toml(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return tomllib.load(file)
