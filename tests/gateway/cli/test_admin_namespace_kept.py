"""Verbs of what is kept and has no effect: what is asked, and that this is said."""

from __future__ import annotations

import json

import pytest

from tests.gateway.cli.conftest import Peer

EU = "namespaces/shop/eu"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body", "said"),
    [
        (
            "set-allowed-clusters shop/eu -c standalone", "POST", f"{EU}/allowedClusters", ["standalone"],
            "shop/eu may be on standalone. There is one cluster, so nothing changes.",
        ),
        (
            "set-subscription-auth-mode shop/eu -m Prefix", "POST", f"{EU}/subscriptionAuthMode", "Prefix",
            "The mode of subscriptions in shop/eu is Prefix. It counts where the gateway asks its clients for rights",
        ),
        (
            "set-anti-affinity-group shop/eu -g halls", "POST", f"{EU}/antiAffinity", "halls",
            "shop/eu is in the anti-affinity group halls. It is kept, and has no effect while one gateway",
        ),
        (
            "delete-anti-affinity-group shop/eu", "DELETE", f"{EU}/antiAffinity", None,
            "shop/eu is in no anti-affinity group.",
        ),
    ],
)  # fmt: skip
def test_writes(peer: Peer, arguments: str, method: str, path: str, body: object, said: str) -> None:
    result = peer.run("namespaces", *arguments.split())
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(said)
    asked, target, sent = peer.asked[-1]
    assert (asked, target) == (method, f"/admin/v2/{path}")
    assert (json.loads(sent) if sent else None) == body


@pytest.mark.parametrize(
    ("arguments", "path", "answer", "shown"),
    [
        ("get-allowed-clusters shop/eu", f"{EU}/allowedClusters", ["standalone"], "standalone\n"),
        ("get-subscription-auth-mode shop/eu", f"{EU}/subscriptionAuthMode", "Prefix", "Prefix\n"),
        (
            "get-anti-affinity-namespaces -c standalone -g a/b", "namespaces/standalone/antiAffinity/a%2Fb",
            ["shop/eu", "bank/eu"], "shop/eu\nbank/eu\n",
        ),
        ("destinations shop/eu", f"{EU}/topics", ["a"], "a\n"),
    ],
)  # fmt: skip
def test_reads(peer: Peer, arguments: str, path: str, answer: object, shown: str) -> None:
    peer.says("GET", path, answer)
    result = peer.run("namespaces", *arguments.split())
    assert (result.exit_code, result.stdout) == (0, shown), result.stderr


def test_the_tenant_of_a_group_is_passed_on(peer: Peer) -> None:
    peer.run("namespaces", "get-anti-affinity-namespaces", "-p", "shop", "-c", "standalone", "-g", "halls")
    assert peer.asked[-1][1] == "/admin/v2/namespaces/standalone/antiAffinity/halls?property=shop"


def test_no_group_is_null(peer: Peer) -> None:
    assert peer.run("namespaces", "get-anti-affinity-group", "shop/eu").stdout == "null\n"


def test_an_old_name_is_not_listed(peer: Peer) -> None:
    assert "destinations" not in peer.run("namespaces", "--help").stdout
