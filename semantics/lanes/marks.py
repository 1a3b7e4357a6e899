"""What the metadata of a commit says of single deliveries: the grammar `ack1;`.

A commit of offset C acknowledges everything open and served below C, but what its metadata names:

    meta  = "ack1;" [ item { ";" item } ] ;
    item  = "s" | verb [ ":" ms ] "=" names ;
    verb  = "a" | "n" | "d" | "r" ;            (* ms: only n and r *)
    names = span { "," ( span | "+" gap [ "*" length ] ) } ;
    span  = offset [ "-" offset ] [ "@" count ] ;      (* both included *)

`@` says which delivery of the records is meant, from 1 on: for share groups, where a lane has an offset for each.

`a` acknowledges, above C as well; `n` is a nack, for so many ms; `d` makes a dead letter; `r` sends to the retry letter
topic, for so many ms; `s` says that the client seeks to C now. A name after the first may count from the end of the
one before: `+2*3` leaves one offset out and names three. Names ascend within an item, and none is named twice.

    ack1;n:5000=17,+3;d=21        17 and 20 come again after five seconds, 21 is a dead letter, all else is done

Metadata that begins with `ack`, a number and no letter behind it is meant to be of this grammar, and refused when it is
not. Any other is somebody else's, and says nothing here. Source: docs/QUEUES.md.
"""

from __future__ import annotations

import enum
import re
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

PREFIX = "ack1;"
ZERO = "\0"
"""librdkafka's bindings for Python send one behind each metadata."""
LARGEST = 2**63 - 1
"""of an offset, and of ms"""

_OURS = re.compile(r"ack\d+(?![A-Za-z\d])", re.ASCII)
_NEARLY = re.compile(r"\s*ack\s*\d*\s*[;:=]", re.ASCII | re.IGNORECASE)
_ITEM = re.compile(r"([andr])(?::(\d{1,19}))?=(.*)", re.ASCII | re.DOTALL)
_SPAN = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?(?:@(\d{1,19}))?", re.ASCII)
_GAP = re.compile(r"\+(\d{1,19})(?:\*(\d{1,19}))?", re.ASCII)


class Verb(enum.StrEnum):
    """What is said of a delivery."""

    ACK = "a"
    NACK = "n"
    DEAD = "d"
    RETRY = "r"


class Mark(NamedTuple):
    """Deliveries `first` to `last`, both included, and what is said of them."""

    first: int
    last: int
    verb: Verb
    delay_ms: int | None = None
    """as the item says; None for the subscription's own"""
    count: int | None = None  # type: ignore[assignment]
    """which delivery of it, if that is said"""


class Marks(NamedTuple):
    """All that one commit says."""

    named: tuple[Mark, ...] = ()
    """ascending, none twice"""
    seek: bool = False
    """the client goes back to the committed offset"""


class MarksError(ValueError):
    """The metadata is meant for a queue topic and cannot be followed: nothing of the commit was taken."""


def parse(metadata: str | None) -> Marks | None:
    """What the metadata says; None for what is not in this grammar. Raises MarksError, with a sentence for a person."""
    said = _OURS.match(metadata or "")
    if metadata is None or said is None:
        return None
    # confluent-kafka for Python sends the byte that ends a string in C
    metadata = metadata.removesuffix(ZERO)
    if not metadata.startswith(PREFIX):
        raise MarksError(
            f"{_short(metadata)} is not known here: write ack1 and a semicolon, and then what is named."
        )
    seek = False
    named: list[Mark] = []
    rest = metadata[len(PREFIX) :]
    for item in rest.split(";") if rest else ():
        if item == "s":
            seek = True
            continue
        found = _ITEM.fullmatch(item)
        if found is None:
            raise MarksError(
                f"{_short(item)} is no item: write s, or one of a n d r with = and offsets, such as n:5000=17,20-25."
            )
        verb = Verb(found[1])
        delay = None if found[2] is None else _number(found[2])
        if delay is not None and verb not in (Verb.NACK, Verb.RETRY):
            raise MarksError(f"{_short(item)}: only n and r can wait.")
        named += [Mark(first, last, verb, delay, count) for first, last, count in _names(found[3])]
    named.sort(key=itemgetter(0, 1))
    for one, other in pairwise(named):
        if other.first <= one.last:
            raise MarksError(f"Offset {other.first} is named twice.")
    return Marks(tuple(named), seek)


def names_deliveries(metadata: str | None) -> bool:
    """Whether metadata is meant to name deliveries, rightly or not: nobody else's begins so."""
    return metadata is not None and _OURS.match(metadata) is not None


def misspelt(metadata: str | None) -> str | None:
    """Why metadata that is somebody else's by the grammar was probably not meant to be, in a sentence; or None."""
    if not metadata or _OURS.match(metadata) or _NEARLY.match(metadata) is None:
        return None
    return (
        f"{_short(metadata.removesuffix(ZERO))} names no deliveries, and the commit acknowledges all below its offset: "
        f"what names them begins with {PREFIX}, in small letters and with nothing before it."
    )


def _names(names: str) -> list[tuple[int, int, int | None]]:
    """Spans, ascending: (first, last, which delivery)."""
    found: list[tuple[int, int, int | None]] = []
    before = -1
    for name in names.split(","):
        count: int | None = None
        if (span := _SPAN.fullmatch(name)) is not None:
            first = _number(span[1])
            last = first if span[2] is None else _number(span[2])
            count = None if span[3] is None else _number(span[3])
        elif (gap := _GAP.fullmatch(name)) is not None:
            if not found:
                raise MarksError(f"{_short(name)} has nothing before it to count from.")
            first = before + _number(gap[1])
            last = first + (1 if gap[2] is None else _number(gap[2])) - 1
        else:
            raise MarksError(f"{_short(name)} names no offsets: write 17, 17-20 or +3.")
        if first == before:
            raise MarksError(f"Offset {first} is named twice.")
        if first < before:
            raise MarksError(f"{_short(name)} comes after {before}: offsets ascend within an item.")
        if last < first:
            raise MarksError(f"{_short(name)} ends before it begins: offsets ascend.")
        if last > LARGEST:
            raise MarksError(f"{_short(name)} ends beyond {LARGEST}.")
        found.append((first, last, count))
        before = last
    return found


def check(marks: Marks, committed: int, granted: int) -> None:
    """Hold the names against a commit of offset `committed`, of a lane whose next offset is `granted`.

    Raises MarksError: an acknowledgement is of what lies at or above it, everything else of what lies below.
    """
    for mark in marks.named:
        if mark.count is not None:
            raise MarksError(
                f"Offset {mark.first} of a lane is one delivery: write it without @{mark.count}."
            )
        if mark.last >= granted:
            raise MarksError(f"Offset {mark.last} was not given to anybody yet: the next one is {granted}.")
        if mark.verb is Verb.ACK:
            if mark.first < committed:
                raise MarksError(
                    f"Offset {mark.first} lies below the committed offset {committed}: it is acknowledged unless it is "
                    "named with n, d or r."
                )
        elif mark.last >= committed:
            raise MarksError(
                f"Offset {mark.last} is named with {mark.verb} and lies above the committed offset {committed}: commit "
                "a higher one."
            )


def _number(digits: str) -> int:
    number = int(digits)
    if number > LARGEST:
        raise MarksError(f"{digits} is larger than {LARGEST}.")
    return number


def _short(text: str) -> str:
    """What a person recognises of it."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
