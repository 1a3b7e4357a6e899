"""`magnetar-admin topics`, the verbs of subscriptions, against a server that records what it is asked."""

from __future__ import annotations

import json

import pytest

from gateway.cli import admin_reset
from tests.gateway.cli.conftest import Peer

TOPIC = "persistent/public/default/orders"
SUB = f"{TOPIC}/subscription/billing"


@pytest.mark.parametrize(
    ("line", "method", "path", "body"),
    [
        ("create-subscription orders -s billing", "PUT", SUB,
         {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1, "partitionIndex": -1}),
        ("create-subscription orders -s billing -m earliest --type key_shared", "PUT", f"{SUB}?type=key_shared",
         {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}),
        ("create-subscription orders -s billing -m earliest -p team=blue -p pulsar.nack.delay.ms=1000 --enable-retry",
         "PUT", f"{SUB}?enableRetry=true",
         {"ledgerId": -1, "entryId": -1, "partitionIndex": -1,
          "properties": {"team": "blue", "pulsar.nack.delay.ms": "1000"}}),
        ("create-subscription orders -s billing -m earliest --lanes 16", "PUT", f"{SUB}?lanes=16",
         {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}),
        ("create-subscription orders -s billing -m earliest --type key_shared --lanes 1", "PUT",
         f"{SUB}?type=key_shared&lanes=1", {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}),
        ("create-subscription --pattern orders-.* -s billing --lanes 16", "PUT", "magnetar/queues/billing?lanes=16",
         {"pattern": "orders-.*", "position": "latest"}),
        ("create-subscription --pattern=-.* -s billing -m earliest --lanes 2 --type shared -p pulsar.nack.delay.ms=9",
         "PUT", "magnetar/queues/billing?type=shared&lanes=2",
         {"pattern": "-.*", "position": "earliest", "properties": {"pulsar.nack.delay.ms": "9"}}),
        ("update-subscription-properties orders -s billing -p a=b=c", "PUT", f"{SUB}/properties", {"a": "b=c"}),
        ("update-subscription-properties orders -s billing --clear", "PUT", f"{SUB}/properties", {}),
        ("unsubscribe orders -s billing -f", "DELETE", f"{SUB}?force=true", None),
        ("skip orders -s billing -n 7", "POST", f"{SUB}/skip/7", None),
        ("clear-backlog orders -s billing", "POST", f"{SUB}/skip_all", None),
        ("reset-cursor orders -s billing -t 2026-01-31T12:00:00Z", "POST", f"{SUB}/resetcursor/1769860800000", None),
        ("reset-cursor orders -s billing -t 2026-01-31T13:00+01:00", "POST", f"{SUB}/resetcursor/1769860800000", None),
        ("reset-cursor orders -s billing -m 17:3:-1:2", "POST", f"{SUB}/resetcursor",
         {"ledgerId": 17, "entryId": 3, "partitionIndex": -1, "batchIndex": 2, "isExcluded": False}),
        ("reset-cursor orders -s billing -m 17:3 -e", "POST", f"{SUB}/resetcursor",
         {"ledgerId": 17, "entryId": 3, "isExcluded": True}),
    ],
)  # fmt: skip
def test_a_verb_asks_as_pulsars_does(peer: Peer, line: str, method: str, path: str, body: object) -> None:
    result = peer.run("topics", *line.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert "billing" in result.stdout
    ((asked, where, sent),) = peer.asked
    assert (asked, where) == (method, "/admin/v2/" + path)
    assert (json.loads(sent) if sent not in ("", "null") else None) == body


def test_an_age_is_counted_back_from_now(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_reset, "_now_ms", lambda: 1_769_860_800_000)
    for said, ms in (("2h", 1_769_853_600_000), ("30", 1_769_860_770_000)):
        assert peer.run("topics", "reset-cursor", "orders", "-s", "billing", "-t", said).exit_code == 0
        assert peer.asked[-1][1] == f"/admin/v2/{SUB}/resetcursor/{ms}"


def test_what_a_reset_would_do_is_told_by_partition(peer: Peer) -> None:
    its = {"offset": 4, "messages": 1200, "settledAgain": 7, "openBefore": 0, "inHand": 2}
    seen = {**its, "byPartition": {"0": its, "1": its}, "explanation": "2,400 messages would be delivered."}
    peer.says("POST", f"{SUB}/resetcursor/1769860800000", seen)
    line = ["topics", "reset-cursor", "orders", "-s", "billing", "-t", "2026-01-31T12:00Z", "--dry-run"]
    said = peer.run(*line)
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert lines[0] == seen["explanation"]
    assert lines[-1].split() == ["1", "1,200", "7", "0", "2"]
    assert peer.asked[0][1].endswith("/resetcursor/1769860800000?dryRun=true")
    assert json.loads(peer.run("--output", "json", *line).stdout) == seen


def test_a_gateway_that_knows_no_dry_run_has_reset_it_and_that_is_told(peer: Peer) -> None:
    line = ["topics", "reset-cursor", "orders", "-s", "billing", "-t", "2h", "--dry-run"]
    said = peer.run(*line)
    assert said.exit_code == 1
    assert "knows no dry run: the subscription was reset" in said.stderr


def test_what_a_clear_would_settle_is_told_by_partition(peer: Peer) -> None:
    its = {"0": {"end": 1200, "messages": 7}, "1": {"end": 3, "messages": 0}}
    seen = {"messages": 7, "byPartition": its, "explanation": "7 messages would be settled."}
    peer.says("POST", f"{SUB}/skip_all", seen)
    line = ["topics", "clear-backlog", "orders", "-s", "billing", "--dry-run"]
    lines = peer.run(*line).stdout.splitlines()
    assert lines[0] == seen["explanation"]
    assert [each.split() for each in lines[-2:]] == [["0", "7", "1,200"], ["1", "0", "3"]]
    assert [path for _, path, _ in peer.asked] == [f"/admin/v2/{SUB}/skip_all?dryRun=true"]
    assert json.loads(peer.run("--output", "json", *line).stdout) == seen


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (1200, "billing of orders would be deleted: nobody would get the 1,200 messages that it has open."),
        (0, "billing of orders would be deleted: it has no messages open."),
    ],
)
def test_what_would_go_with_a_subscription(messages: int, says: str, peer: Peer) -> None:
    peer.says("DELETE", SUB, {"messages": messages})
    line = ["topics", "unsubscribe", "orders", "-s", "billing", "--force", "--dry-run"]
    assert peer.run(*line).stdout.splitlines() == [says]
    assert [(how, path) for how, path, _ in peer.asked] == [
        ("DELETE", f"/admin/v2/{SUB}?force=true&dryRun=true")
    ]
    assert json.loads(peer.run("--output", "json", *line).stdout) == {"messages": messages}


