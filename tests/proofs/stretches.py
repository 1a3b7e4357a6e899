"""How long a page, or a call of the admin API, holds the event loop at a stretch: 5 ms are the bound.

    python -m tests.proofs.stretches --where

A gateway on RocksDB in this process has topics, subscriptions and open messages in numbers. Each URL is asked a few
times, and each callback of the loop meanwhile is timed, in time of the processor: others on this machine do not count.
Other work on the machine can only make a stretch longer, so what counts is the shortest of the rounds; the first is
shown beside it. With `--where` a thread looks what is under way whenever one lasts. Ends with 1 where a stretch is
longer than the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import http.client
import json
import sys
import tempfile
import threading
import time
from asyncio import events
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from gateway.broker.subscriptions.partition import SubscriptionPartition
from gateway.config import Settings
from gateway.server import GC_THRESHOLD, Gateway, start
from gateway.wire import records

BOUND_MS = 5.0
LONG_MS = 1.5
"""How much of a URL's time on the loop is in stretches longer than this is told, too: others wait for those."""
LOOK_S = 0.0005
"""Seconds between two looks at what is under way."""
LASTS_S = 0.002
"""A callback is looked at when it has lasted so long."""
DEEPEST = 6
"""Frames that are shown."""
EARLIEST = json.dumps({"ledgerId": -1, "entryId": -1, "partitionIndex": -1})
API, TOPICS = "/admin/v2", "/admin/v2/persistent/public/default"


# -- the loop ----------------------------------------------------------------------------------------------------------


class Stretches:
    """Callbacks of the loop, timed: the longest since `begin`, in ms."""

    def __init__(self, where: bool) -> None:
        self.longest = 0.0
        self.total = 0.0
        self.slow = 0.0
        self.seen: Counter[str] = Counter()
        self._since = 0.0
        self._thread = threading.get_ident()
        self._on = True
        run = events.Handle._run

        def timed(handle: events.Handle) -> None:
            began = time.thread_time()
            self._since = time.perf_counter()
            run(handle)
            self._since = 0.0
            lasted = (time.thread_time() - began) * 1000
            self.longest = max(self.longest, lasted)
            self.total += lasted
            if lasted > LONG_MS:
                self.slow += lasted

        events.Handle._run = timed  # type: ignore[method-assign, assignment]
        if where:
            sys.setswitchinterval(LOOK_S / 2)
            threading.Thread(target=self._look, daemon=True).start()

    def begin(self) -> None:
        self.longest = self.total = self.slow = 0.0
        self.seen.clear()

    def _look(self) -> None:
        while self._on:
            time.sleep(LOOK_S)
            since = self._since
            if not since or time.perf_counter() - since < LASTS_S:
                continue
            frame, found = sys._current_frames().get(self._thread), list[str]()
            while frame is not None and len(found) < DEEPEST:
                name = frame.f_code.co_filename
                if "/gateway/" in name or "/semantics/" in name or "/store/" in name:
                    found.append(f"{'/'.join(name.rsplit('/', 2)[-2:])}:{frame.f_lineno}")
                frame = frame.f_back
            self.seen[" < ".join(found)] += 1


# -- what the gateway has ----------------------------------------------------------------------------------------------


class Size(NamedTuple):
    topics: int
    subscriptions: int
    partitions: int
    each: int
    """open messages of each of these"""
    deep: int
    """open messages of one partition"""


class Client:
    """One connection to the admin port, from a thread."""

    def __init__(self, address: str) -> None:
        self._http = http.client.HTTPConnection(address, timeout=600)

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        self._http.request(method, path, body)
        answer = self._http.getresponse()
        return answer.status, answer.read()

    def must(self, method: str, path: str, body: str | None = None) -> None:
        status, said = self.ask(method, path, body)
        if status not in (200, 204):
            raise SystemExit(f"{method} {path}: {status} {said[:300]!r}")


