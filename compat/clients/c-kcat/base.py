"""What the cases of kcat share: it runs the program. Topics are made with confluent-kafka."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import Context, check
from confluent_kafka.admin import AdminClient, NewTopic
from security import librdkafka

KCAT = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else "kcat"


def admin(ctx: Context) -> AdminClient:
    if "admin" not in ctx.shared:
        ctx.shared["admin"] = AdminClient({**librdkafka(ctx.bootstrap)})
    return ctx.shared["admin"]


def create(ctx: Context, partitions: int = 1, **configs: Any) -> str:
    name = ctx.name()
    settings = {key.replace("__", "."): str(value) for key, value in configs.items()}
    admin(ctx).create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(ctx.left)
    for _ in ctx.wait("the topic"):
        found = json.loads(run(ctx, "-L", "-J", "-t", name)[0])["topics"][0]
        if "error" not in found and all(p["leader"] >= 0 for p in found["partitions"]):
            return name
    raise AssertionError("unreachable")


def place(ctx: Context) -> list[str]:
    """The arguments that say where the server is, and how to log in there."""
    told = librdkafka(ctx.bootstrap).items()
    return [part for name, value in told for part in ("-X", f"{name}={value}")]


def run(ctx: Context, *arguments: str, stdin: str = "", ok: bool = True) -> tuple[str, str]:
    """Run kcat to its end: its output and its complaints."""
    done = subprocess.run(
        [KCAT, *place(ctx), *arguments],
        input=stdin.encode(),
        capture_output=True,
        timeout=ctx.left,
        check=False,
    )
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if ok:
        check(done.returncode == 0, f"kcat {' '.join(arguments)} ended with {done.returncode}: {err}")
    else:
        check(done.returncode != 0, f"kcat {' '.join(arguments)} should have failed: {out} {err}")
    return out, err


def produce(ctx: Context, topic: str, lines: list[str], *arguments: str, ok: bool = True) -> str:
    return run(ctx, "-P", "-t", topic, *arguments, stdin="".join(f"{line}\n" for line in lines), ok=ok)[1]


def read(ctx: Context, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """Everything up to the end of the partitions, as kcat's JSON."""
    out = run(ctx, "-C", "-t", topic, "-e", "-J", *arguments)[0]
    return [json.loads(line) for line in out.splitlines()]


class Running:
    """A kcat that goes on reading; its lines are gathered in a file."""

    def __init__(self, ctx: Context, *arguments: str) -> None:
        self.out = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.err = tempfile.NamedTemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [KCAT, *place(ctx), *arguments],
            stdout=self.out,
            stderr=self.err,
            stdin=subprocess.DEVNULL,
        )
        ctx.closing(self.process.kill)

    def lines(self) -> list[str]:
        return Path(self.out.name).read_text().splitlines()

    def complaints(self) -> str:
        return Path(self.err.name).read_text()

    def assigned(self) -> int:
        """Partitions of the last assignment that kcat has announced: `... assigned: t [0], t [1]`."""
        last = [line for line in self.complaints().splitlines() if "rebalanced" in line]
        return last[-1].count("[") if last and "assigned" in last[-1] else 0

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def member(ctx: Context, group: str, topic: str, *arguments: str) -> Running:
    options = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=500"]
    return Running(ctx, "-G", group, "-u", "-f", "%s\\n", *options, *arguments, topic)
