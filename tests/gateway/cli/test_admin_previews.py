"""`--topic-id`, `--subscription-id`: what was looked at is named by its id, and no other of its name is meant."""

from __future__ import annotations

import pytest

from tests.gateway.cli.conftest import Peer

ID = "7f6e4c1a-0000-4000-8000-00000000002a"
TOPIC = "persistent/public/default/orders"
SUB = f"{TOPIC}/subscription/billing"
AT_2026 = "1769860800000"


OF_SUBSCRIPTIONS = pytest.mark.parametrize(
    ("line", "method", "path"),
    [
        ("clear-backlog orders -s billing", "POST", f"{SUB}/skip_all"),
        ("reset-cursor orders -s billing -t 2026-01-31T12:00Z", "POST", f"{SUB}/resetcursor/{AT_2026}"),
        ("unsubscribe orders -s billing", "DELETE", SUB),
    ],
)


@pytest.mark.parametrize(
    ("line", "method", "path"),
    [
        ("clear-backlog orders -s billing", "POST", f"{SUB}/skip_all?"),
        ("reset-cursor orders -s billing -t 2026-01-31T12:00Z", "POST", f"{SUB}/resetcursor/{AT_2026}?"),
        ("reset-cursor orders -s billing -m earliest", "POST", f"{SUB}/resetcursor?"),
        ("unsubscribe orders -s billing", "DELETE", f"{SUB}?force=false&"),
        ("delete orders", "DELETE", f"{TOPIC}?force=false&"),
        ("delete-partitioned-topic orders -f", "DELETE", f"{TOPIC}/partitions?force=true&"),
    ],
)
def test_an_act_says_which_topic_it_is_about(peer: Peer, line: str, method: str, path: str) -> None:
    assert peer.run("topics", *line.split(), "--topic-id", ID).exit_code == 0
    assert [each[:2] for each in peer.asked] == [(method, f"/admin/v2/{path}topicId={ID}")]
    empty = peer.run("topics", *line.split(), "--topic-id", "")
    assert (empty.exit_code, "The id behind --topic-id is empty" in empty.stderr) == (2, True)
    assert len(peer.asked) == 1, "nothing was asked of the gateway"


@OF_SUBSCRIPTIONS
def test_a_look_tells_the_id_and_may_be_of_one(peer: Peer, line: str, method: str, path: str) -> None:
    seen = {"messages": 1, "explanation": "1 message.", "byPartition": {}, "topicId": ID}
    peer.says(method, path, seen)
    said = peer.run("topics", *line.split(), "--dry-run", "--topic-id", ID)
    assert (said.exit_code, f"add: --topic-id {ID}" in said.stderr) == (0, True), said.output
    assert f"topicId={ID}" in peer.asked[0][1]
    assert "dryRun=true" in peer.asked[0][1]


@OF_SUBSCRIPTIONS
def test_an_act_says_which_subscription_it_is_about(peer: Peer, line: str, method: str, path: str) -> None:
    assert peer.run("topics", *line.split(), "--subscription-id", "42").exit_code == 0
    assert peer.asked[0][0] == method
    assert peer.asked[0][1].endswith("subscriptionId=42")
    seen = {"messages": 1, "explanation": "1.", "byPartition": {}, "topicId": ID, "subscriptionId": 42}
    peer.says(method, path, seen)
    said = peer.run("topics", *line.split(), "--subscription-id", "42", "--dry-run")
    assert (said.exit_code, f"--topic-id {ID} --subscription-id 42" in said.stderr) == (0, True), said.output
    assert "subscriptionId=42" in peer.asked[1][1]
    empty = peer.run("topics", *line.split(), "--subscription-id", "")
    assert (empty.exit_code, "behind --subscription-id is empty" in empty.stderr) == (2, True)
    assert len(peer.asked) == 2, "nothing was asked of the gateway"


@pytest.mark.parametrize("flag", ["--regex", "--from-file"])
def test_an_id_is_of_one_topic(peer: Peer, flag: str) -> None:
    refused = peer.run("topics", "delete", "orders", flag, "--topic-id", ID)
    assert (refused.exit_code, "--topic-id is of one topic" in refused.stderr) == (2, True)
    assert not peer.asked
