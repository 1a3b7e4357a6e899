"""`magnetar-admin topics trace`."""

from __future__ import annotations

import json

from tests.gateway.cli.conftest import Peer

PATH = "persistent/public/default/orders/magnetar/trace"
ANSWER = {
    "messageId": "1:0:-1:1",
    "events": [
        {"what": "published", "timestamp": 0, "time": "T0", "topic": "orders", "partition": 0, "offset": 1,
         "due": "T1"},
        {"what": "to be tried again", "timestamp": 1, "topic": "R", "partition": 0, "offset": 4, "subscription": "b",
         "times": 1, "delayMs": 500},
        {"what": "dead letter", "timestamp": 2, "time": "T2", "topic": "D", "partition": 0, "offset": 0,
         "subscription": "b", "reason": "REJECTED\u009b", "deliveries": 2},
    ],
    "subscriptions": [{"subscription": "b", "state": "DONE"}],
    "looked": 3, "of": 1000, "atLeast": True, "notAllowed": ["shop.eu.D"],
}  # fmt: skip


def test_the_events_are_lines_and_what_is_not_known_is_said(peer: Peer) -> None:
    peer.says("GET", PATH, ANSWER)
    result = peer.run("topics", "trace", "orders", "1:0:-1:1")
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert lines[2] == ["T0", "published          orders  0          1       due T1"]
    assert lines[3] == ["1", "to be tried again  R       0          4       of b, time 1, after 500 ms"]
    assert lines[4][1].endswith("of b, REJECTED\\u009b, after 2 deliveries")
    assert lines[-1] == ["b", "DONE"]
    assert "3 of 1,000 letters" in result.stderr
    assert "shop.eu.D" in result.stderr
    assert peer.asked == [("GET", f"/admin/v2/{PATH}?id=1%3A0%3A-1%3A1", "")]


def test_as_json_it_is_what_the_gateway_says(peer: Peer) -> None:
    peer.says("GET", PATH, ANSWER)
    assert json.loads(peer.run("--output", "json", "topics", "trace", "orders", "1:0:-1:1").stdout) == ANSWER
