"""`make demo`: a tour of a minute or two. A gateway, orders, consumers, a share group, a queue topic, Spark,
Parquet and back, and a look at all of it in the console.

Everything lies in one temporary folder and goes away at the end, after Ctrl-C as well.
`--bootstrap HOST:PORT` takes the tour on a broker that is running already; its two topics are deleted at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from compat.peers.magnetar import MagnetarPeer, PeerError
from compat.queue_tour import LANES, ship
from compat.share_tour import CONFIGS, configure, pack
from compat.spark import SparkMissingError, ensure_spark_jars, session
from compat.spark.feed import Feed, Record
from compat.spark.jars import PROJECT, require_java
from compat.spark.roundtrip import environment
from compat.spark.session import SHORT_JOB

ORDERS = 3_000
PARTITIONS = 3
PRODUCTS = {"apple": 30, "bread": 250, "cheese": 480, "dates": 620, "espresso": 190}
STEPS = 8
PIPELINE_SECONDS = 600.0
"""How long an archive or a replay may take, Spark's start included."""
STOP_SECONDS = 15.0


class DemoError(Exception):
    """The tour cannot go on; the message is one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="make demo", description="A tour through Magnetar in a minute or two."
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a broker that is running already")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="magnetar-demo-"))
    try:
        with contextlib.ExitStack() as stack:
            Tour(folder, options.bootstrap, stack).run()
        code = 0
    except (DemoError, PeerError) as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("\nStopped; cleaning up.", file=sys.stderr)
        code = 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@dataclass
class Member:
    """A consumer of the group, in a thread of its own."""

    name: str
    bootstrap: str
    topic: str
    group: str
    partitions: set[int] = field(default_factory=set)
    orders: int = 0
    cents: int = 0
    error: str = ""
    ready: threading.Event = field(default_factory=threading.Event)

    def work(self, done: threading.Event) -> None:
        """Poll until `done`, then commit and leave the group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "broker.address.family": "v4",
                "group.id": self.group,
                "client.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        try:
            consumer.subscribe([self.topic], on_assign=self._assigned)
            # Both members wait for the group to be complete, so that each gets its share of the work.
            while not done.is_set():
                for message in consumer.consume(500, 0.1):
                    self._take(message)
            if self.orders:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self.partitions = {place.partition for place in places}
        if 0 < len(places) < PARTITIONS:
            self.ready.set()
        elif not self.ready.is_set():
            # Alone so far: what is read now would be read again by the other.
            consumer.assign(places)
            consumer.pause(places)

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            self.error = message.error().str()
            return
        order = json.loads(message.value() or b"{}")
        self.orders += 1
        self.cents += order["cents"]