@pytest.mark.parametrize(
    ("verb", "says"),
    [("clear-backlog", "the backlog was cleared"), ("unsubscribe", "the subscription was deleted")],
)
def test_an_older_gateway_has_done_it_and_that_is_told(verb: str, says: str, peer: Peer) -> None:
    said = peer.run("topics", verb, "orders", "-s", "billing", "--dry-run")
    assert said.exit_code == 1
    assert f"knows no dry run: {says}." in said.stderr


def test_over_a_pattern_the_gateway_says_how_the_queue_topic_is_called(peer: Peer) -> None:
    line = [
        "create-subscription",
        "--pattern",
        "persistent://shop/eu/orders-.*",
        "-s",
        "billing",
        "--lanes",
        "16",
    ]
    peer.headers["X-Magnetar-Result"] = '{"queue": "shop.eu.billing-QUEUE", "topics": 2}'
    said = peer.run("topics", *line).stdout
    assert "over persistent://shop/eu/orders-.* (2 topics so far): read shop.eu.billing-QUEUE in" in said
    told = json.loads(peer.run("--output", "json", "topics", *line).stdout)
    assert (told["queue"], told["topics"], told["pattern"]) == ("shop.eu.billing-QUEUE", 2, line[2])
    # one of before that
    peer.headers["X-Magnetar-Result"] = '{"topics": 2}'
    assert "read billing-QUEUE in" in peer.run("topics", *line).stdout


