"""/metrics: one text for the gateway, its process, topics and groups, under the names that dashboards look for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from gateway.admin import families, scrape, share_stats
from gateway.broker import catalog
from gateway.broker.broker import Broker
from gateway.broker.publishers import Publishing
from gateway.broker.subscriptions.rows import SubscriptionRow
from gateway.clock import SystemClock
from gateway.peer import Peer
from semantics.names import DEFAULT

Admin = Any
EARLIEST = '{"ledgerId": -1, "entryId": -1}'
Serve = Callable[[Callable[[Admin], Coroutine[Any, Any, None]]], None]

LINE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(\\.|[^"\\\n])*"(,[a-zA-Z_]\w*="(\\.|[^"\\\n])*")*\})? \S+'
)
TOPIC = 'cluster="standalone",namespace="public/default",topic="persistent://public/default/'


@pytest.fixture(autouse=True)
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "FRESH_SECONDS", 0.0)


def show(admin: Admin, which: str) -> None:
    admin.broker.settings = admin.broker.settings.with_dynamic({"metrics.topics": which})


async def text(admin: Admin) -> bytes:
    return b"".join([piece.data() for piece in await admin.server._scrape.text()])


async def lines(admin: Admin) -> list[str]:
    answer = await admin.ask("GET", "/metrics")
    assert (answer.status, answer.content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    text: str = answer.body.decode()
    assert text.endswith("\n")
    return text.splitlines()


def test_a_scrape_follows_the_format_and_no_family_is_torn_apart(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 3)
        await admin.produce("orders", 1, [b"a"])
        await admin.commit('a "group"\n\\', "orders", 1, 0)
        typed: set[str] = set()
        current = ""
        for line in await lines(admin):
            if line.startswith("# HELP "):
                current = line.split(" ")[2]
                assert current not in typed
                typed.add(current)
            elif line.startswith("# TYPE "):
                assert line.split(" ")[2] == current
            else:
                assert LINE.fullmatch(line), line
                assert re.split(r"[{ ]", line)[0].startswith(current)
        assert {"magnetar_commit_seconds", "process_cpu_seconds_total", "magnetar_build_info"} <= typed

    serve(test)


def test_topics_under_the_names_of_kafka_exporter_and_pulsar(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.plain("plain")
        await admin.produce("orders", 1, [b"a", b"b"])
        show(admin, "all")
        found = await lines(admin)
        size = admin.broker.store.log(admin.broker.catalog.get("orders").partitions[1]).size
        for line in (
            "kafka_brokers 1",
            'kafka_topic_partitions{topic="orders"} 2',
            'kafka_topic_partitions{topic="plain"} 1',
            'kafka_topic_partition_current_offset{topic="orders",partition="0"} 0',
            'kafka_topic_partition_current_offset{topic="orders",partition="1"} 2',
            'kafka_topic_partition_oldest_offset{topic="orders",partition="1"} 0',
            'pulsar_version_info{cluster="standalone",version="0.1.0"} 1',
            'pulsar_topics_count{cluster="standalone",namespace="public/default"} 3',
            f'pulsar_storage_size{{{TOPIC}orders-partition-1"}} {size}',
            f'pulsar_storage_size{{{TOPIC}plain"}} 0',
            f'pulsar_in_messages_total{{{TOPIC}orders-partition-1"}} 2',
            f'pulsar_in_bytes_total{{{TOPIC}orders-partition-1"}} {size}',
        ):
            assert line in found
        # records going out are not counted: better no line than one that is always 0
        assert not [
            line for line in found if "pulsar_out_messages_total" in line or "pulsar_rate_out" in line
        ]
        # nobody uses it: no traffic lines, as for a topic that Pulsar has not loaded
        assert not [line for line in found if line.startswith(f'pulsar_in_messages_total{{{TOPIC}plain"')]

    serve(test)


def test_producers_are_those_that_have_published_and_are_there(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        await admin.produce("orders", 0, [b"a"])
        runtime = admin.broker.topic(b"orders")
        assert runtime is not None
        partition = runtime.partitions[0]
        assert partition is not None
        connections = [
            Publishing(Peer(number, "/127.0.0.1", "PLAINTEXT"), admin.broker.clock) for number in (1, 2)
        ]
        for each in connections:
            each.begin(partition)
        assert f'pulsar_producers_count{{{TOPIC}orders"}} 2' in await lines(admin)
        for each in connections:
            each.close()
        assert not partition.publishers

    serve(test)


def test_lag_of_groups(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b", b"c"])
        await admin.produce("orders", 1, [b"d"])
        await admin.commit("billing", "orders", 0, 1)
        await admin.commit("billing", "orders", 1, 1)
        await admin.commit("audit", "orders", 0, 0)
        await admin.join("idle", "orders")
        found = await lines(admin)
        by_lag_exporter = 'cluster_name="standalone",group="billing",topic="orders"'
        for line in (
            'kafka_consumergroup_current_offset{consumergroup="billing",topic="orders",partition="0"} 1',
            'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="0"} 2',
            'kafka_consumergroup_lag{consumergroup="billing",topic="orders",partition="1"} 0',
            'kafka_consumergroup_lag_sum{consumergroup="billing",topic="orders"} 2',
            'kafka_consumergroup_lag_sum{consumergroup="audit",topic="orders"} 3',
            'kafka_consumergroup_members{consumergroup="billing"} 0',
            'kafka_consumergroup_members{consumergroup="idle"} 1',
            f'pulsar_subscription_back_log{{{TOPIC}orders-partition-0",subscription="billing"}} 2',
            f'pulsar_subscriptions_count{{{TOPIC}orders-partition-0"}} 2',
            f'pulsar_msg_backlog{{{TOPIC}orders-partition-0"}} 5',
            f'pulsar_msg_backlog{{{TOPIC}orders-partition-1"}} 0',
            f'pulsar_consumers_count{{{TOPIC}orders-partition-0"}} 0',
            f'kafka_consumergroup_group_lag{{{by_lag_exporter},partition="0"}} 2',
            f'kafka_consumergroup_group_lag_seconds{{{by_lag_exporter},partition="1"}} 0',
        ):
            assert line in found

    serve(test)


def value_of(found: Sequence[str], start: str) -> float:
    (line,) = [line for line in found if line.startswith(start)]
    return float(line.rsplit(" ", 1)[1])


def test_how_long_groups_and_subscriptions_are_behind(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        for name, group in (("orders", "late"), ("payments", "later")):
            await admin.plain(name)
            await admin.produce(name, 0, [b"a", b"b"])
            await admin.commit(group, name, 0, 1)
            await admin.commit("both", name, 0, 2)
            assert (await admin.ask("PUT", f"P/{name}/subscription/waiting", EARLIEST)).status == 204
        # they come before and behind the slowest, by length and by letters
        for quick in ("nothing", "zzzzzzzzzz"):
            assert (await admin.ask("PUT", f"P/payments/subscription/{quick}")).status == 204
        began = admin.broker.clock.wall_ms()
        # five minutes pass, and one of them has something new
        monkeypatch.setattr(admin.broker, "clock", Later(300_000))
        await admin.produce("orders", 0, [b"c"])
        found = await lines(admin)
        passed = (admin.broker.clock.wall_ms() - began) / 1000
        lag = 'kafka_consumergroup_group_lag_seconds{cluster_name="standalone",group='
        for start in (
            f'{lag}"late",topic="orders"',
            f'{lag}"later",topic="payments"',
            f'pulsar_storage_backlog_age_seconds{{{TOPIC}orders"}}',
            f'pulsar_storage_backlog_age_seconds{{{TOPIC}payments"}}',
        ):
            assert 300 <= value_of(found, start) <= passed + 1
        assert value_of(found, f'{lag}"both",topic="orders"') <= passed - 300 + 1
        assert value_of(found, f'{lag}"both",topic="payments"') == 0
        slowest = 'kafka_consumergroup_group_max_lag_seconds{cluster_name="standalone",group='
        assert value_of(found, f'{slowest}"both"') == value_of(found, f'{lag}"both",topic="orders"')
        log = admin.broker.store.log(admin.broker.catalog.get("payments").partitions[0])
        assert f'pulsar_storage_backlog_size{{{TOPIC}payments"}} {log.size}' in found
        assert (await admin.ask("POST", "P/payments/subscription/waiting/skip_all")).status == 204
        found = await lines(admin)
        assert f'pulsar_storage_backlog_size{{{TOPIC}payments"}} 0' in found
        assert f'pulsar_storage_backlog_age_seconds{{{TOPIC}payments"}} -1' in found

    serve(test)


class Later(SystemClock):
    """The system's clock, so many ms ahead."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead

    def wall_ms(self) -> int:
        return super().wall_ms() + self._ahead


