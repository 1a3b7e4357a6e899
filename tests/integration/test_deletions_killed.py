"""What a gateway deletes that is killed amid that: what is gone is told in the audit, and nothing else."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from compat.peers.magnetar import MagnetarPeer
from tests.integration.sharing import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

HERE = "/admin/v2/persistent/public/default"
COUNT = 60


def ask(gateway: MagnetarPeer, method: str, path: str) -> Any:
    data = b"{}" if method == "PUT" else None
    request = urllib.request.Request(
        gateway.admin_url + path, data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        said = answer.read()
    return json.loads(said) if said else None


def told(gateway: MagnetarPeer) -> set[str]:
    """Paths below the namespace whose deletion the audit's topic tells."""
    found, after = set(), ""
    while True:
        page = ask(gateway, "GET", f"/admin/v2/magnetar/audit?kind=change&limit=500&after={after}")
        found |= {each["target"] for each in page["entries"] if each["what"] == "DELETE"}
        after = page.get("next", "")
        if not after:
            return {each.removeprefix("persistent/public/default/") for each in found}


def test_what_is_gone_after_a_kill_is_told_and_nothing_else(own_gateway: Callable[..., MagnetarPeer]) -> None:
    gateway = own_gateway("--set", "audit.topic=true", "--set", "audit.max.per.second=10000")
    for number in range(COUNT):
        ask(gateway, "PUT", f"{HERE}/t{number}")
        ask(gateway, "PUT", f"{HERE}/t{number}/subscription/s")
    paths = [path for number in range(COUNT) for path in (f"t{number}/subscription/s", f"t{number}")]

    def delete() -> None:
        # it is killed
        with contextlib.suppress(OSError, http.client.HTTPException):
            for path in paths:
                ask(gateway, "DELETE", f"{HERE}/{path}")

    thread = threading.Thread(target=delete)
    thread.start()
    until(lambda: len(told(gateway)) > 10, "some deletions")
    gateway.kill()
    thread.join()
    gateway.start()
    topics = {each.rpartition("/")[2] for each in ask(gateway, "GET", HERE)}
    gone = {f"t{number}" for number in range(COUNT)} - topics
    for number in range(COUNT):
        name = f"t{number}"
        if name in gone or not ask(gateway, "GET", f"{HERE}/{name}/subscriptions"):
            gone.add(f"{name}/subscription/s")
    assert told(gateway) == gone
    assert 10 < len(gone) < len(paths), "it was killed amid them"
