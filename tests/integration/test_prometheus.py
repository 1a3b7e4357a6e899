"""A real Prometheus scrapes a gateway at work: what it then says on its own API, and what promtool says of the text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Message

from compat.peers.magnetar import MagnetarPeer
from compat.peers.prometheus import PrometheusPeer
from compat.tools import ensure_prometheus
from gateway.admin.families import EVERY
from tests.integration.sharing import REJECT, acknowledge, make_group, make_topic, member, poll, send, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PROJECT = Path(__file__).resolve().parents[2]
DASHBOARDS = sorted((PROJECT / "docker" / "grafana" / "dashboards").glob("*.json"))
RULES = PROJECT / "docker" / "prometheus"
NEARLY_FULL = 0.12
"""Of the disk, what is left when its alert may fire with a reason: a little above the rule of a tenth."""
ORDERS = "persistent://public/default/orders"
LINTED = [
    "kafka_consumergroup_lag_sum", "pulsar_consumers_count", "pulsar_in_bytes_total", "pulsar_in_messages_total",
    "pulsar_out_bytes_total", "pulsar_producers_count", "pulsar_subscription_consumers_count",
    "pulsar_subscription_out_messages_total", "pulsar_subscriptions_count", "pulsar_topics_count",
]  # fmt: skip
"""Gauges whose names end as those of counters, histograms and summaries should."""
NOT_YET = {
    "topics": {"Kept beyond retention"},
}
"""Panels without a series before it has happened."""
HELD = 5
"""Messages that a member of the share group keeps in hand."""


class Watched(NamedTuple):
    gateway: MagnetarPeer
    prometheus: PrometheusPeer

    def value(self, expression: str) -> float:
        """Of an expression that gives one value."""
        ((_, value),) = self.prometheus.query(expression)
        return value

    def text(self) -> str:
        with urllib.request.urlopen(f"{self.gateway.admin_url}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A gateway with topics in two namespaces, a consumer group, a share group, a queue topic and a quota."""
    folder = tmp_path_factory.mktemp("watched")
    with ExitStack() as stack:
        gateway = stack.enter_context(
            MagnetarPeer(directory=folder / "gateway", settings={"group.initial.rebalance.delay.ms": 0})
        )
        # its first scrape is five seconds after its start: traffic is over by then
        prometheus = stack.enter_context(
            PrometheusPeer([gateway.admin_url], rules=RULES / "rules.yml", directory=folder / "prometheus")
        )
        at = gateway.bootstrap
        make_topic(at, "orders", 2)
        for partition in range(2):
            send(at, "orders", [(b"k", b"%d" % n) for n in range(50)], partition=partition)
        reader = Consumer(
            {
                "bootstrap.servers": at,
                "group.id": "audit",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        stack.callback(reader.close)
        reader.subscribe(["orders"])
        read(reader, 100)
        reader.commit(asynchronous=False)
        send(at, "orders", [(b"k", b"more")] * 7, partition=1)

        make_group(at, "billing", pulsar__dead__letter__enable="true")
        consumer = member(at, "billing", "orders")
        stack.callback(consumer.close)
        taken: list[Message] = []
        until(lambda: len(taken) == 107 or taken.extend(poll(consumer)), "all records")  # type: ignore[func-returns-value]
        assert acknowledge(consumer, taken[:1], REJECT)
        assert acknowledge(consumer, taken[1:-HELD])

        gateway.admin("topics", "create", "payments")
        gateway.admin(
            *("topics", "create-subscription", "payments", "-s", "ledger", "--lanes", "4", "-m", "earliest")
        )
        send(at, "payments", [(b"%d" % n, b"v") for n in range(20)])
        lanes = Consumer(
            {
                "bootstrap.servers": at,
                "group.id": "ledger",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        stack.callback(lanes.close)
        lanes.subscribe(["payments-ledger-QUEUE"])
        read(lanes, 20)

        gateway.admin("tenants", "create", "shop")
        gateway.admin("namespaces", "create", "shop/eu")
        gateway.admin("topics", "create", "persistent://shop/eu/carts")
        gateway.admin(*("topics", "create-subscription", "persistent://shop/eu/carts", "-s", "late"))
        gateway.admin(
            *("namespaces", "set-backlog-quota", "shop/eu", "-l", "1M", "-p", "producer_request_hold")
        )
        send(at, "shop.eu.carts", [(None, bytes(1_000))] * 10)

        found = Watched(gateway, prometheus)
        # two scrapes with all of it, so that there are rates
        end = 'count_over_time(kafka_topic_partition_current_offset{topic="shop.eu.carts"}[1m]) > 1'
        until(lambda: prometheus.query(end), "scrapes of it all")
        yield found


def read(consumer: Consumer, count: int) -> None:
    """So many records."""
    found = 0
    while found < count:
        messages = consumer.consume(count - found, 0.2)
        found += len([message for message in messages if message.error() is None])


def test_the_target_is_up(watched: Watched) -> None:
    assert watched.value("up") == 1
    (target,) = watched.prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert watched.value("magnetar_ready") == 1


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("kafka_brokers", 1),
        ("count(pulsar_version_info) by (cluster)", 1),
        ('pulsar_topics_count{namespace="shop/eu"}', 1),
        ('kafka_topic_partitions{topic="orders"}', 2),
        ('sum(kafka_topic_partition_current_offset{topic="orders"})', 107),
        (f'pulsar_in_messages_total{{topic="{ORDERS}-partition-1"}}', 57),
        ("sum(magnetar_produced_messages_total)", 137),
        # the consumer group
        ('kafka_consumergroup_members{consumergroup="audit"}', 1),
        ('kafka_consumergroup_lag_sum{consumergroup="audit",topic="orders"}', 7),
        ('kafka_consumergroup_lag{consumergroup="audit",topic="orders",partition="0"}', 0),
        ('kafka_consumergroup_group_lag{group="audit",topic="orders",partition="1"}', 7),
        ('kafka_consumergroup_group_lag_seconds{group="audit",topic="orders",partition="0"}', 0),
        ('kafka_consumergroup_group_max_lag_seconds{group="audit"} > bool 0', 1),
        ('sum(pulsar_subscription_back_log{subscription="audit"})', 7),
        # it has both partitions
        ('sum(pulsar_subscription_consumers_count{subscription="audit"})', 2),
        # the share group
        ('sum(pulsar_subscription_back_log{subscription="billing"})', HELD),
        ('sum(pulsar_subscription_unacked_messages{subscription="billing"})', HELD),
        ('sum(pulsar_subscription_out_messages_total{subscription="billing"})', 107),
        ('sum(magnetar_subscription_acknowledged_total{subscription="billing"})', 107 - HELD - 1),
        ('sum(magnetar_subscription_dead_letters_total{subscription="billing"})', 1),
        ('magnetar_share_dead_letters_total{reason="REJECTED"}', 1),
        (
            f'magnetar_dead_letter_topic_messages{{namespace="public/default",topic="{ORDERS}-billing-DLQ"}}',
            1,
        ),
        (f'max(pulsar_storage_backlog_age_seconds{{topic=~"{ORDERS}-partition-."}}) > bool 0', 1),
        ('sum(pulsar_subscription_blocked_on_unacked_messages{subscription="billing"})', 0),
        (f'pulsar_subscriptions_count{{topic="{ORDERS}-partition-0"}}', 2),
        (f'pulsar_consumers_count{{topic="{ORDERS}-partition-0"}}', 2),
        # the queue topic: one member has its four lanes
        ('pulsar_subscription_consumers_count{subscription="ledger"}', 1),
        ('pulsar_subscription_unacked_messages{subscription="ledger"}', 20),
        # the quota, and a subscription that nobody reads
        ('pulsar_storage_backlog_quota_limit{topic="persistent://shop/eu/carts"}', 1 << 20),
        ('pulsar_storage_backlog_size{topic="persistent://shop/eu/carts"} > bool 10000', 1),
        ('pulsar_subscription_back_log_no_delayed{namespace="shop/eu",subscription="late"}', 10),
        ('pulsar_subscription_consumers_count{namespace="shop/eu",subscription="late"}', 0),
        ('sum({__name__=~"pulsar_storage_write_latency_.+"}) > bool 0', 1),
        ("magnetar_data_disk_available_bytes < bool magnetar_data_disk_size_bytes", 1),
    ],
)
def test_values_are_those_of_what_happened(watched: Watched, expression: str, expected: float) -> None:
    assert watched.value(expression) == expected


def test_nothing_is_exported_that_no_list_names(watched: Watched) -> None:
    names = set(watched.prometheus.ask("label/__name__/values"))
    assert {name for name in names if name.startswith(("pulsar_", "kafka_"))} <= set(EVERY)
    assert set(LINTED) <= names


def test_no_series_is_there_twice(watched: Watched) -> None:
    series = [line.rpartition(" ")[0] for line in watched.text().splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))


def test_promtool_finds_fault_with_others_names_alone(watched: Watched) -> None:
    """What Pulsar and kafka_exporter called so; they are gauges there, too."""
    done = promtool("check", "metrics", text=watched.text())
    assert done.returncode == 3, done.stdout + done.stderr
    assert [line.split(" ")[0] for line in done.stderr.splitlines()] == LINTED
    # and nothing else was not understood
    ours = "".join(
        line for line in watched.text().splitlines(True) if not re.search(rf"\b({'|'.join(LINTED)})\b", line)
    )
    done = promtool("check", "metrics", text=ours)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_every_panel_of_a_dashboard_shows_something(watched: Watched, file: Path) -> None:
    dashboard = json.loads(file.read_text())
    variables = {variable["name"]: ".*" for variable in dashboard["templating"]["list"]}
    empty = set()
    for panel in dashboard["panels"]:
        found: list[object] = []
        for target in panel["targets"]:
            expression = Template(target["expr"]).substitute(variables, __rate_interval="1m")
            found += watched.prometheus.query(expression)
        if not found:
            empty.add(panel["title"])
    assert empty == NOT_YET.get(file.stem, set())


def test_prometheus_follows_the_rules_and_none_fires_for_no_reason(watched: Watched) -> None:
    prometheus = watched.prometheus

    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules", type="alert")["groups"] for rule in group["rules"]]

    def alerts() -> set[str]:
        return {rule["name"] for rule in rules() if rule["alerts"]}

    # nobody reads `late`, and there is a letter
    expected = {"MagnetarDeadLetters", "MagnetarSubscriptionWithoutConsumers"}
    # the rule is about the disk that the test runs on: then there is a reason
    disk = shutil.disk_usage(RULES)
    full = {"MagnetarDiskNearlyFull"} if disk.free < NEARLY_FULL * disk.total else set()
    until(lambda: expected <= alerts(), "rules that have seen the newest scrape")
    assert alerts() - full == expected
    assert {rule["health"] for rule in rules()} == {"ok"}


def test_rules_and_configuration_are_sound_and_alerts_fire_when_they_should() -> None:
    for words in (
        ("check", "rules", RULES / "rules.yml"),
        ("check", "config", RULES / "prometheus.yml"),
        # its CA and its token are in the container only
        ("check", "config", "--syntax-only", RULES / "secured.yml"),
        ("test", "rules", RULES / "rules.test.yml"),
    ):
        done = promtool(*words)
        assert done.returncode == 0, done.stdout + done.stderr


def promtool(*words: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ensure_prometheus() / "promtool", *words], input=text, capture_output=True, text=True, timeout=60
    )
