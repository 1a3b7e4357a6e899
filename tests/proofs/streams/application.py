"""Instances of two applications as processes: Kafka's own word count example, and the day's sales."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from compat import tools
from compat.tools import PROJECT

VERSION = "4.3.0"
WORD_COUNT = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
DAY = "Day"
TRANSACTION_MS = 5_000
"""A killed instance that comes back without its folder has nobody to abort its transaction: it times out."""


class ApplicationError(Exception):
    """An instance, or their program, did what it should not; the text says what."""


class Program:
    """Both applications, compiled into `folder`. Raises `tools.MissingToolError`, `ApplicationError`."""

    def __init__(self, folder: Path) -> None:
        self.java = tools.ensure_java()
        jars = tools.ensure_jars(f"streams-examples-{VERSION}")
        self.path = f"{folder}:{jars}/*"
        source = PROJECT / "tests" / "proofs" / "streams" / "Day.java"
        command = [
            str(tools.ensure_javac()),
            "-nowarn",
            "-Xlint:none",
            "-d",
            str(folder),
            "-cp",
            f"{jars}/*",
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise ApplicationError(f"{source.name} does not compile:\n{done.stderr}")


class Instance:
    """One instance; `folder` is for its state, its settings and its log."""

    def __init__(self, program: Program, main: str, bootstrap: str, folder: Path) -> None:
        self.name = f"{'day' if main == DAY else 'word count'} {folder.name[-1]}"
        self._program = program
        self._main = main
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        settings = {
            "application.id": "day" if main == DAY else "words",
            "bootstrap.servers": bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": folder / "state",
            "commit.interval.ms": 500,
            "statestore.cache.max.bytes": 0,
            "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "producer.transaction.timeout.ms": TRANSACTION_MS,
            "max.task.idle.ms": 500,
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
        (folder / "settings").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        self._program.java,
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xshare:auto",
                        "-Xmx192m",
                    ),
                    *("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", self._program.path),
                    *(self._main, self._folder / "settings"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Take its state away, as when it comes back on another machine."""
        shutil.rmtree(self._folder / "state", ignore_errors=True)

    def check(self) -> None:
        """That it has not ended by itself. Raises `ApplicationError`."""
        if self._process is not None and (code := self._process.poll()) is not None:
            log = (self._folder / "log").read_text(errors="replace")
            raise ApplicationError(f"{self.name} ended by itself with {code}:\n{log[-4000:]}")
