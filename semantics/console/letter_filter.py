"""Which dead letters somebody means: all that a filter says must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LetterId = tuple[int, int]
"""Partition and offset in the dead letter topic."""

MOST_IDS = 10_000


class FilterError(ValueError):
    """A filter that makes no sense. The text is for a person."""


class DeadLetter(NamedTuple):
    """One of them, as far as somebody chooses by it. Times in ms since 1970."""

    partition: int
    offset: int
    died_at: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    reason: str
    # how often it was replayed before it died again
    replays: int
    # a batch that cannot be opened: nobody could read it again either
    whole: bool = False
    # how often it was delivered in vain; 0 where its letter does not say
    failed: int = 0
    # values of the headers that are its producer's own
    given: tuple[bytes, ...] = ()

    def header(self, name: str) -> bytes | None:
        """The last value of a header, None where there is none."""
        found = None
        for each, value in self.headers:
            if each == name and value is not None:
                found = value
        return found


class LetterFilter(NamedTuple):
    """Without anything it means all. `text` is looked for in values, keys and what producers said in headers, as it is
    written: in open messages and in records it is no other.
    """

    reason: str | None = None
    key: bytes | None = None
    text: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    since: int | None = None
    until: int | None = None
    ids: frozenset[LetterId] | None = None
    failed_below: int | None = None

    def matches(self, letter: DeadLetter) -> bool:
        """Whether it means this letter."""
        if self.ids is not None and (letter.partition, letter.offset) not in self.ids:
            return False
        if self.reason is not None and letter.reason != self.reason:
            return False
        if self.key is not None and letter.key != self.key:
            return False
        if self.failed_below is not None and letter.failed >= self.failed_below:
            return False
        if self.since is not None and letter.died_at < self.since:
            return False
        if self.until is not None and letter.died_at >= self.until:
            return False
        if any(letter.header(name) != value for name, value in self.headers):
            return False
        if self.text is None:
            return True
        parts = (letter.value, letter.key, *letter.given)
        return any(part is not None and self.text in part for part in parts)

    def within(self, partition: int, start: int, end: int) -> tuple[int, int]:
        """[start, end) of a partition as far as it can hold such letters."""
        if self.ids is None:
            return start, end
        offsets = [offset for number, offset in self.ids if number == partition]
        return (max(start, min(offsets)), min(end, max(offsets) + 1)) if offsets else (end, end)


_FIELDS = frozenset(("reason", "key", "text", "header", "since", "until", "ids", "failedBelow"))


def read_filter(value: object) -> LetterFilter:
    """A filter from JSON. Times are ms since 1970 there by now. Raises FilterError."""
    if not isinstance(value, Mapping):
        # least of all null, which programs write for what is not set
        raise FilterError('A filter is an object, such as {"reason": "REJECTED"}; {} is all letters.')
    unknown = sorted(str(each)[:40] for each in value if each not in _FIELDS)
    if unknown:
        # one that was passed over would mean more letters than somebody wants
        raise FilterError(f"A filter has no field {unknown[0]!r}: it has {', '.join(sorted(_FIELDS))}.")
    unset = sorted(str(name) for name, each in value.items() if each is None)
    if unset:
        raise FilterError(
            f"{unset[0]} of the filter is null: leave it out if letters are not to be chosen by it."
        )
    # any letter has the empty text in it, and no header is none that it lacks
    if empty := [name for name in ("text", "header") if value.get(name) in ("", {})]:
        raise FilterError(
            f"{empty[0]} of the filter is empty: leave it out if letters are not to be chosen by it."
        )
    headers = value.get("header")
    if headers is not None and (
        not isinstance(headers, Mapping) or not all(isinstance(each, str) for each in headers.values())
    ):
        raise FilterError('header is an object with texts, such as {"tenant": "acme"}.')
    ids = value.get("ids")
    if ids is not None and not isinstance(ids, list):
        raise FilterError('ids is a list of the ids of letters, such as ["0:17"].')
    if ids is not None and len(ids) > MOST_IDS:
        raise FilterError(
            f"{len(ids):,} ids are too many: {MOST_IDS:,} is the most. Choose by another field."
        )
    text, key = _text(value, "text"), _text(value, "key")
    return LetterFilter(
        _text(value, "reason"),
        key.encode() if key is not None else None,
        text.encode() if text is not None else None,
        tuple((str(name), each.encode()) for name, each in (headers or {}).items()),
        _time(value, "since"),
        _time(value, "until"),
        frozenset(read_id(each) for each in ids) if ids is not None else None,
        _number(value, "failedBelow"),
    )


def read_id(text: object) -> LetterId:
    """`partition:offset` of a letter in its topic. Raises FilterError."""
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 2 or not all(each.isascii() and each.isdigit() and len(each) < 19 for each in parts):
        raise FilterError(
            f"The id of a letter is PARTITION:OFFSET in its topic, such as 0:17; not {str(text)[:40]!r}."
        )
    return int(parts[0]), int(parts[1])


def _text(value: Mapping[str, object], name: str) -> str | None:
    found = value.get(name)
    if found is not None and not isinstance(found, str):
        raise FilterError(f"{name} is a text.")
    return found


def _number(value: Mapping[str, object], name: str) -> int | None:
    found = value.get(name)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 10:
        found = int(found)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 1):
        raise FilterError(f"{name} is a number from 1 on.")
    return found


def _time(value: Mapping[str, object], name: str) -> int | None:
    found = value.get(name)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise FilterError(f"{name} is a time, in ISO 8601 or in ms since 1970.")
    return found
