"""A million messages of a subscription that nobody reads go at once: by the verb, a time to live, a backlog quota.

Beside it a stock producer publishes 1,000 messages a second to another topic, and the topic's stats are looked at all
the time, before as well as meanwhile. Pulsar's figures come from its own clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from statistics import median
from typing import NamedTuple

from compat.bench import beside, pulsar, share_clients
from compat.bench.beside import Beside, Sent, percentile
from compat.bench.caller import Caller, caller_of
from compat.bench.loads import Load, Measure, Metric, Turn
from compat.bench.stats_watch import Watch
from compat.peers.pulsar import PulsarPeer

MESSAGES = 1_000_000
TOPIC, SUBSCRIPTION = "bench-old", "late"
LIVES = (45, 65, 85)
"""Seconds that messages live, of the rounds by turns: longer than the warm-up and what is measured before. Both servers
look for old ones so long after their start: the rounds are spread over the intervals, half a minute and a minute.
"""
QUOTA = 10_000_000
"""Bytes: less than a tenth of what is stored"""
OTHERS, ARRIVING = ("bench-others", 1000), (TOPIC, 20)
"""Topic and messages a second of the producer beside it; for the quota the topic itself gets some, too, since Magnetar
looks at a quota when something arrives"""
AROUND = 1.0
"""Seconds before and behind what is measured that the others' figures hold"""


class Place(NamedTuple):
    """The filled topic in the admin API of a server."""

    policies: str
    """what has the topic's policies"""
    stats: str
    """what has its messages"""
    filled: float
    """when its last message was stored, in seconds since 1970"""


