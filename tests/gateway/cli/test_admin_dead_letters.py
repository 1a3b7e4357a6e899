"""`magnetar-admin dead-letters`: what it asks for, what it shows, and that it asks before it does something."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.cli.conftest import Peer

Q = "persistent/public/default/orders/subscription/billing/magnetar"
LETTER = {
    "id": "0:17", "state": "open", "reason": "REJECTED", "message": "", "diedAt": "2026-01-31T12:00:00.123Z",
    "failed": 3, "replays": 1, "key": "ada", "origin": {}, "headers": {}, "size": 5, "value": "a\x1b[31m\nb",
}  # fmt: skip
SEEN: dict[str, Any] = {
    "letters": 1204, "leftOut": 2, "keys": 40, "withoutKey": 0, "looked": 1206, "from": "orders-billing-DLQ",
    "edited": 0, "to": "orders-billing-RETRY", "maxReplays": 3, "otherSubscriptions": ["stock"], "keysWithNewer": 7,
    "keysBehindBlocked": 1, "members": 0, "plan": "p1", "until": "",
}  # fmt: skip
JOB: dict[str, Any] = {
    "id": 7, "what": "replay", "state": "done", "topic": "orders", "subscription": "billing", "from": "",
    "rate": 100, "by": "ada", "began": "2026-01-31T12:00:00.123Z", "planned": 1204, "done": 1204, "edited": 0,
    "leftOut": 2, "diedAgain": 0,
}  # fmt: skip


def previews(peer: Peer, verb: str = "replay", **seen: Any) -> None:
    peer.says("POST", f"{Q}/{verb}", {**SEEN, **JOB, **seen})


def bodies(peer: Peer) -> list[dict[str, Any]]:
    return [json.loads(body) for method, _, body in peer.asked if method == "POST"]


def test_letters_are_listed_in_one_line_each(peer: Peer) -> None:
    counts = {"open": 1, "replayed": 3, "discarded": 0, "edited": 0}
    answer = {
        "topic": "orders-billing-DLQ",
        "letters": [LETTER],
        "counts": counts,
        "looked": 1,
        "next": "0:18",
    }
    peer.says("GET", f"{Q}/deadletters", answer)
    result = peer.run(
        "dead-letters", "list", "orders", "-s", "billing", "--reason", "REJECTED", "--header", "a=b"
    )
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["id", "state", "died", "reason", "failed", "replays", "key", "value"]
    assert lines[2].split() == [
        "0:17",
        "open",
        "2026-01-31T12:00:00Z",
        "REJECTED",
        "3",
        "1",
        "ada",
        "a·[31m·b",
    ]
    assert "1 open, 3 replayed" in result.stderr
    assert "--after 0:18" in result.stderr
    assert "state=open" in peer.asked[0][1]
    assert "reason=REJECTED" in peer.asked[0][1]
    assert "header=a%3Db" in peer.asked[0][1]


def test_groups_show_what_is_common(peer: Peer) -> None:
    group = {
        "group": "de", "count": 6, "first": "2026-01-31T12:00:00.123Z", "last": "2026-01-31T13:00:00.123Z",
        "sample": "0:8", "common": [{"path": "$.currency", "value": "EUR", "letters": 6, "of": 6}],
    }  # fmt: skip
    peer.says(
        "GET", f"{Q}/deadletters/groups", {"topic": "", "groups": [group], "looked": 6, "atLeast": True}
    )
    result = peer.run("dead-letters", "groups", "orders", "-s", "billing", "--by", "json:$.country")
    assert result.stdout.splitlines()[2].split() == [
        "de", "6", "2026-01-31T12:00:00Z", "2026-01-31T13:00:00Z", "0:8", "$.currency=EUR",
    ]  # fmt: skip
    assert "At least" in result.stderr


def test_a_replay_shows_what_would_happen_and_asks(peer: Peer) -> None:
    previews(peer)
    result = peer.run("dead-letters", "replay", "orders", "-s", "billing", "--text", "x", stdin="n\n")
    assert result.exit_code == 1
    for said in (
        "1,204 letters of 40 keys",
        "stock",
        "7 keys with newer",
        "left out: 2",
        "held up",
        "nobody reads",
    ):
        assert said in result.stderr
    (body,) = bodies(peer)
    assert body == {
        "filter": {"text": "x"}, "to": "subscription", "rate": 100, "maxReplays": 3, "dryRun": True,
    }  # fmt: skip


def test_who_says_yes_gets_what_was_seen(peer: Peer) -> None:
    previews(peer)
    result = peer.run("dead-letters", "replay", "orders", "0:17", "-s", "billing", stdin="y\n")
    assert result.exit_code == 0
    assert "Job 7 is done: 1,204 letters sent, 2 left out." in result.stdout
    first, second = bodies(peer)
    assert first["filter"] == {"ids": ["0:17"]}
    assert second == {"plan": "p1", "wait": 1}


def test_a_replay_that_stopped_itself_fails(peer: Peer) -> None:
    previews(peer, state="stopped", why="11 of 100 died again", diedAgain=11)
    result = peer.run("dead-letters", "replay", "orders", "-s", "billing", "--yes")
    assert result.exit_code == 1
    assert "11 of 100 died again" in result.stdout


def test_nothing_to_do_is_not_asked(peer: Peer) -> None:
    previews(peer, letters=0)
    assert peer.run("dead-letters", "replay", "orders", "-s", "billing").exit_code == 0
    assert len(bodies(peer)) == 1


@pytest.mark.parametrize("by_file", [False, True])
def test_an_edit_is_one_letter_with_other_bytes(peer: Peer, tmp_path: Path, by_file: bool) -> None:
    previews(peer, letters=1)
    (tmp_path / "v").write_bytes(b"fixed")
    value = ["--value-file", str(tmp_path / "v")] if by_file else ["--value", "fixed"]
    headers = ["--set-header", "by=ada", "--remove-header", "trace"]
    result = peer.run("dead-letters", "edit", "orders", "0:17", "-s", "billing", *value, *headers, "--yes")
    assert result.exit_code == 0
    change = {"value": base64.b64encode(b"fixed").decode(), "headers": {"trace": None, "by": "ada"}}
    assert bodies(peer)[0]["edits"] == {"0:17": change}
    assert bodies(peer)[0]["filter"] == {"ids": ["0:17"]}


def test_an_edit_without_a_change_is_a_wrong_use(peer: Peer) -> None:
    assert peer.run("dead-letters", "edit", "orders", "0:17", "-s", "billing").exit_code == 2
    assert peer.asked == []


def test_discarding_asks_as_well(peer: Peer) -> None:
    previews(peer, "discard", what="discard")
    result = peer.run(
        "dead-letters", "discard", "orders", "-s", "billing", "--until", "2026-01-01T00:00:00Z", "--yes"
    )
    assert "Job 7 is done: 1,204 letters discarded" in result.stdout
    assert bodies(peer)[0]["filter"] == {"until": "2026-01-01T00:00:00Z"}


def test_a_dry_run_does_nothing(peer: Peer) -> None:
    previews(peer)
    result = peer.run("--output", "json", "dead-letters", "replay", "orders", "-s", "billing", "--dry-run")
    assert json.loads(result.stdout)["plan"] == "p1"
    assert len(bodies(peer)) == 1


def test_times_of_a_filter_are_typed_as_on_the_page(peer: Peer) -> None:
    line = ["dead-letters", "list", "orders", "-s", "billing"]
    for said, means in (
        ("1769860800000", "2026-01-31T12%3A00%3A00Z"),
        ("2026-01-31 13:00+01:00", "2026-01-31T12%3A00%3A00Z"),
    ):
        peer.says("GET", f"{Q}/deadletters", {"topic": "t", "letters": [], "counts": {}, "looked": 0})
        assert peer.run(*line, "--since", said).exit_code == 0
        assert f"since={means}" in peer.asked[-1][1]
    for said in ("2h", "today", "2026-01-31"):
        assert peer.run(*line, "--until", said).exit_code == 0
        assert peer.asked[-1][1].endswith("Z"), "with its zone, which an API has to be told"
    wrong = peer.run(*line, "--since", "soon")
    assert (wrong.exit_code, "'soon' is no time" in wrong.output) == (2, True)
