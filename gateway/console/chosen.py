"""Which messages an act of a page is on: some by their ids, or all that a filter matches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

FILTERS = ("state", "key", "text", "slot", "consumer")
PICKED = "m."
"""A field of this and an id is a box that was ticked: forms have one field of a name."""


class Chosen(NamedTuple):
    """`ids` are of no account where `all` is true: then the filter says which."""

    ids: tuple[str, ...]
    filter: dict[str, str]
    # as text; empty: all of them
    partition: str
    all: bool

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Chosen:
        """Of a query or a form."""
        ids = tuple(name[len(PICKED) :] for name in fields if name.startswith(PICKED))
        kept = {name: fields[name] for name in FILTERS if fields.get(name)}
        return cls(ids, kept, fields.get("partition", ""), bool(fields.get("all")))

    @property
    def nothing(self) -> bool:
        return not self.all and not self.ids

    def body(self) -> dict[str, Any]:
        """What the admin API is to choose."""
        return {"filter": self.filter} if self.all else {"messages": list(self.ids)}

    def where(self) -> dict[str, str]:
        """The query of the admin API's calls."""
        return {"partition": self.partition} if self.partition else {}

    def fields(self) -> dict[str, str]:
        """What a form sends to say the same."""
        kept = {**self.filter, **self.where()}
        return {**kept, "all": "1"} if self.all else {**kept, **{PICKED + each: "1" for each in self.ids}}

    def query(self) -> str:
        """The same in a URL."""
        return urlencode(self.fields())

    def listed(self) -> str:
        """The query of the page that lists what the filter matches."""
        return urlencode({**self.filter, **self.where()})

    def words(self) -> list[str]:
        """The same for `magnetar-admin subscriptions act`."""
        if not self.all:
            return [word for each in self.ids for word in ("-m", each)]
        return filter_words(self.filter) or ["--all"]


def filter_words(filter_: Mapping[str, str]) -> list[str]:
    """A filter as flags."""
    found: list[str] = []
    for name, text in filter_.items():
        for each in text.split(",") if name == "state" else [text]:
            # one word, so that a text that begins with a dash is no flag
            found.append(f"--{name}={each}")
    return found
