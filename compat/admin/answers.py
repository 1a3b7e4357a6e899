"""The same history and the same calls of the admin API on Pulsar and on Magnetar: the answers, field by field.

`questions.toml` has both lists, `expected.toml` the differences that stay. A field that only one of the two has is no
difference: Magnetar leaves out what has no meaning here, and its own are under `magnetar`.
"""

from __future__ import annotations

import fnmatch
import json
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat.admin.servers import SERVERS, Server, started
from compat.admin.tool import ToolError

QUESTIONS = Path(__file__).with_name("questions.toml")
EXPECTED = Path(__file__).with_name("expected.toml")
STATUS = "<status>"


@dataclass(frozen=True)
class Difference:
    """A field that both have, with different values. `path` leads to it: subscriptions.all.msgBacklog."""

    question: str
    path: str
    pulsar: str
    magnetar: str


@dataclass(frozen=True)
class Reason:
    """A difference that stays: patterns of a shell, and a sentence. With `by_type` values of one type are equal."""

    why: str
    question: str = "*"
    path: str = "*"
    pulsar: str = "*"
    magnetar: str = "*"
    by_type: bool = False

    def fits(self, found: Difference) -> bool:
        return all(
            fnmatch.fnmatchcase(value, pattern)
            for value, pattern in (
                (found.question, self.question),
                (found.path, self.path),
                (found.pulsar, self.pulsar),
                (found.magnetar, self.magnetar),
            )
        )


@dataclass
class Compared:
    """What came of it. `fields` are those that both have."""

    questions: int = 0
    fields: int = 0
    equal: int = 0
    by_type: int = 0
    only_pulsar: set[str] = field(default_factory=set)
    """names of fields, the last part of their paths"""
    explained: list[tuple[Difference, Reason]] = field(default_factory=list)
    unexplained: list[Difference] = field(default_factory=list)
    unused: list[Reason] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    status: int
    body: object
    """what the JSON says; text where it is none"""


def reasons() -> list[Reason]:
    """In the order of the file: the first that fits counts."""
    return [Reason(**row) for row in tomllib.loads(EXPECTED.read_text()).get("expected", [])]


def asked(server: Server) -> dict[str, Answer]:
    """Tell the server the history and ask it the questions. Raises `ToolError` if the history is not taken."""
    lists = tomllib.loads(QUESTIONS.read_text())
    for line in lists["history"]:
        if line.startswith("produce "):
            _, topic, first, count = line.split()
            server.produce(topic, int(first), int(count))
            continue
        answer = _call(server, line)
        if answer.status >= 300:
            raise ToolError(f"{server.name} did not take {line}: {answer.status} {answer.body}")
    return {line: _call(server, line) for line in lists["questions"]}


def compare(pulsar: dict[str, Answer], magnetar: dict[str, Answer], known: Sequence[Reason]) -> Compared:
    """Both answers to each question."""
    result = Compared(len(pulsar))
    used = set()
    for question, one in pulsar.items():
        other = magnetar[question]
        ones, others = (dict(_fields(each)) for each in (one, other))
        result.only_pulsar |= {path.rpartition(".")[2] for path in ones.keys() - others.keys()}
        for path in [path for path in ones if path in others]:
            result.fields += 1
            alike = _type(ones[path]) == _type(others[path])
            if alike and ones[path] == others[path]:
                result.equal += 1
                continue
            found = Difference(question, path, json.dumps(ones[path]), json.dumps(others[path]))
            reason = next((each for each in known if each.fits(found)), None)
            if reason is not None and reason.by_type and not alike:
                reason = None
            if reason is None:
                result.unexplained.append(found)
                continue
            used.add(reason)
            if reason.by_type:
                result.by_type += 1
            else:
                result.explained.append((found, reason))
    result.unused = [reason for reason in known if reason not in used]
    return result


def _call(server: Server, line: str) -> Answer:
    method, _, rest = line.partition(" ")
    path, _, body = rest.partition(" ")
    request = urllib.request.Request(
        f"{server.recorder.url}/admin/v2/{path}",
        body.encode() if body else None,
        {"Content-Type": "application/json"} if body else {},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return Answer(answer.status, _body(answer.read()))
    except urllib.error.HTTPError as refused:
        return Answer(refused.code, _body(refused.read()))


def _body(content: bytes) -> object:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")


def _fields(answer: Answer) -> Iterator[tuple[str, object]]:
    """The status and, where it is a success, every value of the body that holds no others, by its path."""
    yield STATUS, answer.status
    if answer.status < 300:
        yield from _flat("", answer.body)


def _flat(path: str, value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat(f"{path}.{key}" if path else key, each)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, each in enumerate(value):
            yield from _flat(f"{path}.{number}", each)
    else:
        yield path or "<value>", sorted(value, key=str) if isinstance(value, list) else value


def _type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def run() -> Compared:
    """Start both, one after the other, and compare. Raises `PeerError`, `JarsError`, `ToolError`."""
    answers = {}
    for name in SERVERS:
        with started(name) as server:
            answers[name] = asked(server)
    return compare(answers["pulsar"], answers["magnetar"], reasons())