def filled(turn: Turn) -> Place:
    """The server is started, and its topic has the messages and the Shared subscription."""
    turn.started()
    count = str(MESSAGES // 10 if turn.quick else MESSAGES)
    topic = f"persistent/public/default/{TOPIC}"
    where = ("-topic", TOPIC, "-partitions", "1", "-records", count)
    if isinstance(turn.server, PulsarPeer):
        # without a subscription it keeps nothing
        pulsar.run(turn, "fill", *where, "-subscription", SUBSCRIPTION)
        return Place(topic, topic, time.time())
    messages = f"{topic}-partition-0"
    caller = caller_of(turn)
    caller.call("PUT", f"{topic}/partitions", 1)
    start = {"ledgerId": -1, "entryId": -1}
    caller.call("PUT", f"{messages}/subscription/{SUBSCRIPTION}?type=shared", start)
    caller.close()
    share_clients.franz("fill", turn.server.bootstrap, ("-there", *where))
    return Place(topic, messages, time.time())


Event = Callable[[Caller, Place, Watch], tuple[float, float]]
"""Has the messages go: from when to when that took, in seconds since 1970"""


def figures_of(sent: list[Sent], steady: tuple[float, float], event: tuple[float, float]) -> dict[str, float]:
    """The others' times while nothing happened (seconds since 1970), and around what did.

    The worst one of a time without is that of windows of the same length as the other has, on the median: a long one
    has a worse one by chance.
    """
    begin, end = event[0] - AROUND, event[1] + AROUND
    if event[1] - event[0] > AROUND:
        # it was waited for: what happened did so at the end
        begin = event[1] - AROUND
    length = end - begin
    count = max(int((steady[1] - steady[0]) / length), 1)
    starts = [steady[0] + number * length for number in range(count)]
    figures = {
        "before_p50": percentile(sent, *steady, 50),
        "p50": percentile(sent, begin, end, 50),
        "before_p99": percentile(sent, *steady, 99),
        "p99": percentile(sent, begin, end, 99),
        "before_worst": median([percentile(sent, start, start + length, 100) for start in starts]),
        "worst": percentile(sent, begin, end, 100),
    }
    return {**figures, "of_before": figures["p99"] / figures["before_p99"]}


def _beside(
    event: Event,
    figure: str,
    unit: float,
    *more: tuple[str, int],
    prepare: Callable[[Caller, Place], None] | None = None,
) -> Measure:
    """`figure` is how long it took, in `unit` a second. `prepare` is done when the topic is filled."""

    def measure(turn: Turn) -> dict[str, float]:
        place = filled(turn)
        if prepare is not None:
            caller = caller_of(turn)
            prepare(caller, place)
            caller.close()
        warmup, steady = (2, 2) if turn.quick else (20, 10)
        with (
            Beside(beside.command(turn.server), OTHERS, *more) as others,
            Watch(lambda: caller_of(turn), place.stats, SUBSCRIPTION) as watch,
        ):
            time.sleep(warmup)
            began = time.time()
            time.sleep(steady + AROUND)
            # not before: Pulsar closes a connection that was idle for 30 s
            caller = caller_of(turn)
            happened = event(caller, place, watch)
            time.sleep(2 * AROUND)
            caller.close()
            sent = others.finish()
        return {
            figure: (happened[1] - happened[0]) * unit,
            **figures_of(sent, (began, began + steady), happened),
        }

    return measure


def expire(caller: Caller, place: Place, watch: Watch) -> tuple[float, float]:
    """By the verb: what is older than a second."""
    began = time.time()
    caller.call("POST", f"{place.stats}/subscription/{SUBSCRIPTION}/expireMessages/1")
    return began, watch.until(lambda seen: seen.backlog == 0, 60).at


def live(seconds: int, caller: Caller, place: Place) -> None:
    """Has the topic's messages live so long."""
    caller.call("POST", f"{place.policies}/messageTTL?messageTTL={seconds}")


def shorten(caller: Caller, place: Place, watch: Watch) -> tuple[float, float]:
    """By a time to live of a second, when all are older."""
    began = time.time()
    live(1, caller, place)
    return began, watch.until(lambda seen: seen.backlog == 0, 150).at


def age(life: int, caller: Caller, place: Place, watch: Watch) -> tuple[float, float]:
    """By the time to live that they have: from when the last of them is due."""
    due = place.filled + life
    return due, watch.until(lambda seen: seen.backlog == 0, 150 + life).at


def by_turns(lives: Sequence[int]) -> Measure:
    """Each turn of a server has the next of these times to live."""
    following: dict[str, Iterator[int]] = {}

    def measure(turn: Turn) -> dict[str, float]:
        life = next(following.setdefault(turn.server.name, cycle(lives)))
        return _beside(partial(age, life), "gone_seconds", 1, prepare=partial(live, life))(turn)

    return measure


def bound(size: int, caller: Caller, place: Place) -> None:
    """Has the topic evict what is more than so many bytes."""
    quota = {"limitSize": size, "limitTime": -1, "policy": "consumer_backlog_eviction"}
    caller.call("POST", f"{place.policies}/backlogQuota?backlogQuotaType=destination_storage", quota)


def evict(caller: Caller, place: Place, watch: Watch) -> tuple[float, float]:
    """By a quota of bytes, where there was one that was large enough."""
    began = time.time()
    bound(QUOTA, caller, place)
    return began, watch.until(lambda seen: seen.size <= QUOTA, 60).at


def _load(name: str, title: str, took: Metric, measure: Measure, **standalone: str) -> Load:
    shown = (
        took,
        Metric("before_p50", "p50 ms of the others' produce without", "lower"),
        Metric("p50", "p50 ms meanwhile", "lower"),
        Metric("before_p99", "p99 ms without", "lower"),
        Metric("p99", "p99 ms meanwhile", "lower"),
        Metric("of_before", "of that without", "lower"),
        Metric("before_worst", "the worst, ms, without", "lower"),
        Metric("worst", "the worst, ms, meanwhile", "lower"),
    )
    return Load(name, title, shown, measure, servers=("Magnetar",), pulsar=measure, standalone=standalone)


EXPIRING: tuple[Load, ...] = (
    _load(
        "admin-expire",
        f"{MESSAGES:,} messages of a Shared subscription expired by one call, beside 1,000 messages a second of others",
        Metric("gone_ms", "ms from the call until all are gone", "lower", 0.3),
        _beside(expire, "gone_ms", 1000),
    ),
    _load(
        "admin-ttl-set",
        "the same by a time to live of the topic, set to a second, from a day, when all are older",
        Metric("gone_ms", "ms from the call until all are gone", "lower", 0.3),
        _beside(shorten, "gone_ms", 1000, prepare=partial(live, 86_400)),
        messageExpiryCheckIntervalInMinutes="1",
    ),
    _load(
        "admin-ttl",
        "the same by a time to live that they have from the start and come to (Pulsar looks for them each minute, the"
        " shortest that it has)",
        Metric("gone_seconds", "s from when the last is due until all are gone", "lower", 0.3),
        by_turns(LIVES),
        messageExpiryCheckIntervalInMinutes="1",
    ),
    _load(
        "admin-evict",
        f"the same evicted by a backlog quota that is set to {QUOTA // 1_000_000} MB, while 20 messages a second arrive"
        " (Pulsar: looked at each second, the shortest that it has)",
        Metric("gone_ms", "ms from the call until the backlog keeps it", "lower", 0.3),
        _beside(evict, "gone_ms", 1000, ARRIVING, prepare=partial(bound, 1 << 40)),
        backlogQuotaCheckIntervalInSeconds="1",
    ),
)
