"""The console at size: what its pages take while twenty tabs are open, and what a producer beside them notices.

Each tab loads its page again every five seconds. They are opened eight times; a producer is measured beside them each
time, and alone before and after each: the speed of a machine drifts within minutes. Its p99 is of all its messages
beside the tabs, and of all without: that of one window depends on whether the machine's scheduler kept the gateway
waiting for a hundredth of it or less, and is 0.4 ms or 4. So is measured how long a client waits that does nothing but
ask for the versions of APIs, every two milliseconds: the loop serves it between two stretches of other work, so the
longest that it waits bounds the longest stretch from above.
"""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.bench.caller import caller_of
from compat.bench.clients import ClientError
from compat.bench.generator import GeneratorError
from compat.bench.loads import Load, Metric, Turn
from compat.peers.magnetar import MagnetarPeer
from compat.tools import PROJECT

MOST_MS = 300.0
"""Of a page at p95."""
MOST_SHARE = 1.1
"""Of the producer's p99 beside the tabs, by that without."""
RATE = 2_000
"""Messages a second of the producer."""
WIDE, EACH = 50, 1_000
"""Partitions of the topic with a Key_Shared subscription, and open messages of each of them."""
PROBE_S = 0.002
_BUCKETS = "acknowledged_in_ns."
AT_ONCE = 1_000
"""Topics in one request."""
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}


class Size(NamedTuple):
    """What the gateway has."""

    topics: int = 10_000
    subscriptions: int = 1_000
    messages: int = 1_000_000
    tabs: int = 20

    def of(self, said: Mapping[str, int]) -> Size:
        """With these instead. Raises ValueError for what cannot be."""
        found = self._replace(**said)
        if min(found) < 1 or not 2 <= found.subscriptions <= found.topics:
            raise ValueError(
                "There are two subscriptions at least, each on a topic of its own, a message and a tab."
            )
        return found


size = Size()
"""Of the load; the command's flags say another one."""

_WIDE = "/ui/s/public/default/bench-wide/billing"
_ONE = "/ui/s/public/default/bench-00000/mail"
PAGES = {
    "overview": "/ui/",
    "topics": "/ui/topics",
    "subscriptions": "/ui/subscriptions?sort=open",
    "topic, 50 partitions": "/ui/t/public/default/bench-wide",
    "subscription, Key_Shared, 50 partitions": _WIDE,
    "its messages": f"{_WIDE}/messages?state=blocked",
    "its due times": f"{_WIDE}/due",
    "subscription, Shared": _ONE,
    "its messages, searched": f"{_ONE}/messages?text=nowhere",
    "message": "/ui/m/public/default/bench-00000/0/0",
    "dead letters": "/ui/dead",
    "find": "/ui/find?q=bench-0001",
    "gateway": "/ui/gateway",
    "audit": "/ui/audit",
}
"""By the name in the table."""


def percentile(values: list[float], share: float) -> float:
    """The smallest that so large a share of them does not exceed. Raises ClientError when there are none."""
    if not values:
        raise ClientError("a page was never loaded")
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share / 100), 1) - 1]


# -- what there is -----------------------------------------------------------------------------------------------------


