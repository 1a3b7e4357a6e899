"""Filters of rows mean what Kafka's mean."""

from __future__ import annotations

import pytest

from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.filters import Filter

LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH


def row(name: str, pattern: PatternType = LITERAL) -> Acl:
    return Acl(ResourceType.TOPIC, pattern, name, "User:ada", "*", Operation.READ, Permission.ALLOW)


ROWS = [row("orders"), row("orders", PREFIXED), row("ord", PREFIXED), row("*"), row("other")]


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (PatternType.ANY, None, ROWS),
        (MATCH, None, ROWS),
        (LITERAL, None, [ROWS[0], ROWS[3], ROWS[4]]),
        (PREFIXED, None, ROWS[1:3]),
        (LITERAL, "orders", ROWS[:1]),
        (PREFIXED, "orders", ROWS[1:2]),
        (PatternType.ANY, "orders", ROWS[:2]),
        (MATCH, "orders", ROWS[:4]),
        (MATCH, "order", [ROWS[2], ROWS[3]]),
        (MATCH, "*", [ROWS[3]]),
        (LITERAL, "*", [ROWS[3]]),
        (PREFIXED, "*", []),
    ],
)
def test_patterns_and_names(pattern: PatternType, name: str | None, found: list[Acl]) -> None:
    said = Filter(pattern=pattern, name=name)
    assert [each for each in ROWS if said.matches(each)] == found


@pytest.mark.parametrize(
    ("said", "matches"),
    [
        (Filter(), True),
        (Filter(resource=ResourceType.TOPIC), True),
        (Filter(resource=ResourceType.GROUP), False),
        (Filter(principal="User:ada"), True),
        # a row of everybody is another one
        (Filter(principal="User:*"), False),
        (Filter(host="*"), True),
        (Filter(host="10.0.0.1"), False),
        (Filter(operation=Operation.READ), True),
        # a row for ALL is another one, and so is what READ implies
        (Filter(operation=Operation.ALL), False),
        (Filter(operation=Operation.DESCRIBE), False),
        (Filter(permission=Permission.ALLOW), True),
        (Filter(permission=Permission.DENY), False),
    ],
)
def test_everything_else_is_compared_as_it_is(said: Filter, matches: bool) -> None:
    assert said.matches(row("orders")) is matches
