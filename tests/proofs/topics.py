"""A million topics: made, listed page by page, scraped, and there after a restart, within bounded memory.

`make topics`. Prints a line for each step with its time and the gateway's memory; ends with 1 where a bound is passed
or the gateway says something else than what was made. Times are shown and not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import uvloop

from compat.peers.magnetar import MagnetarPeer
from compat.stopping import stoppable
from gateway.wire import messages
from gateway.wire.api_keys import ApiKey
from tests.gateway.serving import Client, batch, produce_body

AT_ONCE = 2_000
"""Topics in one request."""

IDLE_MIB = 300
"""Memory (MiB, resident) that a restarted gateway may have with any number of idle topics."""

SCRAPED_MIB = 300
"""The same after scrapes, with `metrics.topics=active`."""

USED = 20
"""Topics that are in use when it is scraped."""


class WrongError(Exception):
    """What was promised is not so."""


def resident(pid: int) -> float:
    """Memory of a process in MiB. Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def peak(pid: int) -> float:
    """The most memory that a process has had, in MiB. Linux only."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


class Proof:
    """The steps; `count` topics."""

    def __init__(self, gateway: MagnetarPeer, count: int) -> None:
        self.gateway = gateway
        self.count = count
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """A line with the seconds since the last one, and the memory now and at most."""
        now = time.monotonic()
        pid = self.gateway.pid
        print(
            f"{what:<64} {now - self._began:7.1f} s  {resident(pid):7.0f} MiB, at most {peak(pid):.0f}",
            flush=True,
        )
        self._began = time.monotonic()

    async def connect(self) -> Client:
        host, port = self.gateway.bootstrap.rsplit(":", 1)
        return Client(*await asyncio.open_connection(host, int(port)))

    async def make(self) -> None:
        """Make them, by many a request."""
        client = await self.connect()
        topic = messages.CreateTopicsRequest.CreatableTopic
        for first in range(0, self.count, AT_ONCE):
            body = messages.CreateTopicsRequest(
                topics=[
                    topic(name=name_of(number), num_partitions=1, replication_factor=1)
                    for number in range(first, min(first + AT_ONCE, self.count))
                ],
                timeout_ms=10_000,
            )
            answer = await client.ask(ApiKey.CREATE_TOPICS, 7, body)
            if wrong := [each for each in answer.topics if each.error_code]:
                raise WrongError(f"{wrong[0].name} was not made: {wrong[0].error_message}")
        client.close()

    async def list(self) -> None:
        """List them with DescribeTopicPartitions, page by page, as Kafka's admin client does."""
        client = await self.connect()
        request = messages.DescribeTopicPartitionsRequest
        seen = 0
        cursor = None
        while True:
            body = request(topics=[], response_partition_limit=2_000, cursor=cursor)
            answer = await client.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
            for topic in answer.topics:
                if topic.error_code or topic.name != name_of(seen) or len(topic.partitions) != 1:
                    raise WrongError(f"{name_of(seen)} was to be listed, and {topic.name} is")
                seen += 1
            following = answer.next_cursor
            if following is None:
                break
            cursor = request.Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
        client.close()
        if seen != self.count:
            raise WrongError(f"{seen} topics were listed")

    async def use(self) -> None:
        """Write a record to some."""
        client = await self.connect()
        for number in range(USED):
            name = name_of(number * self.count // USED)
            answer = await client.ask(ApiKey.PRODUCE, 9, produce_body(name, batch(b"x")))
            if answer.responses[0].partition_responses[0].error_code:
                raise WrongError(f"{name} takes no records")
        client.close()

    def scrape(self, lines: int) -> int:
        """Read /metrics to its end; its bytes. `lines` topics are to have lines of their own."""
        size = found = 0
        with urllib.request.urlopen(self.gateway.admin_url + "/metrics", timeout=600) as answer:
            for line in answer:
                size += len(line)
                found += line.startswith(b"kafka_topic_partitions{")
                if line.startswith(b"pulsar_topics_count{") and int(line.rsplit(b" ", 1)[1]) != self.count:
                    raise WrongError(f"the scrape says {line.decode().strip()}")
        if found != lines:
            raise WrongError(f"{found} topics have lines of their own, and {lines} are to have them")
        return size

    def bound(self, what: str, limit: int) -> None:
        now = resident(self.gateway.pid)
        if now > limit:
            raise WrongError(f"{now:.0f} MiB {what}, and {limit} are the bound")


def name_of(number: int) -> str:
    return f"device.{number:07}.events"


async def run(gateway: MagnetarPeer, count: int) -> None:
    """All steps. Raises `WrongError`."""
    proof = Proof(gateway, count)
    proof.say("started")
    await proof.make()
    proof.say(f"{count:,} topics made, {AT_ONCE:,} a request")
    gateway.restart()
    proof.say("stopped and started again")
    proof.bound("after a restart, idle", IDLE_MIB)
    await proof.list()
    proof.say("listed page by page (DescribeTopicPartitions)")
    await proof.use()
    for _ in range(2):
        size = await asyncio.to_thread(proof.scrape, USED)
        proof.say(f"scraped with metrics.topics=active: {size:,} bytes")
    proof.bound("after scrapes", SCRAPED_MIB)
    gateway.flags += ["--set", "metrics.topics=all"]
    gateway.restart()
    proof.say("stopped and started again")
    for _ in range(2):
        size = await asyncio.to_thread(proof.scrape, count)
        proof.say(f"scraped with metrics.topics=all: {size:,} bytes")
    proof.bound("after scrapes of all", SCRAPED_MIB)
    await asyncio.sleep(3)
    proof.say("3 s later")


@stoppable()
def main() -> int:
    """0 when everything held, 1 when something did not."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.topics", description=__doc__)
    parser.add_argument("--topics", type=int, default=1_000_000, help="how many (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="magnetar-topics-") as folder:
        gateway = MagnetarPeer(directory=Path(folder), settings={"log.retention.check.interval.ms": "20000"})
        try:
            with gateway:
                uvloop.run(run(gateway, arguments.topics))
        except WrongError as wrong:
            print(f"WRONG: {wrong}")
            return 1
    print("a million topics cost what they may" if arguments.topics >= 1_000_000 else "everything held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
