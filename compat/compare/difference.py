"""Where two answers differ, field by field, and which differences have a reason."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from compat.compare.canonical import Line

EXPECTED = Path(__file__).with_name("expected.toml")
ABSENT = "<absent>"


class Difference(NamedTuple):
    """`path` leads into the answer: topics.t.error_code."""

    label: str
    path: str
    kafka: str
    magnetar: str


class Reason(NamedTuple):
    """A difference that stays; label, path and both values are shell patterns."""

    label: str
    path: str
    kafka: str
    magnetar: str
    why: str


def differences(label: str, kafka: list[Line], magnetar: list[Line]) -> Iterator[Difference]:
    """All fields in which two answers differ. What is missing as a whole is told once, by its first field.

    Two arrays of different length differ in the items that one lacks, not in their count as well.
    """
    ones, others = ({line.path: line for line in lines} for lines in (kafka, magnetar))
    missing: list[str] = []
    for path in _merged(kafka, magnetar):
        one, other = ones.get(path), others.get(path)
        if one is None or other is None:
            if not any(path.startswith(each) for each in missing):
                found = one or other
                assert found is not None
                missing.append(
                    path.rpartition(".")[0] + "."
                    if _new_parent(path, ones if one is None else others)
                    else path
                )
                yield Difference(
                    label,
                    path,
                    ABSENT if one is None else one.shown,
                    ABSENT if other is None else other.shown,
                )
        elif one.raw != other.raw and not (one.shown.endswith(" items") and other.shown.endswith(" items")):
            yield Difference(label, path, one.shown, other.shown)


def _new_parent(path: str, lines: dict[str, Line]) -> bool:
    """Whether nothing of the struct that the field is in is there."""
    parent = path.rpartition(".")[0]
    return bool(parent) and not any(each.startswith(parent + ".") for each in lines)


def _merged(kafka: list[Line], magnetar: list[Line]) -> list[str]:
    """All paths: Kafka's in their order, the others behind."""
    return list(dict.fromkeys([line.path for line in kafka] + [line.path for line in magnetar]))


def reasons(of: str = "expected") -> list[Reason]:
    """Those of the comparison of all answers, or of `rights`: of the answers to users of different rights."""
    rows = tomllib.loads(EXPECTED.read_text())[of]
    return [
        Reason(
            row.get("label", "*"),
            row.get("path", "*"),
            row.get("kafka", "*"),
            row.get("magnetar", "*"),
            row["why"],
        )
        for row in rows
    ]


def reason_for(found: Difference, known: list[Reason]) -> Reason | None:
    """The first reason that fits."""
    for reason in known:
        if all(
            fnmatch.fnmatchcase(value, pattern)
            for value, pattern in (
                (found.label, reason.label),
                (found.path, reason.path),
                (found.kafka, reason.kafka),
                (found.magnetar, reason.magnetar),
            )
        ):
            return reason
    return None