class Bar:
    """Progress on the terminal."""

    def __init__(self) -> None:
        self._last = 0.0

    def show(self, what: str, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last > 0.2 or done == of:
            self._last = now
            width = 24 * done // max(of, 1)
            sys.stderr.write(f"\r{what:<14}[{'#' * width}{'.' * (24 - width)}] {done:,} of {of:,}\x1b[K")
            if done == of:
                sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def fill(server: MagnetarPeer, turn: Turn, what: Size) -> None:
    """Topics, subscriptions and messages; each subscription has looked at its messages."""
    bar = Bar()
    clients = AdminClient({"bootstrap.servers": server.bootstrap})
    names = [f"bench-{number:05}" for number in range(what.topics - 1)]
    for begin in range(0, len(names), AT_ONCE):
        some = [NewTopic(name, 1, 1) for name in names[begin : begin + AT_ONCE]]
        for future in clients.create_topics(some, request_timeout=120).values():
            future.result()
        bar.show("topics", min(begin + AT_ONCE, len(names)), len(names))
    for future in clients.create_topics([NewTopic("bench-wide", WIDE, 1)]).values():
        future.result()
    caller = caller_of(turn)
    below = "persistent/public/default"
    caller.call("PUT", f"{below}/bench-wide/subscription/billing?type=key_shared", EARLIEST)
    read = names[: what.subscriptions - 1]
    for number, name in enumerate(read, 1):
        caller.call("PUT", f"{below}/{name}/subscription/mail?type=shared", EARLIEST)
        bar.show("subscriptions", number, len(read))
    _produce(server, read, what, bar)
    # what nobody has looked at is only counted: a dry run has the cursors look, as consumers would
    dry = {"do": "deliver-now", "filter": {"state": "delayed"}, "dryRun": True}
    paths = [
        f"{below}/bench-wide/subscription/billing",
        *(f"{below}/{name}/subscription/mail" for name in read),
    ]
    for number, path in enumerate(paths, 1):
        caller.call("POST", f"{path}/magnetar/act", dry)
        bar.show("cursors", number, len(paths))
    # the first look at everything is over, so that lists are in order
    while b"atLeast" in caller.call("GET", "magnetar/subscriptions?limit=1"):
        time.sleep(0.2)
    caller.close()


def _produce(server: MagnetarPeer, topics: list[str], what: Size, bar: Bar) -> None:
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )
    failed: list[str] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    def send(topic: str, partition: int, number: int, headers: dict[str, str]) -> None:
        value = json.dumps({"order": number, "customer": number % 997, "text": "x" * 60})
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    f"key-{number % 100}",
                    partition=partition,
                    headers=headers,
                    on_delivery=told,
                )
                return
            except BufferError:
                producer.poll(0.1)

    wide = min(WIDE * EACH, what.messages)
    for number in range(wide):
        delay = {"pulsar-deliver-after": "3600000"} if number % 10 == 0 else {}
        send("bench-wide", number % WIDE, number // WIDE, delay)
    done, rest = wide, what.messages - wide
    for number, topic in enumerate(topics):
        for at in range(rest * number // len(topics), rest * (number + 1) // len(topics)):
            send(topic, 0, at, {})
            done += 1
        producer.poll(0)
        bar.show("messages", done, what.messages)
    if producer.flush(120) or failed:
        raise ClientError(f"messages were not stored: {failed[:1]}")


# -- who looks ---------------------------------------------------------------------------------------------------------


class Probe:
    """A client that asks for the versions of APIs while the block lasts: how long each answer took, in ms."""

    def __init__(self, server: MagnetarPeer) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.took: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _ask(self) -> None:
        body = struct.pack(">hhih", 18, 0, 1, -1)
        frame = struct.pack(">i", len(body)) + body
        while not self._ended.is_set():
            began = time.perf_counter()
            self._socket.sendall(frame)
            (length,) = struct.unpack(">i", self._exactly(4))
            self._exactly(length)
            self.took.append((time.perf_counter() - began) * 1000)
            time.sleep(PROBE_S)

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            more = self._socket.recv(count - len(found))
            if not more:
                raise ClientError("the gateway has closed the probe's connection")
            found += more
        return found


class Tabs:
    """Open tabs, in a process of their own."""

    def __init__(self, server: MagnetarPeer, count: int, every: float) -> None:
        command = [sys.executable, "-m", "compat.bench.tabs", server.admin_url, str(count), str(every)]
        self._process = subprocess.Popen(
            [*command, *PAGES.values()], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def finish(self) -> dict[str, list[float]]:
        """Close them: by path how long each load took, in ms. Raises ClientError when a page was not there."""
        output, _ = self._process.communicate("", timeout=120)
        if self._process.returncode:
            raise ClientError(f"tabs: {output.strip()[-300:]}")
        found: dict[str, list[float]] = json.loads(output)
        return found


class Window(NamedTuple):
    """What was seen over some seconds."""

    acknowledged: Counter[int]
    """messages of the producer by the nanoseconds until they were acknowledged"""
    wait: float
    """the longest of the probe, in ms"""
    core: float
    """of a core that the gateway took, in percent"""


def _window(turn: Turn, server: MagnetarPeer, topic: str, seconds: int) -> Window:
    warmup = 2 if turn.quick else 3
    began, before = time.monotonic(), cpu_seconds(server.pid)
    with Probe(server) as probe:
        found = turn.generate(
            "end-to-end",
            "-topic",
            topic,
            "-rate",
            str(RATE),
            "-warmup",
            f"{warmup}s",
            "-duration",
            f"{seconds}s",
        )
    core = (cpu_seconds(server.pid) - before) / (time.monotonic() - began) * 100
    return Window(acknowledged(found), max(probe.took), core)


def acknowledged(figures: Mapping[str, float]) -> Counter[int]:
    """By nanoseconds how many messages, of the generator's figures."""
    return Counter(
        {
            int(name.removeprefix(_BUCKETS)): int(count)
            for name, count in figures.items()
            if name.startswith(_BUCKETS)
        }
    )


def of_all(windows: Sequence[Window], share: float) -> float:
    """Milliseconds that such a percentage of all messages of some windows did not exceed. Raises ClientError."""
    every = sum((each.acknowledged for each in windows), Counter[int]())
    rank, seen = math.ceil(every.total() * share / 100), 0
    for took, count in sorted(every.items()):
        seen += count
        if seen >= rank:
            return took / 1e6
    raise ClientError("no message was acknowledged")


def cpu_seconds(pid: int) -> float:
    """That a process and its threads have taken (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(turn: Turn) -> dict[str, float]:
    """A gateway at size; the producer alone, beside the tabs, and alone again."""
    server = turn.server
    assert isinstance(server, MagnetarPeer)
    turn.started()
    try:
        return _measured(turn, server)
    except GeneratorError as error:
        said = server.log_tail(5) if server.running else f"it has ended:\n{server.log_tail()}"
        raise ClientError(f"{said}\n{error}; the gateway {'runs' if server.running else 'is gone'}") from None


def _measured(turn: Turn, server: MagnetarPeer) -> dict[str, float]:
    what = size if not turn.quick else Size(200, 20, 5_000, 5)
    fill(server, turn, what)
    seconds, times = (4, 2) if turn.quick else (12, 8)
    alone, beside = [_window(turn, server, "bench-0", seconds)], list[Window]()
    loads: dict[str, list[float]] = {}
    for number in range(times):
        with Tabs(server, what.tabs, 1.0 if turn.quick else 5.0) as tabs:
            beside.append(_window(turn, server, f"bench-beside-{number}", seconds))
            for path, took in tabs.finish().items():
                loads.setdefault(path, []).extend(took)
        alone.append(_window(turn, server, f"bench-{number + 1}", seconds))
    figures = {
        **{f"p{share}_without": of_all(alone, share) for share in (50, 90, 99)},
        **{f"p{share}": of_all(beside, share) for share in (50, 90, 99)},
        "p99_share": of_all(beside, 99) / of_all(alone, 99),
        "wait_without": max(each.wait for each in alone),
        "wait": max(each.wait for each in beside),
        "core_without": median(each.core for each in alone),
        "core": median(each.core for each in beside),
    }
    for path in PAGES.values():
        took = loads.get(path, [])
        for name, share in (("p50", 50), ("p95", 95), ("max", 100)):
            figures[f"{path} {name}"] = percentile(took, share)
    return figures


CONSOLE: tuple[Load, ...] = (
    Load(
        "console",
        f"{Size().topics:,} topics, {Size().subscriptions:,} subscriptions with {Size().messages:,} open messages,"
        f" {Size().tabs} tabs that load their page each 5 s, beside a producer of {RATE:,} msg/s",
        (
            *(
                Metric(figure, title, "lower")
                for share in (50, 90)
                for figure, title in (
                    (f"p{share}_without", f"p{share} ms of the producer without tabs"),
                    (f"p{share}", f"p{share} ms beside them"),
                )
            ),
            Metric("p99_without", "p99 ms of the producer without tabs", "lower"),
            Metric("p99", "p99 ms beside them", "lower"),
            Metric("p99_share", "of that without", "lower", bound=MOST_SHARE),
            Metric("wait_without", "ms, the longest that a client waits, without tabs", "lower"),
            Metric("wait", "ms, the longest beside them", "lower"),
            Metric("core_without", "% of a core that the gateway takes, without tabs", "lower"),
            Metric("core", "% of a core, beside them", "lower"),
            *(
                Metric(
                    f"{path} {name}", f"{name} ms, {title}", "lower", bound=MOST_MS if name == "p95" else None
                )
                for title, path in PAGES.items()
                for name in ("p50", "p95", "max")
            ),
        ),
        measure,
        servers=("Magnetar",),
        rounds=1,
    ),
)
