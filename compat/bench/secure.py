"""TLS and logins by turns with Kafka's, and what rights and quotas cost where nobody is over them."""

from __future__ import annotations

import subprocess
import time
from itertools import count

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from compat.bench import generator
from compat.bench.loads import LARGE, RATE, SMALL, Load, Measure, Metric, Turn
from compat.bench.servers import SCRATCH, settle_disk
from compat.peers.kafka import java_command
from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import Peer
from compat.peers.secured import Secured

USER, PASSWORD = "bench", "bench-secret"
ROWS = 10_000
"""Rows of ACLs, of which none but the last few is the load's."""


def _secured(server: Peer) -> Secured:
    found: Secured | None = getattr(server, "secured", None)
    assert found is not None, "a load whose servers are secured"
    return found


def _over_tls(load: str, *options: str, settles: bool = True) -> Measure:
    def measure(turn: Turn) -> dict[str, float]:
        return turn.timed(load, *_client(turn.server), *options, settles=settles)

    return measure


def _client(server: Peer) -> tuple[str, ...]:
    return ("-tls", str(_secured(server).ca), "-login", f"{USER}:{PASSWORD}")


def _logins(turn: Turn) -> dict[str, float]:
    """1,000 logins by SCRAM, eight at a time, and what a record's acknowledgement takes meanwhile at 2,000 a second."""
    turn.started()
    client, address = _client(turn.server), turn.server.bootstrap
    count = "100" if turn.quick else "1000"
    # both servers have seen logins before
    turn.generate("logins", *client, "-logins", count)
    lasting = ("-rate", "2000", "-warmup", "2s" if turn.quick else "10s", "-duration", "6s")
    without = turn.generate("end-to-end", *client, "-topic", "alone", *lasting)
    beside = subprocess.Popen(
        generator.arguments("end-to-end", address, (*client, "-topic", "beside", *lasting)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(2.5 if turn.quick else 10.5)
        logins = turn.generate("logins", *client, "-logins", count)
        output, complaint = beside.communicate(timeout=120)
    finally:
        beside.kill()
    meanwhile = generator.figures(output, complaint, beside.returncode)
    p99 = "acknowledged_ms.p99"
    return {
        "refused": logins["refused"],
        "logins_per_second": logins["logins"] / logins["seconds"],
        "p99_meanwhile": meanwhile[p99],
        "p99_share": meanwhile[p99] / without[p99],
    }


def _with_rows(load: str, figure: str, *options: str) -> Measure:
    """The same load on a gateway that asks for rights, with many rows and quotas, and on one that does not. Each is
    first in every other round: what goes second finds a machine that was at work for a minute.
    """
    rounds = count()

    def without(turn: Turn) -> float:
        settle_disk()
        found = turn.timed(load, *options)[figure]
        turn.server.stop()
        return found

    def asked(turn: Turn) -> float:
        settings = {"authorization": "true", "super.users": "User:ops"}
        with MagnetarPeer(settings={**settings, "super.users": "User:ANONYMOUS"}, scratch=SCRATCH) as server:
            _fill(server)
            server.stop()
            # the rows count now: nobody is a super-user any more
            server.flags = [f"--set={name}={value}" for name, value in settings.items()]
            settle_disk()
            return Turn(server, turn.quick).timed(load, *options)[figure]

    def measure(turn: Turn) -> dict[str, float]:
        if next(rounds) % 2:
            second = asked(turn)
            first = without(turn)
        else:
            first = without(turn)
            second = asked(turn)
        return {"without": first, "with": second, "share": second / first}

    return measure


def _fill(server: MagnetarPeer) -> None:
    """Rows for others' topics, one for the load's, and quotas that are never reached."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def allowed(kind: ResourceType, name: str, pattern: ResourcePatternType, who: str) -> AclBinding:
        return AclBinding(
            kind, name, pattern, who, "*", AclOperation.ALL, AclPermissionType.ALLOW
        )  # fmt: skip

    rows = [
        allowed(
            ResourceType.TOPIC,
            f"topic-{number}",
            ResourcePatternType.PREFIXED if number % 10 == 0 else ResourcePatternType.LITERAL,
            f"User:user-{number % 500}",
        )
        for number in range(ROWS)
    ]
    rows.append(allowed(ResourceType.TOPIC, "bench", ResourcePatternType.PREFIXED, "User:ANONYMOUS"))
    rows.append(allowed(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:ANONYMOUS"))
    for start in range(0, len(rows), 1000):
        for future in admin.create_acls(rows[start : start + 1000]).values():
            future.result(60)
    quotas = "producer_byte_rate=100000000000,consumer_byte_rate=100000000000,request_percentage=100000"
    for entity in (("--entity-type", "users"), ("--entity-type", "clients")):
        subprocess.run(
            java_command(
                "kafka.admin.ConfigCommand",
                [
                    *("--bootstrap-server", server.bootstrap, "--alter", "--add-config", quotas),
                    *(*entity, "--entity-default"),
                ],
            ),
            check=True,
            capture_output=True,
        )


_SECURED = "TLS 1.3, login by SCRAM"

SECURE: tuple[Load, ...] = (
    Load(
        "tls-produce-small",
        f"Produce, 100 B, 64 connections, 8 in flight; {_SECURED}",
        (Metric(RATE, "req/s", "higher", 2.5), Metric("latency_ms.p99", "p99 ms", "lower")),
        _over_tls("produce", *SMALL, "-depth", "8"),
        secured=True,
    ),
    Load(
        "tls-produce-large",
        f"Produce, 1 MB batches, 4 connections, 2 in flight; {_SECURED}",
        (Metric("megabytes_per_second", "MB/s", "higher", 1.5),),
        _over_tls("produce", *LARGE, "-records", "1000", "-depth", "2", settles=False),
        secured=True,
    ),
    Load(
        "tls-fetch-large",
        f"Fetch, 1 MiB a request, hot, 4 connections; {_SECURED}",
        (Metric("megabytes_per_second", "MB/s", "higher", 0.9),),
        _over_tls("fetch", *LARGE, "-records", "16", "-fill", "4000"),
        secured=True,
    ),
    Load(
        "logins",
        "1,000 logins by SCRAM over TLS, 8 at a time, beside a producer of 2,000 msg/s: its p99 ÷ that without; logins "
        "that were refused",
        (
            Metric("p99_share", "x its own p99 without", "lower", bound=2.0),
            Metric("p99_meanwhile", "p99 ms", "lower"),
            Metric("logins_per_second", "logins/s", "higher"),
            Metric("refused", "refused", "lower", bound=0.0),
        ),
        _logins,
        secured=True,
    ),
    *(
        Load(
            f"rights-{name}",
            f"{title}, with 10,000 rows of ACLs and quotas ÷ without",
            (
                Metric("share", "x of without", "higher", bound=0.97),
                Metric("with", unit, "higher"),
                Metric("without", unit, "higher"),
            ),
            _with_rows(load, figure, *options),
            servers=("Magnetar",),
        )
        for name, title, load, figure, unit, options in (
            (
                "produce-small",
                "Produce, 100 B, plain text",
                "produce",
                RATE,
                "req/s",
                (*SMALL, "-depth", "8"),
            ),
            (
                "fetch-small",
                "Fetch, one small batch, plain text",
                "fetch",
                RATE,
                "req/s",
                (*SMALL, "-one-batch"),
            ),
            (
                "fetch-large",
                "Fetch, 1 MiB, plain text",
                "fetch",
                "megabytes_per_second",
                "MB/s",
                (*LARGE, "-records", "16", "-fill", "4000"),
            ),
        )
    ),
)
