"""Queue topics: how quick a subscription is for plain consumer groups, beside what these and share groups have else.

The rates: each turn measures both sides on one server, on topics of their own that are filled before, in batches of
16 KB, 100 B a record, uncompressed: four librdkafka members (`group_rdkafka.c`) with sixteen lanes, or with the four
partitions of the base topic. What is not a rate is franz-go's to measure (`shareload/`): latency, what a killed member
had, memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from compat.bench import pulsar, share_clients
from compat.bench.loads import Load, Measure, Metric, Turn
from compat.bench.share_clients import Window

RATE = "records_per_second"
LANES, MEMBERS = 16, 4
MAGNETAR = ("Magnetar",)

Kind = Literal["shared", "key_shared"]
How = Literal["nack", "hold"]
"""A message is stuck: see `group_rdkafka.c`"""


def _fill(turn: Turn, topic: str, records: int, kind: Kind | None = None) -> str:
    """A filled topic. With `kind` a queue topic over it, too, whose group is called like the topic: its name."""
    options = ("-topic", topic, "-partitions", "4", "-records", str(records), "-keys", "10000")
    share_clients.franz("fill", turn.server.bootstrap, (*options, *(_lanes(topic, kind) if kind else ())))
    return f"{topic}-{topic}-QUEUE" if kind else topic


def _lanes(group: str, kind: Kind, number: int = LANES) -> tuple[str, ...]:
    return ("-group", group, "-lanes", str(number), "-config", f"pulsar.subscription.type={kind}")


def _beside_plain(commit_ms: int, warmup: int, seconds: int, records: int) -> Measure:
    """`records`: more than are read until the window ends, and no more than a disk takes."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        # plain consumption is through with it in seconds
        plain = Window(2_000_000, 1, 1, 0) if turn.quick else Window(60_000_000, 2, 5, 2_000_000)
        shape = Window(2_000_000, 2, 1, 0) if turn.quick else Window(records, warmup, seconds, 2_000_000)
        rates = {}
        for name, window in (("plain", plain), ("shared", shape)):
            topic = _fill(turn, f"bench-{name}", window.records, "shared" if window is shape else None)
            rates[name] = share_clients.group(
                turn.server.bootstrap,
                f"bench-{name}",
                topic,
                MEMBERS,
                commit_ms,
                window,
                lasts=not turn.quick,
            )[RATE]
        return {**rates, "share_of_plain": rates["shared"] / rates["plain"]}

    return measure


def _beside_share_group(turn: Turn) -> dict[str, float]:
    turn.started()
    lanes = _key_shared(turn, "bench-lanes", 12, 10)
    records = 500_000 if turn.quick else 5_000_000
    shape = Window(records, 1, 1, 0) if turn.quick else Window(records, 12, 10, 500_000)
    options = (
        *("-topic", "bench-members", "-group", "bench-members", "-keys", "10000", "-ordered"),
        *("-config", "pulsar.subscription.type=key_shared", "-records", str(records)),
        *("-at-least", str(shape.at_least), "-warmup", f"{shape.warmup}s", "-duration", f"{shape.seconds}s"),
    )
    members = share_clients.franz("backlog", turn.server.bootstrap, options)[RATE]
    return {"lanes": lanes, "members": members, "of_members": lanes / members}


def _key_shared(
    turn: Turn,
    name: str,
    warmup: int,
    seconds: int,
    stuck: tuple[How, str] | None = None,
) -> float:
    """The rate of Key_Shared lanes over a topic of this name, whose group is called so, too."""
    # half a million a second for as long as it takes
    records = 1_000_000 if turn.quick else 500_000 * (warmup + seconds)
    shape = Window(records, 1, 1, 0) if turn.quick else Window(records, warmup, seconds, 500_000)
    topic = _fill(turn, name, records, "key_shared")
    return share_clients.group(
        turn.server.bootstrap, name, topic, MEMBERS, 1000, shape, stuck=stuck, lasts=not turn.quick
    )[RATE]


STUCK = "key-1"
"""Of 10,000 keys none shares its slot with this one (see `shareload`), which would wait like it."""


def _stuck(turn: Turn) -> dict[str, float]:
    """With a message that is stuck between two turns without one, on the same server."""
    turn.started()
    alone = [_key_shared(turn, "bench-alone-0", 6, 10)]
    found = {}
    ways: tuple[tuple[How, str], ...] = (("nack", "beside_nacked"), ("hold", "beside_held"))
    for how, figure in ways:
        beside = _key_shared(turn, f"bench-{how}", 6, 10, (how, STUCK))
        alone.append(_key_shared(turn, f"bench-alone-{len(alone)}", 6, 10))
        found[figure] = beside / ((alone[-2] + alone[-1]) / 2)
    return {"alone": sum(alone) / len(alone), **found}


def _latency(turn: Turn) -> dict[str, float]:
    turn.started()
    warmup, seconds = (4, 2) if turn.quick else (12, 10)
    options = ("-partitions", "1", "-rate", "5000", "-warmup", f"{warmup}s", "-duration", f"{seconds}s")
    return share_clients.franz(
        "latency", turn.server.bootstrap, (*options, *_lanes("bench-share", "shared", 1))
    )


