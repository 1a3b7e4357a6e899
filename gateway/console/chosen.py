"""Which messages a page or a form is about: some that were ticked, or all that a filter matches. Pure.

Open messages of a subscription and dead letters are chosen in the same way. What differs is what a filter has, and how
the admin API and `magnetar-admin` are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from gateway.console.typed import UnreadableError

TICKED = "m."
"""A field of this and an id is a box that was ticked: forms have one field of a name."""
TIMES = ("since", "until")
"""Fields of the filter of dead letters that are times."""
_FLAGS = {"failedBelow": "failed-below"}
"""Fields that are flags of another name."""
_EXACT = frozenset(("key", "header", "consumer"))
"""Fields of filters that are compared as they are, spaces and all."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What somebody chose."""

    FILTERS: ClassVar[tuple[str, ...]] = ()
    """Fields of a filter."""

    filter: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    # all that match the filter, whatever is ticked
    all: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Self:
        """Of a query or a form."""
        return cls(
            {
                name: text
                for name in cls.FILTERS
                # what nobody has typed is no filter; spaces alone are one where they are compared
                if (text := fields.get(name, "") if name in _EXACT else fields.get(name, "").strip())
            },
            _named(fields, TICKED),
            bool(fields.get("all")),
        )

    @property
    def nothing(self) -> bool:
        """Neither ticked nor all."""
        return not self.all and not self.ids

    def where(self) -> dict[str, str]:
        """What stands beside the filter in queries of calls and pages."""
        return {}

    def fields(self) -> dict[str, str]:
        """What a form sends to say the same."""
        kept = {**self.filter, **self.where()}
        return {**kept, "all": "1"} if self.all else {**kept, **{TICKED + each: "1" for each in self.ids}}

    def query(self) -> str:
        """The same in a URL."""
        return urlencode(self.fields())

    def listed(self, **more: str) -> str:
        """The query of the page that lists what the filter matches, with what else there is to say."""
        return urlencode(
            {**self.filter, **self.where(), **{name: each for name, each in more.items() if each}}
        )


@dataclass(frozen=True, slots=True)
class Messages(Chosen):
    """Open messages of a subscription."""

    FILTERS = ("state", "key", "text", "slot", "consumer")

    # as text; empty: all of them
    partition: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Self:
        return replace(super(Messages, cls).read(fields), partition=fields.get("partition", ""))

    def where(self) -> dict[str, str]:
        return {"partition": self.partition} if self.partition else {}

    def body(self) -> dict[str, Any]:
        """What the admin API is to choose."""
        return {"filter": self.filter} if self.all else {"messages": list(self.ids)}

    def filter_words(self) -> list[str]:
        """The filter as flags."""
        found: list[str] = []
        for name, text in self.filter.items():
            for each in text.split(",") if name == "state" else [text]:
                # one word, so that a text that begins with a dash is no flag
                found.append(f"--{name}={each}")
        return found

    def words(self) -> list[str]:
        """The same for `magnetar-admin subscriptions act`."""
        if not self.all:
            return [word for each in self.ids for word in ("-m", each)]
        return self.filter_words() or ["--all"]


@dataclass(frozen=True, slots=True)
class Letters(Chosen):
    """Dead letters, some of them perhaps with another value."""

    FILTERS = ("reason", "key", "text", "header", *TIMES, "failedBelow")

    # the name under which an edit is kept: a link has no value in it that somebody else may have made
    draft: str = ""
    # that edit: by the id of a letter, base64
    edits: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, fields: Mapping[str, str]) -> Self:
        return replace(super(Letters, cls).read(fields), draft=fields.get("draft", ""))

    def fields(self) -> dict[str, str]:
        found = super(Letters, self).fields()
        return {**found, "draft": self.draft} if self.draft else found

    def body(self) -> dict[str, Any]:
        """What the admin API is to choose. Raises UnreadableError."""
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
        """The filter as options of `magnetar-admin dead-letters`."""
        return [f"--{_FLAGS.get(name, name)}={value}" for name, value in self.filter.items()]


def _named(fields: Mapping[str, str], mark: str) -> tuple[str, ...]:
    """Ids in the names of fields."""
    return tuple(name.removeprefix(mark) for name in fields if name.startswith(mark))
