"""`magnetar-admin` has every verb of pulsar-admin that the server serves, also those of what is never set."""

from __future__ import annotations

import click
import pytest

from gateway.admin.page import Status, status
from gateway.admin.pulsar_verbs import AdminVerb, table
from gateway.cli.admin import main
from tests.gateway.cli.conftest import Peer

SERVED = [
    verb
    for verb in table().verbs
    if verb.noun not in table().hidden and status(verb)[0] is not Status.REFUSED
]
NEVER = [verb for verb in SERVED if status(verb)[0] is Status.NEVER]

ELSEWHERE = {
    # prints the pages of pulsar-admin's own manual
    "documents generate",
    # what it does where there is nothing to do, its client does by itself
    "topics offload",
}
TWICE = {"namespaces get-offload-threshold"}
"""pulsar-admin asks for the same in two units."""


@pytest.mark.parametrize("verb", SERVED, ids=str)
def test_what_is_served_has_a_verb(verb: AdminVerb) -> None:
    noun = main.commands.get(verb.noun)
    there = isinstance(noun, click.Group) and verb.name in noun.commands
    assert there is (str(verb) not in ELSEWHERE)


@pytest.mark.parametrize("verb", NEVER, ids=str)
def test_it_makes_the_call_that_pulsar_admin_makes(peer: Peer, verb: AdminVerb) -> None:
    name = "shop/eu" if verb.noun == "namespaces" else "shop/eu/orders"
    place = "namespaces/shop/eu" if verb.noun == "namespaces" else "persistent/shop/eu/orders"
    (calls,) = verb.ways
    expected = []
    for asked in calls:
        path = (
            asked.path.replace("namespaces/*/*", place)
            .replace("persistent/*/*/*", place)
            .replace("*", "billing")
        )
        expected.append((asked.method, f"/admin/v2/{path}"))
        if asked.method == "GET":
            peer.says(asked.method, path, {"known": "answer"})
    more = ["-s", "billing"] if "replicated-subscription" in verb.name else []
    result = peer.run(verb.noun, verb.name, name, *more)
    assert result.exit_code == 0, result.output
    asked_for = [(method, path.partition("?")[0]) for method, path, _ in peer.asked]
    assert asked_for == (expected[:1] if str(verb) in TWICE else expected)
    if expected[0][0] == "GET":
        assert "answer" in result.stdout
    else:
        assert f"{name}, and none can be set: nothing was removed." in result.stdout
    assert verb.name not in peer.run(verb.noun, "--help").stdout.split()


def test_applied(peer: Peer) -> None:
    peer.says("GET", "persistent/public/default/orders/persistence", None)
    assert peer.run("topics", "get-persistence", "orders", "-ap").exit_code == 0
    assert peer.asked == [("GET", "/admin/v2/persistent/public/default/orders/persistence?applied=true", "")]


@pytest.mark.parametrize(
    ("verb", "body"), [("enable-deduplication", "true"), ("disable-deduplication", "false")]
)
def test_deduplication_by_its_old_verbs(peer: Peer, verb: str, body: str) -> None:
    result = peer.run("topics", verb, "orders")
    assert peer.asked == [("POST", "/admin/v2/persistent/public/default/orders/deduplicationEnabled", body)]
    assert f"It is {'on' if body == 'true' else 'off'}." in result.stdout
    peer.says("GET", "persistent/public/default/orders/deduplicationEnabled", True)
    assert peer.run("topics", "get-deduplication-enabled", "orders").stdout == "true\n"


@pytest.mark.parametrize(
    "verb",
    [each for each in SERVED if each.noun == "topicPolicies" and each.name not in ("list", "delete")],
    ids=str,
)
def test_policies_of_all_clusters_are_those_of_the_one(verb: AdminVerb) -> None:
    noun = main.commands["topicPolicies"]
    assert isinstance(noun, click.Group)
    assert any({"-g", "--global"} <= set(each.opts) for each in noun.commands[verb.name].params)


def test_a_policy_of_all_clusters(peer: Peer) -> None:
    assert peer.run("topicPolicies", "set-message-ttl", "orders", "-t", "60", "-g").exit_code == 0
    peer.says("GET", "persistent/public/default/orders/messageTTL", 60)
    assert peer.run("topicPolicies", "get-message-ttl", "orders", "--global").stdout == "60\n"
    assert [path for _, path, _ in peer.asked] == [
        "/admin/v2/persistent/public/default/orders/messageTTL?messageTTL=60",
        "/admin/v2/persistent/public/default/orders/messageTTL?applied=false",
    ]
