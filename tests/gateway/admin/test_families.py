"""Names of families: typed as those type them who publish them, none twice."""

from __future__ import annotations

from gateway.admin import families
from gateway.admin.families import EVERY, Families, kind_of
from gateway.metrics_catalog import STORED_SECONDS, GatewayMetrics


def test_pulsars_and_kafkas_are_gauges_and_ours_are_what_their_names_say() -> None:
    assert kind_of("pulsar_in_messages_total") == "gauge"
    assert kind_of("pulsar_subscription_total_msg_expired") == "gauge"
    assert kind_of("kafka_consumergroup_lag") == "gauge"
    assert kind_of("magnetar_subscription_dead_letters_total") == "counter"
    assert kind_of("magnetar_subscription_backoff") == "gauge"


def test_no_name_is_defined_twice() -> None:
    groups = (
        families.NODE, families.KAFKA, families.PULSAR, families.GROUPS, families.SHARED, families.KEPT,
        families.RESOURCE_GROUPS, families.OURS,
    )  # fmt: skip
    assert sum(map(len, groups)) == len(EVERY)
    assert not set(EVERY) & set(GatewayMetrics().names())


def test_the_buckets_of_pulsars_write_latency_are_ours() -> None:
    bounds = [f"le_{bound * 1000:g}".replace(".", "_") for bound in STORED_SECONDS]
    assert [name.removeprefix("pulsar_storage_write_latency_") for name in families.WRITE_LATENCY] == [
        *bounds,
        "overflow",
    ]


def test_a_family_without_lines_has_no_head() -> None:
    found = Families()
    found.open({"magnetar_a": "A.", "magnetar_b_total": "B."})
    found.add("magnetar_b_total", 'x="1"', 3)
    found.add("magnetar_b_total", "", 0.5)
    text = b"".join(piece.data() for piece in found.pieces()).decode()
    assert text.splitlines() == [
        "# HELP magnetar_b_total B.",
        "# TYPE magnetar_b_total counter",
        'magnetar_b_total{x="1"} 3',
        "magnetar_b_total 0.5",
    ]
