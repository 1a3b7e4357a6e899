"""`magnetar-admin tenants` and `namespaces`: what is asked of the gateway, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

EU = "namespaces/shop/eu"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body", "said"),
    [
        (
            "tenants create shop -r ada,bob", "PUT", "tenants/shop",
            {"adminRoles": ["ada", "bob"], "allowedClusters": None}, "Created tenant shop.",
        ),
        (
            "tenants update shop -c standalone", "POST", "tenants/shop",
            {"adminRoles": None, "allowedClusters": ["standalone"]}, "Updated tenant shop.",
        ),
        ("tenants delete shop", "DELETE", "tenants/shop?force=false", None, "Deleted tenant shop."),
        ("tenants delete shop --force", "DELETE", "tenants/shop?force=true", None, "Deleted tenant shop."),
        (
            "namespaces create shop/eu", "PUT", EU, None,
            "Created namespace shop/eu. Kafka clients call its topics shop.eu.<topic>.",
        ),
        (
            "namespaces create shop/eu -c standalone -b 4", "PUT", EU, {"replication_clusters": ["standalone"]},
            "Created namespace shop/eu. Kafka clients call its topics shop.eu.<topic>.",
        ),
        ("namespaces delete shop/eu -f", "DELETE", f"{EU}?force=true", None, "Deleted namespace shop/eu."),
        (
            "namespaces set-clusters shop/eu -c standalone", "POST", f"{EU}/replication", ["standalone"],
            "shop/eu is on standalone.",
        ),
        (
            "namespaces set-properties shop/eu -p a=1,b=2", "PUT", f"{EU}/properties", {"a": "1", "b": "2"},
            "Kept with shop/eu: a, b.",
        ),
        ("namespaces set-property shop/eu -k a -v 1/2", "PUT", f"{EU}/property/a/1%2F2", None, "Kept with shop/eu: a."),
        ("namespaces clear-properties shop/eu", "DELETE", f"{EU}/properties", None, "Nothing is kept with shop/eu."),
    ],
)  # fmt: skip
def test_writes_say_what_they_did(
    peer: Peer, arguments: str, method: str, path: str, body: Any, said: str
) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stdout) == (0, said + "\n"), result.stderr
    asked, target, sent = peer.asked[-1]
    assert (asked, target) == (method, "/admin/v2/" + path)
    assert (json.loads(sent) if sent else None) == body


@pytest.mark.parametrize("noun", ["namespaces", "tenants"])
def test_help_says_what_clients_do_that_go_on_after_a_forced_deletion(peer: Peer, noun: str) -> None:
    said = " ".join(peer.run(noun, "delete", "--help").stdout.split())
    assert "With --force stop its clients before" in said
    said = " ".join(peer.run("namespaces", "delete", "--help").stdout.split())
    assert "has a topic of that name made in public/default" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["namespaces", "list", "shop/eu"],
            "'shop/eu' is a namespace, and a tenant is asked for, such as shop.",
        ),
        (
            ["tenants", "delete", "shop/eu"],
            "'shop/eu' is a namespace, and a tenant is asked for, such as shop.",
        ),
        (["tenants", "create", ""], "A tenant's name cannot be empty."),
    ],
)
def test_what_is_no_tenant_is_told_and_not_sent(peer: Peer, arguments: list[str], said: str) -> None:
    before = len(peer.asked)
    result = peer.run(*arguments)
    assert (result.exit_code, len(peer.asked)) == (2, before)
    assert said in result.stderr
