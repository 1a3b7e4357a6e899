"""A Kafka Connect worker in a process of its own, with its files in a folder that goes when the case ends."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import Context, check
from security import java, java_options

STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
DISTRIBUTED = "org.apache.kafka.connect.cli.ConnectDistributed"


class Desk:
    """The folder of a case: the files that are read and written, and how a worker is started there."""

    java: str
    jars: str

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.folder = Path(tempfile.mkdtemp(prefix="connect-"))
        ctx.closing(lambda: shutil.rmtree(self.folder, ignore_errors=True))
        self.source, self.sink = self.folder / "source.txt", self.folder / "sink.txt"
        self.topic, self.group = ctx.name(), ctx.name("g")
        self._lines = 0

    def write(self, count: int) -> None:
        """So many further lines to the source file."""
        with open(self.source, "a") as file:
            for _ in range(count):
                file.write(f"line {self._lines}\n")
                self._lines += 1

    def expected(self) -> list[str]:
        return [f"line {number}" for number in range(self._lines)]

    def arrived(self) -> list[str]:
        """The lines of the sink file."""
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def wait_for_lines(self, *, doubled: bool = False) -> None:
        """Until every line has arrived: in order and once, unless `doubled` allows that some came again."""
        for _ in self.ctx.wait(f"{self._lines} lines in the sink"):
            got = self.arrived()
            if set(self.expected()) <= set(got):
                break
        check(
            doubled or got == self.expected(),
            f"lines came again or out of order: {len(got)} of {self._lines}",
        )

    def connector(self, kind: str) -> dict[str, str]:
        """The config of the "source" or the "sink", as in Kafka's own connect-file-….properties."""
        file = self.source if kind == "source" else self.sink
        config = {"name": f"{self.topic}-{kind}", "tasks.max": "1", "file": str(file)}
        if kind == "source":
            return config | {"connector.class": "FileStreamSource", "topic": self.topic}
        return config | {"connector.class": "FileStreamSink", "topics": self.topic}

    def standalone(self) -> Worker:
        """connect-standalone with both connectors, and offsets in a file."""
        settings = {"offset.storage.file.filename": str(self.folder / "offsets")}
        return Worker(self, STANDALONE, settings, [self.connector("source"), self.connector("sink")])

    def distributed(self, **more: str) -> Worker:
        """connect-distributed with internal topics of this case's own."""
        settings = {"group.id": self.group, "scheduled.rebalance.max.delay.ms": "1000"}
        for what in ("offset", "config", "status"):
            settings[f"{what}.storage.topic"] = f"{self.group}.{what}"
            settings[f"{what}.storage.replication.factor"] = "1"
        settings |= {"offset.storage.partitions": "5", "status.storage.partitions": "3"}
        return Worker(
            self, DISTRIBUTED, settings | {name.replace("_", "."): value for name, value in more.items()}
        )


class Worker:
    """One worker. `stop` ends it in order, `kill` does not."""

    def __init__(
        self,
        desk: Desk,
        main: str,
        settings: Mapping[str, str],
        connectors: list[dict[str, str]] | None = None,
    ) -> None:
        self._ctx = desk.ctx
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._log = desk.folder / f"worker-{self.address.split(':')[1]}.log"
        worker = {
            "bootstrap.servers": desk.ctx.bootstrap,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.flush.interval.ms": "500",
            "listeners": f"http://{self.address}",
            "plugin.discovery": "service_load",
            # so that a stop and a restart of the server cost seconds, not half a minute
            "producer.reconnect.backoff.max.ms": "500",
            "consumer.reconnect.backoff.max.ms": "500",
            "reconnect.backoff.max.ms": "500",
            "consumer.session.timeout.ms": "6000",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
        }
        for whose in ("", "producer.", "consumer.", "admin."):
            worker |= {whose + name: value for name, value in java().items()}
        files = [_properties(desk.folder / f"{self._log.stem}.properties", worker | dict(settings))]
        for config in connectors or []:
            files.append(_properties(desk.folder / f"{config['name']}.properties", config))
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m"]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [
                    *(desk.java, *options, *java_options(), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"),
                    *("-cp", f"{desk.jars}/*", main, *files),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        desk.ctx.closing(self.kill)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """It does nothing any more, and keeps its connections, until `thaw`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM: tasks end, offsets are committed, the group is left."""
        self._process.terminate()
        self._process.wait(timeout=self._ctx.left)

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def ask(self, method: str, path: str, body: Any = None, *, unless_logged: str = "") -> Any:
        """One REST call, again while the worker starts or the group rebalances. HTTP errors raise.

        `unless_logged` are words in the worker's log that make the answer no longer worth waiting for.
        """
        patience = 3.0 if unless_logged else 90.0
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        for _ in self._ctx.wait(f"an answer to {method} {path}; the log ends with {self.log()[-500:]}"):
            if unless_logged and unless_logged in self.log():
                return None
            check(self._process.poll() is None, f"the worker ended: {self.log()[-1000:]}")
            try:
                with urllib.request.urlopen(
                    request, data, timeout=min(patience, max(1.0, self._ctx.left))
                ) as answer:
                    text = answer.read()
                    return json.loads(text) if text else None
            except urllib.error.HTTPError as error:
                words = error.read().decode(errors="replace")
                # A rebalance is under way; the worker still starts, and its web server knows no such page yet.
                starting = error.code == 404 and not words.startswith("{")
                if error.code not in (409, 503) and not starting:
                    raise AssertionError(f"{method} {path}: {error.code} {words[:300]}") from error
            except OSError:
                pass  # it does not listen yet
        raise AssertionError("unreachable")

    def create(self, config: dict[str, str]) -> None:
        self.ask("POST", "/connectors", {"name": config["name"], "config": config})

    def state(self, name: str) -> tuple[str, list[str]]:
        """The state of a connector, and those of its tasks."""
        status = self.ask("GET", f"/connectors/{name}/status")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def wait_for_state(self, name: str, state: str, tasks: int = 1) -> None:
        seen: Any = None
        for _ in self._ctx.wait(f"{name} to be {state}"):
            seen = self.known_state(name)
            if seen == (state, [state] * tasks):
                return

    def known_state(self, name: str) -> tuple[str, list[str]] | None:
        """As `state`; None as long as the worker has not heard of the connector."""
        try:
            return self.state(name)
        except AssertionError as error:
            if ": 404 " in str(error):
                return None
            raise


def _properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
