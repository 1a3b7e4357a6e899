"""A gateway on RocksDB under attack, a client that must not notice, and what is looked at meanwhile and afterwards.

The verdict: the process lives, its memory stays below what its settings allow, the witness had every operation done in
its time-out and finds all it was acknowledged, the log holds no internal error and is not flooded, files, connections
and tasks are back to the number from before, it stops cleanly, and `magnetar store verify` finds nothing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import secrets
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tqdm import tqdm

from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import free_port
from compat.stopping import deaf
from tests.proofs.fuzz import attack, frames, witness

MIB = 1 << 20
SETTINGS: dict[str, str | int] = {
    "memory.max.bytes": 64 * MIB,
    "memory.connection.max.bytes": MIB,
    "store.tail.cache.bytes": 16 * MIB,
    "max.connections": 2000,
    "message.max.bytes": 12_000_000,
    # members that mutated requests made must be gone when the tasks are counted
    "group.max.session.timeout.ms": 60_000,
    # a listener beside the others asks who its clients are; these need not say so
    "super.users": "User:ANONYMOUS",
    "admin.authentication": "false",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
    "sasl.plain.insecure": "true",
}
"""Small bounds, so that what is not bounded shows."""
MEMORY_LIMIT = 640 * MIB
"""What the process may hold at the worst moment: 90 MiB idle with two clients, 16 of tail cache, 128 of RocksDB, twice
memory.max.bytes (requests and answers), and the largest request at work: one batch unfolded and packed anew."""
LOG_LINES_A_SECOND = 50
"""Twenty of all places that log, and ten of each kind of audit (audit.max.per.second), of which there are three."""
SETTLE_SECONDS = 90.0
_TROUBLE = re.compile(r"^Traceback|internal error| ERROR  | CRITICAL | was never (awaited|retrieved)")


@dataclass
class Figures:
    """What a run saw."""

    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    account: witness.Account | None = None
    most_memory: int = 0
    memory_before: int = 0
    memory_after: int = 0
    most_files: int = 0
    slowest_health: float = 0.0
    malformed: int = 0
    answered: int = 0
    log_lines: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """A gateway that is ready to be attacked."""

    gateway: MagnetarPeer
    attackers: Callable[..., None]
    """what runs a crowd of them in a process of its own: (pipe, seconds, seed, crowd, *where)"""
    where: tuple[object, ...]
    clients: Mapping[str, str]
    """librdkafka's properties of who behaves"""
    headers: Mapping[str, str] = field(default_factory=dict)
    """by which it may ask the admin port"""
    memory_limit: int = 0
    """bytes; 0: MEMORY_LIMIT"""


Crowds = Sequence[dict[str, int]]
Start = Callable[..., SpawnProcess]
_spawning = multiprocessing.get_context("spawn")


def run(seed: object, seconds: float, crowds: Crowds = attack.CROWDS) -> bool:
    """Attack for so long, print what was seen; True when nothing was wrong."""
    with tempfile.TemporaryDirectory(prefix="magnetar-fuzz-") as folder:
        figures = attacked(Path(folder), seed, seconds, crowds)
    show(figures)
    return not figures.wrong


def attacked(
    folder: Path,
    seed: object,
    seconds: float,
    crowds: Crowds,
    *,
    quiet: bool = False,
) -> Figures:
    """Everything, in that folder."""
    asking = f"127.0.0.1:{free_port()}"
    gateway = MagnetarPeer("--listen", f"SASL_PLAINTEXT://{asking}", directory=folder, settings=SETTINGS)

    def ready() -> Scene:
        clients = {"bootstrap.servers": gateway.bootstrap}
        where = gateway.bootstrap, asking, gateway.admin_url, topics(clients)
        return Scene(gateway, attack.main, where, clients)

    return watched(gateway, ready, seed, seconds, crowds, quiet=quiet)


def watched(
    gateway: MagnetarPeer,
    ready: Callable[[], Scene],
    seed: object,
    seconds: float,
    crowds: Crowds,
    *,
    quiet: bool = False,
    also: Callable[[Scene, Figures], None] = lambda _, __: None,
) -> Figures:
    """A gateway from its start to its end, under attack. `ready` prepares it; `also` looks at what is left of it."""
    figures = Figures()
    with gateway:
        scene = ready()
        with _processes() as start:
            _attacked(scene, figures, seed, seconds, crowds, quiet, start)
        if gateway.exit_code() is None:
            also(scene, figures)
        if code := gateway.stop():
            figures.wrong.append(f"the gateway was asked to stop, and ended with {code}")
    _read_log(gateway, figures)
    verify = gateway.verify()
    if verify.returncode:
        figures.wrong.append(f"store verify: {verify.stdout[-2000:]}{verify.stderr[-2000:]}")
    return figures


