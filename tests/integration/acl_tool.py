"""Kafka's kafka-acls.sh, whose calls run in one JVM: a JVM for each would cost a second."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.peers.kafka.jars import java_command

HOST = Path(__file__).parents[2] / "compat" / "clients" / "java-console-tools" / "ToolHost.java"
TOOL = "org.apache.kafka.tools.AclCommand"


class AclTool:
    """Against one cluster."""

    def __init__(self, process: subprocess.Popen[str], bootstrap: str) -> None:
        self._process = process
        self._bootstrap = bootstrap

    def run(self, *arguments: str) -> tuple[int, str]:
        """(exit code, all that it said)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        fields = ["1", TOOL, "", "--bootstrap-server", self._bootstrap, *arguments]
        self._process.stdin.write("\x1f".join(fields) + "\n")
        self._process.stdin.flush()
        _, code, out, err = self._process.stdout.readline().rstrip("\n").split("\x1f")
        return int(code), base64.b64decode(out).decode() + base64.b64decode(err).decode()

    def listed(self, *arguments: str) -> set[str]:
        """What --list shows, as `TOPIC:LITERAL:orders User:ada * READ ALLOW`."""
        code, said = self.run("--list", *arguments)
        assert code == 0, said
        found: set[str] = set()
        resource = ""
        for line in filter(None, map(str.strip, said.splitlines())):
            if line.startswith("Current ACLs for resource"):
                kind, name, pattern = _values(line[line.index("ResourcePattern(") :].rstrip("`:)"))
                resource = f"{kind}:{pattern}:{name}"
            elif line.startswith("("):
                principal, host, operation, permission = _values(line.rstrip(")"))
                found.add(f"{resource} {principal} {host} {operation} {permission}")
        return found


def _values(text: str) -> list[str]:
    return [each.partition("=")[2] for each in text.split("(", 1)[1].split(", ")]


@contextmanager
def acl_tool(bootstrap: str) -> Iterator[AclTool]:
    command = java_command(str(HOST), options=["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield AclTool(process, bootstrap)
    finally:
        process.kill()
        process.wait()
