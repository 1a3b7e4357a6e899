"""What a run found, counted and said."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from compat.compare.difference import Difference, Reason, differences, reason_for, reasons
from compat.compare.server import Server

_LABEL = re.compile(r"(.*) \((\w+) v(\d+)\)( #\d+)?")


@dataclass
class Result:
    """`served` has for each API the versions of both servers; `compared` counts answers by (api, version)."""

    served: dict[str, tuple[range, range]]
    compared: Counter[tuple[str, int]] = field(default_factory=Counter)
    answers: int = 0
    equal: int = 0
    reordered: int = 0
    explained: list[tuple[Difference, Reason]] = field(default_factory=list)
    unexplained: list[Difference] = field(default_factory=list)
    answers_explained: int = 0
    answers_unexplained: int = 0
    unused: list[Reason] = field(default_factory=list)


def compare(kafka: Server, magnetar: Server, *, of_users: bool = False) -> Result:
    """Compare what both were asked. A question that only one was asked is a difference. `of_users`: it was asked by
    users of different rights, and that brings reasons of its own.
    """
    own = reasons("rights") if of_users else reasons()
    known = own + reasons() if of_users else own
    names = {**kafka.served, **magnetar.served}
    result = Result(
        {name: (kafka.served.get(name, range(0)), magnetar.served.get(name, range(0))) for name in names}
    )
    for label in {**kafka.answers, **magnetar.answers}:
        one, other = kafka.answers.get(label), magnetar.answers.get(label)
        result.answers += 1
        if one is None or other is None:
            found = [
                Difference(
                    label,
                    "<question>",
                    "not asked" if one is None else "asked",
                    "not asked" if other is None else "asked",
                )
            ]
        else:
            if all(one.version in versions for versions in result.served.get(one.api, (range(0),))):
                result.compared[one.api, one.version] += 1
            found = list(differences(label, one.lines, other.lines))
        explained = [(each, reason_for(each, known)) for each in found]
        result.explained += [(each, reason) for each, reason in explained if reason is not None]
        result.unexplained += [each for each, reason in explained if reason is None]
        if not found:
            result.equal += 1
        elif all(reason for _, reason in explained):
            result.answers_explained += 1
        else:
            result.answers_unexplained += 1
    used = {reason for _, reason in result.explained}
    result.unused = [reason for reason in own if reason not in used]
    result.reordered = magnetar.names.reordered
    return result


def summary(result: Result, *, show_all: bool) -> str:
    """The differences, then the figures."""
    shown: list[tuple[Difference, Reason | None]] = [(each, None) for each in result.unexplained]
    if show_all:
        shown += result.explained
    lines = _grouped(shown)
    apis = {api for api, _ in result.compared}
    lines += [
        f"{len(apis)} APIs in {len(result.compared)} versions, {result.answers} answers compared: {result.equal} equal "
        f"byte for byte, {result.answers_explained} different for a reason, {result.answers_unexplained} unexplained",
        f"{len(result.explained)} fields differ for one of {len({r for _, r in result.explained})} reasons, "
        f"{len(result.unexplained)} without one",
    ]
    missing = [
        f"{api} v{version}"
        for api, (kafka, magnetar) in sorted(result.served.items())
        for version in kafka
        if version in magnetar and (api, version) not in result.compared
    ]
    if missing:
        lines.append(f"served by both and not compared: {', '.join(missing)}")
    if result.unused:
        lines.append("reasons that nothing needed: " + "; ".join(reason.why for reason in result.unused))
    return "\n".join(lines)


def _grouped(shown: list[tuple[Difference, Reason | None]]) -> list[str]:
    """What differs in the same way in several versions is said once."""
    groups: dict[tuple[str, str, str, str, str, str], list[int]] = {}
    for found, reason in shown:
        match = _LABEL.fullmatch(found.label)
        label, api, version = (
            (match[1] + (match[4] or ""), match[2], int(match[3])) if match else (found.label, "", -1)
        )
        why = f"   ({reason.why})" if reason is not None else ""
        groups.setdefault(
            (label, api, found.path, _short(found.kafka), _short(found.magnetar), why), []
        ).append(version)
    lines, last = [], ""
    for (label, api, path, kafka, magnetar, why), versions in groups.items():
        head = f"{label} ({api} v{spans(versions)})" if api else label
        if head != last:
            lines.append(head)
            last = head
        lines.append(f"    {path}: kafka {kafka}, magnetar {magnetar}{why}")
    return lines


def spans(versions: list[int]) -> str:
    """1-3, 5 for [1, 2, 3, 5]."""
    spans: list[list[int]] = []
    for version in sorted(set(versions)):
        if spans and spans[-1][1] == version - 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _short(value: str) -> str:
    return value if len(value) < 160 else value[:157] + "..."
