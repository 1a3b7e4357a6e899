"""What is asked of pulsar-admin and what a user expects to see: a file in `cases/` for each noun, as README.md says."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("cases")
NOTHING = r"\A\s*(null|\{ *\}|\[ *\])?\s*\Z"
"""What a user sees of a policy that is not set."""
GIVEN = ("namespace", "topic", "compacted", "partitioned", "subscription", "messages", "spread")
"""What may be there before a case begins, in this order."""


class CasesError(Exception):
    """A file of cases that cannot be read; the text says where and why."""


@dataclass(frozen=True)
class Step:
    """One command and what is seen of it. `verb` is None for commands of other nouns: they only prepare."""

    verb: str | None
    arguments: tuple[str, ...]
    seen: str = ""
    """a regular expression in its output; its named groups are names in later commands"""
    absent: bool = False
    """the expression must not be found"""
    fails: bool = False
    """the command ends with 1, and the expression is in its errors"""


@dataclass(frozen=True)
class Case:
    """Commands in a namespace of their own, one after the other."""

    noun: str
    name: str
    given: tuple[str, ...]
    steps: tuple[Step, ...]
    pulsar: str = ""
    """why a real Pulsar does not do what the case expects, or is not asked; "" where it does"""
    on_pulsar: bool = True
    """whether it is asked at all"""
    client: str = ""
    """why the client itself shows something else than the answer, and no error; "" where it does not"""

    @property
    def verbs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.verb for step in self.steps if step.verb is not None))


def nouns() -> list[str]:
    """Those that have cases."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(noun: str, folder: Path = FOLDER) -> list[Case]:
    """The cases of a noun. Raises `CasesError`."""
    path = folder / f"{noun}.toml"
    try:
        table = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise CasesError(f"{path.name}: {error}") from None
    given = tuple(table.get("given", "").split())
    found = [_policy(noun, stem, row, given) for stem, row in table.get("policies", {}).items()]
    found += [_case(noun, row, given) for row in table.get("case", [])]
    names = [case.name for case in found]
    for case in found:
        if names.count(case.name) > 1:
            raise CasesError(f"{path.name}: two cases are called {case.name}")
        if wrong := [each for each in case.given if each not in GIVEN]:
            raise CasesError(f"{path.name}, {case.name}: nothing is called {wrong[0]}")
        if not case.verbs:
            raise CasesError(f"{path.name}, {case.name}: no command of {noun}")
    return found


def not_run(noun: str, folder: Path = FOLDER) -> dict[str, str]:
    """Verbs that are not run, and why."""
    found: dict[str, str] = tomllib.loads((folder / f"{noun}.toml").read_text()).get("not_run", {})
    return found


def filled(text: str, names: Mapping[str, str]) -> str:
    """With the names in braces replaced; braces of other things stay."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: names.get(found[1], found[0]), text)


def _case(noun: str, row: Mapping[str, Any], given: tuple[str, ...]) -> Case:
    steps = tuple(_step(noun, text) for text in row["steps"])
    first = next((step.verb for step in steps if step.verb), "")
    return Case(
        noun,
        row.get("name", first),
        tuple(row["given"].split()) if "given" in row else given,
        steps,
        row.get("pulsar", ""),
        row.get("on_pulsar", True),
        row.get("client", ""),
    )


def _step(noun: str, text: str) -> Step:
    command, _, seen = text.partition(" => ")
    fails = seen.startswith("error ")
    seen = seen.removeprefix("error ")
    absent = seen.startswith("not ")
    seen = seen.removeprefix("not ")
    arguments = tuple(shlex.split(command))
    other, _, verb = arguments[0].rpartition(":")
    return Step(
        verb if other in ("", noun) else None,
        (other or noun, verb, *arguments[1:]),
        NOTHING if seen == "nothing" else seen,
        absent,
        fails,
    )


def _policy(noun: str, stem: str, row: Mapping[str, Any], given: tuple[str, ...]) -> Case:
    """A policy is got, set, got, removed, got."""
    of = row.get("of", "{ns}" if noun == "namespaces" else "{topic}")
    get, sets, remove = (row.get(kind, f"{kind}-{stem}") for kind in ("get", "set", "remove"))
    none, flags = row.get("none", "nothing"), row.get("flags", "")
    more = row.get("get_flags", "")
    texts = [
        f"{get} {of} {more} => {none}",
        f"{sets} {of} {flags}",
        f"{get} {of} {more} => {row['shows']}",
    ]
    if remove:
        texts += [f"{remove} {of} {row.get('remove_flags', more)}", f"{get} {of} {more} => {none}"]
    steps = tuple(_step(noun, text) for text in texts)
    return Case(
        noun,
        stem,
        given,
        steps,
        row.get("pulsar", ""),
        row.get("on_pulsar", True),
        row.get("client", ""),
    )
