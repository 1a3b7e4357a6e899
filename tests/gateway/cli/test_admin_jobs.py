"""`magnetar-admin jobs`."""

from __future__ import annotations

import json

from tests.gateway.cli.conftest import Peer
from tests.gateway.cli.test_admin_dead_letters import JOB


def test_jobs_are_a_line_each(peer: Peer) -> None:
    peer.says("GET", "magnetar/jobs", {"jobs": [JOB]})
    lines = peer.run("jobs", "list", "--limit", "5").stdout.splitlines()
    assert lines[2].split() == [
        "7", "replay", "done", "orders", "billing", "1204", "1204", "0", "2026-01-31T12:00:00Z", "ada",
    ]  # fmt: skip
    assert peer.asked == [("GET", "/admin/v2/magnetar/jobs?limit=5", "")]


def test_one_is_shown_whole(peer: Peer) -> None:
    peer.says("GET", "magnetar/jobs/7", JOB)
    assert json.loads(peer.run("--output", "json", "jobs", "show", "7").stdout) == JOB


def test_stopping_says_how_far_it_came(peer: Peer) -> None:
    peer.says("POST", "magnetar/jobs/7/stop", {**JOB, "state": "stopped", "done": 3, "why": "stopped by ada"})
    assert peer.run("jobs", "stop", "7").stdout == (
        "Job 7 is stopped: 3 letters sent, 2 left out (stopped by ada).\n"
    )
