"""`magnetar-admin … get-, set- and remove-retention`: what is asked of the gateway, and what is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.cli.admin_client import Misused
from gateway.cli.policy_values import seconds, size
from tests.gateway.cli.conftest import Peer

EU = "namespaces/shop/eu/retention"
ORDERS = "persistent/public/default/orders/retention"


def body(minutes: int, megabytes: int) -> dict[str, int]:
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}


@pytest.mark.parametrize(
    ("arguments", "method", "path", "sent", "said"),
    [
        (
            "namespaces set-backlog-quota shop/eu -l 2G -p producer_request_hold", "POST",
            "namespaces/shop/eu/backlogQuota?backlogQuotaType=destination_storage",
            {"limitSize": 2 << 30, "policy": "producer_request_hold"},
            "Set the backlog quota (destination_storage) of namespace shop/eu. It is 2147483648 bytes for each "
            "partition, then producer_request_hold.",
        ),
        (
            "topicPolicies set-backlog-quota orders -lt 1h -p producer_exception -t message_age", "POST",
            ORDERS.replace("retention", "backlogQuota?backlogQuotaType=message_age"),
            {"limitTime": 3600, "policy": "producer_exception"},
            "Set the backlog quota (message_age) of topic orders. It is 3600 seconds for each partition, then "
            "producer_exception.",
        ),
        (
            "namespaces set-auto-topic-creation shop/eu -e -t partitioned -n 4", "POST",
            "namespaces/shop/eu/autoTopicCreation",
            {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 4},
            "Set the auto topic creation of namespace shop/eu. It is allowAutoTopicCreation on, topicType partitioned, "
            "defaultNumPartitions 4.",
        ),
        (
            "namespaces set-auto-topic-creation shop/eu --disable", "POST", "namespaces/shop/eu/autoTopicCreation",
            {"allowAutoTopicCreation": False},
            "Set the auto topic creation of namespace shop/eu. It is allowAutoTopicCreation off.",
        ),
        (
            "topicPolicies set-auto-subscription-creation orders -d", "POST",
            ORDERS.replace("retention", "autoSubscriptionCreation"), {"allowAutoSubscriptionCreation": False},
            "Set the auto subscription creation of topic orders. It is allowAutoSubscriptionCreation off.",
        ),
        (
            "topics remove-backlog-quota orders --type message_age", "DELETE",
            ORDERS.replace("retention", "backlogQuota?backlogQuotaType=message_age"), None,
            "Removed the backlog quota (message_age) of topic orders: its namespace's counts.",
        ),
        (
            "namespaces set-retention shop/eu -t 7d -s 10g", "POST", EU, body(10_080, 10_240),
            "Set the retention of namespace shop/eu. It is kept for 10080 min, up to 10240 MB.",
        ),
        # a bare number is seconds, and bytes; what is beyond a whole minute or megabyte is left away
        (
            "namespaces set-retention shop/eu --time 100 --size 1572864", "POST", EU, body(1, 1),
            "Set the retention of namespace shop/eu. It is kept for 1 min, up to 1 MB.",
        ),
        (
            "namespaces set-retention shop/eu -t -1 -s -1", "POST", EU, body(-1, -1),
            "Set the retention of namespace shop/eu. It is kept for ever, of any size.",
        ),
        (
            "topics set-retention orders -t 0 -s 0", "POST", ORDERS, body(0, 0),
            "Set the retention of topic orders. Nothing is kept.",
        ),
        (
            "topicPolicies set-retention orders -t 12h -s -1", "POST", ORDERS, body(720, -1),
            "Set the retention of topic orders. It is kept for 720 min, of any size.",
        ),
        (
            "namespaces set-max-topics-per-namespace shop/eu -t 100", "POST",
            "namespaces/shop/eu/maxTopicsPerNamespace",
            100, "Set the max topics per namespace of namespace shop/eu. It is 100.",
        ),
        (
            "namespaces set-max-subscriptions-per-topic shop/eu -m 0", "POST",
            "namespaces/shop/eu/maxSubscriptionsPerTopic", 0,
            "Set the max subscriptions per topic of namespace shop/eu. It is without a limit.",
        ),
        (
            "topicPolicies set-max-subscriptions-per-topic orders -s 3", "POST",
            ORDERS.replace("retention", "maxSubscriptionsPerTopic"), 3,
            "Set the max subscriptions per topic of topic orders. It is 3.",
        ),
        (
            "namespaces set-message-ttl shop/eu -ttl 2h", "POST", "namespaces/shop/eu/messageTTL", 7200,
            "Set the message ttl of namespace shop/eu. It is 7200 seconds.",
        ),
        (
            "topicPolicies set-message-ttl orders -t 90", "POST",
            ORDERS.replace("retention", "messageTTL?messageTTL=90"), None,
            "Set the message ttl of topic orders. It is 90 seconds.",
        ),
        (
            "topics set-max-consumers orders -c 0", "POST", ORDERS.replace("retention", "maxConsumers"), 0,
            "Set the max consumers of topic orders. It is without a limit.",
        ),
        (
            "namespaces set-subscription-types-enabled shop/eu -t Shared,Key_Shared", "POST",
            "namespaces/shop/eu/subscriptionTypesEnabled", ["Shared", "Key_Shared"],
            "Set the subscription types enabled of namespace shop/eu. It is Shared, Key_Shared.",
        ),
        (
            "namespaces remove-retention shop/eu", "DELETE", EU, None,
            "Removed the retention of namespace shop/eu: the gateway's settings count.",
        ),
        (
            "topicPolicies delete orders", "DELETE", ORDERS.replace("retention", "policies"), None,
            "Removed all policies of topic orders: its namespace's count.",
        ),
        (
            "topicPolicies remove-retention orders", "DELETE", ORDERS, None,
            "Removed the retention of topic orders: its namespace's counts.",
        ),
    ],
)  # fmt: skip
def test_writes_say_what_they_did(
    peer: Peer, arguments: str, method: str, path: str, sent: Any, said: str
) -> None:
    result = peer.run(*arguments.split())
    assert (result.exit_code, result.stdout) == (0, said + "\n"), result.stderr
    asked, target, given = peer.asked[-1]
    assert (asked, target) == (method, "/admin/v2/" + path)
    assert (json.loads(given) if given else None) == sent


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ("namespaces get-retention shop/eu", EU),
        ("namespaces get-backlog-quotas shop/eu", "namespaces/shop/eu/backlogQuotaMap"),
        (
            "topicPolicies get-backlog-quota orders -ap",
            ORDERS.replace("retention", "backlogQuotaMap?applied=true"),
        ),
        ("topics get-retention orders", f"{ORDERS}?applied=false"),
        ("topicPolicies get-retention orders -ap", f"{ORDERS}?applied=true"),
    ],
)
def test_what_is_asked_for(peer: Peer, arguments: str, path: str) -> None:
    peer.run(*arguments.split())
    assert peer.asked[-1][:2] == ("GET", "/admin/v2/" + path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-t 30s -s 1m", "counted in whole minutes and megabytes"),
        ("-t 1m -s 1k", "counted in whole minutes and megabytes"),
        ("-t 1x -s 1m", "'1x' is no time: write 100 (seconds), 30m"),
        ("-t 1m -s m", "'m' is no size: write 1000000 (bytes), 64k"),
        ("-t -2 -s 1m", "'-2' is no time"),
        ("-t 9999999y -s 1m", "'9999999y' is more than can be said: say 2147483647 minutes at most"),
    ],
)
def test_wrong_limits_are_not_sent(peer: Peer, arguments: str, words: str) -> None:
    before = len(peer.asked)
    result = peer.run("namespaces", "set-retention", "shop/eu", *arguments.split())
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(peer.asked) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-p producer_exception", "has its limit in --limit."),
        ("-p producer_exception -lt 1h", "has its limit in --limit. For --limitTime add --type message_age."),
        (
            "-p producer_exception -l 1g -t message_age",
            "has its limit in --limitTime. For --limit add --type dest",
        ),
        ("-p producer_exception -l 1g -lt 1h", "One quota at a time"),
        ("-p give_up -l 1g", "'give_up' is not one of"),
        ("-l 1g", "Missing option '-p' / '--policy'"),
        (
            "-p producer_exception -l 1g -t bytes",
            "'bytes' is not one of 'destination_storage', 'message_age'",
        ),
    ],
)
def test_a_quota_that_is_not_said_whole_is_not_sent(peer: Peer, arguments: str, words: str) -> None:
    before = len(peer.asked)
    result = peer.run("namespaces", "set-backlog-quota", "shop/eu", *arguments.split())
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())
    assert len(peer.asked) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("set-message-ttl shop/eu -ttl abc", "30m, 12h, 7d, 2w, 1y, or 0 (for ever)."),
        ("set-message-ttl shop/eu -ttl -1", "'-1' is no time: write 100 (seconds)"),
        ("set-delayed-delivery shop/eu -e -md x", "or 0 (as groups say)."),
        (
            "set-inactive-topic-policies shop/eu -e -t x -m delete_when_no_subscriptions",
            "'x' is no time: write 100 (seconds), 30m, 12h, 7d, 2w, 1y.",
        ),
        ("set-backlog-quota shop/eu -l x -p producer_exception", "10g, 1t, or -1 for no limit."),
        ("set-retention shop/eu --time 1h", "Missing option '-s' / '--size'."),
        ("set-auto-topic-creation shop/eu -n 4", "Missing option '--enable' / '-e'."),
    ],
)
def test_what_is_advised_is_taken(peer: Peer, arguments: str, words: str) -> None:
    before = len(peer.asked)
    result = peer.run("namespaces", *arguments.split())
    assert (result.exit_code, len(peer.asked)) == (2, before)
    assert words in " ".join(result.stderr.split())


def test_a_policy_of_a_partition_is_said_to_be_its_topics(peer: Peer) -> None:
    """The gateway says so: by its name alone `x-partition-0` may be a topic as well."""
    peer.headers = {"X-Magnetar-Result": json.dumps({"topic": "persistent://public/default/pt"})}
    for arguments, begin in (
        (
            "set-message-ttl pt-partition-0 -t 9",
            "Set the message ttl of topic persistent://public/default/pt.",
        ),
        ("remove-retention pt-partition-0", "Removed the retention of topic persistent://public/default/pt:"),
    ):
        assert peer.run("topicPolicies", *arguments.split()).stdout.startswith(begin)


def test_times_and_sizes() -> None:
    assert [seconds(each) for each in ("5", "5s", "2m", "1h", "1d", "1w", "1y", "-1", "0", "3H")] == [
        5, 5, 120, 3600, 86_400, 604_800, 31_536_000, -1, 0, 10_800,
    ]  # fmt: skip
    assert [size(each) for each in ("5", "1k", "1M", "1g", "1t", "-1")] == [
        5,
        1 << 10,
        1 << 20,
        1 << 30,
        1 << 40,
        -1,
    ]
    for wrong in ("", "s", "1 1", "1.5h", "1kb"):
        with pytest.raises(Misused):
            size(wrong)


def test_all_that_is_in_force_is_a_table(peer: Peer) -> None:
    rows = [
        {
            "policy": "retention",
            "field": "retentionTimeInMinutes",
            "value": 60,
            "from": "namespace",
            "by": "pulsar.x",
        },
        {
            "policy": "subscription-types-enabled",
            "value": ["Shared", "Failover"],
            "from": "broker",
            "by": "y",
        },
    ]
    peer.says("GET", ORDERS.replace("retention", "policies"), rows)
    result = peer.run("topicPolicies", "list", "orders")
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == [
        "POLICY", "--------------------------------", "retention retentionTimeInMinutes",
        "subscription-types-enabled",
    ]  # fmt: skip
    assert "60                namespace (pulsar.x)" in result.stdout
    assert "Shared, Failover  broker (y)" in result.stdout
    assert json.loads(peer.run("--output", "json", "topicPolicies", "list", "orders").stdout) == rows


def how_fast(messages: int, size: int, seconds: int, relative: bool) -> dict[str, object]:
    return {
        "dispatchThrottlingRateInMsg": messages,
        "dispatchThrottlingRateInByte": size,
        "ratePeriodInSecond": seconds,
        "relativeToPublishRate": relative,
    }


@pytest.mark.parametrize(
    ("verb", "flags", "sent", "said"),
    [
        ("dispatch-rate", "-md 50", how_fast(50, -1, 1, False), "It is up to 50 messages in 1 s."),
        (
            "subscription-dispatch-rate", "-bd 9 -dt 3 -rp", how_fast(-1, 9, 3, True),
            "It is up to 9 bytes in 3 s, besides what is published.",
        ),
        ("dispatch-rate", "", how_fast(-1, -1, 1, False), "There is no limit."),
        (
            "publish-rate", "-m 5", {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": -1},
            "It is up to 5 messages in 1 s.",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["namespaces shop/eu", "topicPolicies orders", "topics orders"])
def test_a_rate_is_said_whole(
    peer: Peer, target: str, verb: str, flags: str, sent: dict[str, object], said: str
) -> None:
    """As pulsar-admin does it: nothing is inherited of what no flag says, and so the answer is right."""
    noun, named = target.split()
    result = peer.run(noun, f"set-{verb}", named, *flags.split())
    assert result.exit_code == 0, result.stderr
    assert json.loads(peer.asked[-1][2] or "") == sent
    assert said in result.stdout


@pytest.mark.parametrize(
    ("arguments", "method", "segment", "sent"),
    [
        ("set-maxProducers orders -p 5", "POST", "maxProducers", 5),
        ("get-max-subscriptions orders", "GET", "maxSubscriptionsPerTopic", None),
        ("set-max-unacked-messages-on-consumer orders -m 7", "POST", "maxUnackedMessagesOnConsumer", 7),
        (
            "remove-max-unacked-messages-on-subscription orders",
            "DELETE",
            "maxUnackedMessagesOnSubscription",
            None,
        ),
    ],
)
def test_old_names_of_topics_verbs_work_and_are_not_listed(
    peer: Peer, arguments: str, method: str, segment: str, sent: Any
) -> None:
    result = peer.run("topics", *arguments.split())
    assert result.exit_code == 0, result.stderr
    asked, path, given = peer.asked[-1]
    assert (asked, path.partition("?")[0]) == (
        method,
        f"/admin/v2/persistent/public/default/orders/{segment}",
    )
    assert (json.loads(given) if given else None) == sent
    assert f"  {arguments.split()[0]} " not in peer.run("topics", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "method", "sent", "said"),
    [
        ("get-subscription-dispatch-rate orders -s billing", "GET", None, ""),
        (
            "set-subscription-dispatch-rate orders -s billing -md 5", "POST", how_fast(5, -1, 1, False),
            "of subscription billing of topic orders. It is up to 5 messages in 1 s.",
        ),
        (
            "remove-subscription-dispatch-rate orders -s billing", "DELETE", None,
            "of subscription billing of topic orders: its topic's counts.",
        ),
    ],
)  # fmt: skip
def test_the_rate_of_one_subscription(peer: Peer, arguments: str, method: str, sent: Any, said: str) -> None:
    result = peer.run("topicPolicies", *arguments.split())
    assert result.exit_code == 0, result.stderr
    asked, path, given = peer.asked[-1]
    assert (asked, path.partition("?")[0]) == (
        method, "/admin/v2/persistent/public/default/orders/billing/dispatchRate",
    )  # fmt: skip
    assert (json.loads(given) if given else None) == sent
    assert said in result.stdout