def _each_kind(
    turn: Turn, load: str, figures: Mapping[str, str], kinds: Mapping[Kind, tuple[str, ...]]
) -> dict[str, float]:
    """A load for each of these types on one server; a figure f of it is the type's "<type>_<name>"."""
    found: dict[str, float] = {}
    for kind, options in kinds.items():
        name = f"bench-{kind.replace('_', '-')}"
        given = (*options, "-topic", name, *_lanes(name, kind))
        measured = share_clients.franz(load, turn.server.bootstrap, given)
        found |= {f"{kind}_{shown}": measured[figure] for figure, shown in figures.items()}
    return found


def _killed(turn: Turn) -> dict[str, float]:
    turn.started()
    options = ("-members", str(MEMBERS), "-records", "10000", "-keys", "10000")
    tries = ("-tries", "1" if turn.quick else "5")
    figures = {"last_ms.p50": "ms", "last_ms.max": "most_ms"}
    return _each_kind(turn, "lost", figures, {"shared": (*options, *tries), "key_shared": (*options, *tries)})


def _opened(turn: Turn) -> dict[str, float]:
    turn.started()
    records = "100000" if turn.quick else "1000000"
    options = ("-records", records, "-keys", "10000", "-pid", str(turn.server.pid))
    return _each_kind(turn, "open", {"resident_mib": "mib"}, {"shared": options, "key_shared": options})


_OF_PLAIN = (
    Metric("shared", "rec/s", "higher"),
    Metric("plain", "rec/s of the base topic in a group", "higher"),
)

QUEUE: tuple[Load, ...] = (
    Load(
        "queue-shared",
        "Shared queue topic, 16 lanes, 4 librdkafka members that commit each second; the same members on the topic",
        (*_OF_PLAIN, Metric("share_of_plain", "of that", "higher", bound=0.5)),
        _beside_plain(1000, 6, 8, 70_000_000),
        servers=MAGNETAR,
    ),
    Load(
        "queue-shared-auto",
        "the same with librdkafka's auto-commit (5 s), after 30 s",
        (*_OF_PLAIN, Metric("share_of_plain", "of that", "higher", bound=0.45)),
        _beside_plain(0, 30, 5, 200_000_000),
        servers=MAGNETAR,
    ),
    Load(
        "queue-key-shared",
        "Key_Shared queue topic, 10,000 keys, the same members and lanes; a share group of 4 members (franz-go)",
        (
            Metric("lanes", "msg/s", "higher", 4.0, anchor=14_700),
            Metric("members", "msg/s of the share group", "higher", own=True),
            Metric("of_members", "of that", "higher", bound=1.5, own=True),
        ),
        _beside_share_group,
        servers=MAGNETAR,
        pulsar=pulsar.only_key_shared("lanes"),
    ),
    Load(
        "queue-stuck",
        "the same: beside one message that is nacked for ten minutes, or that its member never finishes (and"
        " acknowledges what comes behind it), the others' rate to that without it",
        (
            Metric("alone", "msg/s without one", "higher"),
            Metric("beside_nacked", "of that, beside a nacked one", "higher", bound=0.95),
            Metric("beside_held", "of that, beside one in hand", "higher", bound=0.95),
        ),
        _stuck,
        servers=MAGNETAR,
    ),
    Load(
        "queue-latency",
        "Publish to delivery through a lane (Shared), 5,000 msg/s of 100 B, linger 0, 1 member (franz-go) that commits"
        " each second",
        (
            Metric("latency_ms.p50", "p50 ms", "lower", anchor=7.4),
            Metric("latency_ms.p99", "p99 ms", "lower", 0.5, anchor=13.5, bound=5),
        ),
        _latency,
        servers=MAGNETAR,
        pulsar=pulsar.steady("latency", 12),
    ),
    Load(
        "queue-kill",
        "SIGKILL of one of 4 members (franz-go), 16 lanes: from the end of its session (6 s) until the idle others have"
        " all that it had; under Key_Shared they share out its lanes before, which waits for their heartbeats (3 s)",
        (
            Metric("shared_ms", "p50 ms, Shared", "lower", bound=100),
            Metric("shared_most_ms", "most ms, Shared", "lower"),
            Metric("key_shared_ms", "p50 ms, Key_Shared", "lower"),
            Metric("key_shared_most_ms", "most ms, Key_Shared", "lower"),
        ),
        _killed,
        servers=MAGNETAR,
    ),
    Load(
        "queue-memory",
        "1,000,000 open deliveries in 16 lanes: how much more memory is resident than before they were read",
        (
            Metric("shared_mib", "MiB, Shared", "lower", bound=64),
            Metric("key_shared_mib", "MiB, Key_Shared", "lower", bound=64),
        ),
        _opened,
        servers=MAGNETAR,
        rounds=1,
    ),
)
