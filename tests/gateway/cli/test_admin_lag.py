"""Backlogs as `magnetar-admin topics list --lag` shows them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

FULL = "persistent://public/default/"


def _lagging(name: str, *subscriptions: tuple[str, int, int]) -> dict[str, Any]:
    now = int(time.time() * 1000)
    return {
        "topic": FULL + name, "partitions": 1, "messages": 9, "storageSize": 900,
        "subscriptions": [
            {"name": each, "type": "Shared", "msgBacklog": backlog, "msgDelayed": 0, "consumersCount": 2,
             "earliestMsgPublishTimeInBacklog": now - age if backlog else -1}
            for each, backlog, age in subscriptions
        ],
    }  # fmt: skip


def test_backlogs_are_a_line_each(peer: Peer) -> None:
    hour = 3_600_000
    topics = [_lagging("orders", ("billing", 3, 2 * hour), ("packing", 70, 90_000)), _lagging("quiet")]
    peer.says("GET", "magnetar/lag", {"topics": topics, "next": None})
    assert peer.run("topics", "list", "--lag").stdout.splitlines() == [
        "topic   subscription  type    backlog  delayed  oldest  consumers",
        "------  ------------  ------  -------  -------  ------  ---------",
        "orders  billing       Shared  3        0        2h      2",
        "orders  packing       Shared  70       0        1m      2",
        "quiet   -             -       -        -        -       -",
    ]
    for sort, first in (("backlog", "packing"), ("age", "billing")):
        lines = peer.run("topics", "list", "--lag", "--sort", sort).stdout.splitlines()
        assert lines[2].split()[1] == first
        assert lines[-1].split()[0] == "quiet"
    assert json.loads(peer.run("topics", "list", "--lag", "--output", "json").stdout) == topics
    peer.says("GET", "persistent/public/default/orders/lag", topics[0])
    assert "packing" in peer.run("topics", "subscriptions", "orders", "--lag").stdout


def test_backlogs_are_asked_for_page_by_page(peer: Peer) -> None:
    pages = [{"topics": [_lagging("a", ("g", 1, 0))], "next": "a"}, {"topics": [_lagging("b")], "next": None}]
    answers = iter(pages)

    class Paged(dict[tuple[str, str], tuple[int, dict[str, str], bytes]]):
        def get(self, key: Any, default: Any = None) -> Any:
            return 200, {"Content-Type": "application/json"}, json.dumps(next(answers)).encode()

    peer.answers = Paged()
    result = peer.run("topics", "list", "--lag", "--subscription", "g", "-ist")
    assert [line.split()[0] for line in result.stdout.splitlines()[2:]] == ["a", "b"]
    assert [path.split("?")[1] for _, path, _ in peer.asked] == [
        f"namespace=public%2Fdefault&after={after}&limit=10000&includeSystemTopic=true&subscription=g"
        for after in ("", "a")
    ]


@pytest.mark.parametrize("sort", ["name", "backlog"])
def test_a_subscription_that_no_topic_has_is_told(peer: Peer, sort: str) -> None:
    peer.says("GET", "magnetar/lag", {"topics": [], "next": None})
    result = peer.run("topics", "list", "--lag", "--sort", sort, "-s", "nosuch")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "No topic has a subscription nosuch.\n"
    result = peer.run("topics", "list", "--lag", "--sort", sort, "-s", "nosuch", "--output", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert peer.run("topics", "list", "--lag", "--sort", sort).stdout.startswith("topic")


def test_a_subscription_of_a_later_page_is_found(peer: Peer) -> None:
    pages = iter(
        [
            {"topics": [], "next": "a"},
            {"topics": [_lagging("orders", ("billing", 3, 90_000))], "next": None},
        ]
    )

    class Paged(dict[tuple[str, str], tuple[int, dict[str, str], bytes]]):
        def get(self, key: Any, default: Any = None) -> Any:
            return 200, {"Content-Type": "application/json"}, json.dumps(next(pages)).encode()

    peer.answers = Paged()
    result = peer.run("topics", "list", "--lag", "-s", "billing")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[::2]] == ["topic", "orders"]


def test_what_goes_with_lag_only_is_told(peer: Peer) -> None:
    for flags in (["--sort", "age"], ["-s", "billing"], ["--lag", "shop"]):
        result = peer.run("topics", "list", *flags)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
    assert peer.asked == []
