"""`magnetar-admin series`."""

from __future__ import annotations

import json

from tests.gateway.cli.conftest import Peer

ANSWER = {
    "span": "1h", "stepSeconds": 10, "first": "1970-01-01T00:00:00.000Z",
    "in": [None, 0.0, 2.5, 10.0], "out": [], "open": [0.0] * 359 + [1234567.0], "oldestSeconds": [None, 4.0, None],
}  # fmt: skip


def test_each_is_a_row_with_bars(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/subscription/billing/magnetar/series", ANSWER)
    result = peer.run("series", "orders", "-s", "billing", "--span", "1h")
    assert result.stdout.splitlines()[2:] == [
        "published a second    10           10            ▁▃█",
        "delivered a second    -            -",
        "open messages         1.23457e+06  1.23457e+06  " + "▁" * 44 + "█",
        "age of the oldest, s  -            4             █",
    ]
    (asked,) = peer.asked
    assert asked[1].endswith("/magnetar/series?span=1h")


def test_without_a_topic_it_is_the_gateway(peer: Peer) -> None:
    peer.says("GET", "magnetar/series", ANSWER)
    assert json.loads(peer.run("--output", "json", "series", "--span", "48h").stdout) == ANSWER
    assert peer.asked == [("GET", "/admin/v2/magnetar/series?span=48h", "")]
    assert peer.run("series", "orders").exit_code == 2
