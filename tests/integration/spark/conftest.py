"""What the Spark tests share: one small Spark for the whole run, and the broker they run against.

That broker is the started gateway. To check a case against the real thing instead:
MAGNETAR_TEST_BOOTSTRAP=kafka starts Apache Kafka beside the tests, MAGNETAR_TEST_BOOTSTRAP=host:port uses a
broker that is running already (tests that restart it then skip).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from compat.spark import SparkMissingError, session
from compat.spark.feed import Feed
from pipeline.archive import Archived, ArchiveJob, archive
from pipeline.progress import Progress, Stop
from pipeline.replay import Plan, Replayed, ReplayJob, plan, prepare, replay, select
from pipeline.session import JOB_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER_BROKER = os.environ.get("MAGNETAR_TEST_BOOTSTRAP", "")


class Keep(Protocol):
    """What the fixture `keep` gives."""

    def __call__(self, *topics: str, output: str = "archive", **options: Any) -> Archived: ...


class Play(Protocol):
    """What the fixture `play` gives."""

    def __call__(
        self, stop: Stop | None = None, source: str = "archive", **options: Any
    ) -> tuple[Plan, Replayed]: ...


@dataclass
class Broker:
    bootstrap: str
    feed: Feed
    _restart: Callable[[], object] | None

    def restart(self) -> None:
        """Stop the broker and start it again on the same port and folder."""
        if self._restart is None:
            pytest.skip(
                "MAGNETAR_TEST_BOOTSTRAP names a broker that the tests did not start and cannot restart"
            )
        self._restart()


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    try:
        return session("magnetar-tests")
    except SparkMissingError as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def _peer() -> Iterator[Any]:
    from compat.peers.kafka.peer import KafkaPeer

    with KafkaPeer() as peer:
        yield peer


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    if OTHER_BROKER == "kafka":
        peer = request.getfixturevalue("_peer")

        def restart() -> None:
            peer.stop()
            peer.start()

        return Broker(peer.bootstrap, Feed(peer.bootstrap), restart)
    if OTHER_BROKER:
        return Broker(OTHER_BROKER, Feed(OTHER_BROKER), None)
    gateway = request.getfixturevalue("gateway")
    return Broker(gateway.bootstrap, Feed(gateway.bootstrap), gateway.restart)


@pytest.fixture
def feed(broker: Broker) -> Feed:
    return broker.feed


@pytest.fixture(scope="session")
def job_spark(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    for name, value in JOB_SETTINGS.items():
        own.conf.set(name, value)
    return own


@pytest.fixture
def keep(job_spark: SparkSession, feed: Feed, tmp_path: Path) -> Keep:
    """Archive into tmp_path/archive, or another folder there."""

    def run(*topics: str, output: str = "archive", **options: Any) -> Archived:
        job = ArchiveJob(feed.bootstrap, str(tmp_path / output), topics=topics, **options)
        return archive(job_spark, job, Stop())

    return run


@pytest.fixture
def play(job_spark: SparkSession, feed: Feed, tmp_path: Path) -> Play:
    """Replay from tmp_path/archive, or another folder there; the plan and what was done."""

    def run(stop: Stop | None = None, source: str = "archive", **options: Any) -> tuple[Plan, Replayed]:
        job = ReplayJob(str(tmp_path / source), feed.bootstrap, **options)
        frame = select(job_spark, job)
        planned = plan(frame, job)
        kept = prepare(job_spark, job, planned)
        return planned, replay(frame, job, planned, kept, Progress("replayed"), stop or Stop())

    return run
