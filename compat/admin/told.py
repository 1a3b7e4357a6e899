"""What docs/ADMIN.md says of each verb, and where a run has found otherwise."""

from __future__ import annotations

import re
from pathlib import Path

from compat.admin.judge import Verdict
from compat.admin.run import Results
from compat.tools import PROJECT

PAGE = PROJECT / "docs" / "ADMIN.md"

_AGREES = {
    "served": {Verdict.SERVED},
    "kept": {Verdict.SERVED},
    "never set": {Verdict.SERVED},
    "in part": {Verdict.PARTLY, Verdict.SERVED},
    "refused": {Verdict.REFUSED},
}


def told(page: Path = PAGE) -> dict[tuple[str, str], str]:
    """By noun and verb: served, kept, never set, in part or refused."""
    found: dict[tuple[str, str], str] = {}
    noun, title = "", ""
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            noun, title = line[3:], ""
        elif match := re.match(r"(Served|Never set): ", line):
            found.update({(noun, verb): match[1].lower() for verb in re.findall(r"`([^`]+)`", line)})
        elif match := re.match(r"\| (kept|in part|refused) \| why \|", line):
            title = match[1]
        elif noun and title and line.startswith("| ") and "|---" not in line:
            cell = line.split(" | ")[0]
            found.update({(noun, verb): title for verb in re.findall(r"`([^`]+)`", cell)})
    return found


def missing(model: dict[str, dict[str, object]], page: Path = PAGE) -> list[str]:
    """Verbs that the tool has and not the page, and the other way round."""
    says, has = told(page).keys(), set[tuple[str, str]]()
    for noun, row in model.items():
        verbs = row["verbs"]
        assert isinstance(verbs, dict)
        has |= {(noun, verb) for verb in verbs}
    return [
        *(f"docs/{page.name} says nothing of {noun} {verb}" for noun, verb in sorted(has - says)),
        *(
            f"docs/{page.name} has {noun} {verb}, and pulsar-admin has not"
            for noun, verb in sorted(says - has)
        ),
    ]


def differences(results: Results, page: Path = PAGE) -> list[str]:
    """Sentences about verbs of which the page says something else than the run. What is wrong is told elsewhere."""
    says = told(page)
    lines = []
    for noun, verb, verdict, _ in results.verdicts():
        said = says.get((noun, verb), "nothing")
        if verdict is not Verdict.WRONG and verdict not in _AGREES.get(said, set()):
            lines.append(f"{noun} {verb} is {verdict}, and docs/{page.name} says: {said}")
    return lines
