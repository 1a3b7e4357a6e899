"""Spark and the pipeline over TLS, as a user who logs in by SCRAM and has rights to some topics only."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from compat.peers.magnetar import MagnetarPeer
from compat.peers.secured import Secured
from compat.spark.feed import Feed, Record, topic_name
from compat.spark.reading import batch, rows, stream
from pipeline.archive import ArchiveJob, archive
from pipeline.broker import cluster
from pipeline.drain import DrainJob, drain
from pipeline.errors import PipelineError
from pipeline.options import chosen
from pipeline.progress import Progress, Stop
from pipeline.replay import ReplayJob, plan, prepare, replay, select
from tests.integration.spark.archives import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# One group: pytest-xdist then starts one Spark, in one of its workers.
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SECRET = "ada-knows-this"


@dataclass
class Place:
    """A gateway with TLS and logins: what its owner does, and what ada is to tell Spark."""

    gateway: MagnetarPeer
    secured: Secured
    feed: Feed = field(init=False)

    def __post_init__(self) -> None:
        self.feed = Feed(self.gateway.bootstrap, login=self.secured.librdkafka("owner"))

    @property
    def ada(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.secured.java("ada").items()}

    def allow(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        rows = [
            AclBinding(
                *(kind, name, ResourcePatternType.LITERAL, "User:ada", "*", each, AclPermissionType.ALLOW)
            )
            for each in operations
        ]
        for made in self.feed.admin.create_acls(rows).values():
            made.result(30)

    def topic(self, stem: str, *operations: AclOperation, partitions: int = 1) -> str:
        """A topic, and what ada may do with it."""
        name = self.feed.create(topic_name(stem), partitions)
        self.allow(ResourceType.TOPIC, name, *operations)
        return name

    def client_config(self, folder: Path, **others: str | None) -> Path:
        """As ada would write it, for Kafka's tools, too."""
        file = folder / "client.properties"
        said = {
            **self.secured.java("ada"),
            "bootstrap.servers": "nowhere:1",
            "group.id": "tools",
            "client.id": "tools",
        }
        settings = {name: value for name, value in (said | others).items() if value is not None}
        file.write_text("# ada's\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
        return file


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("secured")
    secured = Secured(
        folder / "tls",
        users={"ada": SECRET, "owner": "owner-secret"},
        super_users=("User:owner",),
        authorizer=True,
    )
    with MagnetarPeer(directory=folder, secured=secured) as gateway:
        yield Place(gateway, secured)


def numbered(count: int) -> list[Record]:
    return [Record(b"k%d" % n, b"%d" % n, (("n", b"%d" % n),)) for n in range(count)]


def values(found: Any) -> list[int]:
    return sorted(int(record.value) for record in found)


def told(spark: SparkSession) -> str:
    """What Spark's own pages tell of all that was run: its plans."""
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    return "\n".join(
        executions.apply(number).physicalPlanDescription() for number in range(executions.size())
    )


def test_spark_reads_and_writes_what_the_user_may(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    source = place.topic("secured-in", AclOperation.READ)
    target = place.topic("secured-out", AclOperation.WRITE)
    place.feed.produce(source, numbered(20))
    at = place.gateway.bootstrap

    frame = batch(spark, at, subscribe=source, **place.ada)
    assert values(rows(frame).values()) == list(range(20))
    columns = frame.selectExpr("key", "value", f"'{target}' AS topic")
    columns.write.format("kafka").option("kafka.bootstrap.servers", at).options(**place.ada).save()
    query = (
        stream(spark, at, subscribe=source, startingOffsets="earliest", **place.ada)
        .selectExpr("key", "value", f"'{target}' AS topic")
        .writeStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": at, "checkpointLocation": str(tmp_path), **place.ada})
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert values(place.feed.records(target)[0]) == sorted([*range(20), *range(20)])

    with pytest.raises(Exception, match="TopicAuthorizationException"):
        rows(batch(spark, at, subscribe=target, **place.ada))
    plans = told(spark)
    assert f"Subscribe[{source}]" in plans
    assert SECRET not in plans


def test_the_pipeline_takes_the_file_of_kafkas_tools(
    job_spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    source = place.topic("secured-kept", AclOperation.READ, partitions=2)
    target = place.topic("secured-again", AclOperation.WRITE, partitions=2)
    place.feed.produce(source, [record._replace(partition=n % 2) for n, record in enumerate(numbered(300))])
    options = chosen(place.client_config(tmp_path), [("kafka.own.keystore.key", SECRET)])
    at, output = place.gateway.bootstrap, str(tmp_path / "archive")

    done = archive(job_spark, ArchiveJob(at, output, topics=(source,), options=options), Stop())
    job = ReplayJob(output, at, to=target, options=options)
    frame = select(job_spark, job)
    planned = plan(frame, job)
    keep = prepare(job_spark, job, planned)
    replayed = replay(frame, job, planned, keep, Progress("replayed"), Stop())

    assert (done.rows, replayed.rows, keep) == (300, 300, True)
    sent = place.feed.records(source)
    assert {number: [each[:3] for each in found] for number, found in place.feed.records(target).items()} == {
        number: [each[:3] for each in found] for number, found in sent.items()
    }
    wrong = ReplayJob(output, at, to=source, options=options)
    with pytest.raises(PipelineError, match="does not let this user read or write"):
        replay(frame, wrong, planned, keep, Progress("replayed"), Stop())
    assert SECRET not in told(job_spark)


def test_a_drain_acknowledges_as_the_user(job_spark: SparkSession, place: Place, tmp_path: Path) -> None:
    base = place.topic("secured-drain", AclOperation.DESCRIBE)
    group = topic_name("group").replace("-", ".")
    queue = f"{base}-{group}-QUEUE"
    made = urllib.request.Request(
        f"{place.gateway.admin_url}/admin/v2/persistent/public/default/{base}/subscription/{group}?type=key_shared&lanes=1",
        data=json.dumps({"properties": {}}).encode(),
        method="PUT",
        headers={
            "Content-Type": "application/json",
            "Authorization": "Basic " + base64.b64encode(b"owner:owner-secret").decode(),
        },
    )
    urllib.request.urlopen(made).close()
    place.allow(ResourceType.TOPIC, queue, AclOperation.READ)
    place.allow(ResourceType.GROUP, group, AclOperation.READ)
    place.feed.produce(base, numbered(50))
    # the password is in a file that Kafka's client reads, the CA in that of the client
    login = tmp_path / "login.properties"
    login.write_text(f"login={place.secured.java('ada')['sasl.jaas.config']}\n")
    others = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "sasl.jaas.config": f"${{file:{login}:login}}",
        "ssl.truststore.certificates": place.secured.ca.read_text().replace("\n", "\\n"),
        "ssl.truststore.location": None,
    }
    options = chosen(place.client_config(tmp_path, **others), ())
    assert SECRET not in str(options)
    job = DrainJob(place.gateway.bootstrap, queue, output=str(tmp_path / "archive"), options=options)

    done = drain(job_spark, job, Stop())

    assert (done.rows, done.finished) == (50, True)
    assert sorted(int(row["value"]) for row in table(tmp_path)) == list(range(50))
    assert place.feed.committed(group)[queue, 0] == 50


QUICK = [("kafka.request.timeout.ms", "1000"), ("kafka.default.api.timeout.ms", "1500")]
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (
            {"sasl.jaas.config": f'{LOGIN} username="ada" password="{SECRET}x";'},
            "refused the user name or password",
        ),
        ({"security.protocol": "PLAINTEXT"}, "did not answer in time. If it wants TLS or a login"),
        ({"ssl.truststore.type": "JKS"}, "cannot be made of its settings: .*ca.pem of type JKS"),
        ({"ssl.truststore.location": "/nowhere.pem"}, "cannot be made of its settings: .*/nowhere.pem"),
        ({"sasl.jaas.config": f"{LOGIN} username=ada password={SECRET}"}, "not terminated by semi-colon"),
        (
            {"ssl.truststore.location": None, "ssl.truststore.type": "JKS"},
            "signed by no CA that is trusted here",
        ),
    ],
    ids=["password", "no tls", "no pem", "no file", "no semicolon", "no ca"],
)
def test_what_is_wrong_is_one_sentence_without_the_password(
    job_spark: SparkSession, place: Place, tmp_path: Path, others: dict[str, str | None], sentence: str
) -> None:
    options = chosen(place.client_config(tmp_path, **others), QUICK)

    with (
        pytest.raises(PipelineError, match=sentence) as raised,
        cluster(job_spark, place.gateway.bootstrap, options) as broker,
    ):
        broker.topics()
    assert SECRET not in raised.value.message
    assert "\n" not in raised.value.message
