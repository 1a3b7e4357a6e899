"""Finished rows, kept between runs: the whole takes hours, and a row belongs to its run and not to the page's.

A row is stored when all of its turns are through, and replaced when it is measured again. Each says when and on which
commit; ratios are of one run always.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compat.bench.loads import Load
from compat.bench.runner import Outcome
from compat.bench.servers import SCRATCH

STORE = SCRATCH / "results.json"


@dataclass(frozen=True, slots=True)
class Row:
    """What one run said of one load."""

    outcome: Outcome
    when: str
    commit: str


def load(loads: Sequence[Load], path: Path = STORE) -> list[Row]:
    """The stored rows of these loads, in their order."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    rows = []
    for each in loads:
        found = stored.get(each.name)
        if found is not None:
            rows.append(Row(Outcome(each, found["figures"], found["errors"]), found["when"], found["commit"]))
    return rows


def save(row: Row, path: Path = STORE) -> None:
    """Keep a row; one of the same load before it goes."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    outcome = row.outcome
    stored[outcome.load.name] = {
        "figures": outcome.figures,
        "errors": outcome.errors,
        "when": row.when,
        "commit": row.commit,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(stored, indent=1))
    scratch.replace(path)
