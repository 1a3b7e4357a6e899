"""The calls that `gateway/admin/pulsar_admin.toml` says each verb makes, held against those that were seen."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from compat.admin.cases import Case
from compat.admin.run import Results
from compat.tools import PROJECT

SOURCE = PROJECT / "gateway" / "admin" / "pulsar_admin.toml"

_ANY = "[^/]+"
_SHORT = {
    "N": "namespaces/*/*",
    "D": "persistent/*/*",
    "P": "(non-)?persistent/*/*/*",
    "Q": "(non-)?persistent/*/*/*/subscription/*",
    "{bundle}": "0x[0-9a-f]{8}_0x[0-9a-f]{8}",
}


@cache
def calls(source: Path = SOURCE) -> dict[tuple[str, str], list[re.Pattern[str]]]:
    """By noun and verb: what a call may look like, "METHOD /path"."""
    found = {}
    for noun, verbs in tomllib.loads(source.read_text())["verbs"].items():
        for verb, ways in {**verbs, **verbs.get("hidden", {})}.items():
            if verb != "hidden":
                texts = [ways] if isinstance(ways, str) else ways
                found[noun, verb] = [_pattern(text) for way in texts for text in way.split(", ") if text]
    return found


def unknown(results: Results, cases: Sequence[Case], source: Path = SOURCE) -> Iterator[str]:
    """A sentence for each call that was seen and is not in the table. Commands that do not wait for their answers are
    left out: their calls are seen with others.
    """
    late = {(case.noun, case.name) for case in cases if case.client}
    for noun, verbs in results.findings.items():
        for verb, found in verbs.items():
            known = calls(source).get((noun, verb), [])
            for call in {
                call for name, one in found.items() if (noun, name) not in late for call in one.calls
            }:
                if not any(pattern.fullmatch(call) for pattern in known):
                    yield f"{noun} {verb} makes the call {call}, of which {source.name} says nothing"


def _pattern(text: str) -> re.Pattern[str]:
    method, _, path = text.partition(" ")
    whole = "/".join(_SHORT.get(part, part) for part in path.split("/")).replace("*", _ANY)
    return re.compile(f"{method} {whole if whole.startswith('/') else '/admin/v2/' + whole}")
