"""A stock producer beside a load (`besideload/`): Kafka's to Magnetar, Pulsar's to Pulsar, at a steady rate.

Each message's time is kept with when it was sent, so that windows are cut around what happened when that is known.
"""

from __future__ import annotations

import fcntl
import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from compat import tools
from compat.bench import generator
from compat.bench.clients import ClientError
from compat.bench.pulsar import SOURCE as PULSARLOAD
from compat.peers import kafka, pulsar
from compat.peers.process import Peer
from compat.peers.pulsar import PulsarPeer
from compat.tools import PROJECT

SOURCE = Path(__file__).with_name("besideload")
CLASSES = PROJECT / ".cache" / "bin" / "besideload"
KAFKA, PULSAR = "KafkaBeside", "PulsarBeside"
PATIENCE = 60.0
"""Seconds that it has until its first acknowledgement, and to end."""


class Sent(NamedTuple):
    """A message that was acknowledged."""

    at: float
    """when it was handed to the producer, in seconds since 1970"""
    ms: float
    """from then until the acknowledgement"""


def build(program: str) -> None:
    """Compile KAFKA or PULSAR, each with the jars of its own client. Raises `generator.GeneratorError`, `JarsError`."""
    sources = [SOURCE / "Beside.java", SOURCE / f"{program}.java"]
    classes = CLASSES / program
    classes.parent.mkdir(parents=True, exist_ok=True)
    with open(classes.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        main = classes / f"{program}.class"
        if main.exists() and main.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
            return
        shutil.rmtree(classes, ignore_errors=True)
        try:
            javac = tools.ensure_javac()
        except tools.MissingToolError as error:
            raise generator.GeneratorError(str(error)) from None
        options = ("-Xlint:all,-path", "-Werror", "-d", str(classes), "-cp", _jars(program))
        done = subprocess.run([str(javac), *options, *map(str, sources)], capture_output=True, text=True)
        if done.returncode != 0:
            raise generator.GeneratorError(f"besideload does not compile:\n{done.stderr.strip()}")


def _jars(program: str) -> str:
    return kafka.classpath() if program == KAFKA else pulsar.classpath()


def command(server: Peer) -> list[str]:
    """The producer of a server, and the address that it is to be given."""
    program, address = (
        (PULSAR, server.service_url) if isinstance(server, PulsarPeer) else (KAFKA, server.bootstrap)
    )
    return [
        *(kafka.find_java(), "-Xmx256m", f"-Dlog4j2.configurationFile={PULSARLOAD / 'log4j2.properties'}"),
        *("-cp", f"{CLASSES / program}:{_jars(program)}", program, address),
    ]


class Beside:
    """The producer while the block lasts, from its first acknowledgement on."""

    def __init__(self, command: Sequence[str], *shape: tuple[str, int]) -> None:
        """`shape`: topic and messages a second of what is measured, and perhaps of a second topic."""
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name, "sent")
        flat = [str(each) for pair in shape for each in pair]
        self._command = [*command, str(self._file), *flat]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        errors = Path(self._folder.name, "errors")
        with open(errors, "wb") as stderr:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        assert self._process.stdout is not None
        # one that is given nothing fails by its own timeouts, and its output ends
        if self._process.stdout.readline().strip() != b"ready":
            self._end(kill=True)
            raise ClientError(self._why())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kill=True)
        self._folder.cleanup()

    def finish(self) -> list[Sent]:
        """End it: all that it sent, each acknowledged. Raises `ClientError` if one was not."""
        if self._end(kill=False) != 0:
            raise ClientError(self._why())
        lines = self._file.read_text().splitlines()
        return [Sent(int(at) / 1e6, int(us) / 1e3) for at, us in (line.split() for line in lines)]

    def _end(self, *, kill: bool) -> int:
        process = self._process
        assert process is not None
        if process.poll() is not None:
            return process.returncode
        if kill:
            process.kill()
        try:
            # its input ends
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return process.returncode

    def _why(self) -> str:
        said = Path(self._folder.name, "errors").read_text(errors="replace").strip()
        return said[-1500:] or "the producer beside it ended"


def percentile(sent: Sequence[Sent], begin: float, end: float, percent: float) -> float:
    """Of what was sent between two times (seconds since 1970), in ms; 100 is the worst. Raises `ClientError` where
    that is nothing.
    """
    found = sorted([each.ms for each in sent if begin <= each.at < end])
    if not found:
        raise ClientError("the producer beside it has sent nothing in the window")
    return found[max(math.ceil(percent / 100 * len(found)) - 1, 0)]
