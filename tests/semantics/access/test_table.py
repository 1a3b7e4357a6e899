"""The table of rights against Kafka's rules, which stand here once more as a loop over all rows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantics.access.acl import Acl, Operation, PatternType, Permission, ResourceType
from semantics.access.table import Table
from semantics.names import DEFAULT, Namespace

SHOP = Namespace("shop", "eu")
ADA, BOB, ANYBODY = "User:ada", "User:bob", "User:*"
HERE = "10.0.0.1"
SUPER = "User:root"

OPERATIONS = [Operation(each) for each in (2, 3, 4, 6, 7, 8, 10, 11, 101)]
ASKED = [each for each in OPERATIONS if each not in (Operation.ALL, Operation.FUNCTIONS)]
names = st.sampled_from(["a", "ab", "abc", "b"])

rows = st.builds(
    Acl,
    resource=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    name=names | st.just("*"),
    principal=st.sampled_from([ADA, ANYBODY, BOB, SUPER]),
    host=st.sampled_from(["*", HERE, "10.0.0.2"]),
    operation=st.sampled_from(OPERATIONS),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
    namespace=st.sampled_from([DEFAULT, SHOP]),
)
many = st.lists(rows, max_size=12)


def row(
    name: str = "a",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    resource: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = ADA,
    host: str = "*",
    namespace: Namespace = DEFAULT,
) -> Acl:
    return Acl(resource, pattern, name, principal, host, operation, permission, namespace)


def covers(acl: Acl, name: str) -> bool:
    if acl.pattern is PatternType.PREFIXED:
        return name.startswith(acl.name)
    return acl.name in ("*", name)


IMPLIES = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def decided(
    acls: Iterable[Acl],
    everyone: bool,
    namespace: Namespace,
    principal: str,
    host: str,
    operation: Operation,
    resource: ResourceType,
    name: str,
) -> bool:
    """Kafka's documentation of ACLs, rule by rule."""
    if principal == SUPER:
        return True
    about = [
        each
        for each in acls
        if each.namespace == namespace and each.resource == resource and covers(each, name)
    ]
    mine = [each for each in about if each.principal in (principal, "User:*") and each.host in (host, "*")]
    if any(
        each.permission is Permission.DENY and each.operation in (operation, Operation.ALL) for each in mine
    ):
        return False
    enough = {operation, Operation.ALL} | IMPLIES.get(operation, set())
    if any(each.permission is Permission.ALLOW and each.operation in enough for each in mine):
        return True
    # what Kafka has no operation for does not speak of a resource
    return everyone and not any(each.operation < 100 for each in about)


def there_can_be(
    acls: Iterable[Acl],
    everyone: bool,
    namespace: Namespace,
    principal: str,
    host: str,
    operation: Operation,
    resource: ResourceType,
) -> bool:
    """As Authorizer.authorizeByResourceType says it."""
    if decided(acls, everyone, namespace, principal, host, operation, resource, "no row thinks of this"):
        return True
    mine = [
        each
        for each in acls
        if each.namespace == namespace and each.resource == resource
        if each.principal in (principal, "User:*") and each.host in (host, "*")
        if each.operation in (operation, Operation.ALL)
    ]
    denied = [each for each in mine if each.permission is Permission.DENY]
    if any(each.pattern is PatternType.LITERAL and each.name == "*" for each in denied):
        return False
    for each in mine:
        if each.permission is Permission.DENY:
            continue
        dominated = any(
            no.name == each.name and each.pattern is PatternType.LITERAL
            if no.pattern is PatternType.LITERAL
            else each.name.startswith(no.name)
            for no in denied
        )
        if not dominated or (each.pattern is PatternType.LITERAL and each.name == "*"):
            return True
    return False


@given(
    acls=many,
    everyone=st.booleans(),
    at_home=st.booleans(),
    namespace=st.sampled_from([DEFAULT, SHOP]),
    principal=st.sampled_from([ADA, BOB, SUPER]),
    host=st.sampled_from([HERE, "10.0.0.2", "::1"]),
    resource=st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    name=names,
)
def test_it_decides_by_kafkas_rules(
    acls: list[Acl],
    everyone: bool,
    at_home: bool,
    namespace: Namespace,
    principal: str,
    host: str,
    resource: ResourceType,
    name: str,
) -> None:
    table = Table(acls, super_users=frozenset([SUPER]), everyone=everyone)
    asked = (namespace, principal, host)
    # silence opens nothing to who lives elsewhere
    everyone = everyone and at_home
    bits = 0
    for operation in ASKED:
        expected = decided(acls, everyone, namespace, principal, host, operation, resource, name)
        assert table.decide(*asked, operation, resource, name, at_home=at_home) is expected, operation
        bits |= expected << operation
        there = there_can_be(acls, everyone, namespace, principal, host, operation, resource)
        assert table.any(*asked, operation, resource, at_home=at_home) is there, operation
    among = sum(1 << each for each in ASKED)
    assert table.operations(*asked, resource, name, among, at_home=at_home) == bits


