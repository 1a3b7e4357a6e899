"""docs/ADMIN-ANSWERS.md: what a run of all commands found, and how the answers of the admin API compare with Pulsar's.

Each of the two parts is written by a command of its own, which leaves the other as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from compat.admin.answers import Compared, Reason, reasons
from compat.admin.cases import Case
from compat.admin.jars import admin_version
from compat.admin.judge import Verdict
from compat.admin.run import Results
from compat.peers.pulsar.jars import pulsar_version
from compat.tools import PROJECT

PAGE = PROJECT / "docs" / "ADMIN-ANSWERS.md"

_HEAD = """\
# pulsar-admin and its answers, beside Apache Pulsar

Made by `make compat-admin` and `make compare ARGS=--admin`, each of which writes one part; do not edit.
[ADMIN.md](ADMIN.md) says verb by verb what is served."""

_COMMANDS = """\
## The commands

Every verb but `localrun` was run by Pulsar's own `pulsar-admin` {admin}, in a JVM that is kept: set, got, removed, got;
made, listed, deleted; messages produced and counted. *Served* is a verb whose commands did and showed what was
expected, *refused* one that ended with the sentence of a 501, *wrong* everything else. The same commands were run
against Apache Pulsar {pulsar}: a case counts only if it passes there, or says why not.

| noun | verbs | served | in part | refused | wrong | pass on Pulsar |
|---|---|---|---|---|---|---|"""

_ANSWERS = """\
## The answers

Both servers are started empty, are told the same (tenants, namespaces, topics, subscriptions, policies, messages) and
are asked the same. Their answers are compared field by field, as far as both have a field: Magnetar leaves out what has
no meaning here. The status of every answer is such a field, also of a refusal.

**{figures}.**

| fields | what stays different, and why |
|---|---|"""


def write_commands(ours: Results, pulsar: Results, cases: Sequence[Case], path: Path = PAGE) -> None:
    """Put what the last runs found into the page."""
    _write(path, "commands", commands(ours, pulsar, cases))


def write_answers(result: Compared, path: Path = PAGE) -> None:
    """Put what a comparison found into the page."""
    _write(path, "answers", answers(result))


def commands(ours: Results, pulsar: Results, cases: Sequence[Case]) -> str:
    """The first part, from the saved results of both servers."""
    lines = [_COMMANDS.format(admin=admin_version(), pulsar=pulsar_version())]
    told = {(noun, verb): (verdict, why) for noun, verb, verdict, why in ours.verdicts()}
    passed = {(noun, verb) for noun, verb, verdict, _ in pulsar.verdicts() if verdict is Verdict.SERVED}
    order = (Verdict.SERVED, Verdict.PARTLY, Verdict.REFUSED, Verdict.WRONG)
    for noun in [*sorted(ours.findings), ""]:
        there = {key: verdict for key, (verdict, _) in told.items() if noun in ("", key[0])}
        counts = Counter(there.values())
        cells = [noun or "**all**", len(there), *(counts[each] for each in order), len(there.keys() & passed)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    wrong = [(key, why) for key, (verdict, why) in told.items() if verdict is Verdict.WRONG]
    if wrong:
        lines += ["", "Wrong:", "", *(f"- `{noun} {verb}`: `{_code(why)}`" for (noun, verb), why in wrong)]
    apart = [case for case in cases if case.pulsar]
    if apart:
        lines += ["", "Cases that say why Pulsar does not pass them:", ""]
        lines += [f"- {case.noun}, {case.name}: {case.pulsar}" for case in apart]
    clients = [case for case in cases if case.client]
    if clients:
        lines += ["", "Where the client hides the answer of the server:", ""]
        lines += [f"- {case.noun}, {case.name}: {case.client}" for case in clients]
    return "\n".join(lines)


def answers(result: Compared) -> str:
    """The second part."""
    counts = Counter(reason.why for _, reason in result.explained)
    lines = [_ANSWERS.format(figures=_figures(result))]
    lines += [f"| {_count(why, counts)} | {why} |" for why in dict.fromkeys(each.why for each in reasons())]
    if result.unexplained:
        lines += ["", "Unexplained:", "", "| asked | field | Pulsar | Magnetar |", "|---|---|---|---|"]
        for each in result.unexplained:
            cells = (each.question, each.path, each.pulsar, each.magnetar)
            lines.append("| " + " | ".join(f"`{_code(cell)}`" for cell in cells) + " |")
    only = ", ".join(f"`{name}`" for name in sorted(result.only_pulsar))
    lines += ["", f"Fields that only Pulsar's answers to these questions have: {only}."]
    return "\n".join(lines)


def summary(result: Compared) -> str:
    """What differs without a reason, then the figures."""
    lines = [
        f"{each.question}\n    {each.path}: pulsar {each.pulsar[:200]}, magnetar {each.magnetar[:200]}"
        for each in result.unexplained
    ]
    lines.append(_figures(result))
    if result.unused:
        lines.append("reasons that nothing needed: " + "; ".join(map(_name, result.unused)))
    return "\n".join(lines)


def _write(path: Path, part: str, text: str) -> None:
    parts = {"commands": "", "answers": ""}
    if path.exists():
        for name in parts:
            _, _, rest = path.read_text().partition(_begin(name))
            parts[name] = rest.partition(_end(name))[0].strip("\n")
    parts[part] = text
    blocks = [f"{_begin(name)}\n{body}\n{_end(name)}" for name, body in parts.items()]
    path.write_text("\n\n".join([_HEAD, *blocks]) + "\n")


def _begin(part: str) -> str:
    return f"<!-- {part} -->"


def _end(part: str) -> str:
    return f"<!-- end of {part} -->"


def _figures(result: Compared) -> str:
    return (
        f"{result.questions} questions, {result.fields} fields that both have: {result.equal} equal, "
        f"{result.by_type} of the same type (times, ids, sizes, rates), "
        f"{len(result.explained)} different for a reason, {len(result.unexplained)} unexplained"
    )


def _code(text: str) -> str:
    """For a line of Markdown."""
    return text[:400].replace("`", "'").replace("|", "\\|").replace("\n", " ")


def _name(reason: Reason) -> str:
    return f"{reason.question} {reason.path} ({reason.why})"


def _count(why: str, counts: Counter[str]) -> str:
    """How many differ; of what is compared by type nobody counts."""
    by_type = all(reason.by_type for reason in reasons() if reason.why == why)
    return "by type" if by_type else str(counts[why])
