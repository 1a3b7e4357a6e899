"""A topic where a namespace belongs, and the other way round: what to use instead is said."""

from __future__ import annotations

import pytest

from gateway.cli.admin_client import Misused, namespace_path, topic_path
from tests.gateway.cli.conftest import Peer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "namespaces get-retention shop/eu/orders",
            "'shop/eu/orders' is a topic, and a namespace is asked for, such as shop/eu. Use `magnetar-admin topics "
            "get-retention shop/eu/orders`.",
        ),
        (
            "namespaces policies persistent://shop/eu/orders",
            "'persistent://shop/eu/orders' is a topic, and a namespace is asked for, such as shop/eu. Verbs of topics: "
            "`magnetar-admin topics --help`.",
        ),
        (
            "topics list shop/eu/orders",
            "'shop/eu/orders' is a topic, and a namespace is asked for, such as shop/eu.",
        ),
        (
            "topics permissions shop/eu",
            "'shop/eu' is a namespace, and a topic is asked for, such as shop/eu/orders. Use `magnetar-admin "
            "namespaces permissions shop/eu`.",
        ),
        (
            "topicPolicies get-retention shop/eu",
            "'shop/eu' is a namespace, and a topic is asked for, such as shop/eu/orders. Use `magnetar-admin "
            "namespaces get-retention shop/eu`.",
        ),
        (
            "topics stats shop/eu",
            "'shop/eu' is a namespace, and a topic is asked for, such as shop/eu/orders. Verbs of namespaces: "
            "`magnetar-admin namespaces --help`.",
        ),
        (
            "topics stats a/b/c/d",
            "'a/b/c/d' is no topic: write orders, or persistent://tenant/namespace/orders.",
        ),
        (
            "topics stats persistent://shop/eu",
            "'persistent://shop/eu' is no topic: write orders, or persistent://tenant/namespace/orders.",
        ),
        (
            "namespaces policies shop",
            "'shop' is no namespace: write tenant/namespace, for example public/default.",
        ),
    ],
)
def test_what_to_use_instead(peer: Peer, arguments: str, said: str) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stderr, peer.asked) == (2, said + "\n", [])


def test_a_name_that_no_command_was_given() -> None:
    for function, name in ((namespace_path, "a/b/c"), (topic_path, "a/b")):
        with pytest.raises(Misused, match="is asked for"):
            function(name)
