"""What a job asks the broker beside Spark's source and sink: is it there, which topics, how wide are they.

It uses the Kafka client inside Spark's own connector, so that nothing else needs to be installed and every
`kafka.` option (security included) counts here as well.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import NOT_IN_TIME, PipelineError, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH_TIMEOUT = 5.0
ANSWER_TIMEOUT_MS = "15000"

CLIENT_ID = "magnetar-pipeline"


def reach(bootstrap: str, options: Mapping[str, str]) -> None:
    """Raise `PipelineError` unless one of the addresses ("host:port,host:port") accepts a connection.

    `options`: Spark's Kafka options, which say whether clients speak TLS there.
    """
    tls = options.get("kafka.security.protocol", "").upper() in ("SSL", "SASL_SSL")
    problems: list[str] = []
    for address in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit() or not host:
            raise PipelineError(f"--bootstrap {address}: expected host:port.")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT) as connection:
                if tls:
                    _shake_hands(connection)
            return
        except OSError as error:
            problems.append(f"{address} ({error.strerror or error})")
    raise PipelineError(
        f"nothing answers at {', '.join(problems) or repr(bootstrap)}: is the gateway running?"
    )


def _shake_hands(connection: socket.socket) -> None:
    """A TLS listener logs who goes without. Nothing is said here: the Kafka client sees to whom it talks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # somebody is there, whatever comes of it
    with suppress(OSError), context.wrap_socket(connection) as secured:
        secured.unwrap()


class Described(NamedTuple):
    """What a broker says of a topic."""

    partitions: int
    internal: bool


class Cluster:
    """Topics, their widths and ids; made by `cluster`. `jvm`, `admin`: by py4j, of the connector's Kafka client."""

    def __init__(self, jvm: Any, admin: Any) -> None:
        self.jvm = jvm
        self.admin = admin

    def topics(self) -> dict[str, int]:
        """Every topic that clients may see, with its number of partitions."""
        names = self.admin.listTopics().names().get()
        described = self.admin.describeTopics(names).allTopicNames().get()
        return {name: described[name].partitions().size() for name in described}

    def described(self, names: Iterable[str]) -> dict[str, Described]:
        """Those of these topics that are there and may be seen, internal ones too."""
        return {
            name: Described(topic.partitions().size(), bool(topic.isInternal()))
            for name, topic in self._described(names)
        }

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        """The topics' ids; topics that are not there, or whose broker has none (before 2.8), are left out."""
        none = self.jvm.org.apache.kafka.common.Uuid.ZERO_UUID
        found = ((name, topic.topicId()) for name, topic in self._described(names))
        return {name: str(its.toString()) for name, its in found if not its.equals(none)}

    def records(self, widths: Mapping[str, int]) -> int:
        """How many offsets lie between the start and the end of these topics' partitions, all together."""
        ends, starts = self.jvm.java.util.HashMap(), self.jvm.java.util.HashMap()
        spec = self.jvm.org.apache.kafka.clients.admin.OffsetSpec
        for topic, width in widths.items():
            for index in range(width):
                place = self.jvm.org.apache.kafka.common.TopicPartition(topic, index)
                ends.put(place, spec.latest())
                starts.put(place, spec.earliest())
        sums = [
            sum(int(each.offset()) for each in self.admin.listOffsets(wanted).all().get().values())
            for wanted in (ends, starts)
        ]
        return sums[0] - sums[1]

    def _described(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        wanted = self.jvm.java.util.ArrayList()
        for name in names:
            wanted.append(name)
        answers = self.admin.describeTopics(wanted).topicNameValues()
        for name in answers:
            try:
                topic = answers[name].get()
            except Exception as error:
                # of one that may not be seen nothing is told but that
                if re.search("UnknownTopicOrPartitionException|TopicAuthorizationException", str(error)):
                    continue
                raise
            yield str(name), topic

    def create(self, widths: Mapping[str, int]) -> None:
        """Create topics with so many partitions each and the broker's default for everything else."""
        wanted = self.jvm.java.util.ArrayList()
        optional = self.jvm.java.util.Optional
        for name, partitions in widths.items():
            wanted.append(
                self.jvm.org.apache.kafka.clients.admin.NewTopic(
                    name, optional.of(partitions), optional.empty()
                )
            )
        self.admin.createTopics(wanted).all().get()


@contextmanager
def cluster(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> Iterator[Cluster]:
    """The broker's admin side. `options`: Spark's Kafka options; those that begin with `kafka.` count.

    Errors of the Kafka client within the block come out as `PipelineError`.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped,unused-ignore]

    jvm = spark._jvm
    settings = client_settings(jvm, bootstrap, options)
    # to Java's default, which is Spark's, queue topics are told as plain ones
    settings.put("client.id", CLIENT_ID)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    except (Py4JError, TypeError) as error:
        if "JavaPackage" in str(error):
            raise PipelineError(explain(Exception("Failed to find data source: kafka"))) from None
        raise PipelineError(explain(error)) from None
    try:
        yield Cluster(jvm, admin)
    except Py4JError as error:
        said = explain(error)
        # to a client that speaks another protocol a broker says nothing, and it tries again until its time is over
        hint = " If it wants TLS or a login, security.protocol has to say so: --client-config."
        raise PipelineError(f"{bootstrap}: {said}{hint if said == NOT_IN_TIME else ''}") from None
    finally:
        # When Spark's JVM is gone, what it died of is more to the point.
        with suppress(Exception):
            admin.close()


def client_settings(jvm: Any, bootstrap: str, options: Mapping[str, str]) -> Any:
    """The properties of a Kafka client in Spark's JVM; the names in `options` that begin with `kafka.` count."""
    settings = jvm.java.util.Properties()
    settings.setProperty("bootstrap.servers", bootstrap)
    settings.setProperty("default.api.timeout.ms", ANSWER_TIMEOUT_MS)
    settings.setProperty("request.timeout.ms", "10000")
    for name, value in options.items():
        if name.startswith("kafka."):
            settings.setProperty(name.removeprefix("kafka."), value)
    return settings


def choose(available: Mapping[str, int], topics: tuple[str, ...], pattern: str | None) -> list[str]:
    """The topics that are meant, all of which exist; a pattern matches whole names and may match none."""
    if pattern is not None:
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise PipelineError(f"--pattern {pattern}: {error}.") from None
        return sorted(name for name in available if expression.fullmatch(name))
    missing = [name for name in topics if name not in available]
    if missing:
        raise PipelineError(f"topic {missing[0]} does not exist.{_nearest(missing[0], available)}")
    return sorted(set(topics))


def _nearest(name: str, available: Mapping[str, int]) -> str:
    import difflib

    close = difflib.get_close_matches(name, available, n=1)
    return f" Did you mean {close[0]}?" if close else ""
