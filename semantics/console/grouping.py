"""Dead letters in groups: by their reason, a header, or what stands at a path in their JSON; and what those of one
group have in common.

What is common is told as JSON paths whose value at least MOST_OF of the letters share that were looked at. Everything
is bounded, since values are an attacker's: groups, paths and values that are told apart, depth and size of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from semantics.console.letter_filter import DeadLetter

MOST_GROUPS = 1000
OTHERS = "…"
"""What is said of letters of groups beyond MOST_GROUPS."""
MOST_JSON = 64 * 1024
"""Bytes of a value that is read as JSON."""
LOOKED_FOR_COMMON = 200
"""Letters of a group that are looked at for what they have in common."""
MOST_OF = 0.9
MOST_TOLD = 8
_PATHS = 64
_VALUES = 8
_DEPTH = 4
LONGEST = 120
"""Characters of what a group is called by: of something longer it is the beginning."""


class GroupingError(ValueError):
    """What nothing can be grouped by. The text is for a person."""


class By:
    """What letters are grouped by: `reason`, `header:NAME`, or `json:$.a.b` with `[0]` for a place in a list."""

    def __init__(self, text: str) -> None:
        """Raises GroupingError."""
        kind, _, rest = text.partition(":")
        if text != "reason" and (kind not in ("header", "json") or not rest):
            raise GroupingError(
                f"Letters are grouped by reason, header:NAME or json:$.a.b; not by {text[:40]!r}."
            )
        self.kind, self.header = kind, rest
        self.path = _path(rest) if kind == "json" else ()

    def of(self, letter: DeadLetter, document: object) -> str | None:
        """The group of a letter, None for one that has no such thing. `document` is what `opened` says of it."""
        if self.kind == "reason":
            return letter.reason
        if self.kind == "header":
            value = letter.header(self.header)
            return value.decode("utf-8", "replace")[:LONGEST] if value is not None else None
        at: Any = document
        for step in self.path:
            if isinstance(step, int):
                found = isinstance(at, list) and step < len(at)
            else:
                found = isinstance(at, dict) and step in at
            if not found:
                return None
            at = at[step]
        return _said(at) if document is not NOTHING else None


NOTHING = object()
"""Of a value that is no JSON."""


def opened(value: bytes | None) -> object:
    """A value as JSON; NOTHING for what is none, or too large or too deep."""
    if (
        value is None
        or len(value) > MOST_JSON
        or not value.lstrip()[:1]
        or value.lstrip()[:1] not in b'{["-0123456789tfn'
    ):
        return NOTHING
    try:
        return json.loads(value, parse_int=_number, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        return NOTHING


def _number(text: str) -> int | float | str:
    # digits without end would take seconds
    if len(text) > 18 or not text.lstrip("-").isdigit():
        return text[:LONGEST]
    return int(text)


@dataclass(slots=True)
class Group:
    """Letters of one kind: how many, the first and the last death in ms since 1970."""

    name: str | None
    count: int = 0
    first: int = 0
    last: int = 0
    sample: str = ""
    """the id of the last one"""
    _looked: int = 0
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, letter: DeadLetter, document: object) -> None:
        """One more."""
        self.first = letter.died_at if not self.count else min(self.first, letter.died_at)
        if not self.count or letter.died_at >= self.last:
            self.last, self.sample = letter.died_at, f"{letter.partition}:{letter.offset}"
        self.count += 1
        if document is NOTHING or self._looked >= LOOKED_FOR_COMMON:
            return
        self._looked += 1
        for path, value in _leaves(document, "$", 0):
            values = self._seen.get(path)
            if values is None:
                if len(self._seen) >= _PATHS:
                    continue
                values = self._seen[path] = {}
            if value in values or len(values) < _VALUES:
                values[value] = values.get(value, 0) + 1

    def common(self) -> list[tuple[str, str, int, int]]:
        """(path, value, in how many letters, of how many that were looked at), those that most share first."""
        found = [
            (path, value, count, self._looked)
            for path, values in self._seen.items()
            for value, count in values.items()
            if count >= MOST_OF * self._looked and self._looked > 1
        ]
        return sorted(found, key=lambda each: (-each[2], each[0]))[:MOST_TOLD]


class Groups:
    """All of them."""

    def __init__(self, by: By) -> None:
        self.by = by
        self._groups: dict[str | None, Group] = {}

    def add(self, letter: DeadLetter, read: bytes = b"") -> None:
        """One more letter; `read` is JSON that its value means by a schema, where it is none itself."""
        document = opened(read or letter.value)
        name = self.by.of(letter, document)
        group = self._groups.get(name)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                name = OTHERS
            group = self._groups.setdefault(name, Group(name))
        group.add(letter, document)

    def sorted(self) -> list[Group]:
        """The largest first."""
        return sorted(
            self._groups.values(), key=lambda each: (-each.count, each.name is None, each.name or "")
        )


def _path(text: str) -> tuple[str | int, ...]:
    """`$.a.b[0]`. Raises GroupingError."""
    if not text.startswith("$") or len(text) > 1000:
        raise GroupingError(f"A path in JSON begins with $, such as $.order.country; not {text[:40]!r}.")
    steps: list[str | int] = []
    for part in text[1:].split(".")[1:] if text[1:2] == "." else ([text[1:]] if len(text) > 1 else []):
        name, *places = part.split("[")
        if name:
            steps.append(name)
        for place in places:
            number = place.removesuffix("]")
            if number == place or not number.isascii() or not number.isdigit() or len(number) > 6:
                raise GroupingError(
                    f"A place in a list is a number in brackets, such as $.lines[0]; not {text[:40]!r}."
                )
            steps.append(int(number))
        if not name and not places:
            raise GroupingError(f"A path in JSON has a name between two dots; not {text[:40]!r}.")
    return tuple(steps)


def _leaves(at: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(at, dict):
        if depth < _DEPTH:
            for name, value in list(at.items())[:_PATHS]:
                yield from _leaves(value, f"{path}.{_cut(name, 40)}", depth + 1)
    elif not isinstance(at, list):
        yield path, _said(at)


def _said(value: object) -> str:
    if isinstance(value, str):
        return _cut(value, LONGEST)
    if isinstance(value, dict | list):
        # as a whole it is nothing that a person would look for
        return "{…}" if isinstance(value, dict) else "[…]"
    return json.dumps(value)


def _cut(text: str, most: int) -> str:
    """The beginning of a text of JSON; with ? for half of a surrogate, which JSON may have and UTF-8 may not."""
    return text[:most].encode("utf-8", "replace").decode()
