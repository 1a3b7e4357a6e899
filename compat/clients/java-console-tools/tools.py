"""Kafka's console tools, run in one JVM by ToolHost.java: how a case calls them and reads what they print."""

from __future__ import annotations

import atexit
import base64
import itertools
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from common import Context, check
from security import java, java_options

TOOLS = "org.apache.kafka.tools."
MAINS = {
    "topics": TOOLS + "TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "groups": TOOLS + "GroupsCommand",
    "consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "share-groups": TOOLS + "consumer.group.ShareGroupCommand",
    "console-producer": TOOLS + "ConsoleProducer",
    "console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "get-offsets": TOOLS + "GetOffsetShell",
    "delete-records": TOOLS + "DeleteRecordsCommand",
    "producer-perf-test": TOOLS + "ProducerPerformance",
    "consumer-perf-test": TOOLS + "ConsumerPerformance",
    "e2e-latency": TOOLS + "EndToEndLatency",
    "log-dirs": TOOLS + "LogDirsCommand",
    "broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "cluster": TOOLS + "ClusterTool",
    "features": TOOLS + "FeatureCommand",
    "leader-election": TOOLS + "LeaderElectionCommand",
    "metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "transactions": TOOLS + "TransactionsCommand",
    "verifiable-producer": TOOLS + "VerifiableProducer",
    "verifiable-consumer": TOOLS + "VerifiableConsumer",
    "console-share-consumer": TOOLS + "consumer.ConsoleShareConsumer",
    "verifiable-share-consumer": TOOLS + "VerifiableShareConsumer",
    "share-consumer-perf-test": TOOLS + "ShareConsumerPerformance",
    "acls": TOOLS + "AclCommand",
    "client-metrics": TOOLS + "ClientMetricsCommand",
    "streams-application-reset": TOOLS + "StreamsResetter",
}


class Output(NamedTuple):
    code: int
    out: str
    err: str


class Host:
    """The JVM; `call` may be used from several threads."""

    def __init__(self, java: str, jars: str) -> None:
        here = Path(__file__).with_name("ToolHost.java")
        options = [
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xmx384m",
            *java_options(),
            "-cp",
            f"{jars}/*",
        ]
        self._process = subprocess.Popen(
            [java, *options, here], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._process.kill)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[threading.Event, list[str]]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, main_class: str, arguments: list[str], stdin: str, timeout: float) -> Output:
        number, event, answer = str(next(self._numbers)), threading.Event(), list[str]()
        self._waiting[number] = (event, answer)
        given = base64.b64encode(stdin.encode()).decode()
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write("\x1f".join([number, main_class, given, *arguments]) + "\n")
            self._process.stdin.flush()
        check(event.wait(timeout), f"{main_class} {' '.join(arguments)} did not end in {timeout:.0f} s")
        code, out, err = answer
        return Output(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, *answer = line.rstrip("\n").split("\x1f")
            event, place = self._waiting.pop(number)
            place += answer
            event.set()


_host: Host


def start(java: str, jars: str) -> None:
    """Start the JVM that `tool` uses from then on."""
    global _host
    _host = Host(java, jars)


def _config(ctx: Context) -> list[str]:
    """The argument with a file of properties, where there is something to be said of TLS and logins."""
    if not java():
        return []
    if "config" not in ctx.shared:
        file = tempfile.NamedTemporaryFile("w", suffix=".properties")  # noqa: SIM115 (closed with the case)
        ctx.closing(file.close)
        file.write("".join(f"{name}={value}\n" for name, value in java().items()))
        file.flush()
        ctx.shared["config"] = file
    return ["--command-config", ctx.shared["config"].name]


def tool(ctx: Context, name: str, *arguments: str, stdin: str = "", code: int = 0) -> Output:
    """Run kafka-<name>.sh against the server; fails when it ends with another code."""
    place = ["--bootstrap-server", ctx.bootstrap, *_config(ctx)]
    # The tools with a verb take the address after it.
    given = [arguments[0], *place, *arguments[1:]] if name in ("cluster",) else [*place, *arguments]
    done = _host.call(MAINS[name], given, stdin, ctx.left)
    check(
        done.code == code, f"kafka-{name} {' '.join(arguments)} ended with {done.code}: {done.out} {done.err}"
    )
    return done


def create(ctx: Context, partitions: int = 1, *configs: str) -> str:
    topic = ctx.name()
    options = [part for config in configs for part in ("--config", config)]
    tool(ctx, "topics", "--create", "--topic", topic, "--partitions", str(partitions), *options)
    for _ in ctx.wait("the topic to be known"):
        if topic in tool(ctx, "topics", "--list").out.split():
            return topic
    raise AssertionError("unreachable")


def produce(ctx: Context, topic: str, *lines: str, options: tuple[str, ...] = ()) -> None:
    tool(ctx, "console-producer", "--topic", topic, *options, stdin="".join(f"{line}\n" for line in lines))


def consume(ctx: Context, topic: str, count: int, *options: str) -> list[str]:
    wanted = ["--max-messages", str(count), "--timeout-ms", "15000"]
    return tool(ctx, "console-consumer", "--topic", topic, *wanted, *options).out.splitlines()


def offsets(ctx: Context, *arguments: str) -> list[str]:
    return sorted(tool(ctx, "get-offsets", *arguments).out.split())


def table(text: str) -> list[dict[str, str]]:
    """The rows of a tool's table whose values hold no spaces."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return [dict(zip(lines[0], row, strict=False)) for row in lines[1:]]


def first_error(done: Output) -> str:
    lines = [line for line in (done.out + done.err).splitlines() if "Exception" in line or "rror" in line]
    return lines[0].strip() if lines else f"ended with {done.code}"
