"""`magnetar-admin topics …-properties`: what is asked of the gateway, and what is said."""

from __future__ import annotations

import pytest

from tests.gateway.cli.conftest import Peer

P = "/admin/v2/persistent/public/default/orders/properties"


@pytest.mark.parametrize(
    ("arguments", "asked", "said"),
    [
        (
            "update-properties orders -p team=billing -p a=b=c",
            ("PUT", P, '{"team": "billing", "a": "b=c"}'),
            "Kept with orders: team, a.\n",
        ),
        (
            "remove-properties orders -k a/b",
            ("DELETE", P + "?key=a%2Fb", ""),
            "orders has no property a/b.\n",
        ),
    ],
)
def test_writes(peer: Peer, arguments: str, asked: tuple[str, str, str], said: str) -> None:
    result = peer.run("topics", *arguments.split())
    assert (result.exit_code, result.stdout) == (0, said), result.stderr
    assert peer.asked == [asked]


def test_they_are_shown_a_line_each(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/properties", {"team": "billing", "tier": "2"})
    assert peer.run("topics", "get-properties", "orders").stdout == "team    billing\ntier    2\n"


def test_nothing_to_keep_is_said_before_anybody_is_asked(peer: Peer) -> None:
    result = peer.run("topics", "update-properties", "orders")
    assert (result.exit_code, peer.asked) == (2, [])
    assert "-p team=billing" in result.stderr