def test_an_explanation_begins_with_its_sentence(peer: Peer) -> None:
    peer.says("GET", f"{SUB}/explain", {"explanation": "c1 has it.", "state": "ACQUIRED", "offset": 3})
    result = peer.run("topics", "explain", "orders", "-s", "billing", "--offset", "3")
    assert result.output.startswith("c1 has it.\n")
    assert "state    ACQUIRED" in result.output
    assert peer.asked[0][1].endswith("?offset=3")


def test_properties_of_a_subscription_are_shown(peer: Peer) -> None:
    peer.says("GET", f"{SUB}/properties", {"team": "blue"})
    assert (
        "team    blue" in peer.run("topics", "get-subscription-properties", "orders", "-s", "billing").output
    )
    one = {
        "subscription": "billing",
        "type": "Key_Shared",
        "overrides": {"pulsar.nack.delay.ms": "1000"},
        "properties": {"team": "blue", "pulsar.nack.delay.ms": "1000"},
    }
    peer.says("GET", f"{TOPIC}/subscriptions", [one])
    told = peer.run("topics", "subscriptions", "orders", "--details").output
    assert told == "billing  Key_Shared\n  pulsar.nack.delay.ms=1000\n  team=blue\n"
    told = peer.run("--output", "json", "topics", "subscriptions", "orders", "--details").output
    assert json.loads(told) == [one]


def test_a_key_alone_of_a_topic_and_in_a_subscription(peer: Peer) -> None:
    peer.says("GET", "magnetar/hash", {"slot": 6067})
    assert "slot    6067" in peer.run("topics", "hash", "Order-3459134").output
    peer.says("GET", f"{TOPIC}/hash", {"slot": 6067, "partitionByMurmur2": 3})
    assert "partitionByMurmur2    3" in peer.run("topics", "hash", "k", "--topic", "orders").output
    peer.says("GET", f"{SUB}/hash", {"slot": 6067, "owner": "c1"})
    assert "owner    c1" in peer.run("topics", "hash", "k", "--topic", "orders", "-s", "billing").output


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("reset-cursor orders -s billing", "--time"),
        ("reset-cursor orders -s billing -t 3y", "3d"),
        ("reset-cursor orders -s billing -t soon", "today, yesterday"),
        ("reset-cursor orders -s billing -t 2999-01-01", "time is to come"),
        ("reset-cursor orders -s billing -t 2999-01-01T00:00Z --dry-run", "clear-backlog"),
        ("reset-cursor orders -s billing -m 17", "ledger:entry"),
        ("explain orders -s billing", "--offset"),
        ("hash k -s billing", "--topic"),
        ("update-subscription-properties orders -s billing", "--clear"),
        ("update-subscription-properties orders -s billing -p a=b -c", "--clear"),
        ("update-subscription-properties orders -s billing -p team", "KEY=VALUE"),
        ("create-subscription orders --subscription=", "name of the subscription is empty"),
        ("create-subscription orders -s billing --lanes 0", "--lanes"),
        ("create-subscription orders -s billing --lanes 1001", "--lanes"),
        ("create-subscription orders -s billing --lanes many", "--lanes"),
        ("create-subscription -s billing --lanes 2", "--pattern"),
        ("create-subscription orders --pattern o.* -s billing --lanes 2", "--pattern"),
        ("create-subscription --pattern o.* -s billing", "--lanes"),
        ("create-subscription --pattern o.* -s billing --lanes 2 --enable-retry", "--enable-retry"),
        ("create-subscription --pattern o.* -s billing --lanes 2 -m 17:3", "earliest or the latest"),
        ("create-subscription --pattern o.* --subscription= --lanes 2", "name of the subscription is empty"),
        ("create-subscription --pattern o.* -s billing --lanes 2 --type failover", "shared or key_shared"),
    ],
)
def test_what_makes_no_sense_is_told_before_anybody_is_asked(peer: Peer, line: str, word: str) -> None:
    result = peer.run("topics", *line.split())
    assert result.exit_code == 2
    assert word in result.output
    assert peer.asked == []