class World:
    """What is made before the pages are asked for."""

    def __init__(self, gateway: Gateway, client: Client) -> None:
        self.broker = gateway.broker
        self._client = client
        self._loop = gateway.broker.loop

    def on_loop(self, what: Callable[[], Any]) -> Any:
        async def run() -> Any:
            found = what()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(300)

    def produce(
        self, topic: str, index: int, count: int, keys: int, size: int = 100, delayed: bool = False
    ) -> None:
        """So many records in batches of 250, as of clients that wait a little; with `delayed` each tenth is."""

        async def append() -> None:
            found = self.broker.catalog.get(topic)
            assert found is not None
            partition = self.broker.partition(found, index)
            for first in range(0, count, 250):
                now = self.broker.clock.wall_ms()
                some = [
                    records.Record(
                        at - first,
                        now,
                        f"key-{at % keys}".encode(),
                        json.dumps({"order": at, "text": "x" * size}).encode(),
                        [("pulsar-deliver-after", b"3600000")] if delayed and at % 10 == 9 else [],
                    )
                    for at in range(first, min(first + 250, count))
                ]
                batch = records.build_batch(some)
                partition.append(batch, records.header(batch), now)
                await self.broker.write([])

        self.on_loop(append)

    def consume(self, topic: str, group: str, index: int, consumers: int, most: int) -> None:
        """Each consumer takes some, nacks one, rejects one and has the others in hand."""

        async def take() -> None:
            found = self.broker.subscriptions.get(group, topic)
            assert found is not None
            at: SubscriptionPartition = found.partition(index)
            for number in range(consumers):
                at.attach(f"consumer-{number}")
            await self.broker.write([])
            for number in range(consumers):
                name = f"consumer-{number}"
                delivery = at.fetch(name, most, 1 << 20, most)
                if not isinstance(delivery, tuple):
                    delivery = await delivery
                offsets = [each for first, last, _ in delivery.acquired for each in range(first, last + 1)]
                for kind, offset in zip((2, 3), offsets, strict=False):
                    at.acknowledge(name, [(offset, offset, bytes([kind]))])
                await self.broker.write([])

        self.on_loop(take)

    def make(self, size: Size) -> None:
        client = self._client
        slow = json.dumps({"pulsar.nack.delay.ms": "3600000", "pulsar.ack.timeout.ms": "3600000"})
        for number in range(size.topics):
            client.must("PUT", f"{TOPICS}/t-{number:06}", "{}")
            if number < size.subscriptions:
                client.must("PUT", f"{TOPICS}/t-{number:06}/subscription/s-{number:06}", EARLIEST)
                self.produce(f"t-{number:06}", 0, 20, 5)
            if number % 500 == 499:
                print(f"\r{number + 1:,} topics", end="", flush=True, file=sys.stderr)
        client.must("PUT", f"{TOPICS}/orders/partitions", str(size.partitions))
        for kind, name in (("key_shared", "billing"), ("shared", "mail")):
            client.must("PUT", f"{TOPICS}/orders/subscription/{name}?type={kind}", EARLIEST)
            client.must("PUT", f"{TOPICS}/orders/subscription/{name}/properties", slow)
        for index in range(size.partitions):
            self.produce("orders", index, size.each, 100, delayed=True)
            for name in ("billing", "mail"):
                self.consume("orders", name, index, 3, size.each)
            print(f"\r{index + 1} partitions  ", end="", flush=True, file=sys.stderr)
        client.must("PUT", f"{TOPICS}/deep", "{}")
        for kind, name in (("key_shared", "billing"), ("shared", "mail")):
            client.must("PUT", f"{TOPICS}/deep/subscription/{name}?type={kind}", EARLIEST)
            client.must("PUT", f"{TOPICS}/deep/subscription/{name}/properties", slow)
        self.produce("deep", 0, size.deep, 20_000, delayed=True)
        for name in ("billing", "mail"):
            self.consume("deep", name, 0, 3, 2_000)
        print("\rmade             ", file=sys.stderr)


# -- what is asked -----------------------------------------------------------------------------------------------------


