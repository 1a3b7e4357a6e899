"""The admin API: calls a second of one caller, ten thousand namespaces with a policy each; a million messages that go
are in `expiring.py`.

The caller's time is a part of each figure, and the same against both servers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from compat.bench.caller import Caller, caller_of
from compat.bench.clients import ClientError
from compat.bench.expiring import EXPIRING
from compat.bench.loads import Load, Metric, Turn

NAMESPACES = 10_000


def _caller(turn: Turn) -> Caller:
    """The server is started, and has tenant and namespace of the loads."""
    turn.started()
    caller = caller_of(turn)
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
    *EXPIRING,
)
