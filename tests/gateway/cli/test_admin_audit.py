"""`magnetar-admin audit`."""

from __future__ import annotations

import json
import time

from tests.gateway.cli.conftest import Peer

ENTRIES = [
    {
        "number": 2, "time": 1500, "kind": "refused", "what": "DELETE", "who": "User:eve", "host": "10.0.0.2",
        "over": "http", "outcome": "not allowed", "target": "tenants/shop", "leftOut": 1200,
    },
    {
        "number": 1, "time": 0, "kind": "change", "what": "CreateTopics", "who": "User:ada", "host": "10.0.0.1",
        "over": "kafka", "outcome": "done", "target": "orders",
    },
]  # fmt: skip


def test_the_newest_is_the_last_line(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", ENTRIES)
    result = peer.run("audit", "--limit", "20", "--kind", "change")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["time", "kind", "who", "host", "what", "target", "outcome"]
    assert lines[2].split() == [
        "1970-01-01T00:00:00.000Z", "change", "User:ada", "10.0.0.1", "CreateTopics", "orders", "done",
    ]  # fmt: skip
    assert lines[3].endswith("not allowed")
    assert "1,200 more" in result.stderr
    assert peer.asked == [("GET", "/admin/v2/magnetar/audit?limit=20&kind=change", "")]


def test_as_json_it_is_what_the_gateway_says(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", ENTRIES)
    assert json.loads(peer.run("--output", "json", "audit").stdout) == ENTRIES


def test_where_there_is_nothing_nothing_is_printed(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", [])
    assert peer.run("audit").output == ""


KEPT = {
    "kind": "change", "over": "http", "time": 0, "who": "User:ada", "host": "h", "what": "POST", "target": "skip_all",
    "counts": {"messages": 3}, "why": "a bad release",
}  # fmt: skip


def test_what_the_topic_has_is_asked_for_by_time_and_user(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", [KEPT])
    result = peer.run("audit", "--since", "1970-01-01T00:00:05Z", "--who", "ada")
    assert result.stdout.splitlines()[2].endswith("skip_all  done (messages 3): a bad release")
    assert peer.asked == [("GET", "/admin/v2/magnetar/audit?limit=100&who=ada&since=5000", "")]


def test_an_act_is_called_by_its_name(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", [{**KEPT, "act": "take-back"}])
    line = peer.run("audit").stdout.splitlines()[2]
    assert line.split()[1:6] == ["change", "User:ada", "h", "take-back", "skip_all"]


def test_since_may_be_a_span_back_from_now(peer: Peer) -> None:
    peer.says("GET", "magnetar/audit", [])
    before = time.time() * 1000
    peer.run("audit", "--since", "2h")
    (_, path, _) = peer.asked[0]
    assert before - 7_200_000 - 1 <= int(path.rpartition("=")[2]) <= time.time() * 1000 - 7_200_000
    assert peer.run("audit", "--since", "soon").exit_code == 2
