"""`magnetar-admin brokers`, `broker-stats` and `clusters`: what is asked, and what is shown."""

from __future__ import annotations

import json

import pytest

from tests.gateway.cli.conftest import Peer


@pytest.mark.parametrize(
    ("arguments", "path", "answer", "shown"),
    [
        (
            "brokers namespaces standalone -u h:8080", "brokers/standalone/h%3A8080/ownedNamespaces",
            {"a/b/0x0_0xf": {"is_active": True}}, 'a/b/0x0_0xf    {"is_active": true}\n',
        ),
        ("brokers get-internal-config", "brokers/internal-configuration", {"a": "b"}, '{\n  "a" : "b"\n}\n'),
        ("brokers list-dynamic-config", "brokers/configuration", ["a", "b"], "a\nb\n"),
        ("brokers get-all-dynamic-config", "brokers/configuration/values", {"a": "1"}, "a    1\n"),
        ("broker-stats topics", "broker-stats/topics", {"a/b": {}}, '{"a/b": {}}\n'),
        ("broker-stats destinations -i", "broker-stats/topics", {"a/b": {}}, '{\n  "a/b" : { }\n}\n'),
        ("clusters get-peer-clusters mars", "clusters/mars/peers", [], ""),
        ("clusters list-failure-domains mars", "clusters/mars/failureDomains", {"d": {}}, "d    {}\n"),
        ("clusters get-failure-domain mars --domain-name a/b", "clusters/mars/failureDomains/a%2Fb", "x", "x\n"),
        ("clusters get-cluster-migration", "clusters/standalone/migrate", {"migrated": False},
         '{\n  "migrated" : false\n}\n'),
    ],
)  # fmt: skip
def test_reads(peer: Peer, arguments: str, path: str, answer: object, shown: str) -> None:
    peer.says("GET", path, answer)
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stdout) == (0, shown), result.stderr


@pytest.mark.parametrize(
    ("arguments", "method", "path", "said"),
    [
        ("update-dynamic-config -c a.b -v 1/2", "POST", "configuration/a.b/1%2F2", "a.b is 1/2.\n"),
        ("delete-dynamic-config -c a.b", "DELETE", "configuration/a.b", "a.b is what the gateway was started with.\n"),
        (
            "backlog-quota-check", "GET", "backlog-quota-check",
            "Each batch that is published is held against its quota: nothing was to be done.\n",
        ),
    ],
)  # fmt: skip
def test_writes(peer: Peer, arguments: str, method: str, path: str, said: str) -> None:
    result = peer.run("brokers", *arguments.split())
    assert (result.exit_code, result.stdout) == (0, said), result.stderr
    assert peer.asked[-1][:2] == (method, f"/admin/v2/brokers/{path}")


def test_stats_as_json_are_those_of_the_gateway(peer: Peer) -> None:
    peer.says("GET", "broker-stats/topics", {"a/b": {"c": 1}})
    shown = peer.run("broker-stats", "topics", "--output", "json").stdout
    assert json.loads(shown) == {"a/b": {"c": 1}}
