"""What pulsar-admin has and nobody serves: `magnetar-admin` says why, without asking the gateway."""

from __future__ import annotations

import pytest

from tests.gateway.cli.conftest import Peer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("functions list --tenant public", "`functions list` is not served: it would run code of yours"),
        ("functions --help", "`functions` is not served"),
        ("schemas", "`schemas` is not served: it would keep the schemas"),
        ("clusters create mars --url http://mars", "`clusters create` is not served"),
        ("topics offload orders -s 1G", "`magnetar-pipeline archive` writes a topic to Parquet"),
        (
            "topicPolicies set-offload-policies orders -d s3",
            "`topicPolicies set-offload-policies` is not served",
        ),
        ("namespaces set-bookie-affinity-group shop/eu -pg a", "There are no bookies"),
        ("broker-stats mbeans", "is no Java program"),
        ("brokers shutdown", "Send SIGTERM"),
    ],
)
def test_the_reason_is_said(peer: Peer, arguments: str, words: str) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stdout, peer.asked) == (1, "", [])
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["nonsense", "topics nonsense", "brokers get-offload-policies"])
def test_what_nobody_has_is_a_wrong_use(peer: Peer, arguments: str) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, "No such command" in result.stderr) == (2, True)
