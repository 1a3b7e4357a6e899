"""What is known of commits: whether they fail and why, said once for each reason."""

from __future__ import annotations

import logging

import pytest

from gateway.broker.commit_watch import CommitWatch
from gateway.metrics_catalog import GatewayMetrics
from store.api import Fenced, StoreError


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records]


def test_a_reason_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    metrics = GatewayMetrics()
    watch = CommitWatch(metrics)
    assert not watch.failing
    with caplog.at_level(logging.WARNING, "magnetar.broker"):
        for reason in ("no space", "no space", "read-only", "no space"):
            watch.failed(StoreError(reason))
            assert (watch.failing, watch.reason) == (True, reason)
        watch.succeeded()
    assert not watch.failing
    assert [text.rpartition(": ")[2] for text in told(caplog)] == [
        "no space",
        "read-only",
        "no space",
        "writes succeed again",
    ]
    assert b"magnetar_commits_failed_total 4\n" in metrics.render()


def test_a_log_with_another_owner_does_not_mean_that_writes_fail(caplog: pytest.LogCaptureFixture) -> None:
    metrics = GatewayMetrics()
    watch = CommitWatch(metrics)
    with caplog.at_level(logging.WARNING, "magnetar.broker"):
        for number in (1, 1, 2):
            watch.failed(Fenced(f"another owner has log {number}"))
            assert (watch.failing, watch.reason) == (False, "")
        watch.failed(StoreError("no space"))
        watch.failed(Fenced("another owner has log 2"))
    assert watch.reason == "no space", "nor that they succeed again"
    assert [text.rpartition(": ")[2] for text in told(caplog)] == [
        "another owner has log 1",
        "another owner has log 2",
        "no space",
    ]
    assert b"magnetar_commits_failed_total 5\n" in metrics.render()


def test_what_was_stored_is_counted() -> None:
    metrics = GatewayMetrics()
    CommitWatch(metrics).produced(0.25, requests=3, batches=4, messages=50, size=600)
    counted = metrics.produced_batches.value, metrics.produced_messages.value, metrics.produced_bytes.value
    assert counted == (4, 50, 600)