def test_the_gateway_itself(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        found = await lines(admin)
        assert "magnetar_ready 1" in found
        assert 'pulsar_storage_write_rate{cluster="standalone"} 0.0' in found
        admin.broker.turn.watch.produced(0.003, 1, 7, 70, 700)
        admin.reasons.append("It stops.")
        found = await lines(admin)
        assert "magnetar_ready 0" in found
        assert 'pulsar_storage_write_latency_le_5{cluster="standalone"} 7' in found
        assert 'pulsar_storage_write_latency_le_10{cluster="standalone"} 0' in found
        assert 'magnetar_storage_write_seconds_bucket{le="0.005"} 7' in found

    serve(test)


def test_backlogs_of_share_groups(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b", b"c", b"d"])
        assert (await admin.ask("PUT", "P/orders/subscription/billing", EARLIEST)).status == 204
        await admin.commit("readers", "orders", 0, 3)
        subscription = admin.broker.subscriptions.get("billing", "orders")
        assert subscription is not None
        at = subscription.partition(0)
        at.attach("c1")
        delivery = at.fetch("c1", 3, 1 << 20, 3)
        assert isinstance(delivery, tuple)
        at.acknowledge("c1", [(0, 1, b"\x01\x02")])
        await admin.broker.write([])
        found = await lines(admin)
        labels = f'{{{TOPIC}orders-partition-0",subscription="billing"}}'
        for line in (
            f"pulsar_subscription_back_log{labels} 3",
            f"pulsar_subscription_unacked_messages{labels} 1",
            f"magnetar_subscription_backoff{labels} 1",
            f"pulsar_subscription_consumers_count{labels} 1",
            f'pulsar_consumers_count{{{TOPIC}orders-partition-0"}} 1',
            f"pulsar_subscription_out_messages_total{labels} 3",
            f"magnetar_subscription_acknowledged_total{labels} 1",
            f"magnetar_subscription_dead_letters_total{labels} 0",
            f'pulsar_subscriptions_count{{{TOPIC}orders-partition-0"}} 2',
            f'pulsar_msg_backlog{{{TOPIC}orders-partition-0"}} 4',
            f'pulsar_msg_backlog{{{TOPIC}orders-partition-1"}} 0',
        ):
            assert line in found

    serve(test)


def test_idle_topics_have_no_lines_of_their_own(serve: Serve) -> None:
    """Nor groups that have read all of them; what is left to read is shown, whoever stopped."""

    async def test(admin: Admin) -> None:
        for name in ("orders", "payments"):
            await admin.partitioned(name, 2)
            await admin.produce(name, 0, [b"a", b"b"])
            await admin.commit("behind", name, 0, 1)
            await admin.commit("done", name, 0, 2)
            assert (await admin.ask("PUT", f"P/{name}/subscription/waiting", EARLIEST)).status == 204
            assert (await admin.ask("PUT", f"P/{name}/subscription/nothing")).status == 204
        in_use = await lines(admin)
        assert "magnetar_metrics_partitions_shown 4" in in_use
        for _ in range(2):
            admin.broker.subscriptions.release_idle()
            admin.broker.in_use.release_idle()
        await admin.produce("orders", 1, [b"c"])
        found = await lines(admin)
        assert "magnetar_metrics_partitions_shown 2" in found
        assert 'pulsar_topics_count{cluster="standalone",namespace="public/default"} 4' in found
        # a topic is in use as a whole
        assert [line for line in in_use if "orders" in line and "partition-0" in line and "total" not in line]
        assert 'kafka_topic_partition_current_offset{topic="orders",partition="0"} 2' in found
        assert 'kafka_consumergroup_lag{consumergroup="done",topic="orders",partition="0"} 0' in found
        assert f'pulsar_subscriptions_count{{{TOPIC}orders-partition-0"}} 4' in found
        assert not [line for line in found if line.startswith("kafka_topic") and "payments" in line]
        assert 'kafka_consumergroup_lag_sum{consumergroup="behind",topic="payments"} 1' in found
        assert (
            f'pulsar_subscription_back_log{{{TOPIC}payments-partition-0",subscription="waiting"}} 2' in found
        )
        assert f'pulsar_msg_backlog{{{TOPIC}payments-partition-0"}} 3' in found
        assert not [
            line for line in found if "payments" in line and ('="done",' in line or '"nothing"' in line)
        ]
        assert 'kafka_consumergroup_members{consumergroup="done"} 0' in found
        await admin.join("done", "payments")
        found = await lines(admin)
        assert 'kafka_consumergroup_lag_sum{consumergroup="done",topic="payments"} 0' in found

    serve(test)


def test_no_topic_has_lines_where_only_sums_are_asked_for(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.partitioned("orders", 2)
        await admin.produce("orders", 0, [b"a", b"b"])
        await admin.commit("billing", "orders", 0, 1)
        assert (await admin.ask("PUT", "P/orders/subscription/waiting", EARLIEST)).status == 204
        show(admin, "none")
        found = await lines(admin)
        assert not [line for line in found if "orders" in line]
        assert 'pulsar_topics_count{cluster="standalone",namespace="public/default"} 2' in found
        assert 'kafka_consumergroup_members{consumergroup="billing"} 0' in found

    serve(test)


def test_topics_are_counted_as_they_come_and_go(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PAGE", 3)

    async def test(admin: Admin) -> None:
        async def change(number: int) -> None:
            await admin.partitioned(f"new-{number}", 2)
            await admin.ask("DELETE", f"P/old-{number}/partitions")
            await admin.ask("POST", f"P/grows-{number}/partitions", "7")

        for number in range(10):
            await admin.partitioned(f"old-{number}", 3)
            await admin.partitioned(f"grows-{number}", 1)
        monkeypatch.setattr(catalog, "COUNT_PAGES", 2)
        first, *_ = await asyncio.gather(admin.broker.catalog.partition_counts(), *map(change, range(5)))
        assert first is None, "they are not all counted at once"
        assert not [line for line in await lines(admin) if line.startswith("pulsar_topics_count{")]
        while await admin.broker.catalog.partition_counts() is None:
            await asyncio.sleep(0)
        await asyncio.gather(*map(change, range(5, 10)))
        assert await admin.broker.catalog.partition_counts() == {DEFAULT: 10 * 2 + 10 * 7}
        assert sum(len(topic.partitions) for topic in admin.broker.catalog.topics()) == 90

    serve(test)


def test_a_deleted_topic_is_gone_from_the_next_scrape(serve: Serve) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("gone")
        show(admin, "all")
        assert any('"gone"' in line for line in await lines(admin))
        await admin.ask("DELETE", "P/gone")
        assert not any("gone" in line for line in await lines(admin))

    serve(test)


def test_a_large_scrape_lets_the_loop_go_in_between(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(admin: Admin) -> None:
        for number in range(40):
            await admin.broker.create_topic(f"t{number}", 25, {})
        show(admin, "all")
        monkeypatch.setattr(families, "PAUSE_LINES", 100)
        turns = 0
        done = False

        async def count() -> None:
            nonlocal turns
            while not done:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        made = await text(admin)
        done = True
        await counting
        # 40 x 25 partitions are 3,000 lines, made in slices
        assert made.count(b"kafka_topic_partition_current_offset{") == 1000
        assert turns > 25

    serve(test)


def test_so_does_one_of_a_topic_with_many_subscriptions(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(admin: Admin) -> None:
        await admin.plain("orders")
        for number in range(30):
            assert (await admin.ask("PUT", f"P/orders/subscription/s{number}", EARLIEST)).status == 204
        show(admin, "all")
        monkeypatch.setattr(families, "PAUSE_LINES", 20)
        turns: list[int] = []
        seen = 0
        of_subscription = share_stats.of_subscription

        def counted(
            broker: Broker, row: SubscriptionRow, indexes: Sequence[int]
        ) -> dict[int, share_stats.Stats]:
            nonlocal seen
            seen += 1
            return of_subscription(broker, row, indexes)

        monkeypatch.setattr(share_stats, "of_subscription", counted)

        async def count() -> None:
            while seen < 30:
                turns.append(seen)
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        assert (await text(admin)).count(b"pulsar_subscription_unacked_messages{") == 30
        await counting
        assert len(set(turns)) > 10, "others had their turn between two subscriptions"

    serve(test)
