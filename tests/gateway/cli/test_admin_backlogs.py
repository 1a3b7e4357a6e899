"""Verbs of backlogs as wholes: what is asked of the gateway, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cli import admin_backlogs
from tests.gateway.cli.conftest import Peer

ORDERS = "persistent/public/default/orders"
BILLING = f"{ORDERS}/subscription/billing"
DID = {"X-Magnetar-Result": '{"messages":3}'}


@pytest.mark.parametrize(
    ("arguments", "method", "path", "sent"),
    [
        ("topics expire-messages orders -s billing -t 2h", "POST", f"{BILLING}/expireMessages/7200", None),
        (
            "topics expire-messages orders -s billing -p 17:3 -e", "POST", f"{BILLING}/expireMessages",
            {"ledgerId": 17, "entryId": 3, "isExcluded": True},
        ),
        (
            "topics expire-messages-all-subscriptions orders -t 90", "POST",
            f"{ORDERS}/all_subscription/expireMessages/90", None,
        ),
        ("topics terminate orders", "POST", f"{ORDERS}/terminate", None),
        ("topics partitioned-terminate orders", "POST", f"{ORDERS}/terminate/partitions", None),
        ("topics last-message-id orders", "GET", f"{ORDERS}/lastMessageId", None),
        (
            "topics get-message-id orders -d 2026-01-31T12:00:00Z", "GET", f"{ORDERS}/messageid/1769860800000", None,
        ),
        (
            "topics get-backlog-size orders -m 17:3", "PUT", f"{ORDERS}/backlogSize",
            {"ledgerId": 17, "entryId": 3},
        ),
        ("topics info-internal orders", "GET", f"{ORDERS}/internal-info", None),
        ("topics compact orders", "PUT", f"{ORDERS}/compaction", None),
        ("topics unload orders", "PUT", f"{ORDERS}/unload", None),
        ("namespaces clear-backlog shop/eu -force", "POST", "namespaces/shop/eu/clearBacklog", None),
        ("namespaces clear-backlog shop/eu -f", "POST", "namespaces/shop/eu/clearBacklog", None),
        (
            "namespaces clear-backlog shop/eu -s billing --force", "POST",
            "namespaces/shop/eu/clearBacklog/billing", None,
        ),
        ("namespaces unsubscribe shop/eu -s billing", "POST", "namespaces/shop/eu/unsubscribe/billing", None),
        ("namespaces unload shop/eu -b 0x0_0xf", "PUT", "namespaces/shop/eu/unload", None),
    ],
)  # fmt: skip
def test_what_is_asked(peer: Peer, arguments: str, method: str, path: str, sent: Any) -> None:
    peer.headers = DID
    result = peer.run(*arguments.split())
    assert result.exit_code == 0, result.stderr
    asked, target, given = peer.asked[-1]
    assert (asked, target) == (method, f"/admin/v2/{path}")
    assert (json.loads(given) if given else None) == sent


def test_what_was_done_is_said(peer: Peer) -> None:
    peer.headers = DID
    said = peer.run("topics", "expire-messages", "orders", "-s", "billing", "-t", "1h")
    assert said.stdout == "Expired 3 messages of billing of orders.\n"
    said = peer.run("namespaces", "clear-backlog", "shop/eu", "-force", "--output", "json")
    assert json.loads(said.stdout) == {"action": "cleared", "namespace": "shop/eu", "messages": 3}


def test_a_namespaces_backlog_is_cleared_by_who_says_yes(peer: Peer) -> None:
    peer.headers = DID
    before = len(peer.asked)
    no = peer.run("namespaces", "clear-backlog", "shop/eu", stdin="n\n")
    assert (no.exit_code, len(peer.asked)) == (1, before)
    assert "Are you sure you want to clear the backlog of shop/eu?" in no.stderr
    yes = peer.run("namespaces", "clear-backlog", "shop/eu", stdin="y\n")
    assert (yes.exit_code, len(peer.asked)) == (0, before + 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("expire-messages orders -s billing", "Say which: either --expireTime"),
        ("expire-messages orders -s billing -t 1h -p 17:3", "Say which: either --expireTime"),
        ("expire-messages orders -s billing -t 0", "one second or more"),
        ("expire-messages orders -s billing -t soon", "'soon' is no time"),
        ("expire-messages orders -s billing -p x", "'x' is no message id"),
        ("expire-messages-all-subscriptions orders", "Say how old"),
        ("get-message-id orders -d soon", "'soon' is no point in time"),
    ],
)
def test_what_is_not_said_whole_is_not_sent(peer: Peer, arguments: str, words: str) -> None:
    before = len(peer.asked)
    result = peer.run("topics", *arguments.split())
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr
    assert len(peer.asked) == before


@pytest.mark.parametrize(
    ("had", "said"),
    [
        (0, "No topic of shop/eu has a subscription s: nothing was deleted."),
        (1, "Deleted s on 1 topic of shop/eu."),
        (2, "Deleted s on 2 topics of shop/eu."),
        (None, "Deleted s on all topics of shop/eu."),
    ],
)
def test_on_how_many_topics_a_subscription_was_deleted_is_said(
    peer: Peer, had: int | None, said: str
) -> None:
    if had is not None:
        peer.headers = {"X-Magnetar-Result": json.dumps({"topics": had})}
    assert peer.run("namespaces", "unsubscribe", "shop/eu", "-s", "s").stdout == said + "\n"


def test_the_status_of_a_compaction_is_waited_for(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_backlogs, "_POLL_SECONDS", 0)
    peer.says("GET", f"{ORDERS}/compaction", {"status": "RUNNING", "lastError": ""})
    assert "RUNNING" in peer.run(*["topics", "compaction-status", "orders"]).stdout
    asked = peer.asked
    done = {"status": "ERROR", "lastError": "no room"}

    class Asked(list[tuple[str, str, str]]):
        def append(self, item: tuple[str, str, str]) -> None:
            super().append(item)
            if len(self) == 3:
                peer.says("GET", f"{ORDERS}/compaction", done)

    peer.asked = Asked()
    result = peer.run(*["topics", "compaction-status", "orders", "-w"])
    assert len(peer.asked) == 3
    assert "no room" in result.stdout
    assert len(asked) == 1
