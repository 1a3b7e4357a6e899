"""Run cases against a server, each in a namespace of its own, and keep what was found."""

from __future__ import annotations

import fcntl
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from compat.admin.cases import FOLDER, Case, CasesError, Step, filled, not_run
from compat.admin.jars import admin_version, ensure_jars
from compat.admin.judge import Done, Finding, Verdict, fails, judge
from compat.admin.servers import Server
from compat.admin.tool import ToolError
from compat.tools import PROJECT

RESULTS = PROJECT / ".cache" / "compat"
TENANT = "compat"
MESSAGES, PARTITIONS = 10, 3
LATE = 0.3
"""Seconds in which requests are seen that a command has not waited for."""


@dataclass
class Results:
    """By noun, verb and case."""

    findings: dict[str, dict[str, dict[str, Finding]]] = field(default_factory=dict)

    def add(self, case: Case, found: dict[str, Finding]) -> None:
        for verb, finding in found.items():
            self.findings.setdefault(case.noun, {}).setdefault(verb, {})[case.name] = finding

    def verdicts(self) -> Iterator[tuple[str, str, Verdict, str]]:
        """Noun, verb, what all of its cases come to, and why."""
        for noun, verbs in sorted(self.findings.items()):
            for verb, cases in sorted(verbs.items()):
                found = {one.verdict: one.why for one in reversed(cases.values())}
                if len(found) == 1:
                    verdict = next(iter(found))
                else:
                    verdict = Verdict.WRONG if Verdict.WRONG in found else Verdict.PARTLY
                yield noun, verb, verdict, found.get(verdict, found.get(Verdict.REFUSED, ""))

    def save(self, path: Path, known: Mapping[str, Sequence[Case]]) -> None:
        """Over what an earlier run left of the same cases, without what is no longer in a `known` noun's cases."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            merged = Results.load(path)
            for noun, cases in known.items():
                there = {(verb, case.name) for case in cases for verb in case.verbs}
                old = merged.findings.pop(noun, {})
                for verb, found in old.items():
                    kept = {name: one for name, one in found.items() if (verb, name) in there}
                    if kept:
                        merged.findings.setdefault(noun, {})[verb] = kept
            for noun, verbs in self.findings.items():
                for verb, found in verbs.items():
                    merged.findings.setdefault(noun, {}).setdefault(verb, {}).update(found)
            path.write_text(
                json.dumps(
                    {noun: _plain(merged.findings[noun]) for noun in sorted(merged.findings)}, indent=1
                )
            )

    @classmethod
    def load(cls, path: Path) -> Results:
        """Empty when there is no such file."""
        if not path.exists():
            return cls()
        return cls(
            {
                noun: {
                    verb: {
                        name: Finding(Verdict(one["verdict"]), one["why"], one["calls"])
                        for name, one in cases.items()
                    }
                    for verb, cases in verbs.items()
                }
                for noun, verbs in json.loads(path.read_text()).items()
            }
        )


def _plain(verbs: dict[str, dict[str, Finding]]) -> dict[str, dict[str, Any]]:
    return {verb: {name: asdict(one) for name, one in cases.items()} for verb, cases in verbs.items()}


def prepare(server: Server) -> None:
    """The tenant of the cases. Raises `ToolError`."""
    _needed(server, ["tenants", "create", TENANT, "-c", "standalone"])


def run(case: Case, server: Server) -> dict[str, Finding]:
    """What the case says of its verbs."""
    names = names_of(case)
    try:
        give(case.given, names, server)
    except ToolError as error:
        return {verb: Finding(Verdict.WRONG, f"not prepared: {error}") for verb in case.verbs}
    done = []
    for step in case.steps:
        each = _step(step, names, server, LATE if case.client else 0)
        done.append(each)
        if each.seen and not step.fails and (match := re.search(each.seen, each.said.out)):
            names.update({name: value for name, value in match.groupdict().items() if value is not None})
    return judge(done, bool(case.client))


def names_of(case: Case) -> dict[str, str]:
    """What stands for the names in braces."""
    name = re.sub(r"[^a-z0-9]+", "-", f"{case.noun}-{case.name}".lower())
    namespace = f"{TENANT}/{name}"
    return {
        "name": name,
        "tenant": name,
        "ns": namespace,
        "topic": f"persistent://{namespace}/t",
        "parts": f"persistent://{namespace}/p",
        "fleeting": f"non-persistent://{namespace}/f",
        "schema": str(FOLDER / "schema.json"),
        "jars": str(ensure_jars()),
        "version": admin_version(),
    }


def give(given: Sequence[str], names: dict[str, str], server: Server) -> None:
    """What is there before the first command. Raises `ToolError`."""
    commands = {
        "namespace": ["namespaces", "create", names["ns"]],
        "topic": ["topics", "create", names["topic"]],
        "partitioned": ["topics", "create-partitioned-topic", names["parts"], "-p", str(PARTITIONS)],
        "subscription": ["topics", "create-subscription", names["topic"], "-s", "sub", "-m", "earliest"],
    }
    for what in given:
        if what == "compacted":
            server.compacted(names["topic"])
        elif what == "messages":
            server.produce(names["topic"], 0, MESSAGES)
        elif what == "spread":
            for partition in range(PARTITIONS):
                server.produce(f"{names['parts']}-partition-{partition}", 0, MESSAGES)
        else:
            _needed(server, commands[what])


def _step(step: Step, names: dict[str, str], server: Server, late: float) -> Done:
    """Run it; again while its server is known to take a moment until a change shows."""
    arguments = [filled(part, names) for part in step.arguments]
    command, seen = (
        " ".join(arguments),
        filled(step.seen, {key: re.escape(text) for key, text in names.items()}),
    )
    until = time.monotonic() + server.patience
    while True:
        server.recorder.taken()
        said = server.tool.run(arguments)
        time.sleep(late)
        done = Done(step, command, seen, said, server.recorder.taken())
        if not seen or step.fails or not fails(done) or said.code is None or time.monotonic() >= until:
            return done
        time.sleep(0.2)


def _needed(server: Server, arguments: list[str]) -> None:
    said = server.tool.run(arguments)
    if said.code != 0:
        raise ToolError(f"{' '.join(arguments)}: {' '.join(said.err.split())[:300] or 'no end'}")


def missing(model: dict[str, dict[str, object]], cases: dict[str, list[Case]]) -> list[str]:
    """Verbs of these nouns that the tool has and no case, and the other way round. Raises `CasesError` for a noun."""
    wrong = []
    for noun, found in cases.items():
        if noun not in model:
            raise CasesError(f"pulsar-admin has no noun {noun}")
        verbs = model[noun]["verbs"]
        assert isinstance(verbs, dict)
        asked = {verb for case in found for verb in case.verbs} | not_run(noun).keys()
        wrong += [f"no case has {noun} {verb}" for verb in verbs if verb not in asked]
        wrong += [f"pulsar-admin has no {noun} {verb}" for verb in sorted(asked - verbs.keys())]
    return wrong
