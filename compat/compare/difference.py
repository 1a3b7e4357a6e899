"""Where two answers differ, field by field, and which differences have a reason."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

EXPECTED = Path(__file__).with_name("expected.toml")


class Difference(NamedTuple):
    """`path` leads into the answer: topics.0.error_code."""

    label: str
    path: str
    kafka: Any
    magnetar: Any


class Reason(NamedTuple):
    """A difference that is meant; label and path are shell patterns."""

    label: str
    path: str
    why: str


def differences(label: str, kafka: Any, magnetar: Any, path: str = "") -> Iterator[Difference]:
    """All fields in which two answers differ; lists are compared item by item."""
    if isinstance(kafka, dict) and isinstance(magnetar, dict):
        for key in {**kafka, **magnetar}:
            step = f"{path}.{key}" if path else key
            yield from differences(label, kafka.get(key, "<absent>"), magnetar.get(key, "<absent>"), step)
    elif isinstance(kafka, list) and isinstance(magnetar, list) and len(kafka) == len(magnetar):
        for index, (one, other) in enumerate(zip(kafka, magnetar, strict=True)):
            yield from differences(label, one, other, f"{path}.{index}")
    elif path.endswith("error_message") and kafka is None:
        # Saying why where Kafka does not is no difference.
        return
    elif kafka != magnetar or type(kafka) is not type(magnetar):
        yield Difference(label, path, kafka, magnetar)


def reasons() -> list[Reason]:
    rows = tomllib.loads(EXPECTED.read_text())["expected"]
    return [Reason(row.get("label", "*"), row["path"], row["why"]) for row in rows]


def reason_for(found: Difference, known: list[Reason]) -> Reason | None:
    for reason in known:
        if fnmatch.fnmatchcase(found.label, reason.label) and fnmatch.fnmatchcase(found.path, reason.path):
            return reason
    return None
