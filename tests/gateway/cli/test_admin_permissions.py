"""The verbs of permissions: what is asked of the gateway, and that it is said when they count."""

from __future__ import annotations

import json

import pytest

from tests.gateway.cli.conftest import Peer

EU = "/admin/v2/namespaces/shop/eu/permissions"
ORDERS = "/admin/v2/persistent/public/default/orders/permissions"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body", "said"),
    [
        (
            "namespaces grant-permission shop/eu --role a/b --actions produce,consume", "POST", f"{EU}/a%2Fb",
            ["produce", "consume"], "a/b may produce, consume in shop/eu.",
        ),
        ("namespaces revoke-permission shop/eu --role ada", "DELETE", f"{EU}/ada", None, "shop/eu allows ada nothing."),
        (
            "namespaces grant-subscription-permission shop/eu -s billing -rs ada,bob", "POST",
            f"{EU}/subscription/billing", ["ada", "bob"], "ada, bob may use billing in shop/eu.",
        ),
        (
            "namespaces revoke-subscription-permission shop/eu -s billing -r ada", "DELETE", f"{EU}/billing/ada", None,
            "billing in shop/eu is not for ada.",
        ),
        (
            "topics grant-permission orders -r ada -a produce", "POST", f"{ORDERS}/ada", ["produce"],
            "ada may produce on orders.",
        ),
        (
            "topics revoke-permission orders -r ada", "DELETE", f"{ORDERS}/ada", None,
            "orders itself allows ada nothing.",
        ),
    ],
)  # fmt: skip
def test_writes(peer: Peer, arguments: str, method: str, path: str, body: object, said: str) -> None:
    result = peer.run(*arguments.split())
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(said)
    assert "where the gateway asks its clients for rights" in result.stdout
    asked, target, sent = peer.asked[-1]
    assert (asked, target, json.loads(sent) if sent else None) == (method, path, body)
    assert "asks its clients for rights" in peer.run(*arguments.split()[:2], "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("namespaces permissions shop/eu", "namespaces/shop/eu/permissions"),
        ("namespaces subscription-permission shop/eu", "namespaces/shop/eu/permissions/subscription"),
        ("topics permissions orders", "persistent/public/default/orders/permissions"),
    ],
)
def test_reads(peer: Peer, arguments: str, path: str) -> None:
    peer.says("GET", path, {"ada": ["produce", "consume"]})
    assert peer.run(*arguments.split()).stdout == 'ada    ["produce", "consume"]\n'


def test_no_action_is_said_before_anybody_is_asked(peer: Peer) -> None:
    result = peer.run("topics", "grant-permission", "orders", "-r", "ada", "-a", " , ")
    assert (result.exit_code, result.stderr, peer.asked) == (2, "Say at least one action.\n", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ["namespaces", "grant-permission", "shop/eu", "--role", "", "--actions", "produce"],
        ["namespaces", "revoke-permission", "shop/eu", "--role", ""],
        ["topics", "grant-permission", "orders", "-r", "", "-a", "produce"],
        ["topics", "revoke-permission", "orders", "-r", ""],
    ],
)
def test_no_role_is_said_before_anybody_is_asked(peer: Peer, arguments: list[str]) -> None:
    result = peer.run(*arguments)
    assert (result.exit_code, peer.asked) == (2, [])
    assert result.stderr == "--role is empty: say who, by the name of a user, such as ada.\n"


ROWS = [
    {
        "resource": "TOPIC", "pattern": "PREFIXED", "name": "ord", "principal": "User:eve", "host": "10.0.0.9",
        "operation": "ALL", "permission": "DENY",
    },
    {
        "resource": "GROUP", "pattern": "LITERAL", "name": "*", "principal": "User:ada", "host": "*",
        "operation": "READ", "permission": "ALLOW",
    },
]  # fmt: skip


def test_all_acls_of_a_namespace(peer: Peer) -> None:
    peer.says("GET", "magnetar/acls/shop/eu", ROWS)
    result = peer.run("namespaces", "acls", "shop/eu")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[2:] == [
        ["DENY", "User:eve", "10.0.0.9", "ALL", "TOPIC", "ord...", "(prefix)"],
        ["ALLOW", "User:ada", "*", "READ", "GROUP", "*"],
    ]
    assert json.loads(peer.run("namespaces", "acls", "shop/eu", "--output", "json").stdout) == ROWS
