"""`magnetar-admin transactions`."""

from __future__ import annotations

import json

from tests.gateway.cli.conftest import Peer

ANSWER = {
    "transactions": [
        {
            "transactionalId": "tx", "namespace": "public/default", "state": "Ongoing", "producerId": 7,
            "producerEpoch": 2, "timeoutMs": 60000, "ageSeconds": 90, "groups": [], "partitionsOf": 3,
            "partitions": [
                {"topic": "persistent://public/default/pay", "partition": 1, "waitsAt": 5, "heldBack": 12},
                {"topic": "persistent://public/default/pay", "partition": 2},
            ],
        },
        {"transactionalId": "old", "namespace": "public/default", "state": "Empty", "producerId": 8, "producerEpoch": 0,
         "timeoutMs": 1},
    ],
    "of": 2,
    "next": "x",
}  # fmt: skip


def test_a_line_for_each_partition_in_it(peer: Peer) -> None:
    peer.says("GET", "magnetar/transactions", ANSWER)
    done = peer.run("transactions", "list", "--state", "any", "--limit", "2", "--after", "y")
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["tx", "tx", "tx", "old"]
    assert rows[0][-4:] == ["7:2", "pay:1", "5", "12"]
    assert rows[1][-3:] == ["pay:2", "-", "-"]
    assert "and 1 more" in done.stdout
    assert "There are more" in done.stderr
    assert peer.asked == [("GET", "/admin/v2/magnetar/transactions?state=any&limit=2&after=y", "")]


def test_as_json_and_none(peer: Peer) -> None:
    peer.says("GET", "magnetar/transactions", ANSWER)
    assert json.loads(peer.run("--output", "json", "transactions", "list").stdout) == ANSWER
    peer.says("GET", "magnetar/transactions", {"transactions": [], "of": 0})
    assert peer.run("transactions", "list").stdout == ""


def test_verbs_of_pulsars_are_refused_with_a_reason(peer: Peer) -> None:
    done = peer.run("transactions", "coordinators-list")
    assert "no coordinator of Pulsar's" in done.stderr
