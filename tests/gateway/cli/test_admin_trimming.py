"""`topics trim-topic` and `truncate`: what is asked, and what is said."""

from __future__ import annotations

import json

import pytest

from tests.gateway.cli.conftest import Peer

P = "/admin/v2/persistent/public/default/orders"


@pytest.mark.parametrize(
    ("verb", "method", "path", "said"),
    [
        ("trim-topic", "POST", "trim", "Deleted 3 messages that retention no longer keeps of orders.\n"),
        ("truncate", "DELETE", "truncate", "Deleted 3 messages of orders.\n"),
    ],
)
def test_what_is_asked_and_said(peer: Peer, verb: str, method: str, path: str, said: str) -> None:
    peer.headers = {"X-Magnetar-Result": '{"messages":3}'}
    result = peer.run("topics", verb, "orders")
    assert (result.exit_code, result.stdout) == (0, said), result.stderr
    assert peer.asked[-1][:2] == (method, f"{P}/{path}")
    told = json.loads(peer.run("topics", verb, "orders", "--output", "json").stdout)
    assert (told["topic"], told["messages"]) == ("orders", 3)
    # a Pulsar does not say how many
    peer.headers = {}
    assert peer.run("topics", verb, "orders").stdout == said.replace("3 messages", "messages")