@given(acls=many, gone=st.lists(rows, max_size=6), which=st.lists(st.integers(0, 11)))
def test_rows_come_and_go(acls: list[Acl], gone: list[Acl], which: list[int]) -> None:
    table = Table()
    left = set[Acl]()
    for each in acls:
        assert table.add(each) is (each not in left)
        left.add(each)
    for each in [*gone, *(acls[index] for index in which if index < len(acls))]:
        assert table.remove(each) is (each in left)
        left.discard(each)
    assert sorted(table.rows()) == sorted(left)
    assert len(table) == len(left)
    assert all((each in table) is (each in left) for each in [*acls, *gone])
    for namespace in (DEFAULT, SHOP):
        of = [each for each in left if each.namespace == namespace]
        assert table.count(namespace) == len(of)
        assert sorted(table.rows(namespace)) == sorted(of)
        assert sorted(table.rows(namespace, principal=ADA)) == sorted(
            each for each in of if each.principal == ADA
        )
        for resource in (ResourceType.TOPIC, ResourceType.GROUP):
            its = [each for each in of if each.resource == resource]
            assert sorted(table.rows(namespace, resource)) == sorted(its)
            for name in ("a", "ab", "abc", "b", "*"):
                named = table.named(namespace, resource, name)
                assert sorted(named) == sorted(each for each in its if each.name == name)
                covering = sorted(each for each in its if covers(each, name))
                assert sorted(table.covering(namespace, resource, name)) == covering
    # and it decides as one that never had the others
    fresh = Table(left, everyone=True)
    table.everyone = True
    for operation in ASKED:
        for name in ("a", "ab", "abc"):
            question = (DEFAULT, ADA, HERE, operation, ResourceType.TOPIC, name)
            assert table.decide(*question) is fresh.decide(*question)


@pytest.mark.parametrize(
    ("acls", "operation", "expected"),
    [
        ([], Operation.READ, False),
        ([row()], Operation.READ, True),
        ([row()], Operation.WRITE, False),
        ([row()], Operation.DESCRIBE, True),
        ([row(permission=Permission.DENY), row(operation=Operation.DESCRIBE)], Operation.DESCRIBE, True),
        ([row(), row(operation=Operation.ALL, permission=Permission.DENY)], Operation.READ, False),
        ([row(), row("*", permission=Permission.DENY, principal=ANYBODY)], Operation.READ, False),
        ([row(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, True),
        ([row(operation=Operation.ALTER_CONFIGS)], Operation.DESCRIBE, False),
        ([row("", pattern=PatternType.PREFIXED)], Operation.READ, True),
        ([row("*", pattern=PatternType.PREFIXED)], Operation.READ, False),
        ([row(namespace=SHOP)], Operation.READ, False),
        ([row(resource=ResourceType.GROUP)], Operation.READ, False),
        ([row(host=HERE)], Operation.READ, True),
        ([row(host="10.0.0.2")], Operation.READ, False),
        ([row(principal="Group:ada")], Operation.READ, False),
    ],
)
def test_rule_by_rule(acls: list[Acl], operation: Operation, expected: bool) -> None:
    assert Table(acls).decide(DEFAULT, ADA, HERE, operation, ResourceType.TOPIC, "a") is expected


def test_with_everyone_what_a_row_is_about_is_closed_to_others() -> None:
    def may(acls: list[Acl]) -> bool:
        return Table(acls, everyone=True).decide(DEFAULT, ADA, HERE, Operation.READ, ResourceType.TOPIC, "a")

    assert may([])
    assert may([row("b", principal=BOB)])
    assert not may([row(principal=BOB)])
    assert not may([row("*", principal=BOB)])
    # what a function may do is for no client of Kafka's to see
    assert may([row(operation=Operation.FUNCTIONS, principal=BOB)])


PREFIXED, DENY = PatternType.PREFIXED, Permission.DENY


@pytest.mark.parametrize(
    ("acls", "there"),
    [
        ([], False),
        ([row()], True),
        ([row("*")], True),
        ([row(), row("*", permission=DENY)], False),
        # what is denied to everybody but one address is no more than that
        ([row(), row("*", permission=DENY, host="10.0.0.2")], True),
        ([row(), row(permission=DENY)], False),
        ([row(), row("b"), row(permission=DENY)], True),
        ([row("ab"), row("a", permission=DENY, pattern=PREFIXED)], False),
        ([row("ab", pattern=PREFIXED), row("a", permission=DENY, pattern=PREFIXED)], False),
        ([row("ab", pattern=PREFIXED), row("ab", permission=DENY, pattern=PREFIXED)], False),
        # of names with a prefix not all are denied
        ([row("a", pattern=PREFIXED), row("ab", permission=DENY, pattern=PREFIXED)], True),
        ([row("a", pattern=PREFIXED), row("a", permission=DENY)], True),
        ([row(operation=Operation.ALL)], True),
        ([row(operation=Operation.WRITE)], False),
        ([row(), row("*", Operation.ALL, DENY, principal=ANYBODY)], False),
        ([row(principal=BOB)], False),
        ([row(principal=ANYBODY)], True),
    ],
)
def test_whether_there_can_be_a_resource_that_may_be_read(acls: list[Acl], there: bool) -> None:
    assert Table(acls).any(DEFAULT, ADA, HERE, Operation.READ, ResourceType.TOPIC) is there


@given(many, many)
def test_it_is_known_which_namespaces_have_rows_of_somebody(added: list[Acl], gone: list[Acl]) -> None:
    table = Table(added)
    for each in gone:
        table.remove(each)
    for principal in (ADA, ANYBODY, BOB, SUPER):
        expected = {each.namespace for each in table.rows(principal=principal)}
        assert set(table.namespaces_of(principal)) == expected