class Tour:
    """The steps, in order. What they start is put on the stack and ends with it."""

    def __init__(self, folder: Path, bootstrap: str | None, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        self.own = bootstrap is None
        self.bootstrap = bootstrap or ""
        # On a broker that others use as well, names that nobody else has.
        tag = "" if self.own else f"-demo-{int(time.time())}"
        self.orders, self.again, self.group = f"orders{tag}", f"orders{tag}.again", f"billing{tag}"
        self.sums: Counter[str] = Counter()
        self.started = time.monotonic()

    def run(self) -> None:
        """All of it."""
        self.gateway()
        self.feed = Feed(self.bootstrap)
        if not self.own:
            self.stack.callback(self._delete_topics)
        self.produce()
        self.consume()
        self.share()
        self.queue()
        try:
            require_java()
            ensure_spark_jars()
        except SparkMissingError as missing:
            say(f"The rest of the tour is Spark's, and it is left out here: {missing}")
        else:
            self.spark()
            self.archive()
            self.replay()
        self.console()
        say(
            f"That was the tour, in {time.monotonic() - self.started:.0f} s. Everything it made is removed now. "
            "To go on by yourself: `make run`, then point any Kafka client at 127.0.0.1:9092."
        )

    def gateway(self) -> None:
        """Start one, unless a broker was given."""
        if not self.own:
            heading(1, "The broker is running already")
            say(f"It is asked for at {self.bootstrap}, as --bootstrap says.")
            return
        heading(1, "Start a gateway")
        gateway = self.peer = MagnetarPeer(directory=self.folder)
        typed("magnetar " + " ".join(gateway.arguments))
        began = time.monotonic()
        self.bootstrap = self.stack.enter_context(gateway).bootstrap
        say(
            f"It serves Kafka's protocol at {self.bootstrap} after {time.monotonic() - began:.2f} s. What it is told "
            f"to keep lies in {gateway.data}."
        )

    def produce(self) -> None:
        """Make the topic and fill it."""
        heading(2, "Produce orders with a stock client (librdkafka, by confluent-kafka)")
        typed(
            f"kafka-topics --bootstrap-server {self.bootstrap} --create --topic {self.orders} --partitions 3"
        )
        self.feed.create(self.orders, PARTITIONS)
        chance = random.Random(7)
        records = []
        for number in range(ORDERS):
            product = chance.choice(sorted(PRODUCTS))
            customer = f"customer-{chance.randrange(200)}"
            order = {"order": number, "product": product, "cents": PRODUCTS[product] * chance.randint(1, 5)}
            self.sums[product] += 1
            records.append(
                Record(
                    customer.encode(),
                    json.dumps(order).encode(),
                    (("shop", b"demo"),),
                    home(customer),
                )
            )
        typed(
            f"kcat -b {self.bootstrap} -t {self.orders} -P -K: -z zstd     # customer-1:{{...}}, a line each"
        )
        began = time.monotonic()
        self.feed.produce(self.orders, records, "zstd")
        ends = self.feed.ends(self.orders)
        say(
            f"{ORDERS:,} orders were acknowledged in {time.monotonic() - began:.2f} s. The orders of one customer are "
            f"in one partition, in order. The partitions hold {listing(end for _, end in ends.values())} records."
        )

    def consume(self) -> None:
        """Two members share the work."""
        heading(3, f"Consume them in a group of two: {self.group}")
        typed(f"kcat -b {self.bootstrap} -G {self.group} {self.orders}     # in two terminals")
        members = [Member(f"member-{n}", self.bootstrap, self.orders, self.group) for n in (1, 2)]
        done = threading.Event()
        threads = [threading.Thread(target=member.work, args=(done,), daemon=True) for member in members]
        for thread in threads:
            thread.start()
        try:
            deadline = time.monotonic() + 60
            while sum(member.orders for member in members) < ORDERS:
                if time.monotonic() > deadline:
                    problem = next(
                        (member.error for member in members if member.error), "no error was reported"
                    )
                    raise DemoError(f"the group had not read all orders after 60 s: {problem}.")
                time.sleep(0.02)
        finally:
            done.set()
            for thread in threads:
                thread.join(15)
        for member in members:
            say(
                f"{member.name} got {'partition' if len(member.partitions) == 1 else 'partitions'} "
                f"{listing(sorted(member.partitions))}: {member.orders:,} orders, "
                f"{member.cents / 100:,.2f} in all."
            )
        committed = sum(max(0, offset) for offset in self.feed.committed(self.group).values())
        say(
            f"Both committed and left. The group's committed offsets add up to {committed:,}: whoever joins it next "
            "begins with the next order."
        )

    def share(self) -> None:
        """More members than partitions, and an answer for each order."""
        heading(4, "Pack them as a queue: a share group with more members than partitions")
        if not self.own:
            say("It is left out on a broker that is running already: not every broker has share groups.")
            return
        group = "packing"
        typed(
            f"kafka-configs --bootstrap-server {self.bootstrap} --alter --entity-type groups --entity-name {group} "
            f"--add-config {','.join(f'{name}={value}' for name, value in CONFIGS.items())}"
        )
        typed(
            f"kafka-console-share-consumer --bootstrap-server {self.bootstrap} --topic {self.orders} --group {group}"
        )
        configure(self.bootstrap, group)
        try:
            packed = pack(
                self.bootstrap,
                self.orders,
                group,
                ORDERS,
                lambda message: json.loads(message.value() or b"")["order"] % 1000 == 999,
            )
        except TimeoutError:
            raise DemoError("the share group had not packed all orders after 60 s.") from None
        letters = f"{self.orders}-{group}-DLQ"
        count = sum(len(records) for records in self.feed.records(letters).values())
        say(
            f"{len(packed.accepted)} members on {PARTITIONS} partitions accepted {listing(packed.accepted)} orders, "
            f"each by itself. {packed.rejected} were rejected as damaged: {letters} holds {count} dead letters, each "
            "written in the same commit as its rejection."
        )

    def queue(self) -> None:
        """The same for a consumer that knows only offsets."""
        heading(5, "Ship them by a queue topic: nacks and dead letters for any consumer of any age")
        if not self.own:
            say("It is left out on a broker that is running already: only Magnetar has queue topics.")
            return
        group = "shipping"
        queue, letters = f"{self.orders}-{group}-QUEUE", f"{self.orders}-{group}-DLQ"
        created = (
            *("topics", "create-subscription", self.orders, "-s", group, "-m", "earliest"),
            *("--type", "key_shared", "--lanes", str(LANES), "-p", "pulsar.max.redeliver.count=1"),
        )
        typed("magnetar-admin " + " ".join(created))
        self.peer.admin(*created)
        try:
            shipped = ship(
                self.bootstrap,
                queue,
                group,
                ORDERS,
                lambda message: json.loads(message.value() or b"")["order"] == 1234,
            )
        except TimeoutError:
            raise DemoError("the queue topic had not given all orders after 60 s.") from None
        (lane, first, begin), (_, second, end) = shipped.nacked
        count = sum(len(records) for records in self.feed.records(letters).values())
        say(
            f"One consumer of {LANES} lanes did {shipped.orders:,} orders and committed offsets, as ever. One order it "
            f'could not do: delivery {first} of lane {lane}. It committed with the metadata "{shipped.metadata}", and '
            f"got it again {end - begin:.1f} s later, as delivery {second}. Nacked twice, it is in {letters}, which "
            f"holds {count} dead letter. `make demo-queue` shows a whole day."
        )

    def spark(self) -> None:
        """Count by product with the stock source."""
        heading(6, "Read them with Spark's stock Kafka source")
        code = f'''\
            orders = (spark.read.format("kafka")
                .option("kafka.bootstrap.servers", "{self.bootstrap}").option("subscribe", "{self.orders}")
                .option("kafka.max.poll.records", "10000").load()
                .selectExpr("from_json(cast(value as string), 'product string, cents long') as o").select("o.*"))
            orders.groupBy("product").agg(count("*"), sum("cents"))'''
        for line in textwrap.dedent(code).splitlines():
            print(f"  >>> {line}")
        from pyspark.sql import functions as f

        spark = session("magnetar-demo", log=self.folder / "spark.log")
        frame = spark.read.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
        orders = (
            frame.option("subscribe", self.orders)
            .option("kafka.max.poll.records", "10000")
            .load()
            .selectExpr("from_json(cast(value as string), 'product string, cents long') as o")
            .select("o.*")
        )
        counted = orders.groupBy("product").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
        rows = counted.orderBy("product").collect()
        print()
        for row in rows:
            print(f"    {row['product']:<10}{row['orders']:>7,}{row['cents'] / 100:>12,.2f}")
        print()
        if {row["product"]: row["orders"] for row in rows} != dict(self.sums):
            raise DemoError("Spark counted other orders than were produced.")
        say("Spark counted each order once; the counts are those that were produced.")
        spark.stop()

    def archive(self) -> None:
        """Topic to Parquet."""
        heading(7, "Archive the topic as Parquet")
        output = self.folder / "archive"
        self._pipeline(
            *("archive", "--bootstrap", self.bootstrap, "--topic", self.orders, "--output", str(output)),
        )
        files = sorted(output.glob("topic=*/date=*/*.parquet"))
        size = sum(file.stat().st_size for file in files)
        say(
            f"{len(files)} files, {size / 1000:,.0f} kB, under {files[0].parent.relative_to(output)}. "
            "Start it again at any time: it goes on where it was, each record once."
        )

    def replay(self) -> None:
        """Parquet to another topic."""
        heading(8, f"Replay the archive into another topic: {self.again}")
        self._pipeline(
            *("replay", "--input", str(self.folder / "archive"), "--bootstrap", self.bootstrap),
            *("--suffix", ".again", "--create-topics"),
        )
        first, second = (
            {
                partition: [record[:3] for record in records]
                for partition, records in self.feed.records(topic).items()
            }
            for topic in (self.orders, self.again)
        )
        if first != second:
            raise DemoError("the replayed topic differs from the first one.")
        say("Both topics were read and compared: the same keys, values and headers, in the same order.")

    def console(self) -> None:
        """What is left of all that, in a browser."""
        if not self.own:
            return
        at = self.peer.admin_url + "/ui/"
        print(f"\nLook at it in a browser: {at}", flush=True)
        say(
            "It shows the dead letters of packing and shipping, which can be mended and sent again, who has read how "
            "far, and for each message why it does not arrive. docs/CONSOLE.md says which page answers what."
        )
        if sys.stdin.isatty() and sys.stdout.isatty():
            input("  Press Enter when you have seen enough: ")

    def _pipeline(self, *arguments: str) -> None:
        typed("magnetar-pipeline " + " ".join(arguments))
        # Its own session: a Ctrl-C is ours, and we end it.
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.cli", *arguments, "--master", "local[2]", *SHORT_JOB],
            cwd=PROJECT,
            env={**environment(), "TMPDIR": str(self.folder)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=PIPELINE_SECONDS)[1].strip()
        except BaseException as error:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                # Spark's Java process, too
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise DemoError(
                    f"magnetar-pipeline {arguments[0]} had not ended after {PIPELINE_SECONDS:g} s."
                ) from None
            raise
        print(textwrap.indent(said, "    "))
        if process.returncode:
            raise DemoError(f"magnetar-pipeline {arguments[0]} ended with {process.returncode}.")

    def _delete_topics(self) -> None:
        for topic in (self.orders, self.again):
            with contextlib.suppress(Exception):
                self.feed.delete(topic)


def home(customer: str) -> int:
    """The partition of a customer's orders."""
    return sum(customer.encode()) % PARTITIONS


def listing(values: Any) -> str:
    """1, 2 and 3."""
    texts = [f"{value:,}" for value in values]
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1]))) if texts else "none"


def heading(number: int, text: str) -> None:
    """The title of a step."""
    print(f"\n[{number}/{STEPS}] {text}", flush=True)


def typed(command: str) -> None:
    """What a person could type for the same."""
    print(f"  $ {command}", flush=True)


def say(text: str) -> None:
    """What happened, in plain words."""
    print(textwrap.fill(text, 100, initial_indent="  ", subsequent_indent="  "), flush=True)


if __name__ == "__main__":
    sys.exit(main())
