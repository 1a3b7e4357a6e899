"""What is counted of a consumer."""

from __future__ import annotations

import pytest

from gateway.broker.subscriptions.consumers import Consumer, count_acks
from gateway.metrics_catalog import GatewayMetrics

GAP, ACCEPT, RELEASE, REJECT, RENEW = b"\0", b"\1", b"\2", b"\3", b"\4"


@pytest.mark.parametrize(
    ("acks", "acked", "nacked"),
    [
        ([(0, 9, ACCEPT)], 10, 0),
        ([(0, 9, ACCEPT), (20, 20, ACCEPT)], 11, 0),
        ([(0, 9, ACCEPT), (10, 12, RELEASE), (13, 14, REJECT)], 10, 5),
        ([(0, 3, GAP), (4, 6, RENEW)], 0, 0),
        ([(0, 4, GAP + ACCEPT + RELEASE + REJECT + RENEW)], 1, 2),
        ([(0, 1, ACCEPT + ACCEPT), (5, 5, RELEASE)], 2, 1),
    ],
)
@pytest.mark.parametrize("gone", [False, True])
def test_verdicts_are_counted_by_record_also_of_who_is_gone(
    acks: list[tuple[int, int, bytes]], acked: int, nacked: int, gone: bool
) -> None:
    metrics, consumer = GatewayMetrics(), Consumer(0)
    count_acks(metrics, None if gone else consumer, acks)
    assert (metrics.share_acks.value, metrics.share_nacks.value) == (acked, nacked)
    assert (consumer.acked, consumer.nacked) == ((0, 0) if gone else (acked, nacked))
