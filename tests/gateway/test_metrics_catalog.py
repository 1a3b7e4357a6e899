"""The gateway's own metrics: defined once, named as Prometheus wants it, the store's counters among them."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.metrics_catalog import GatewayMetrics
from store.api import StoreStats

PROJECT = Path(__file__).resolve().parents[2]


def test_names_carry_the_prefix_and_their_unit() -> None:
    heads = [line for line in GatewayMetrics().render().decode().splitlines() if line.startswith("# TYPE")]
    assert heads
    for head in heads:
        _, _, name, kind = head.split(" ")
        assert name.startswith("magnetar_")
        assert name.endswith("_total") == (kind == "counter")


def test_each_metric_is_counted_somewhere() -> None:
    sources = "\n".join(
        path.read_text() for path in (PROJECT / "gateway").rglob("*.py") if path.name != "metrics_catalog.py"
    )
    own = (PROJECT / "gateway" / "metrics_catalog.py").read_text()
    for name in vars(GatewayMetrics()):
        if not name.startswith("_"):
            uses = len(re.findall(rf"\b{name}\b", sources)) + len(re.findall(rf"self\.{name}\.", own))
            assert uses, f"{name} is shown and never counted"


def test_the_data_path_counts_with_bare_attributes() -> None:
    metrics = GatewayMetrics()
    metrics.produced_messages.value += 5
    metrics.request_seconds.labels("Fetch").observe(0.002)
    metrics.connections.labels("main").inc()

    text = metrics.render().decode()
    assert "magnetar_produced_messages_total 5\n" in text
    assert 'magnetar_request_seconds_bucket{api="Fetch",le="0.0025"} 1\n' in text
    assert 'magnetar_connections{listener="main"} 1\n' in text


def test_the_stores_counters_are_read_at_each_scrape() -> None:
    numbers = [
        StoreStats(1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10, 11),
        StoreStats(21, 2, 3, 4, 0.5, 6, 7, 8, 9, 10, 11),
    ]
    metrics = GatewayMetrics()
    metrics.watch_store(lambda: numbers.pop(0))

    text = metrics.render().decode()
    for line in (
        "magnetar_store_commits_total 1", 'magnetar_store_groups_total{path="inline"} 10',
        'magnetar_store_groups_total{path="threaded"} 11', "magnetar_store_appended_bytes_total 3",
        "magnetar_store_syncs_total 4", "magnetar_store_sync_seconds_total 0.5",
        "magnetar_tail_cache_bytes 6",
        'magnetar_tail_cache_reads_total{result="hit"} 7', 'magnetar_tail_cache_reads_total{result="miss"} 8',
        "magnetar_store_open_files 9",
    ):  # fmt: skip
        assert f"{line}\n" in text
    assert "magnetar_store_commits_total 21\n" in metrics.render().decode()
