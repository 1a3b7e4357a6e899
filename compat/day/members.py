"""The members as processes: what each is, how it is built and started, killed, and ended in order."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from compat.day.events import Event, Killed, parse
from compat.harness.build import build
from compat.harness.catalogue import Client
from compat.harness.run import BOUNDS
from compat.tools import MissingToolError

FOLDER = Path(__file__).parent
JARS = "{jars:kafka-clients-4.3.0}/*"
LANGUAGES = {
    "Python": Client(
        "day-python", "confluent-kafka", "Python", FOLDER, ["{python}", "{folder}/worker.py"], []
    ),
    "Java": Client(
        "day-java",
        "the Java client",
        "Java",
        FOLDER / "java",
        # small, and quick to start: three of them share two cores with everything else
        [
            *("{jdk}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx96m"),
            *("-cp", f"{{build}}:{JARS}", "Worker"),
        ],
        [],
        build=[["{javac}", "-nowarn", "-d", "{build}", "-cp", JARS, "Worker.java"]],
    ),
    "Go": Client(
        "day-go",
        "franz-go",
        "Go",
        FOLDER / "go",
        ["{build}/worker"],
        [],
        build=[["{go}", "build", "-o", "{build}/worker", "."]],
    ),
}
"""The program of each language, built by the same machinery as the client programs of compat/clients."""

LEAVE_SECONDS = 15.0
"""How long a member may take to finish what it has in hand and leave."""


USUAL_MS, SLOW_MS = 3, 8
"""How long a member works on a record."""


@dataclass(frozen=True)
class Part:
    """A member as the play has it. It keeps its number when it comes back."""

    number: int
    language: str
    ms: int = USUAL_MS

    @property
    def slow(self) -> bool:
        return self.ms > USUAL_MS

    @property
    def name(self) -> str:
        """Its client id. The assignor deals lanes in the order of these."""
        return f"{self.number}-{self.language.lower()}"


CAST = (
    Part(1, "Python"),
    Part(2, "Java"),
    Part(3, "Go"),
    Part(4, "Python"),
    Part(5, "Java"),
    Part(6, "Go"),
    Part(7, "Python", SLOW_MS),
    Part(8, "Java"),
)
CRASHES = 5
"""The number of the one that is killed."""


def prepare(say: Callable[[str], None]) -> list[Part]:
    """Build the programs. A language that cannot be had here is played by Python, and it is said why."""
    played = {}
    for language, program in LANGUAGES.items():
        played[language] = language
        try:
            build(program, say)
            program.command_line()
        except MissingToolError as missing:
            say(f"The members in {language} are in Python: {missing}")
            played[language] = "Python"
    return [Part(part.number, played[part.language], part.ms) for part in CAST]


class Process:
    """A member that runs. What it says is handed to `told`, by a thread of its own."""

    def __init__(
        self,
        part: Part,
        bootstrap: str,
        group: str,
        topic: str,
        log: Path,
        start: int,
        told: Callable[[Event], None],
    ) -> None:
        """`start`: when the day began, in microseconds since 1970. Its errors go to the file `log`."""
        self.part = part
        self._start, self._told = start, told
        command = LANGUAGES[part.language].command_line()
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [*command, bootstrap, group, topic, part.name, str(part.ms)],
                env={**os.environ, **BOUNDS},
                # it ends with us, whatever becomes of us: it leaves when its standard input is at its end
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # a member that is killed may be in the middle of one
            if line.endswith("\n"):
                self._told(parse(line, self.part.number, self._start))

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """As a machine that loses its power: nobody says that it goes."""
        alive = self._process.poll() is None
        self._process.kill()
        killed = Killed((time.time_ns() // 1000 - self._start) / 1e6, self.part.number)
        self._reap()
        if alive:
            self._told(killed)

    def leave(self) -> None:
        """It is told to finish, and is not waited for."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def gone(self) -> bool:
        """Wait until it has left; False, and it is killed, when that takes too long."""
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._reap()
            return False
        self._reap()
        return True

    def _reap(self) -> None:
        self._process.wait()
        self._listener.join()
        self.leave()
        if self._process.stdout is not None:
            self._process.stdout.close()
