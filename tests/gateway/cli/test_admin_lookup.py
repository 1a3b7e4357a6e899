"""The verbs that look topics up: what is asked, and what is shown."""

from __future__ import annotations

import json

from tests.gateway.cli.conftest import Peer

ORDERS = "persistent/public/default/orders"


def says(peer: Peer, path: str, broker: str) -> None:
    body = json.dumps({"brokerUrl": broker, "httpUrl": "http://x", "nativeUrl": broker}).encode()
    peer.answers["GET", f"/lookup/v2/topic/{path}"] = (200, {"Content-Type": "application/json"}, body)


def test_lookup(peer: Peer) -> None:
    says(peer, ORDERS, "kafka://h:9092")
    assert peer.run("topics", "lookup", "orders").stdout == "kafka://h:9092\n"


def test_partitions(peer: Peer) -> None:
    peer.says("GET", f"{ORDERS}/partitions", {"partitions": 3, "deleted": False})
    for index, broker in enumerate(("kafka://a:1", "kafka://b:2", "kafka://a:1")):
        says(peer, f"{ORDERS}-partition-{index}", broker)
    full = "persistent://public/default/orders-partition-"
    assert peer.run("topics", "partitioned-lookup", "orders").stdout == (
        f"{full}0    kafka://a:1\n{full}1    kafka://b:2\n{full}2    kafka://a:1\n"
    )
    sorted_ = peer.run("topics", "partitioned-lookup", "orders", "-s", "--output", "json")
    assert json.loads(sorted_.stdout) == {
        "kafka://a:1": [f"{full}0", f"{full}2"],
        "kafka://b:2": [f"{full}1"],
    }


def test_a_plain_topic_has_no_partitions(peer: Peer) -> None:
    peer.says("GET", f"{ORDERS}/partitions", {"partitions": 0, "deleted": False})
    result = peer.run("topics", "partitioned-lookup", "orders")
    assert (result.exit_code, result.stderr) == (1, "orders is not a partitioned topic. Use lookup for it.\n")


def test_bundle(peer: Peer) -> None:
    peer.answers["GET", f"/lookup/v2/topic/{ORDERS}/bundle"] = (
        200,
        {"Content-Type": "text/plain"},
        b"0x0_0xf",
    )
    assert peer.run("topics", "bundle-range", "orders").stdout == "0x0_0xf\n"
