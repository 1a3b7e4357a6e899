"""What the commands of a case say of its verbs: served, refused or wrong."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from compat.admin.cases import Step
from compat.admin.recorder import Exchange
from compat.admin.tool import Said

_FAULTS = re.compile(
    r"NullPointerException|ClassCastException|JsonProcessing|JsonMapping|MismatchedInput|^\tat ", re.M
)
"""What a client says that has stumbled over an answer."""
NOT_SERVED = 501


class Verdict(enum.StrEnum):
    SERVED = "served"
    REFUSED = "refused"
    """HTTP 501 with a reason, and the user sees the reason"""
    PARTLY = "served in part"
    """some cases of a verb are served and others refused"""
    WRONG = "wrong"


@dataclass
class Finding:
    """What a run found of one verb. `calls` are "METHOD path", with the names of the case in the path."""

    verdict: Verdict
    why: str = ""
    """of a refusal the server's sentence, of a fault the command and what came of it"""
    calls: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Done:
    """A step as it was run. `seen` is its expression with the names filled in."""

    step: Step
    command: str
    seen: str
    said: Said
    exchanges: Sequence[Exchange]


def judge(done: Sequence[Done], client: bool = False) -> dict[str, Finding]:
    """By verb. What is seen counts up to the first command that is not served: what follows may rest on it.

    `client`: the client hides refusals.
    """
    found: dict[str, Finding] = {}
    sound, changed = True, ""
    for each in done:
        verdict, why = _of_step(each, sound, client)
        verb = each.step.verb
        if verb is None:
            if verdict is not Verdict.SERVED:
                # it prepares, or shows what was done: then what was done is to blame
                if sound and changed and each.seen:
                    _take(found, changed, Finding(Verdict.WRONG, why))
                sound = False
            continue
        _take(found, verb, Finding(verdict, why, [f"{one.method} {one.path}" for one in each.exchanges]))
        if verdict is Verdict.REFUSED and sound and changed and _shows(each):
            # it was done, and nobody can see that
            _take(found, changed, Finding(Verdict.WRONG, f"what it has done is not shown: {why}"))
        if (
            verdict is Verdict.WRONG
            and sound
            and changed not in ("", verb)
            and _shows(each)
            and each.said.code == 0
        ):
            _take(found, changed, Finding(verdict, why))
        sound = sound and verdict is Verdict.SERVED
        if not _shows(each):
            changed = verb
    return found


def fails(each: Done) -> bool:
    """Whether the command has not done, or not shown, what was expected."""
    return _of_step(each, True)[0] is not Verdict.SERVED


def _of_step(each: Done, sound: bool, client: bool = False) -> tuple[Verdict, str]:
    said, step = each.said, each.step
    reasons = _refusals(each.exchanges)
    if said.code is None:
        return Verdict.WRONG, f"{each.command}: no end after {said.ms // 1000} s{_asked(each)}"
    if reasons and (said.code != 0 or client):
        for reason in reasons:
            if reason and (reason in said.err or client):
                return Verdict.REFUSED, reason
        return Verdict.WRONG, f"{each.command}: refused, and the reason is not shown: {_short(said.err)}"
    if _FAULTS.search(said.err) or _FAULTS.search(said.out):
        return (
            Verdict.WRONG,
            f"{each.command}: the client stumbled: {_short(said.err or said.out)}{_asked(each)}",
        )
    if not sound:
        # its answer cannot be expected to be right
        return Verdict.SERVED, ""
    if said.code != (1 if step.fails else 0):
        return (
            Verdict.WRONG,
            f"{each.command}: exit {said.code}: {_short(said.err or said.out)}{_asked(each)}",
        )
    text = said.err if step.fails else said.out
    if each.seen and (re.search(each.seen, text) is None) != step.absent:
        expected = f"{'not ' if step.absent else ''}/{each.seen}/"
        return Verdict.WRONG, f"{each.command}: expected {expected}, got {_short(text)}{_asked(each)}"
    return Verdict.SERVED, ""


def _take(found: dict[str, Finding], verb: str, finding: Finding) -> None:
    """The worst verdict of a verb stays, with the first reason for it; its calls are those of all its commands."""
    old = found.setdefault(verb, finding)
    if old is finding:
        return
    old.calls = list(dict.fromkeys([*old.calls, *finding.calls]))
    order = list(Verdict)
    if order.index(finding.verdict) > order.index(old.verdict):
        old.verdict, old.why = finding.verdict, finding.why


def _shows(each: Done) -> bool:
    """Whether the command only asks: some ask with a body, and so not with GET."""
    verb = each.step.verb or ""
    return verb.startswith("get-") or all(one.method == "GET" for one in each.exchanges)


def _refusals(exchanges: Sequence[Exchange]) -> list[str]:
    """The reason of each 501, "" if it has none."""
    found = []
    for each in exchanges:
        if each.status == NOT_SERVED:
            try:
                found.append(str(json.loads(each.answer).get("reason") or ""))
            except (ValueError, AttributeError):
                found.append("")
    return found


def _asked(each: Done) -> str:
    last = [f"{one.method} {one.path} {one.status}" for one in each.exchanges[-2:]]
    return f" [{'; '.join(last) or 'nothing was asked'}]"


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return repr(shown[:300]) + ("…" if len(shown) > 300 else "")