def urls(size: Size) -> list[str]:
    """Reads of the API that may be long, and each page."""
    found = [
        "/metrics", f"{API}/magnetar/lag?limit=1000", f"{API}/magnetar/subscriptions", f"{API}/magnetar/attention",
        f"{API}/magnetar/audit", f"{API}/broker-stats/topics", f"{API}/persistent/public/default",
        f"{API}/persistent/public/default/partitioned",
    ]  # fmt: skip
    for topic, groups in (("orders", ("billing", "mail")), ("deep", ("billing", "mail"))):
        stats = "partitioned-stats" if topic == "orders" else "stats"
        internal = "partitioned-internalStats" if topic == "orders" else "internalStats"
        found += [f"{TOPICS}/{topic}/{stats}", f"{TOPICS}/{topic}/{internal}"]
        found += [f"{TOPICS}/{topic}/magnetar/records?text=nothing", f"{TOPICS}/{topic}/subscriptions"]
        for group in groups:
            below = f"{TOPICS}/{topic}/subscription/{group}/magnetar"
            found += [
                f"{below}/strip", f"{below}/causes", f"{below}/open", f"{below}/open?state=blocked",
                f"{below}/open?text=nothing", f"{below}/open?key=nobody", f"{below}/open?consumer=consumer-1",
                f"{below}/due", f"{below}/consumers", f"{below}/series?span=1h&of=open,oldest",
                f"{below}/deadletters", f"{below}/deadletters/groups",
            ]  # fmt: skip
    found += ["/ui/", "/ui/topics", "/ui/topics?q=t-00", "/ui/subscriptions", "/ui/subscriptions?sort=open"]
    found += [
        "/ui/dead",
        "/ui/jobs",
        "/ui/audit",
        "/ui/gateway",
        f"/ui/find?q={quote('key-7')}",
        "/ui/find?q=t-0000",
    ]
    for topic in ("orders", "deep"):
        found += [f"/ui/t/public/default/{topic}", f"/ui/m/public/default/{topic}/0/{size.each // 2}"]
        for group in ("billing", "mail"):
            below = f"/ui/s/public/default/{topic}/{group}"
            found += [below, f"{below}/due", f"{below}/dead"]
            found += [
                f"{below}/messages{query}" for query in ("", "?state=blocked", "?key=key-7", "?text=nothing")
            ]
            found += [f"{below}/act?do=settle&all=1&state=available", f"{below}/clear"]
    return found


def measure(gateway: Gateway, size: Size, stretches: Stretches, only: str, rounds: int) -> list[str]:
    """URLs that hold the loop for too long."""
    assert gateway.admin_address is not None
    client = Client(gateway.admin_address)
    while client.ask("GET", "/health/ready")[0] != 200:
        time.sleep(0.1)
    World(gateway, client).make(size)
    # its first look at everything, and the sweeps behind it, are over
    while client.ask("GET", f"{API}/magnetar/subscriptions")[1].find(b"atLeast") >= 0:
        time.sleep(0.5)
    gc.collect()
    gc.freeze()
    bad = []
    for url in urls(size):
        if only not in url:
            continue
        each, took, status = list[float](), 0.0, 0
        total = slow = 0.0
        seen: Counter[str] = Counter()
        for _ in range(rounds):
            stretches.begin()
            began = time.perf_counter()
            status, _ = client.ask("GET", url)
            took = time.perf_counter() - began
            each.append(stretches.longest)
            total, slow = stretches.total, stretches.slow
            seen.update(stretches.seen)
        longest = min(each)
        print(
            f"{longest:8.1f} ms  (first {each[0]:6.1f}, most {max(each):6.1f})"
            f"  of {total:7.1f}, {slow:6.1f} long, in {took * 1000:7.1f}  {status}  {url}",
            flush=True,
        )
        if longest > BOUND_MS:
            bad.append(url)
            for stack, count in seen.most_common(12):
                print(f"{'':14}{count:4}  {stack}")
    return bad


async def run(size: Size, only: str, rounds: int, where: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="stretches-") as folder:
        settings = Settings.load(
            [f"data={folder}", "store.driver=rocksdb", "admin.console=write"],
            options={"listeners": "127.0.0.1:0", "admin.listen": "127.0.0.1:0"},
        )
        async with contextlib.AsyncExitStack() as stack:
            gateway = await start(settings, stack)
            gc.set_threshold(*GC_THRESHOLD)
            stretches = Stretches(where)
            bad = await asyncio.to_thread(measure, gateway, size, stretches, only, rounds)
    print(f"{len(bad)} URLs hold the loop for more than {BOUND_MS:g} ms")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.stretches", description=__doc__)
    parser.add_argument("--topics", type=int, default=2_000)
    parser.add_argument("--subscriptions", type=int, default=500, help="of which so many have one")
    parser.add_argument("--partitions", type=int, default=50, help="of one topic")
    parser.add_argument("--each", type=int, default=1_000, help="open messages of each of its partitions")
    parser.add_argument("--deep", type=int, default=200_000, help="open messages of one partition")
    parser.add_argument("--rounds", type=int, default=4, help="times that each URL is asked, two at least")
    parser.add_argument("--only", default="", help="URLs with this part")
    parser.add_argument("--where", action="store_true", help="look what is under way in long stretches")
    options = parser.parse_args()
    size = Size(options.topics, options.subscriptions, options.partitions, options.each, options.deep)
    return asyncio.run(run(size, options.only, max(options.rounds, 2), options.where))


if __name__ == "__main__":
    sys.exit(main())
