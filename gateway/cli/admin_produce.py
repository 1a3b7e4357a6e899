"""`magnetar-admin topics produce`: records from arguments, a file or standard input to a topic."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from gateway.cli import admin_kafka as kafka_side
from gateway.cli.admin_client import AdminError, Misused
from gateway.cli.admin_options import Options, common, counted, pass_options
from gateway.cli.admin_records import (
    Headers,
    Record,
    binary,
    from_json,
    from_lines,
    header,
    moment_ms,
    span_ms,
    unescaped,
)
from gateway.cli.admin_topics import topic_argument
from gateway.cli.interruptible import INTERRUPTED

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
FAILURES_TOLD = 10
MIB = 1_048_576
LARGE = 8 * MIB
"""A message above it is worth the question what a request may have."""
BATCH_OVERHEAD = 1024
"""Bytes that a batch of one record has beside its key, value and headers, at most but for many headers."""
LONGEST_DELAY_MS = 10 * 86_400_000
"""What pulsar.delayed.delivery.max.delay.ms is where nobody has set it."""


@click.command(
    epilog="""\b
Examples:
  magnetar-admin topics produce orders '3 apples' --key ada
  printf 'ada:3 apples\\nbob:1 pear\\n' | magnetar-admin topics produce orders -K :
  magnetar-admin topics produce orders 'remind me' --delay 5s -H colour=red
  magnetar-admin topics produce orders --file orders.jsonl --format json --compression zstd
  magnetar-admin topics produce orders hello -n 1000 --quiet"""
)
@topic_argument
@click.argument("messages", metavar="[MESSAGE]...", nargs=-1)
@click.option("-k", "--key", help="The key of every message that has none of its own.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every message."
)
@click.option(
    "--delay",
    metavar="TIME",
    help="Deliver so long after sending: 500ms, 5s, 10m, 2h; a bare number means seconds. To share groups only.",
)
@click.option(
    "--deliver-at", metavar="TIME", help="Deliver not before: 2026-01-31T12:00:00Z, or ms since 1970."
)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), help="The partition; else the key's, as Java has it."
)
@click.option(
    "-f", "--file", "source", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE",
    help="Read messages from a file; - is standard input, which is read when no message is named.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["lines", "json", "raw"]), default="lines", show_default=True,
    help="What a file holds: a message a line, a JSON object a line (as consume writes them), or one message.",
)  # fmt: skip
@click.option(
    "-K",
    "--key-separator",
    metavar="TEXT",
    help="What stands between key and message in a line (\\t: tab)."
    " A line without it has --key's key, and is refused where there is none.",
)
@click.option(
    "-Z", "--null", "null_when_empty", is_flag=True, help="An empty message is a null value (a tombstone)."
)
@click.option("-n", "--repeat", type=click.IntRange(min=1), default=1, help="Send everything so many times.")
@click.option(
    "-z", "--compression", type=click.Choice(COMPRESSIONS), default="none", help="How batches are packed."
)
@click.option(
    "--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True,
    help="What counts as sent; with 0 nobody knows whether it is stored.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Do not print where each message is stored.")
@kafka_side.kafka_options
@common
@pass_options
@click.pass_context
def produce(
    ctx: click.Context,
    options: Options,
    topic: str,
    messages: tuple[str, ...],
    key: str | None,
    headers: tuple[str, ...],
    delay: str | None,
    deliver_at: str | None,
    partition: int | None,
    source: str | None,
    form: str,
    key_separator: str | None,
    null_when_empty: bool,
    repeat: int,
    compression: str,
    acks: str,
    quiet: bool,
    bootstrap: str | None,
    settings: tuple[str, ...],
) -> None:
    """Send messages and print where each is stored.

    Messages are arguments, or lines of a file or of standard input. A topic that is missing is made. The exit code is 1
    when a message was not stored.
    """
    name, own_partition = kafka_side.named(topic)
    kafka_side.check_output(options)
    if messages and source is not None:
        raise Misused("Name either messages or a --file, not both.")
    if delay is not None and deliver_at is not None:
        raise Misused("Say either --delay or --deliver-at, not both.")
    if own_partition is not None and partition not in (None, own_partition):
        raise Misused(f"{topic} is partition {own_partition} of {name}, and --partition says {partition}.")
    fixed: Headers = [header(each) for each in headers]
    if delay is not None:
        fixed.append(("pulsar-deliver-after", str(span_ms(delay)).encode()))
    if deliver_at is not None:
        fixed.append(("pulsar-deliver-at", str(moment_ms(deliver_at)).encode()))
    _warn_of_long_delay(delay, deliver_at)
    if key_separator == "":
        raise Misused("The separator of key and message is empty: write -K :, or leave it out.")
    separator = unescaped(key_separator or "", "--key-separator")
    records = _records(messages, source, form, separator, null_when_empty, keyless=key is not None)
    config = {
        "acks": acks,
        "enable.idempotence": acks == "all",
        "compression.type": compression,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        # the gateway says what is too large for a topic
        "message.max.bytes": 1_000_000_000,
        "message.timeout.ms": max(1, int(options.timeout * 1000)),
    }
    address, name = kafka_side.place_of(options, bootstrap, name, settings)
    target = partition if partition is not None else own_partition
    sending = Sending(options, name, target, acks, quiet, address, config, settings)
    try:
        for record in repeated(records, repeat):
            record.headers = [*record.headers, *fixed]
            if record.key is None and key is not None:
                record.key = key.encode("utf-8", "surrogateescape")
            sending.send(record)
            if sys.stdin.isatty() and not messages and source in (None, "-"):
                sending.flush()
        sending.flush()
    except (KeyboardInterrupt, SystemError):
        # the library loses a Ctrl-C that comes in a callback: "returned NULL without setting an exception"
        with contextlib.suppress(NoKafka):
            sending.flush(5.0)
        sending.summary()
        ctx.exit(INTERRUPTED)
    except NoKafka:
        raise
    except AdminError:
        # what stands before a bad line is sent
        sending.flush()
        sending.summary()
        raise
    sending.summary()
    if sending.failed:
        ctx.exit(1)


def _warn_of_long_delay(delay: str | None, deliver_at: str | None) -> None:
    """Nothing refuses a delay that is too long: groups deliver the message when the longest is over."""
    wait = span_ms(delay) if delay is not None else 0
    if deliver_at is not None:
        wait = moment_ms(deliver_at) - int(time.time() * 1000)
    if wait > LONGEST_DELAY_MS:
        click.echo(
            f"A share group delivers it after {LONGEST_DELAY_MS // 86_400_000} days, unless its "
            "pulsar.delayed.delivery.max.delay.ms is longer than that.",
            err=True,
        )


class NoKafka(AdminError):
    """Nobody has ever answered."""


class InOrder:
    """Prints what became of each message in the order of the messages, in whatever order it is known."""

    def __init__(self) -> None:
        self._next = 1
        self._held: dict[int, tuple[str | None, bool]] = {}

    def tell(self, number: int, line: str | None, err: bool = False) -> None:
        """Print the line of a message, or None, as soon as all before it are printed."""
        self._held[number] = (line, err)
        while self._next in self._held:
            held = self._held.pop(self._next)
            self._next += 1
            self._print(*held)

    def rest(self) -> None:
        """Print what is held back by messages of which nothing is known."""
        while self._held:
            self._print(*self._held.pop(min(self._held)))

    def _print(self, line: str | None, err: bool) -> None:
        if line is not None:
            click.echo(line, err=err)


class Sending:
    """A producer, and what became of each record."""

    def __init__(
        self,
        options: Options,
        topic: str,
        partition: int | None,
        acks: str,
        quiet: bool,
        bootstrap: str,
        config: dict[str, Any],
        settings: tuple[str, ...],
    ) -> None:
        """Raises AdminError."""
        self._kafka = kafka_side.library()
        self._options = options
        self._topic = topic
        self._partition = partition
        self._unconfirmed = acks == "0"
        self._quiet = quiet
        self._timeout = options.timeout
        self._bootstrap = bootstrap
        self._watch = kafka_side.Watch()
        config = kafka_side.configuration(bootstrap, {**self._watch.settings(), **config}, settings)
        self._producer = kafka_side.made(self._kafka.Producer, config)
        self._waiting_since: float | None = None
        self._told = InOrder()
        # 0 when it cannot be known
        self._topic_limit: int | None = None
        self._not_made: str | None = None
        self._request_limit: int | None = None
        self._packed = config["compression.type"] != "none"
        self.sent = self.stored = self.failed = 0

    def send(self, record: Record) -> None:
        """Queue one record. Waits while the client's queue is full. Raises NoKafka."""
        number = self.sent = self.sent + 1
        size = _size(record.value, record.key, record.headers)
        if size > LARGE and not self._packed and size + BATCH_OVERHEAD > self._most():
            self._refused(
                number,
                f"its {size:,} bytes are more than a request may have, socket.request.max.bytes of the gateway"
                f" ({self._request_limit:,})",
            )
            return
        extra = {} if self._partition is None else {"partition": self._partition}

        def became(error: Any, message: Any) -> None:
            self._became(number, error, message)

        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, headers=record.headers, on_delivery=became, **extra
                )
                break
            except BufferError:
                self._producer.poll(0.1)
                self._check_reached()
            except (self._kafka.KafkaException, ValueError) as error:
                # once the library knows the topic it says at once what else comes with the delivery
                codes, said = self._kafka.KafkaError, error.args[0] if error.args else None
                known = (codes._UNKNOWN_PARTITION, codes._UNKNOWN_TOPIC)
                told = isinstance(said, codes) and said.code() in known
                self._refused(number, self._why(said, None) if told else kafka_side.reason(error))
                break
        self._producer.poll(0)

    def flush(self, seconds: float | None = None) -> None:
        """Wait until it is known of every record what became of it, in short steps so that Ctrl-C is heard.

        Raises NoKafka.
        """
        # the client gives up each record by itself after message.timeout.ms
        ends = time.monotonic() + (self._timeout + 10.0 if seconds is None else seconds)
        while self._producer.flush(kafka_side.STEP_SECONDS) and time.monotonic() < ends:
            self._check_reached()

    def _check_reached(self) -> None:
        """Raises NoKafka when nobody has spoken Kafka for so long that nobody will: nothing is stored then."""
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        if (
            not self._watch.reached
            and not self.stored
            and time.monotonic() - self._waiting_since >= min(self._timeout, kafka_side.NO_KAFKA_SECONDS)
        ):
            raise NoKafka(self._watch.no_kafka(self._bootstrap).reason + " Nothing is stored.")

    def summary(self) -> None:
        """One line on stderr, unless there is one record and its own line says it all."""
        self._told.rest()
        if self.sent == 1 and not self._quiet and not self.failed:
            return
        said = f"{counted(self.stored)} {'sent, unconfirmed' if self._unconfirmed else 'stored'}"
        lost = self.sent - self.stored - self.failed
        if self.failed:
            said += f", {self.failed:,} not stored"
        if lost:
            said += f", of {lost:,} it is not known"
        click.echo(said + ".", err=True)

    def _became(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self._refused(number, self._why(error, message))
            return
        self.stored += 1
        self._told.tell(number, None if self._quiet else self._where(message))

    def _where(self, message: Any) -> str:
        partition, offset = message.partition(), message.offset()
        if self._options.output == "json":
            _, timestamp = message.timestamp()
            stored = {"topic": self._topic, "partition": partition, "offset": offset, "timestamp": timestamp}
            return kafka_side.json_line(stored)
        if self._unconfirmed:
            return f"partition {partition}, unconfirmed"
        return f"partition {partition} offset {offset}"

    def _refused(self, number: int, why: str) -> None:
        self.failed += 1
        told = self.failed <= FAILURES_TOLD
        self._told.tell(number, f"Message {number} is not stored: {why}." if told else None, err=True)

    def _why(self, error: Any, message: Any) -> str:
        codes = self._kafka.KafkaError
        if error.code() == codes._UNKNOWN_PARTITION:
            return f"{self._topic} has no partition {self._partition}"
        # the library says unknown at once of what the gateway has refused to make a moment before
        refused = error.code() in (codes.TOPIC_EXCEPTION, codes._UNKNOWN_TOPIC)
        if refused and self._not_made is None:
            # asked once
            self._not_made = kafka_side.why_not_made(self._bootstrap, self._topic)
        if refused and self._not_made:
            return self._not_made
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
            return f"there is no topic {self._topic} (`magnetar-admin topics create-partitioned-topic` makes one)"
        if error.code() == codes._MSG_TIMED_OUT and not self._watch.reached and not self.stored:
            return self._watch.no_kafka(self._bootstrap).reason.rstrip(".")
        if error.code() == codes.TOPIC_EXCEPTION and self._topic.endswith("-QUEUE"):
            return f"{self._topic} is a queue topic, which is read only: publish to the topic whose records it delivers"
        if error.code() == codes.MSG_SIZE_TOO_LARGE:
            return self._too_large(_size(message.value(), message.key(), message.headers() or ()))
        if error.code() == codes.INVALID_RECORD and message.key() is None:
            return (
                f"{self._topic} is compacted and keeps the last message of each key, so it takes none without: say "
                "--key, or -K : for lines like key:message"
            )
        if error.code() == codes.POLICY_VIOLATION:
            return self._forbidden(message.partition())
        return kafka_side.reason(error)

    def _forbidden(self, partition: int) -> str:
        """What a policy may have refused: the library does not pass the gateway's own sentence on."""
        one = f"{self._topic}-partition-{partition}"
        return (
            f"a policy of {self._topic} forbids it: it is terminated (state of `magnetar-admin topics stats-internal "
            f"{one}`), or has as many producers as it may, or its backlog quota is used up (`magnetar-admin "
            f"topicPolicies list {self._topic}` shows both limits)"
        )

    def _most(self) -> int:
        """Bytes that a request may have. The gateway closes a connection with more, and the client tries for ever."""
        if self._request_limit is None:
            # asked once
            self._request_limit = kafka_side.request_limit(self._bootstrap) or sys.maxsize
        return self._request_limit

    def _too_large(self, size: int) -> str:
        """What max.message.bytes of the topic does not take, and how to raise it."""
        if self._topic_limit is None:
            # asked once
            self._topic_limit = kafka_side.topic_limit(self._bootstrap, self._topic) or 0
        limit = f" ({self._topic_limit:,})" if self._topic_limit else ""
        if size + BATCH_OVERHEAD <= self._topic_limit:
            return (
                f"it was packed with others into a batch above max.message.bytes of {self._topic}{limit};"
                " `-X batch.num.messages=1` sends each by itself"
            )
        enough = -(-(size + BATCH_OVERHEAD) // MIB) * MIB
        return (
            f"its {size:,} bytes are more than max.message.bytes of {self._topic}{limit}; `kafka-configs.sh"
            f" --bootstrap-server {self._bootstrap} --alter --topic {self._topic}"
            f" --add-config max.message.bytes={enough}` raises it"
        )


def _size(value: bytes | None, key: bytes | None, headers: Iterable[tuple[str, Any]]) -> int:
    """Bytes of a record without what Kafka adds."""
    return len(value or b"") + len(key or b"") + sum(len(name) + len(each or b"") for name, each in headers)


def repeated(records: Iterable[Record], times: int) -> Iterator[Record]:
    """All records, so many times; they are held in memory only for that."""
    if times == 1:
        yield from records
        return
    held = list(records)
    for _ in range(times):
        for record in held:
            yield Record(record.value, record.key, record.headers)


def _records(
    messages: tuple[str, ...],
    source: str | None,
    form: str,
    separator: bytes,
    null_when_empty: bool,
    keyless: bool,
) -> Iterator[Record]:
    """What is to be sent, read as it is needed. Raises AdminError."""
    if messages:
        lines: Iterable[bytes] = [message.encode("utf-8", "surrogateescape") for message in messages]
    elif source in (None, "-"):
        lines = binary("stdin")
        if sys.stdin.isatty():
            click.echo("One message a line; Ctrl-D ends.", err=True)
    else:
        assert source is not None
        try:
            lines = Path(source).open("rb")  # noqa: SIM115 (closed when the program ends)
        except OSError as error:
            raise Misused(f"The file {source} cannot be read: {error.strerror}.") from None
    form = "lines" if messages and form == "raw" else form
    return _read(lines, form, separator, null_when_empty, keyless)


def _read(
    lines: Iterable[bytes], form: str, separator: bytes, null_when_empty: bool, keyless: bool
) -> Iterator[Record]:
    if form == "json":
        yield from from_json(lines)
    elif form == "raw":
        yield Record(b"".join(lines))
    else:
        yield from from_lines(lines, separator, null_when_empty, keyless)
