"""The verbs of `magnetar-admin topics`: what each asks for, and what it says afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

FULL = "persistent://public/default/"


P = "/admin/v2/persistent/public/default/"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        ("topics create orders", "PUT", P + "orders", "{}"),
        ("topics create orders -m a=b -m c=d=e", "PUT", P + "orders", '{"a": "b", "c": "d=e"}'),
        ("topics create-partitioned-topic orders -p 4", "PUT", P + "orders/partitions", "4"),
        (
            "topics create-partitioned-topic orders --partitions 4 -m a=b",
            "PUT",
            P + "orders/partitions",
            '{"partitions": 4, "properties": {"a": "b"}}',
        ),
        (
            "topics update-partitioned-topic orders -p 8 -f",
            "POST",
            P + "orders/partitions?updateLocalTopicOnly=false&force=true",
            "8",
        ),
        ("topics delete orders", "DELETE", P + "orders?force=false", ""),
        ("topics delete -f shop/eu/orders", "DELETE", "/admin/v2/persistent/shop/eu/orders?force=true", ""),
        ("topics delete-partitioned-topic orders", "DELETE", P + "orders/partitions?force=false", ""),
        ("topics create-missed-partitions orders", "POST", P + "orders/createMissedPartitions", "null"),
        (
            "topics create non-persistent://shop/eu/a%b",
            "PUT",
            "/admin/v2/non-persistent/shop/eu/a%25b",
            "{}",
        ),
    ],
)
def test_writes_send_what_pulsar_admin_sends(
    peer: Peer, arguments: str, method: str, path: str, body: str
) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stderr) == (0, "")
    # one sentence says what was done, by the name that was typed
    assert result.stdout.count("\n") == 1
    assert "orders" in result.stdout or "a%b" in result.stdout
    assert peer.asked == [(method, path, body)]


@pytest.mark.parametrize(
    ("arguments", "asked", "result", "sentence"),
    [
        ("create orders", ("PUT", ""), {}, "Created orders."),
        ("create-partitioned-topic orders -p 4", ("PUT", "/partitions"), {}, "Created orders with 4 partitions."),
        ("update-partitioned-topic orders -p 8", ("POST", "/partitions"), {"before": 4, "partitions": 8},
         "orders has 8 partitions now, 4 before."),
        ("update-partitioned-topic orders -p 8", ("POST", "/partitions"), {"before": 8, "partitions": 8},
         "orders has 8 partitions already."),
        ("delete orders", ("DELETE", ""), {"messages": 1234}, "Deleted orders with 1,234 messages."),
        ("delete-partitioned-topic orders", ("DELETE", "/partitions"), {"messages": 1},
         "Deleted orders with 1 message."),
        # a gateway, or a Pulsar, that does not say
        ("delete orders", ("DELETE", ""), None, "Deleted orders."),
        ("clear-backlog orders -s billing", ("POST", "/subscription/billing/skip_all"), {"messages": 2},
         "Cleared the backlog of billing on orders: acknowledged 2 messages."),
        ("skip orders -s billing -n 5", ("POST", "/subscription/billing/skip/5"), {"messages": 2},
         "Skipped messages of orders for billing: 2 messages acknowledged that were open."),
        ("reset-cursor orders -s billing -m earliest", ("POST", "/subscription/billing/resetcursor"),
         {"messages": 9}, "Reset billing on orders: 9 messages to deliver."),
        ("unsubscribe orders -s billing", ("DELETE", "/subscription/billing"), {},
         "Deleted the subscription billing of orders."),
        ("create-subscription orders -s billing", ("PUT", "/subscription/billing"), {},
         "Created the subscription billing of orders, from latest."),
        ("create-subscription orders -s billing --type key_shared", ("PUT", "/subscription/billing?type=key_shared"),
         {}, "Created the key_shared subscription billing of orders, from latest."),
        ("update-subscription-properties orders -s billing -p team=blue", ("PUT", "/subscription/billing/properties"),
         {}, "The properties of billing on orders are now: team."),
    ],
)  # fmt: skip
def test_writes_say_what_they_did(
    peer: Peer, arguments: str, asked: tuple[str, str], result: dict[str, int] | None, sentence: str
) -> None:
    method, path = asked
    headers = {"X-Magnetar-Result": json.dumps(result)} if result is not None else {}
    peer.answers[method, P + "orders" + path] = (204, headers, b"")
    done = peer.run("topics", *arguments.split())
    assert (done.exit_code, done.stdout) == (0, sentence + "\n")
    told = json.loads(peer.run("topics", *arguments.split(), "--output", "json").stdout)
    assert told["topic"] == "orders"
    assert {key: told[key] for key in result or {}} == (result or {})


STATS = "?getPreciseBacklog=false&subscriptionBacklogSize=true&getEarliestTimeInBacklog=false"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("topics stats orders", P + "orders/stats" + STATS),
        (
            "topics stats orders -gpb -sbs -etb",
            P
            + "orders/stats?getPreciseBacklog=true&subscriptionBacklogSize=false&getEarliestTimeInBacklog=true",
        ),
        (
            "topics partitioned-stats orders --per-partition",
            P + "orders/partitioned-stats?perPartition=true&" + STATS[1:],
        ),
        ("topics stats-internal orders", P + "orders/internalStats?metadata=false"),
        ("topics partitioned-stats-internal orders", P + "orders/partitioned-internalStats"),
        ("topics get-partitioned-topic-metadata orders", P + "orders/partitions"),
        ("brokers leader-broker", "/admin/v2/brokers/leaderBroker"),
    ],
)
def test_objects_are_printed_as_java_prints_them(peer: Peer, arguments: str, path: str) -> None:
    value: dict[str, Any] = {
        "count": 1,
        "rate": 0.5,
        "none": None,
        "list": [],
        "map": {},
        "each": [{"a": "ü"}, 2],
    }
    peer.says("GET", path.split("?")[0].removeprefix("/admin/v2/"), value)
    result = peer.run(*arguments.split())
    assert result.exit_code == 0
    assert peer.asked == [("GET", path, "")]
    assert result.stdout == (
        '{\n  "count" : 1,\n  "rate" : 0.5,\n  "none" : null,\n  "list" : [ ],\n  "map" : { },\n'
        '  "each" : [ {\n    "a" : "ü"\n  }, 2 ]\n}\n'
    )


def test_lists_are_printed_by_line(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default", [FULL + "a", FULL + "b"])
    peer.says("GET", "non-persistent/public/default", ["non-persistent://public/default/c"])
    result = peer.run("topics", "list")
    assert result.stdout == f"{FULL}a\n{FULL}b\nnon-persistent://public/default/c\n"
    assert [path for _, path, _ in peer.asked] == [
        "/admin/v2/persistent/public/default?includeSystemTopic=false",
        "/admin/v2/non-persistent/public/default?includeSystemTopic=false",
    ]


def test_one_domain_of_one_namespace(peer: Peer) -> None:
    peer.says("GET", "persistent/shop/eu", [])
    result = peer.run("topics", "list", "shop/eu", "-td", "persistent", "-ist")
    assert (result.exit_code, result.stdout) == (0, "")
    assert [path for _, path, _ in peer.asked] == ["/admin/v2/persistent/shop/eu?includeSystemTopic=true"]


def test_a_notice_of_the_gateway_stands_beside_the_stats(peer: Peer) -> None:
    peer.says(
        "GET", "persistent/public/default/x/stats", {"magnetar": {"notices": ["kept without compaction"]}}
    )
    result = peer.run("topics", "stats", "x", "--output", "json")
    assert json.loads(result.stdout)["magnetar"]["notices"]
    assert result.stderr == "Notice: kept without compaction\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "stats", "a/b"], ["topics", "stats", ""], ["topics", "stats", "persistent://a/b"],
        ["topics", "stats", "kafka://a/b/c"], ["topics", "list", "public"], ["topics", "list", "a/b/c"],
        ["topics", "create", "x", "-m", "novalue"], ["topics", "delete", "--regex", "("],
        ["topics", "delete", "--from-file", "/nonexistent/file"],
    ],
)  # fmt: skip
def test_wrong_names_are_told_without_asking(peer: Peer, arguments: list[str]) -> None:
    result = peer.run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert peer.asked == []


def test_several_topics_are_deleted_by_file_or_pattern(peer: Peer, tmp_path: Path) -> None:
    peer.says(
        "GET", "persistent/public/default", [FULL + n for n in ("t-1", "t-2", "t-p-partition-0", "u-1")]
    )
    peer.says("GET", "persistent/public/default/partitioned", [FULL + "t-p"])
    assert peer.run("topics", "delete", "-r", "t-.*").exit_code == 0
    assert [path for method, path, _ in peer.asked if method == "DELETE"] == [
        P + "t-1?force=false", P + "t-2?force=false",
    ]  # fmt: skip
    peer.asked.clear()

    names = tmp_path / "names"
    names.write_text(f"{FULL}a\n\n b \n")
    assert peer.run("topics", "delete", "--from-file", str(names), "--force").exit_code == 0
    assert [path for _, path, _ in peer.asked] == [P + "a?force=true", P + "b?force=true"]
