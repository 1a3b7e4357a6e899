"""Topic to Parquet to topic: equal record by record, as `make roundtrip` does it with a million."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat.spark.roundtrip import roundtrip
from pipeline import session
from pipeline.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.integration.spark.conftest import Broker

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`magnetar-pipeline` in this process and its Spark: two starts of a JVM less than in processes of their own."""
    own = spark.newSession()
    for name, value in session.JOB_SETTINGS.items():
        own.conf.set(name, value)
    own.stop = lambda: None
    monkeypatch.setattr(session, "connect", lambda app, options: own)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield lambda *arguments: main.main(list(arguments), standalone_mode=False)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_round_trip_compares_equal(broker: Broker, run: Callable[..., None], tmp_path: Path) -> None:
    figures, problems = roundtrip(broker.bootstrap, 50_000, 4, tmp_path, run)

    assert problems == []
    assert figures.tombstones > 1_000
