"""Kafka's own kafka-acls.sh against a gateway that asks for rights, beside Pulsar's permissions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.peers.magnetar import MagnetarPeer
from tests.integration.acl_tool import AclTool, acl_tool

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ORDERS, EVERY = "TOPIC:LITERAL:orders", "TOPIC:LITERAL:*"


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MagnetarPeer]:
    settings = {"authorization": "true", "admin.authentication": "false", "super.users": "User:ANONYMOUS"}
    with MagnetarPeer(directory=tmp_path_factory.mktemp("acls"), settings=settings) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def tool(asking: MagnetarPeer) -> Iterator[AclTool]:
    with acl_tool(asking.bootstrap) as tool:
        yield tool


def allowed(resource: str, *operations: str, principal: str = "User:ada") -> set[str]:
    return {f"{resource} {principal} * {each} ALLOW" for each in operations}


def add(tool: AclTool, *arguments: str) -> None:
    code, said = tool.run("--add", *arguments)
    assert (code, "Error" in said) == (0, False), said


def test_what_the_tool_makes_it_lists_and_removes(tool: AclTool) -> None:
    assert tool.listed() == set()
    ada = ("--allow-principal", "User:ada")
    add(tool, *ada, "--producer", "--topic", "orders", "--transactional-id", "tx", "--idempotent")
    add(tool, *ada, "--consumer", "--topic", "orders", "--group", "billing")
    add(tool, *ada, "--operation", "Read", "--topic", "ord", "--resource-pattern-type", "prefixed")
    add(tool, "--deny-principal", "User:eve", "--deny-host", "10.0.0.9", "--operation", "All", "--topic", "*")
    orders = allowed(ORDERS, "WRITE", "DESCRIBE", "CREATE", "READ")
    prefix = allowed("TOPIC:PREFIXED:ord", "READ")
    eve = {f"{EVERY} User:eve 10.0.0.9 ALL DENY"}
    rest = (
        allowed("TRANSACTIONAL_ID:LITERAL:tx", "WRITE", "DESCRIBE")
        | allowed("CLUSTER:LITERAL:kafka-cluster", "IDEMPOTENT_WRITE")
        | allowed("GROUP:LITERAL:billing", "READ")
    )
    assert tool.listed() == orders | prefix | eve | rest
    assert tool.listed("--topic", "orders") == orders
    assert tool.listed("--topic", "orders", "--resource-pattern-type", "match") == orders | prefix | eve
    assert tool.listed("--principal", "User:eve") == eve
    tool.run("--remove", "--force", *ada, "--producer", "--topic", "orders")
    assert tool.listed("--topic", "orders") == allowed(ORDERS, "READ")
    tool.run("--remove", "--force", "--topic", "ord", "--resource-pattern-type", "prefixed")
    tool.run("--remove", "--force", "--topic", "orders", "--resource-pattern-type", "match")
    assert tool.listed() == rest
    for kind, name in (("--group", "billing"), ("--transactional-id", "tx")):
        tool.run("--remove", "--force", kind, name)
    tool.run("--remove", "--force", "--cluster")
    assert tool.listed() == set()


def test_pulsars_permissions_and_kafkas_acls_are_the_same_rows(tool: AclTool, asking: MagnetarPeer) -> None:
    others = tool.listed()
    asking.admin("tenants", "create", "shop")
    asking.admin("namespaces", "create", "shop/eu")
    actions = ("--role", "ada", "--actions", "produce,consume,functions")
    asking.admin("namespaces", "grant-permission", "shop/eu", *actions)
    groups = allowed("GROUP:LITERAL:shop/eu//*", "READ")
    topics = allowed("TOPIC:PREFIXED:shop.eu.", "WRITE", "CREATE", "READ")
    assert tool.listed() - others == topics | groups
    # and back: what the tool takes away and gives shows as permissions
    place = ("--topic", "shop.eu.", "--resource-pattern-type", "prefixed")
    tool.run("--remove", "--force", "--allow-principal", "User:ada", "--operation", "Write", *place)
    add(tool, "--allow-principal", "User:bob", "--operation", "Write", *place)
    add(tool, "--deny-principal", "User:eve", "--operation", "Read", "--topic", "shop.eu.orders")
    shown = asking.admin("namespaces", "permissions", "shop/eu").split()
    assert shown == ["ada", '["consume",', '"functions"]', "bob", '["produce"]']
    lines = [line.split() for line in asking.admin("namespaces", "acls", "shop/eu").splitlines()]
    assert ["DENY", "User:eve", "*", "READ", "TOPIC", "orders"] in lines
    assert ["ALLOW", "User:ada", "*", "FUNCTIONS", "TOPIC", "*"] in lines
    # they go with the namespace
    asking.admin("namespaces", "delete", "shop/eu")
    assert tool.listed() == others
