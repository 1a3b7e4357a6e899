"""`magnetar-admin resourcegroups`: what is asked of the gateway, and what is said of it."""

from __future__ import annotations

import json

import pytest

from tests.gateway.cli.conftest import Peer

EU = "namespaces/shop/eu/resourcegroup"


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body", "said"),
    [
        (
            "resourcegroups create small -mp 10 -bp 1000 -md 20 -bd 2000", "PUT", "resourcegroups/small",
            {
                "publishRateInMsgs": 10, "publishRateInBytes": 1000,
                "dispatchRateInMsgs": 20, "dispatchRateInBytes": 2000,
            },
            "Created resource group small.",
        ),
        ("resourcegroups create small", "PUT", "resourcegroups/small", {}, "Created resource group small."),
        (
            "resourcegroups update a/b --msg-publish-rate -1", "PUT", "resourcegroups/a%2Fb",
            {"publishRateInMsgs": -1}, "Updated resource group a/b.",
        ),
        ("resourcegroups delete small", "DELETE", "resourcegroups/small", None, "Deleted resource group small."),
        (
            "namespaces set-resource-group shop/eu -rgn small", "POST", f"{EU}/small", None,
            "shop/eu is in resource group small.",
        ),
        ("namespaces remove-resource-group shop/eu", "DELETE", EU, None, "shop/eu is in no resource group."),
    ],
)  # fmt: skip
def test_writes(peer: Peer, arguments: str, method: str, path: str, body: object, said: str) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stdout) == (0, f"{said}\n"), result.stderr
    asked, target, sent = peer.asked[-1]
    assert (asked, target) == (method, f"/admin/v2/{path}")
    assert (json.loads(sent) if sent else None) == body


@pytest.mark.parametrize(
    ("arguments", "path", "answer", "shown"),
    [
        ("resourcegroups list", "resourcegroups", ["free", "small"], "free\nsmall\n"),
        ("resourcegroups get small", "resourcegroups/small", {"publishRateInMsgs": 10}, "publishRateInMsgs"),
        (
            "resourcegroups stats small", "magnetar/resourcegroups/small/stats", {"publishedMsgs": 10},
            "publishedMsgs",
        ),
        ("namespaces get-resource-group shop/eu", EU, "small", "small\n"),
    ],
)  # fmt: skip
def test_reads(peer: Peer, arguments: str, path: str, answer: object, shown: str) -> None:
    peer.says("GET", path, answer)
    result = peer.run(*arguments.split())
    assert result.exit_code == 0, result.stderr
    assert shown in result.stdout
