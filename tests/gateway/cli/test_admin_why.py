"""`magnetar-admin subscriptions why` and `act`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

Q = "persistent/public/default/orders/subscription/billing/magnetar"
WHERE = ("orders", "-s", "billing")

RECORD = {"partition": 0, "offset": 7, "messageId": "1:7:-1:0", "state": "ACQUIRED", "failedDeliveries": 0}
CAUSE = {
    "cause": "key", "partition": 0, "holdsUp": 1203, "messages": 1, "slot": 9, "key": "customer-17",
    "explanation": "c1 has it, until noon at the latest.", "record": RECORD, "consumer": "c1",
    "oldest": {"offset": 8, "ageSeconds": 7300}, "acts": ["take-back", "settle"], "filter": {},
}  # fmt: skip
PLAN = {
    "do": "settle", "plan": "p1", "messages": 2, "byState": {"acquired": 2}, "byPartition": {"0": 2},
    "leftOut": {"settled": 1}, "looked": 9, "of": 9, "explanation": "2 messages would be acknowledged.",
    "first": ["1:7:-1:0"],
}  # fmt: skip


def test_causes_are_told_with_what_to_do(peer: Peer) -> None:
    none = {**CAUSE, "cause": "no-consumer", "holdsUp": 1, "acts": []}
    peer.says("GET", f"{Q}/causes", {"causes": [CAUSE, none], "count": 3, "more": 1})
    result = peer.run("subscriptions", "why", *WHERE, "--limit", "2")
    assert result.stdout.splitlines() == [
        "1,203 messages wait for key 'customer-17', the oldest for 2h.",
        "  Partition 0, offset 7: c1 has it, until noon at the latest.",
        "  magnetar-admin subscriptions act take-back orders -s billing --messageId 1:7:-1:0",
        "1 message wait for a consumer, the oldest for 2h.",
        "  Partition 0, offset 7: c1 has it, until noon at the latest.",
    ]
    assert result.stderr == "1 cause more: --limit.\n"
    assert peer.asked == [("GET", f"/admin/v2/{Q}/causes?limit=2", "")]


def test_nobody_is_told_to_throw_away_what_only_waits_for_a_consumer(peer: Peer) -> None:
    next_ = {**CAUSE, "cause": "next", "acts": ["settle", "dead-letter"]}
    peer.says("GET", f"{Q}/causes", {"causes": [next_], "count": 1})
    said = peer.run("subscriptions", "why", *WHERE).stdout
    assert said.splitlines()[-1] == "  magnetar-admin subscriptions consumers orders -s billing"


def test_where_nothing_waits_it_says_so(peer: Peer) -> None:
    peer.says("GET", f"{Q}/causes", {"causes": [], "count": 0})
    assert peer.run("subscriptions", "why", *WHERE).stdout == "Nothing of billing on orders waits.\n"


def test_open_messages_are_a_line_each(peer: Peer) -> None:
    message = {**RECORD, "key": "a", "ageSeconds": 90, "why": "c1 has it."}
    peer.says(
        "GET", f"{Q}/open", {"messages": [message], "looked": 40_000, "of": 1_000_000, "next": "0.40000"}
    )
    result = peer.run(
        "subscriptions", "why", *WHERE, "--open", "--state", "blocked", "--state", "acquired", "--key", "a"
    )
    assert result.stdout.splitlines()[2].split() == [
        "0", "7", "1:7:-1:0", "ACQUIRED", "a", "0", "1m", "c1", "has", "it."
    ]  # fmt: skip
    assert result.stderr == "40,000 of 1,000,000 open messages looked at; go on with --after 0.40000.\n"
    assert peer.asked[0][1] == f"/admin/v2/{Q}/open?limit=50&after=&state=blocked%2Cacquired&key=a"


def test_an_act_is_shown_before_it_is_done(peer: Peer) -> None:
    peer.says("POST", f"{Q}/act", {**PLAN})
    shown = peer.run("subscriptions", "act", "settle", *WHERE, "--key", "a", "--dry-run")
    assert shown.stdout.splitlines() == [
        "2 messages would be acknowledged.",
        "By state: 2 acquired",
        "Left out: 1 settled",
        "The first: 1:7:-1:0",
    ]
    assert [json.loads(body) for _, _, body in peer.asked] == [
        {"do": "settle", "filter": {"key": "a"}, "dryRun": True}
    ]


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False)])
def test_an_act_asks(peer: Peer, answer: str, done: bool) -> None:
    peer.says("POST", f"{Q}/act", {**PLAN})
    result = peer.run("subscriptions", "act", "settle", *WHERE, "-m", "1:7:-1:0", stdin=answer)
    assert result.exit_code == 0
    bodies: list[Any] = [json.loads(body) for _, _, body in peer.asked]
    assert bodies[0] == {"do": "settle", "messages": ["1:7:-1:0"], "dryRun": True}
    assert bodies[1:] == ([{"do": "settle", "messages": ["1:7:-1:0"], "plan": "p1"}] if done else [])
    assert ("settle: done to 2 messages of billing on orders." in result.stdout) is done


def test_which_messages_must_be_said_once(peer: Peer) -> None:
    for words in ((), ("--all", "--key", "a"), ("-m", "1:7:-1:0", "--all")):
        result = peer.run("subscriptions", "act", "settle", *WHERE, *words)
        assert (result.exit_code, "Say which messages" in result.stderr) == (2, True)
    assert peer.run("subscriptions", "why", *WHERE, "--key", "a").exit_code == 2
    assert peer.asked == []
    peer.says("POST", f"{Q}/act", {**PLAN})
    assert peer.run("subscriptions", "act", "take-back", *WHERE, "--all", "--yes").exit_code == 0
    assert json.loads(peer.asked[0][2])["filter"] == {}