@contextlib.contextmanager
def _processes() -> Iterator[Start]:
    """What starts processes; those that are left at the end are killed, before the gateway goes."""
    started: list[SpawnProcess] = []

    def start(target: Callable[..., None], *arguments: object) -> SpawnProcess:
        process = _spawning.Process(target=target, args=arguments)
        with deaf():
            process.start()
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.join()


def _attacked(
    scene: Scene,
    figures: Figures,
    seed: object,
    seconds: float,
    crowds: Crowds,
    quiet: bool,
    start: Start,
) -> None:
    gateway = scene.gateway
    pipe, end = _spawning.Pipe()
    name = f"witness-{secrets.token_hex(16)}"
    watching = start(witness.main, end, dict(scene.clients), name, seconds)
    if not pipe.poll(60):
        raise AssertionError("the witness could not make its topic")
    pipe.recv()
    before = _counted(scene)
    figures.memory_before = _memory(gateway.pid)
    attacks = []
    for number, crowd in enumerate(crowds):
        own, other = _spawning.Pipe()
        name = f"{seed}/{number}"
        process = start(scene.attackers, other, seconds, name, crowd, *scene.where)
        attacks.append((process, own))
    began = time.monotonic()
    counts: list[Counter[str]] = [Counter() for _ in attacks]
    with tqdm(total=int(seconds), unit="s", desc="live", disable=quiet) as bar:
        while time.monotonic() - began < seconds + 5 and any(process.is_alive() for process, _ in attacks):
            time.sleep(0.5)
            if not _sample(scene, figures):
                break
            for number, (_, own) in enumerate(attacks):
                while own.poll():
                    try:
                        counts[number] = own.recv()
                    except EOFError:
                        break
            sent = sum(count["frames"] for count in counts)
            bar.update(min(int(seconds), int(time.monotonic() - began)) - bar.n)
            bar.set_postfix_str(f"{sent:,} frames, {figures.most_memory >> 20} MiB at most")
    figures.seconds = time.monotonic() - began
    figures.counts = sum(counts, Counter())
    for process, _ in attacks:
        process.join(30)
        if process.exitcode:
            figures.wrong.append(f"an attacker failed with {process.exitcode}: see its traceback above")
        if process.is_alive():
            process.kill()
    if pipe.poll(witness.TIMEOUT * 4):
        account = figures.account = pipe.recv()
        figures.wrong += [f"the witness: {each}" for each in account.complaints]
        if not account.produced or not account.consumed or not account.shared:
            figures.wrong.append("the witness did nothing")
    else:
        figures.wrong.append("the witness hangs")
    watching.join(10)
    if watching.is_alive():
        watching.kill()
    if gateway.exit_code() is None:
        _settled(scene, figures, before)


def topics(clients: Mapping[str, str]) -> list[bytes]:
    """Make what the attackers name; topic ids. `clients`: librdkafka's properties."""
    large = {"max.message.bytes": "12000000", "retention.bytes": "50000000"}
    configs: dict[str, dict[str, str]] = {
        "fuzz": large,
        "fuzz-time": {**large, "message.timestamp.type": "LogAppendTime", "compression.type": "lz4"},
        "fuzz-keys": {**large, "cleanup.policy": "compact"},
        "fuzz-old": {**large, "message.timestamp.before.max.ms": "100000000000000"},
    }
    admin = AdminClient(dict(clients))
    made = admin.create_topics([NewTopic(name, 2, 1, config=config) for name, config in configs.items()])
    for future in made.values():
        future.result(30)
    for group, kind in zip(frames.SHARE_GROUPS, ("shared", "key_shared"), strict=True):
        wanted = {"share.auto.offset.reset": "earliest", "pulsar.subscription.type": kind}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in wanted.items()
        ]
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result(30)
    from confluent_kafka import TopicCollection

    described = admin.describe_topics(TopicCollection([*frames.TOPICS, *frames.INTERNAL]))
    ids = []
    for future in described.values():
        topic_id = future.result(30).topic_id
        ids.append(
            topic_id.get_most_significant_bits().to_bytes(8, "big", signed=True)
            + topic_id.get_least_significant_bits().to_bytes(8, "big", signed=True)
        )
    return ids


# -- what is looked at ---------------------------------------------------------------------------------------------


