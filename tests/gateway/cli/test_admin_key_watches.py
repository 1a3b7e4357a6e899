"""`magnetar-admin topics watch`."""

from __future__ import annotations

import json

import pytest

from gateway.cli import admin_key_watches
from tests.gateway.cli.conftest import Peer

PATH = "persistent/public/default/orders/subscription/billing/magnetar/watch"
EVENTS = [
    {
        "time": "T1",
        "what": "delivered",
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "consumer": "c",
        "failed": 2,
    },
    {"time": "T2", "what": "waits", "topic": "orders", "partition": 1, "offset": 7, "failed": 1, "due": "T9"},
    {"time": "T3", "what": "dying", "topic": "orders", "partition": 1, "offset": 7, "reason": "REJECTED"},
]


def answer(*events: object, watching: bool = True, **more: object) -> dict[str, object]:
    return {"key": "ada", "watching": watching, "events": list(events), **more}


WATCH = ("topics", "watch", "orders", "-s", "billing", "--key", "ada")


def test_once_it_begins_and_tells_what_happened(peer: Peer) -> None:
    peer.says("POST", PATH, answer(*EVENTS, missed=3))
    result = peer.run(*WATCH, "--once", "--minutes", "5")
    assert [line.split(maxsplit=4) for line in result.stdout.splitlines()[1:]] == [
        ["T1", "delivered", "orders", "1", "7         c                     failed 2 times"],
        ["T2", "waits", "orders", "1", "7                               failed once, until T9"],
        ["T3", "dying", "orders", "1", "7                               REJECTED"],
    ]
    assert "3 times" in result.stderr
    assert [(method, json.loads(body)) for method, _, body in peer.asked] == [
        ("POST", {"key": "ada", "minutes": 5})
    ]
    peer.says("POST", PATH, answer())
    assert json.loads(peer.run("--output", "json", *WATCH, "--once").stdout) == answer()


def test_each_event_is_told_once_until_the_time_is_over(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_key_watches, "_EVERY", 0)
    peer.says("POST", PATH, answer(*EVENTS[:2]))
    # the first is not remembered any more
    peer.says("GET", PATH, answer(*EVENTS[1:], watching=False, leftOut=1))
    result = peer.run(*WATCH)
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["time", "T1", "T2", "T3"]
