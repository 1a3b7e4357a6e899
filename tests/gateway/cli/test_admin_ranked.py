"""`magnetar-admin subscriptions list` and `consumers`, and `attention`."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.cli.conftest import Peer

FULL = "persistent://public/default/"


def _one(topic: str, open_: int, age: int, **more: Any) -> dict[str, Any]:
    states = dict.fromkeys(("unread", "available", "inHand", "blocked", "backoff", "delayed", "dying"), 0)
    return {
        "topic": FULL + topic, "subscription": "billing", "type": "Key_Shared", "open": open_,
        "states": {**states, "blocked": 2, "delayed": 3, "backoff": 4}, "oldestAgeSeconds": age, "deadLetters": 5,
        "consumers": 1, **more,
    }  # fmt: skip


def test_a_line_each(peer: Peer) -> None:
    found = [_one("orders", 1204, 7200), _one("refunds", 3, -1, blockedAtLeast=True)]
    peer.says("GET", "magnetar/subscriptions", {"subscriptions": found, "of": 2, "looked": 2, "behind": 0})
    result = peer.run("subscriptions", "list", "--sort", "open", "-n", "shop/eu", "-q", "bill")
    assert [line.split() for line in result.stdout.splitlines()[2:]] == [
        ["orders", "billing", "Key_Shared", "1204", "2h", "0", "2", "7", "5", "1"],
        ["refunds", "billing", "Key_Shared", "3", "-", "0", "2+", "7", "5", "1"],
    ]
    assert peer.asked[-1][1].endswith("subscriptions?sort=open&namespace=shop%2Feu&q=bill&limit=50")
    assert json.loads(peer.run("--output", "json", "subscriptions", "list").stdout)["subscriptions"] == found


def test_as_many_pages_as_are_asked_for(peer: Peer) -> None:
    pages = iter(
        [
            {"subscriptions": [_one("a", 1, 0)] * 1000, "of": 1500, "next": "here"},
            {"subscriptions": [_one("b", 1, 0)] * 200, "of": 1500, "next": "there"},
        ]
    )

    class Paged(dict[tuple[str, str], tuple[int, dict[str, str], bytes]]):
        def get(self, key: Any, default: Any = None) -> Any:
            return 200, {"Content-Type": "application/json"}, json.dumps(next(pages)).encode()

    peer.answers = Paged()
    result = peer.run("subscriptions", "list", "--limit", "1200")
    assert len(result.stdout.splitlines()) == 1202
    assert "1,200 of 1,500" in result.stderr
    assert [path.split("?")[1] for _, path, _ in peer.asked] == [
        "sort=oldest&limit=1000", "sort=oldest&limit=200&after=here",
    ]  # fmt: skip


def test_what_needs_attention_is_a_sentence_and_a_command(peer: Peer) -> None:
    finding = {
        "rule": "nobody", "sentence": "9 messages wait.", "since": "2026-01-01T00:00:00.000Z", "number": 9,
        "where": {}, "path": "/admin/v2/x", "cli": "magnetar-admin subscriptions consumers orders -s billing",
    }  # fmt: skip
    peer.says("GET", "magnetar/attention", {"findings": [finding], "of": 1, "looked": 4})
    assert peer.run("attention").stdout.splitlines() == [
        "9 messages wait.", "    magnetar-admin subscriptions consumers orders -s billing",
    ]  # fmt: skip
    assert "2026-01-01" in peer.run("--output", "table", "attention").stdout
    peer.run("attention", "-t", "orders", "--rule", "nobody", "--together")
    assert peer.asked[-1][1].endswith("attention?topic=orders&rule=nobody&together=true&limit=50")
    peer.says("GET", "magnetar/attention", {"findings": [], "of": 0, "looked": 4})
    assert peer.run("attention").stdout == ""


def test_who_consumes(peer: Peer) -> None:
    consumer = {
        "consumerName": "m-1", "address": "10.0.0.7", "clientVersion": "rdkafka 2.16", "unackedMessages": 3,
        "connectedSince": "2026-01-01T00:00:00.000Z", "msgOutCounter": 12, "metadata": {"clientId": "packer"},
    }  # fmt: skip
    peer.says(
        "GET",
        "persistent/public/default/orders/subscription/a%2Fb/magnetar/consumers",
        {"consumers": [consumer]},
    )
    result = peer.run("subscriptions", "consumers", "orders", "-s", "a/b")
    assert result.stdout.splitlines()[2].split() == [
        "m-1", "10.0.0.7", "packer", "rdkafka", "2.16", "2026-01-01T00:00:00.000Z", "3", "12",
    ]  # fmt: skip
