"""The admin API: calls a second of one caller, ten thousand namespaces with a policy each, a million messages expired.

One keep-alive connection asks and waits, in Python over a plain socket: its time is a part of each figure, and the same
against both servers.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from compat.bench import share_clients
from compat.bench.clients import ClientError
from compat.bench.loads import Load, Metric, Turn
from compat.peers.magnetar import MagnetarPeer
from compat.peers.pulsar import PulsarPeer

NAMESPACES = 10_000
EXPIRED = 1_000_000
_GOOD = (200, 204)


class Caller:
    """One connection to an admin API."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self._host = where.netloc
        self._socket = socket.create_connection((where.hostname, where.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def call(self, method: str, path: str, body: object = None) -> bytes:
        """The body of the answer. Raises `ClientError` for another status than 200 and 204."""
        sent = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} /admin/v2/{path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(sent)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + sent)
        status, answer = self._answer()
        if status not in _GOOD:
            raise ClientError(f"{method} {path}: {status} {answer[:200]!r}")
        return answer

    def close(self) -> None:
        self._socket.close()

    def _answer(self) -> tuple[int, bytes]:
        head = self._until(b"\r\n\r\n")
        status = int(head[9:12])
        lines = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
        if lines.get(b"transfer-encoding") == b"chunked":
            return status, self._chunks()
        return status, self._exactly(int(lines.get(b"content-length", b"0")))

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self._until(b"\r\n"), 16):
            found += self._exactly(size + 2)[:-2]
        self._until(b"\r\n")
        return found

    def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            self._more()
        found, _, self._read = self._read.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._more()
        found, self._read = self._read[:size], self._read[size:]
        return found

    def _more(self) -> None:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ClientError("the server has closed the connection")
        self._read += data


def _caller(turn: Turn) -> Caller:
    """The server is started, and has tenant and namespace of the loads."""
    turn.started()
    server = turn.server
    assert isinstance(server, (MagnetarPeer, PulsarPeer))
    caller = Caller(server.admin_url)
    caller.call("PUT", "tenants/bench", {"adminRoles": [], "allowedClusters": ["standalone"]})
    caller.call("PUT", "namespaces/bench/one", {})
    return caller


def _rate(turn: Turn, ask: Callable[[int], object]) -> float:
    """Calls a second, after a warm-up of as long as a JVM needs."""
    for seconds in (1, 1) if turn.quick else (15, 8):
        began, count = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            ask(count)
            count += 1
    return count / (time.monotonic() - began)


def _calls(turn: Turn) -> dict[str, float]:
    caller = _caller(turn)
    topic = "persistent/bench/one/orders"
    caller.call("PUT", topic)
    caller.call("PUT", f"{topic}/subscription/billing", {"ledgerId": -1, "entryId": -1})
    return {
        "policies": _rate(turn, lambda _: caller.call("GET", "namespaces/bench/one")),
        "stats": _rate(turn, lambda _: caller.call("GET", f"{topic}/stats")),
        "set": _rate(turn, lambda n: caller.call("POST", "namespaces/bench/one/messageTTL", 60 + n % 1000)),
    }


def _namespaces(turn: Turn) -> dict[str, float]:
    caller = _caller(turn)
    count = NAMESPACES // 20 if turn.quick else NAMESPACES
    began = time.monotonic()
    for number in range(count):
        caller.call("PUT", f"namespaces/bench/n{number}", {})
        caller.call("POST", f"namespaces/bench/n{number}/messageTTL", 60 + number)
    made = time.monotonic()
    for number in range(count):
        found = json.loads(caller.call("GET", f"namespaces/bench/n{number}/messageTTL"))
        if found != 60 + number:
            raise ClientError(f"namespace n{number} has a time to live of {found} s")
    read = time.monotonic()
    listed = json.loads(caller.call("GET", "namespaces/bench"))
    if len(listed) != count + 1:
        raise ClientError(f"{len(listed)} namespaces are listed")
    return {
        "set_seconds": made - began,
        "read_seconds": read - made,
        "list_ms": (time.monotonic() - read) * 1000,
    }


def _expired(turn: Turn) -> dict[str, float]:
    """Messages of a subscription that nobody reads expire by the verb, while others publish 1,000 a second."""
    caller = _caller(turn)
    count = EXPIRED // 10 if turn.quick else EXPIRED
    where = ("-topic", "bench-old", "-partitions", "1", "-records", str(count))
    share_clients.franz("fill", turn.server.bootstrap, where)
    old = "persistent/public/default/bench-old-partition-0"
    caller.call("PUT", f"{old}/subscription/late?type=shared", {"ledgerId": -1, "entryId": -1})
    warmup, seconds = (1, 2) if turn.quick else (5, 6)

    def steady(topic: str) -> dict[str, float]:
        options = ("-rate", "1000", "-warmup", f"{warmup}s", "-duration", f"{seconds}s")
        return turn.generate("end-to-end", "-topic", topic, *options)

    before = steady("bench-before")
    with ThreadPoolExecutor(1) as others:
        during = others.submit(steady, "bench-during")
        time.sleep(warmup + seconds / 3)
        began = time.monotonic()
        caller.call("POST", f"{old}/subscription/late/expireMessages/1")
        took = time.monotonic() - began
        beside = during.result()
    left = json.loads(caller.call("GET", f"{old}/stats"))["subscriptions"]["late"]
    if left["msgBacklog"] or left["totalMsgExpired"] != count:
        raise ClientError(f"of {count} messages {left['msgBacklog']} are left")
    figures = {"before_ms": before["latency_ms.p99"], "beside_ms": beside["latency_ms.p99"]}
    return {"expired_ms": took * 1000, **figures, "of_before": figures["beside_ms"] / figures["before_ms"]}


ADMIN: tuple[Load, ...] = (
    Load(
        "admin-calls",
        "Admin API, one caller on one connection: all policies of a namespace; stats of a topic with a subscription;"
        " a policy set",
        (
            Metric("policies", "calls/s", "higher", 5.0),
            Metric("stats", "calls/s", "higher", 5.0),
            Metric("set", "calls/s", "higher", 5.0),
        ),
        _calls,
        servers=("Magnetar",),
        pulsar=_calls,
    ),
    Load(
        "admin-namespaces",
        f"{NAMESPACES:,} namespaces: made with a time to live each, read one by one, listed",
        (
            Metric("set_seconds", "s", "lower"),
            Metric("read_seconds", "s", "lower"),
            Metric("list_ms", "ms", "lower"),
        ),
        _namespaces,
        servers=("Magnetar",),
        pulsar=_namespaces,
        rounds=1,
    ),
    Load(
        "admin-expire",
        f"{EXPIRED:,} messages of a Shared subscription expired by one call, beside 1,000 messages a second of others",
        (
            Metric("expired_ms", "ms until all are gone", "lower"),
            Metric("before_ms", "p99 ms of the others without", "lower"),
            Metric("beside_ms", "p99 ms of the others meanwhile", "lower"),
            Metric("of_before", "of that", "lower"),
        ),
        _expired,
        servers=("Magnetar",),
    ),
)
