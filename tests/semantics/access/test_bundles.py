"""Pulsar's permissions as rows, and what a role may by rows that others have made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.access import bundles
from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.roles import principal_of
from semantics.access.table import Table
from semantics.names import Namespace

EU = Namespace("shop", "eu")
ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")


def row(operation: Operation, **others: object) -> Acl:
    made = Acl(
        ResourceType.TOPIC,
        PatternType.LITERAL,
        "orders",
        "User:ada",
        "*",
        operation,
        Permission.ALLOW,
        EU,
    )
    return made._replace(**others)  # type: ignore[arg-type]


@given(actions=st.sets(st.sampled_from(ACTIONS), min_size=1))
def test_what_is_granted_is_told(actions: set[str]) -> None:
    rows = bundles.rows(EU, "orders", "ada", actions)
    told = [each for each in ACTIONS if each in actions]
    assert bundles.granted(rows) == {"ada": told}
    # and nothing is left of it when what it is by is taken
    table = Table(rows)
    for each in bundles.by_which(EU, "orders", "ada", table):
        table.remove(each)
    assert bundles.granted(table.rows()) == {}
    assert all(each.resource is ResourceType.GROUP for each in table.rows())


def test_a_producer_and_a_consumer_may_what_they_need() -> None:
    table = Table(
        [*bundles.rows(EU, "*", "ada", ["produce"]), *bundles.rows(EU, "orders", "bob", ["consume"])]
    )

    def may(role: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        return table.decide(EU, principal_of(role), "10.0.0.1", operation, kind, name)

    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    assert [may("ada", each, topic, "any") for each in (Operation.WRITE, Operation.CREATE)] == [True, True]
    assert not may("ada", Operation.READ, topic, "any")
    assert may("bob", Operation.READ, topic, "orders")
    assert may("bob", Operation.READ, group, "any")
    assert not may("bob", Operation.READ, topic, "other")
    assert not may("bob", Operation.WRITE, topic, "orders")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (row(Operation.WRITE), ["produce"]),
        (row(Operation.READ), ["consume"]),
        # whoever may everything may both; what Kafka does not know is granted by name
        (row(Operation.ALL), ["produce", "consume"]),
        (row(Operation.CREATE), None),
        (row(Operation.DESCRIBE), None),
        (row(Operation.WRITE, permission=Permission.DENY), None),
        (row(Operation.WRITE, host="10.0.0.1"), None),
        (row(Operation.WRITE, pattern=PatternType.PREFIXED), None),
        (row(Operation.WRITE, resource=ResourceType.GROUP), None),
        (row(Operation.WRITE, principal="Group:ada"), None),
        (row(Operation.WRITE, principal="User:"), None),
    ],
)
def test_rows_of_others_show_where_they_say_the_same(found: Acl, told: list[str] | None) -> None:
    assert bundles.granted([found]) == ({"ada": told} if told else {})


def test_what_is_taken_is_every_row_by_which_it_could() -> None:
    both = [row(Operation.ALL), row(Operation.WRITE), row(Operation.DESCRIBE)]
    others = [row(Operation.WRITE, principal="User:bob"), row(Operation.WRITE, name="other")]
    assert set(bundles.by_which(EU, "orders", "ada", Table([*both, *others]))) == set(both[:2])
