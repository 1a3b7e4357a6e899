"""Which dead letters a page or a form is about: the filter, those that were ticked, all that match, and edits. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

NAMES = ("reason", "key", "text", "header", "since", "until", "failedBelow")
"""Fields of a filter."""
TIMES = ("since", "until")
"""Those of them that are times."""
TICKED = "l."
"""A field of this name and the id of a letter: it was ticked."""
EDIT = "e."
"""The same, with a new value of the letter, base64."""

_OPTIONS = {"failedBelow": "--failed-below"}


class UnreadableError(ValueError):
    """A form that says what cannot be read. The text is for a person."""


class Chosen(NamedTuple):
    """What somebody chose."""

    filter: Mapping[str, str]
    ids: tuple[str, ...]
    # all that match the filter, whatever is ticked
    all: bool
    # by the id of a letter, base64
    edits: Mapping[str, str]

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> Chosen:
        """From a query or a form."""
        return cls(
            {name: fields[name].strip() for name in NAMES if fields.get(name, "").strip()},
            tuple(name.removeprefix(TICKED) for name in fields if name.startswith(TICKED)),
            bool(fields.get("all")),
            {name.removeprefix(EDIT): value for name, value in fields.items() if name.startswith(EDIT)},
        )

    @property
    def nothing(self) -> bool:
        """Neither ticked nor all."""
        return not self.all and not self.ids

    def query(self, **more: str) -> str:
        """The filter as a query, with what else there is to say."""
        return urlencode({**self.filter, **{name: each for name, each in more.items() if each}})

    def fields(self) -> list[tuple[str, str]]:
        """As hidden fields of a form that goes on from here."""
        found = list(self.filter.items())
        if self.all:
            found.append(("all", "1"))
        else:
            found += [(TICKED + each, "1") for each in self.ids]
        return found + [(EDIT + each, value) for each, value in self.edits.items()]

    def body(self) -> dict[str, Any]:
        """What the admin API is asked. Raises UnreadableError."""
        said: dict[str, Any] = dict(self.filter)
        if "header" in said:
            name, mark, value = said["header"].partition("=")
            if not mark or not name:
                raise UnreadableError("A header is chosen by NAME=VALUE.")
            said["header"] = {name: value}
        if not self.all:
            said["ids"] = list(self.ids)
        found: dict[str, Any] = {"filter": said}
        if self.edits:
            found["edits"] = {each: {"value": value} for each, value in self.edits.items()}
        return found

    def words(self) -> list[str]:
        """As options of `magnetar-admin dead-letters`."""
        return [
            word for name, value in self.filter.items() for word in (_OPTIONS.get(name, f"--{name}"), value)
        ]


def edited(text: str, kind: str) -> str:
    """A value as somebody typed it, as base64. Raises UnreadableError.

    Browsers end lines in a form with CR LF, whatever they were.
    """
    if kind == "base64":
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except (ValueError, binascii.Error):
            raise UnreadableError("That is no base64.") from None
    else:
        data = text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")
    return base64.b64encode(data).decode()


def editable(value: bytes) -> tuple[str, str]:
    """(a value as it is typed, as what): as text where a form gives back the same bytes, else as base64."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\r" in text or "\0" in text:
        return base64.b64encode(value).decode(), "base64"
    return text, "text"
