"""Pulsar's Java client (`pulsarload/`) under the loads of the share groups, against Apache Pulsar.

The client's settings are its defaults but what a load is about: batches of up to 1 ms, a receiver queue of 1,000
messages, acknowledgements grouped for 100 ms.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compat import tools
from compat.bench import generator
from compat.bench.clients import ClientError
from compat.bench.loads import Measure, Turn
from compat.peers.kafka import find_java
from compat.peers.pulsar import PulsarPeer, classpath
from compat.tools import PROJECT

SOURCE = Path(__file__).with_name("pulsarload")
CLASSES = PROJECT / ".cache" / "bin" / "pulsarload"
RATE = "records_per_second"


def build() -> None:
    """Compile the client. Raises `generator.GeneratorError`, or `JarsError` when Pulsar's jars cannot be had."""
    sources = sorted(SOURCE.glob("*.java"))
    CLASSES.parent.mkdir(parents=True, exist_ok=True)
    with open(CLASSES.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        main = CLASSES / "PulsarLoad.class"
        if main.exists() and main.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
            return
        shutil.rmtree(CLASSES, ignore_errors=True)
        try:
            javac = tools.ensure_javac()
        except tools.MissingToolError as error:
            raise generator.GeneratorError(str(error)) from None
        options = ("-Xlint:all,-path", "-Werror", "-d", str(CLASSES), "-cp", classpath())
        command = [str(javac), *options, *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise generator.GeneratorError(f"pulsarload does not compile:\n{done.stderr.strip()}")


def client(load: str, where: Sequence[str], options: Sequence[str], timeout: float = 400) -> dict[str, float]:
    """Run a load of `pulsarload`; its figures by dotted name. Raises `ClientError`."""
    command = [
        *(find_java(), "-Xmx1g", f"-Dlog4j2.configurationFile={SOURCE / 'log4j2.properties'}"),
        *("-cp", f"{CLASSES}:{classpath()}", "PulsarLoad", load, *where, *options),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise ClientError(f"pulsarload {load} did not end within {timeout:.0f} s") from None
    try:
        return generator.figures(done.stdout, done.stderr, done.returncode)
    except generator.GeneratorError as error:
        raise ClientError(str(error)) from None


def run(turn: Turn, load: str, *options: str) -> dict[str, float]:
    """Run a load of `pulsarload` against a Pulsar that is started. Raises `ClientError`."""
    peer = turn.server
    assert isinstance(peer, PulsarPeer)
    return client(load, ("-broker", peer.service_url, "-admin", peer.admin_url), options)


def _window(turn: Turn, records: int, limit: int) -> tuple[str, ...]:
    """As for the other servers: 12 s of warm-up, then 10 s and two million messages, or `limit` seconds."""
    if turn.quick:
        return ("-records", str(records // 8), "-warmup", "1", "-duration", "1")
    return (
        *("-records", str(records), "-at-least", "2000000"),
        *("-warmup", "12", "-duration", "10", "-limit", str(limit)),
    )


def shared(turn: Turn) -> dict[str, float]:
    """Shared, without keys."""
    turn.started()
    return run(turn, "backlog", *_window(turn, 27_000_000, 60))


def key_shared(turn: Turn) -> dict[str, float]:
    """Key_Shared and then Shared on one server, each with a topic of its own.

    A message a batch is what Key_Shared leaves of 10,000 keys; half a minute of them is enough.
    """
    turn.started()
    rates = {kind: _of_keys(turn, kind) for kind in ("key_shared", "shared")}
    return {**rates, "share_of_shared": rates["key_shared"] / rates["shared"]}


def only_key_shared(figure: str) -> Measure:
    """The same without Shared, under this name."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        return {figure: _of_keys(turn, "key_shared")}

    return measure


def _of_keys(turn: Turn, kind: str) -> float:
    ordered, records, limit = (("-ordered",), 800_000, 30) if kind == "key_shared" else ((), 27_000_000, 60)
    where = ("-topic", f"bench-{kind}", "-keys", "10000")
    return run(turn, "backlog", *where, *ordered, *_window(turn, records, limit))[RATE]


def nacked(turn: Turn) -> dict[str, float]:
    """Each fifth message once, with a delay of 1 s."""
    turn.started()
    records = "200000" if turn.quick else "2000000"
    return run(turn, "backlog", "-records", records, "-nack-every", "5", "-nack-delay-ms", "1000", "-all")


def dead(turn: Turn) -> dict[str, float]:
    """5 % nacked for ever, without a delay (the client's least is 100 ms)."""
    turn.started()
    options = ("-nack-every", "20", "-nack-delay-ms", "0", "-max-redeliver-count", "2")
    return run(turn, "dead", "-records", "100000", *options)


def steady(load: str, warmup: int) -> Measure:
    """5,000 messages a second on one topic without partitions."""

    def measure(turn: Turn) -> dict[str, float]:
        turn.started()
        times = (2, 2) if turn.quick else (warmup, 10)
        options = ("-warmup", str(times[0]), "-duration", str(times[1]), "-rate", "5000")
        return run(turn, load, "-partitions", "1", *options)

    return measure


def killed(turn: Turn) -> dict[str, float]:
    """Acknowledgements with the broker's receipt, then SIGKILL and a restart."""
    turn.started()
    options = ("-records", "100000", "-file", str(turn.server.directory / "confirmed.txt"))
    run(turn, "confirm", *options, "-pid", str(turn.server.pid))
    turn.server.kill()
    turn.server.start()
    return run(turn, "again", *options)
