"""pulsar-admin as one JVM that runs command after command: `runner/AdminRunner.java`.

A command that does not end within its deadline costs the JVM, and the next one gets a new one.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from compat import tools
from compat.admin.jars import classpath

RUNNER = Path(__file__).with_name("runner")
DEADLINE = 20.0
"""Seconds for a command. The client's own time-out is 300 s: who waits for it has found a fault."""
STARTING = 60.0
"""Seconds more for the first command of a JVM, which compiles the program first."""


class ToolError(Exception):
    """The JVM ended, or did not answer what is no command; the text says how."""


@dataclass(frozen=True)
class Said:
    """What a user sees of a command. `code` is None when it did not end within its deadline."""

    code: int | None
    out: str = ""
    err: str = ""
    ms: int = 0


class Tool:
    """`with Tool(admin_url) as tool: tool.run(["topics", "list", "public/default"])`."""

    def __init__(self, admin_url: str, service_url: str = "") -> None:
        """`service_url` is that of Pulsar's own protocol, which `produce` needs."""
        self._admin_url, self._service_url = admin_url, service_url
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def run(self, arguments: Sequence[str], deadline: float = DEADLINE, *, fresh: bool = False) -> Said:
        """One command; with `fresh` by an HTTP client of its own: it may say where it goes, and who calls. Raises
        `ToolError`.
        """
        answer = self._ask({"run": list(arguments), "fresh": fresh}, deadline)
        if answer is None:
            return Said(None, ms=round(deadline * 1000))
        return Said(**answer)

    def model(self) -> dict[str, dict[str, Any]]:
        """The commands of the tool: noun -> {"hidden", "verbs": verb -> hidden}. Raises `ToolError`."""
        answer = self._ask({"model": True}, DEADLINE)
        if answer is None:
            raise ToolError("pulsar-admin did not list its commands")
        return answer

    def produce(self, topic: str, first: int, count: int) -> None:
        """Messages "m-first", … by Pulsar's client. Raises `ToolError`."""
        asked = {"produce": topic, "service": self._service_url, "first": first, "count": count}
        if self._ask(asked, 60.0) is None:
            raise ToolError(f"Pulsar's client could not produce to {topic}")

    def _ask(self, asked: object, deadline: float) -> dict[str, Any] | None:
        process, patience = self._process, deadline
        if process is None:
            process, patience = self._start(), deadline + STARTING
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            line = self._answers.get(timeout=patience)
        except queue.Empty:
            self.close()
            return None
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise ToolError(f"the JVM of pulsar-admin ended at {json.dumps(asked)[:200]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        command = [
            *(str(tools.ensure_jdk()), "-Xmx256m", "-XX:+UseSerialGC"),
            # most of its time is spent on code that runs a few times
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={RUNNER / 'log4j2.properties'}",
            *("-cp", classpath(), str(RUNNER / "AdminRunner.java"), self._admin_url),
        ]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._process, self._answers = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._answers), daemon=True).start()
        return process

    def close(self) -> None:
        """End the JVM."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Line by line; an empty one is the end."""
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put("")