def _memory(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _sample(scene: Scene, figures: Figures) -> bool:
    """Look at the process and at its health; False when it is gone or does not answer."""
    gateway = scene.gateway
    if gateway.exit_code() is not None:
        figures.wrong.append(
            f"the gateway died with {gateway.exit_code()}; its log ends:\n{gateway.log()[-3000:]}"
        )
        return False
    memory = _memory(gateway.pid)
    if memory > figures.most_memory:
        figures.most_memory = memory
        most = scene.memory_limit or MEMORY_LIMIT
        if memory > most:
            figures.wrong.append(f"memory: {memory >> 20} MiB are more than {most >> 20}")
            return False
    figures.most_files = max(figures.most_files, len(list(Path(f"/proc/{gateway.pid}/fd").iterdir())))
    began = time.monotonic()
    try:
        urllib.request.urlopen(f"{gateway.admin_url}/health/live", timeout=witness.TIMEOUT).read()
    except OSError as problem:
        figures.wrong.append(f"health: {problem} after {time.monotonic() - began:.1f} s")
        return False
    figures.slowest_health = max(figures.slowest_health, time.monotonic() - began)
    return True


def metrics_of(scene: Scene) -> dict[str, float]:
    """What /metrics says."""
    asked = urllib.request.Request(f"{scene.gateway.admin_url}/metrics", headers=dict(scene.headers))
    text = urllib.request.urlopen(asked, timeout=witness.TIMEOUT).read().decode()
    found: dict[str, float] = {}
    # not splitlines: names of groups may hold other characters that it takes for the end of a line
    for line in text.split("\n"):
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def _counted(scene: Scene) -> dict[str, float]:
    """What must come back to where it was."""
    metrics = metrics_of(scene)
    return {
        "connections": sum(
            value for name, value in metrics.items() if name.startswith("magnetar_connections{")
        ),
        "tasks": metrics["magnetar_loop_tasks"],
        "bytes of unfinished requests": metrics["magnetar_unfinished_request_bytes"],
        "bytes of unread answers": metrics["magnetar_unsent_bytes"],
        "parked fetches": sum(
            value for name, value in metrics.items() if name.startswith("magnetar_fetches_parked")
        ),
        "sockets": len([fd for fd in Path(f"/proc/{scene.gateway.pid}/fd").iterdir() if _is_socket(fd)]),
    }


def _is_socket(fd: Path) -> bool:
    try:
        return str(fd.readlink()).startswith("socket:")
    except OSError:
        return False


def _settled(scene: Scene, figures: Figures, before: dict[str, float]) -> None:
    """Wait until everything is back to the level from before (the witness counted there is gone by now)."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        now = _counted(scene)
        more = {name: (before[name], now[name]) for name in before if now[name] > before[name]}
        if not more:
            break
        if time.monotonic() > deadline:
            figures.wrong += [
                f"{name}: {old:.0f} before, {new:.0f} after" for name, (old, new) in more.items()
            ]
            break
        time.sleep(0.5)
    figures.memory_after = _memory(scene.gateway.pid)
    metrics = metrics_of(scene)
    figures.malformed = int(metrics["magnetar_requests_malformed_total"])
    figures.answered = int(
        sum(value for name, value in metrics.items() if name.startswith("magnetar_request_seconds_count"))
    )


def _read_log(gateway: MagnetarPeer, figures: Figures) -> None:
    lines = gateway.log().splitlines()
    figures.log_lines = len(lines)
    trouble = [number for number, line in enumerate(lines) if _TROUBLE.search(line)]
    if trouble:
        first = trouble[0]
        told = "\n    ".join(lines[max(0, first - 1) : first + 40])
        figures.wrong.append(f"{len(trouble)} lines of the log speak of trouble; the first:\n    {told}")
    most = LOG_LINES_A_SECOND * max(figures.seconds, 5.0)
    if len(lines) > most:
        figures.wrong.append(f"the log has {len(lines):,} lines; {most:,.0f} are the most that anybody reads")


def show(figures: Figures, what: str = "live") -> None:
    """The summary."""
    print(f"{what}: {figures.counts['frames']:,} mutated frames in {figures.seconds:.0f} s, and")
    print(
        "  "
        + ", ".join(f"{count:,} {what}" for what, count in figures.counts.most_common() if what != "frames")
    )
    print(
        f"  the gateway answered {figures.answered:,} requests and closed on {figures.malformed:,} as malformed"
    )
    account = figures.account
    if account is not None:
        print(
            f"  the witness: {account.produced:,} messages produced, {account.consumed:,} consumed, "
            f"{account.shared:,} shared, {account.commits:,} commits, "
            f"{account.connections:,} new connections; slowest: "
            + ", ".join(f"{what} {seconds * 1000:.0f} ms" for what, seconds in account.slowest.items())
        )
    print(
        f"  memory: {figures.memory_before >> 20} MiB before, {figures.most_memory >> 20} at most, "
        f"{figures.memory_after >> 20} after; at most {figures.most_files} files open; "
        f"slowest /health/live {figures.slowest_health * 1000:.0f} ms; {figures.log_lines:,} lines of log"
    )
    for each in figures.wrong:
        print(f"  WRONG: {each}")


def failures(figures: Figures) -> Any:
    """For tests: what was wrong, as text."""
    return "\n".join(figures.wrong)
