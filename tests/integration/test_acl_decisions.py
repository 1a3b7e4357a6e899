"""Rows of ACLs against Kafka's own authorizer: the same rows, the same question, the same answer."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.peers.kafka.jars import java_command
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.table import Table
from semantics.names import DEFAULT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ORACLE = Path(__file__).with_name("AclOracle.java")
SEED = 20260
CASES = 5_000

OPERATIONS = [each for each in Operation if each >= Operation.READ and each.shown]
NAMES = ["a", "ab", "abc", "abd", "b", "ba", "*"]
ASKED = ["a", "ab", "abc", "abcd", "b", "c"]
PRINCIPALS = ["User:ada", "User:*", "User:bob", "User:root", "Group:ada"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]


def rows(drawn: random.Random) -> list[Acl]:
    """Few operations, so that rows meet; each row once."""
    operations = [Operation.ALL, *drawn.sample(OPERATIONS, 3)]
    found = [
        Acl(
            drawn.choice([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP]),
            drawn.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            drawn.choice(NAMES),
            drawn.choice(PRINCIPALS),
            drawn.choice(HOSTS),
            drawn.choice(operations),
            drawn.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        )
        for _ in range(drawn.randrange(12))
    ]
    return list(dict.fromkeys(found))


def line(row: Acl) -> str:
    kinds = (row.resource.name.lower(), row.pattern.name, row.name, row.principal, row.host)
    return "|".join((*kinds, row.operation.name.lower(), row.permission.name.lower()))


Case = tuple[bool, str, str, ResourceType, str, list[Acl]]


def cases(seed: int) -> Iterator[Case]:
    drawn = random.Random(seed)
    for _ in range(CASES):
        yield (
            drawn.random() < 0.3,
            drawn.choice(["User:ada", "User:ada", "User:root", "User:eve"]),
            drawn.choice(HOSTS[1:]),
            drawn.choice([ResourceType.TOPIC, ResourceType.GROUP]),
            drawn.choice(ASKED),
            rows(drawn),
        )


def ours(case: Case) -> tuple[int, int]:
    everyone, principal, host, kind, name, acls = case
    table = Table(acls, super_users=frozenset(["User:root"]), everyone=everyone)
    may = some = 0
    for each in OPERATIONS:
        may |= table.decide(DEFAULT, principal, host, each, kind, name) << each
        some |= table.any(DEFAULT, principal, host, each, kind) << each
    among = sum(1 << each for each in OPERATIONS)
    assert table.operations(DEFAULT, principal, host, kind, name, among) == may, case
    return may, some


def test_every_answer_is_kafkas() -> None:
    asked = list(cases(SEED))
    text = "".join(
        "\t".join(
            [str(everyone).lower(), principal, host, kind.name.lower(), name, "\x1f".join(map(line, acls))]
        )
        + "\n"
        for everyone, principal, host, kind, name, acls in asked
    )
    command = java_command(str(ORACLE), options=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=100, check=False)
    answers = done.stdout.splitlines()
    assert len(answers) == CASES, done.stderr
    allowed = 0
    for case, answer in zip(asked, answers, strict=True):
        may, some = map(int, answer.split())
        assert ours(case) == (may, some), (SEED, case, answer)
        allowed += may > 0
    # it was worth asking
    assert CASES // 5 < allowed < CASES - CASES // 5
