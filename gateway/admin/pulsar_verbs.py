"""The verbs of pulsar-admin, and the calls that each makes: `pulsar_admin.toml` as values."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("pulsar_admin.toml")

BUNDLE_EXAMPLE = "0x00000000_0xffffffff"

_SHORT = {
    "N": "namespaces/*/*",
    "D": "persistent/*/*",
    "P": "persistent/*/*/*",
    "Q": "persistent/*/*/*/subscription/*",
}
"""What stands for a path at its beginning, or behind lookup/v2/topic."""


@dataclass(frozen=True)
class Asked:
    """A call. `path` is below /admin/v2, or whole with a slash first; `*` is any one segment."""

    method: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Asked:
        """`GET N/retention`."""
        method, _, path = text.partition(" ")
        parts = path.split("/")
        return cls(method, "/".join(_SHORT.get(part, part) for part in parts))

    @property
    def below(self) -> bool:
        """Whether it is below /admin/v2."""
        return not self.path.startswith("/")

    @property
    def example(self) -> tuple[str, ...]:
        """Its segments with names for what may be any."""
        segments = self.path.replace("{bundle}", BUNDLE_EXAMPLE).strip("/").split("/")
        return tuple("x" if segment == "*" else segment for segment in segments)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class AdminVerb:
    """A verb of a noun. `ways` are the calls by which it can be done. A way may have no call: the client does it alone.

    A verb that has no way is one of another protocol.
    """

    noun: str
    name: str
    ways: tuple[tuple[Asked, ...], ...]
    hidden: bool = False

    def __str__(self) -> str:
        return f"{self.noun} {self.name}"


@dataclass(frozen=True)
class Remark:
    """A sentence about the verbs that these patterns fit, or what of them is refused (`flag`)."""

    patterns: tuple[str, ...]
    why: str = ""
    flag: str = ""

    def of(self, verb: AdminVerb) -> bool:
        return any(fnmatchcase(str(verb), pattern) for pattern in self.patterns)


@dataclass(frozen=True)
class PulsarAdmin:
    """The whole table."""

    version: str
    hidden: frozenset[str]
    old: dict[str, str]
    """nouns that have the verbs of others, by an older name"""
    verbs: tuple[AdminVerb, ...]
    kept: tuple[Remark, ...]
    partly: tuple[Remark, ...]
    within: Remark
    """refused verbs, whose calls have routes: what these lead to refuses"""

    @property
    def nouns(self) -> list[str]:
        return list(dict.fromkeys(verb.noun for verb in self.verbs))


@cache
def table() -> PulsarAdmin:
    """Read once."""
    with open(SOURCE, "rb") as file:
        found = tomllib.load(file)
    return PulsarAdmin(
        found["version"],
        frozenset(found["hidden"]),
        found["old"],
        tuple(sorted(_verbs(found["verbs"]), key=lambda verb: verb.noun)),
        _remarks(found["kept"]),
        _remarks(found["partly"]),
        Remark(tuple(found["within"]["verbs"])),
    )


def _verbs(nouns: dict[str, Any]) -> Iterator[AdminVerb]:
    for noun, verbs in nouns.items():
        shown = {name: calls for name, calls in verbs.items() if name != "hidden"}
        for name, calls in shown.items():
            yield AdminVerb(noun, name, _ways(calls))
        for name, calls in verbs.get("hidden", {}).items():
            yield AdminVerb(noun, name, _ways(calls), hidden=True)


def _ways(calls: str | list[str]) -> tuple[tuple[Asked, ...], ...]:
    ways = [calls] if isinstance(calls, str) else calls
    return tuple(tuple(Asked.parse(text) for text in way.split(", ") if text) for way in ways)


def _remarks(rows: list[dict[str, Any]]) -> tuple[Remark, ...]:
    return tuple(Remark(tuple(row["verbs"]), row.get("why", ""), row.get("flag", "")) for row in rows)
