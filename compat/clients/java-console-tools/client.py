"""Kafka's console tools, run in one JVM by ToolHost.java, their output checked as a person would read it."""

from __future__ import annotations

import atexit
import base64
import itertools
import json
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import CODECS, Context, case, check, main, same

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
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx384m", "-cp", f"{jars}/*"]
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


HOST: Host


def tool(ctx: Context, name: str, *arguments: str, stdin: str = "", code: int = 0) -> Output:
    """Run kafka-<name>.sh against the server; fails when it ends with another code."""
    place = ["--bootstrap-server", ctx.bootstrap]
    # The tools with a verb take the address after it.
    given = [arguments[0], *place, *arguments[1:]] if name in ("cluster",) else [*place, *arguments]
    done = HOST.call(MAINS[name], given, stdin, ctx.left)
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


@case
def kafka_topics(ctx: Context) -> None:
    topic = create(ctx, 2, "retention.ms=5000")
    lines = tool(ctx, "topics", "--describe", "--topic", topic).out.splitlines()
    check(re.search(r"TopicId: \S{22}\s+PartitionCount: 2\s+ReplicationFactor: 1", lines[0]), lines[0])
    check("retention.ms=5000" in lines[0], lines[0])
    same(len(lines), 3, "lines")
    check(all("Leader: none" not in line and "Isr: " in line for line in lines[1:]), "leaders")
    tool(ctx, "topics", "--create", "--topic", topic, "--if-not-exists")
    check("already exists" in tool(ctx, "topics", "--create", "--topic", topic, code=1).out, "error: exists")
    bad = tool(ctx, "topics", "--create", "--topic", "no good", code=1).out
    check("InvalidTopicException" in bad and "'no good'" in bad, f"error: name: {bad}")
    tool(ctx, "topics", "--alter", "--topic", topic, "--partitions", "3")
    for _ in ctx.wait("three partitions"):
        if "PartitionCount: 3" in tool(ctx, "topics", "--describe", "--topic", topic).out:
            break
    tool(ctx, "topics", "--alter", "--topic", topic, "--partitions", "1", code=1)
    found = tool(ctx, "topics", "--describe", "--topics-with-overrides", "--topic", topic).out
    check("retention.ms=5000" in found, "topics with overrides")
    same(
        tool(ctx, "topics", "--describe", "--unavailable-partitions", "--topic", topic).out.strip(),
        "",
        "away",
    )
    tool(ctx, "topics", "--delete", "--topic", topic)
    for _ in ctx.wait("the topic to go"):
        if topic not in tool(ctx, "topics", "--list").out.split():
            break
    check(
        "does not exist" in tool(ctx, "topics", "--describe", "--topic", topic, code=1).out, "error: unknown"
    )


@case
def kafka_configs(ctx: Context) -> None:
    topic = create(ctx)
    entity = ["--entity-type", "topics", "--entity-name", topic]
    changes = ["--add-config", "max.message.bytes=9000,cleanup.policy=[compact,delete]"]
    check("Completed" in tool(ctx, "configs", "--alter", *entity, *changes).out, "alter")

    def described() -> str:
        return tool(ctx, "configs", "--describe", *entity).out

    for _ in ctx.wait("the values"):
        if "max.message.bytes=9000" in described() and "cleanup.policy=compact,delete" in described():
            break
    check("DYNAMIC_TOPIC_CONFIG:max.message.bytes=9000" in described(), "synonyms")
    tool(ctx, "configs", "--alter", *entity, "--delete-config", "max.message.bytes")
    for _ in ctx.wait("the default"):
        if "max.message.bytes" not in described():
            break
    everything = tool(ctx, "configs", "--describe", *entity, "--all").out
    check("retention.ms=604800000" in everything, "all configs")
    bad = tool(ctx, "configs", "--alter", *entity, "--add-config", "retention.ms=soon", code=1)
    check("retention.ms" in bad.out + bad.err, "error: bad value")
    node = re.search(r"\(id: (\d+)", tool(ctx, "broker-api-versions").out)
    assert node is not None
    broker = tool(ctx, "configs", "--describe", "--broker", node[1], "--all").out
    check("num.partitions=" in broker and "auto.create.topics.enable=" in broker, "broker configs")
    tool(ctx, "configs", "--describe", "--broker-defaults")


@case
def kafka_console_producer_consumer(ctx: Context) -> None:
    topic, group = create(ctx, 2), ctx.name("g")
    reader = ("parse.key=true", "parse.headers=true", "key.separator=:", "null.marker=NULL")
    options = tuple(part for option in reader for part in ("--reader-property", option))
    produce(ctx, topic, "h1:v1,h2:v2\tk:v", "a:b\tk2:NULL", options=options)
    shown = ("print.key=true", "print.headers=true", "print.timestamp=true")
    formatter = [part for option in shown for part in ("--formatter-property", option)]
    lines = consume(ctx, topic, 2, "--from-beginning", "--group", group, *formatter)
    text = sorted(line.split("\t", 1)[1] for line in lines)
    same(text, ["a:b\tk2\tnull", "h1:v1,h2:v2\tk\tv"], "records")
    check(all(re.match(r"CreateTime:\d{13}\t", line) for line in lines), "timestamps")
    produce(ctx, topic, "after")
    same(consume(ctx, topic, 1, "--group", group), ["after"], "what the group reads next")
    one = create(ctx)
    produce(ctx, one, "a", "b", "c")
    same(consume(ctx, one, 1, "--partition", "0", "--offset", "1"), ["b"], "by partition and offset")
    committed = ("--isolation-level", "read_committed", "--from-beginning")
    same(consume(ctx, one, 3, *committed), ["a", "b", "c"], "read committed")
    pattern = [
        "--include",
        re.escape(one),
        "--from-beginning",
        "--max-messages",
        "3",
        "--timeout-ms",
        "15000",
    ]
    same(tool(ctx, "console-consumer", *pattern).out.split(), ["a", "b", "c"], "by pattern")


@case
def kafka_console_compression(ctx: Context) -> None:
    topic = create(ctx)
    for codec in CODECS:
        produce(ctx, topic, codec, options=("--compression-codec", codec))
    same(consume(ctx, topic, len(CODECS), "--from-beginning"), list(CODECS), "records")


@case
def kafka_consumer_groups(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, "a", "b", "c")
    consume(ctx, topic, 3, "--from-beginning", "--group", group)

    def groups(*arguments: str, code: int = 0) -> Output:
        return tool(ctx, "consumer-groups", *arguments, code=code)

    check(group in groups("--list").out.split(), "list")
    states = {row["GROUP"]: row["STATE"] for row in table(groups("--list", "--state").out)}
    same(states[group], "Empty", "state in the list")
    row = table(groups("--describe", "--group", group).out)[0]
    same((row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]), ("3", "3", "0"), "offsets and lag")
    check("Empty" in groups("--describe", "--group", group, "--state").out, "state")
    groups("--describe", "--group", group, "--members", "--verbose")
    reset = ["--reset-offsets", "--group", group, "--topic", topic]
    for how, expected in (
        (["--to-earliest"], "0"),
        (["--shift-by", "1"], "1"),
        (["--to-offset", "2"], "2"),
        (["--to-latest"], "3"),
        (["--by-duration", "PT1H"], "0"),
        (["--to-datetime", "2000-01-01T00:00:00.000"], "0"),
    ):
        done = table(groups(*reset, *how, "--execute").out)[0]
        same(done["NEW-OFFSET"], expected, f"offset after {how[0]}")
    same(table(groups("--describe", "--group", group).out)[0]["LAG"], "3", "lag after the resets")
    check(
        "Successful" in groups("--delete-offsets", "--group", group, "--topic", topic).out, "delete offsets"
    )
    check("was successful" in groups("--delete", "--group", group).out, "delete")
    check("not found" in groups("--describe", "--group", group).out, "error: unknown group")
    check(
        "GroupIdNotFound" in groups("--delete", "--group", group, code=0).out, "error: delete unknown group"
    )


@case
def kafka_groups(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, "a")
    consume(ctx, topic, 1, "--from-beginning", "--group", group)
    rows = {row["GROUP"]: row for row in table(tool(ctx, "groups", "--list").out)}
    same((rows[group]["TYPE"], rows[group]["PROTOCOL"]), ("Classic", "consumer"), "type and protocol")
    check(group in tool(ctx, "groups", "--list", "--group-type", "classic").out, "by type")


@case
def kafka_get_offsets(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, "a", "b")
    same(offsets(ctx, "--topic", topic), [f"{topic}:0:2"], "latest")
    same(offsets(ctx, "--topic", topic, "--time", "earliest"), [f"{topic}:0:0"], "earliest")
    found = offsets(ctx, "--topic", topic, "--time", "max-timestamp")
    check(found[0] in (f"{topic}:0:0", f"{topic}:0:1"), f"max timestamp: {found}")
    same(offsets(ctx, "--topic", topic, "--time", "1000"), [f"{topic}:0:0"], "by time")
    same(offsets(ctx, "--topic-partitions", f"{topic}:0"), [f"{topic}:0:2"], "by partition")
    same(offsets(ctx, "--topic", f"{re.escape(topic)}.*"), [f"{topic}:0:2"], "by pattern")
    tool(ctx, "get-offsets", "--topic", ctx.name(), code=1)


@case
def kafka_delete_records(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, "a", "b", "c")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}, file)
        file.flush()
        done = tool(ctx, "delete-records", "--offset-json-file", file.name)
    check("low_watermark: 2" in done.out, done.out)
    same(offsets(ctx, "--topic", topic, "--time", "earliest"), [f"{topic}:0:2"], "earliest")


@case
def kafka_producer_perf_test(ctx: Context) -> None:
    topic = create(ctx, 3)
    load = ["--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    done = tool(ctx, "producer-perf-test", *load, "--command-property", "compression.type=lz4", "acks=all")
    check("5000 records sent" in done.out, done.out)
    same(sum(int(line.split(":")[2]) for line in offsets(ctx, "--topic", topic)), 5000, "records")


@case
def kafka_consumer_perf_test(ctx: Context) -> None:
    topic = create(ctx, 3)
    load = ["--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    tool(ctx, "producer-perf-test", *load)
    done = tool(ctx, "consumer-perf-test", "--topic", topic, "--num-records", "5000", "--timeout", "15000")
    row = done.out.splitlines()[1].split(", ")
    check(int(row[4]) >= 5000, done.out)


@case
def kafka_e2e_latency(ctx: Context) -> None:
    options = [
        "--topic",
        create(ctx),
        "--num-records",
        "20",
        "--record-size",
        "100",
        "--producer-acks",
        "all",
    ]
    check("Avg latency" in tool(ctx, "e2e-latency", *options).out, "no average")


@case
def kafka_log_dirs(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, "a")
    found = json.loads(tool(ctx, "log-dirs", "--describe", "--topic-list", topic).out.splitlines()[-1])
    folders = found["brokers"][0]["logDirs"]
    check(all(folder["error"] is None for folder in folders), f"{folders}")
    same([p["partition"] for folder in folders for p in folder["partitions"]], [f"{topic}-0"], "partitions")


@case
def kafka_broker_api_versions(ctx: Context) -> None:
    text = tool(ctx, "broker-api-versions").out
    check(text.startswith(ctx.bootstrap), text[:200])
    for api in ("Produce(0): 0 to ", "Fetch(1): 4 to ", "Metadata(3): 0 to "):
        check(api in text, f"{api} is missing")


@case
def kafka_cluster(ctx: Context) -> None:
    check(re.search(r"Cluster ID: \S+", tool(ctx, "cluster", "cluster-id").out), "no cluster id")
    text = tool(ctx, "cluster", "list-endpoints").out
    host, port = ctx.bootstrap.rsplit(":", 1)
    check(host in text and port in text, text)


@case
def kafka_features(ctx: Context) -> None:
    tool(ctx, "features", "describe")


@case
def kafka_transactions(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, "a")
    rows = table(tool(ctx, "transactions", "describe-producers", "--topic", topic, "--partition", "0").out)
    same([row["LastSequence"] for row in rows], ["0"], "last sequences")


@case
def kafka_verifiable_clients(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    tool(ctx, "verifiable-producer", "--topic", topic, "--max-messages", "5")
    same(offsets(ctx, "--topic", topic), [f"{topic}:0:5"], "records")
    options = ["--topic", topic, "--group-id", group, "--max-messages", "5", "--reset-policy", "earliest"]
    events = [json.loads(line) for line in tool(ctx, "verifiable-consumer", *options).out.splitlines()]
    same(sum(event["count"] for event in events if event["name"] == "records_consumed"), 5, "consumed")
    check(any(event["name"] == "offsets_committed" and event["success"] for event in events), "no commit")


@case
def kafka_acls(ctx: Context) -> None:
    done = tool(ctx, "acls", "--list", code=1)
    check("TimeoutException" not in done.out, done.out)
    if "SecurityDisabledException" not in done.out:  # what Apache Kafka says without an authorizer
        ctx.refused = first_error(done)


@case
def kafka_client_metrics(ctx: Context) -> None:
    refusable(ctx, "client-metrics", "--list")


@case
def kafka_streams_application_reset(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, "a", "b")
    consume(ctx, topic, 2, "--from-beginning", "--group", group)
    tool(ctx, "streams-application-reset", "--application-id", group, "--input-topics", topic)
    row = table(tool(ctx, "consumer-groups", "--describe", "--group", group).out)[0]
    same(row["CURRENT-OFFSET"], "0", "offset after the reset")


def share_group(ctx: Context, *configs: str) -> str:
    """A share group's name; it begins with the earliest record. `configs` are given to kafka-configs."""
    group = ctx.name("g")
    wanted = ["share.auto.offset.reset=earliest", *configs]
    entity = ["--entity-type", "groups", "--entity-name", group]
    tool(ctx, "configs", "--alter", *entity, "--add-config", ",".join(wanted))
    for _ in ctx.wait("the group's configs"):
        if all(config in tool(ctx, "configs", "--describe", *entity).out for config in wanted):
            return group
    raise AssertionError("unreachable")


def share(ctx: Context, topic: str, group: str, count: int, *options: str) -> list[str]:
    wanted = ["--max-messages", str(count), "--timeout-ms", "20000"]
    given = ["--topic", topic, "--group", group, *wanted, *options]
    return tool(ctx, "console-share-consumer", *given).out.splitlines()


@case
def kafka_share_groups(ctx: Context) -> None:
    topic, other, group = create(ctx), create(ctx), share_group(ctx)
    produce(ctx, topic, "a", "b", "c")
    produce(ctx, other, "d")
    share(ctx, topic, group, 3)
    share(ctx, other, group, 1)
    produce(ctx, topic, "e", "f")

    def groups(*arguments: str, code: int = 0) -> Output:
        return tool(ctx, "share-groups", *arguments, code=code)

    def lags() -> dict[str, int]:
        rows = table(groups("--describe", "--group", group, "--offsets", "--verbose").out)
        found: dict[str, int] = {}
        for row in rows:
            if row["LAG"] != "-":
                found[row["TOPIC"]] = found.get(row["TOPIC"], 0) + int(row["LAG"])
        return found

    check(group in groups("--list").out.split(), "list")
    for _ in ctx.wait("the group to be empty"):
        states = {row["GROUP"]: row["STATE"] for row in table(groups("--list", "--state").out)}
        if states[group] == "Empty":
            break
    check(group in groups("--list", "--state", "Empty").out.split(), "list by state")
    check(group not in groups("--list", "--state", "Stable").out.split(), "list by another state")
    for _ in ctx.wait("the lag of what came later"):
        if lags() == {topic: 2, other: 0}:
            break
    check("Empty" in groups("--describe", "--group", group, "--state").out, "state")
    check(group in groups("--describe", "--all-groups", "--state").out, "all groups")
    reset = ["--reset-offsets", "--group", group, "--topic", topic]
    for how, expected in (
        (["--to-earliest"], 5),
        (["--to-latest"], 0),
        (["--to-datetime", "2000-01-01T00:00:00.000"], 5),
    ):
        plan = table(groups(*reset, *how, "--dry-run").out)
        same([row["TOPIC"] for row in plan], [topic], f"partitions in the plan of {how[0]}")
        groups(*reset, *how, "--execute")
        for _ in ctx.wait(f"the lag after {how[0]}"):
            if lags() == {topic: expected, other: 0}:
                break
    same(sorted(share(ctx, topic, group, 5)), ["a", "b", "c", "e", "f"], "records from there")
    for _ in ctx.wait("the group to be empty again"):
        if group in groups("--list", "--state", "Empty").out.split():
            break
    check(
        "Successful" in groups("--delete-offsets", "--group", group, "--topic", topic).out, "delete offsets"
    )
    same(set(lags()), {other}, "topics with offsets")
    check("success" in groups("--delete", "--group", group).out, "delete")
    for _ in ctx.wait("the group to go"):
        if group not in groups("--list").out.split():
            break
    said = groups("--describe", "--group", group)  # which ends with 0 whatever happens
    check("not found" in said.out + said.err, f"error: unknown group: {said}")
    said = groups("--delete", "--group", group)
    check("is not a share group" in said.out + said.err, f"error: delete unknown group: {said}")


@case
def kafka_share_group_members(ctx: Context) -> None:
    topic, group = create(ctx, 2), share_group(ctx)
    produce(ctx, topic, "a")
    end = threading.Event()

    def read() -> None:
        while not end.is_set():
            tool(ctx, "console-share-consumer", "--topic", topic, "--group", group, "--timeout-ms", "3000")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for _ in ctx.wait("a member with both partitions"):
        done = tool(ctx, "share-groups", "--describe", "--group", group, "--members", "--verbose")
        if f"{topic}:0,1" in done.out:
            break
    row = table(done.out)[0]
    same(row["GROUP"], group, "group")
    check(row["CONSUMER-ID"] != "-" and "127.0.0.1" in row["HOST"], f"{row}")
    said = tool(ctx, "share-groups", "--delete", "--group", group)
    check("GroupNotEmptyException" in said.out + said.err, f"error: delete with members: {said}")
    end.set()
    reader.join()


@case
def kafka_share_group_configs(ctx: Context) -> None:
    group = ctx.name("g")
    entity = ["--entity-type", "groups", "--entity-name", group]
    changes = "share.record.lock.duration.ms=20000,share.isolation.level=read_committed"
    check("Completed" in tool(ctx, "configs", "--alter", *entity, "--add-config", changes).out, "alter")

    def described(*options: str) -> str:
        return tool(ctx, "configs", "--describe", *entity, *options).out

    for _ in ctx.wait("the values"):
        if all(change in described() for change in changes.split(",")):
            break
    everything = described("--all")
    check("share.delivery.count.limit=5" in everything, f"all configs: {everything}")
    tool(ctx, "configs", "--alter", *entity, "--delete-config", "share.isolation.level")
    for _ in ctx.wait("the default"):
        if "share.isolation.level" not in described():
            break
    check("share.record.lock.duration.ms=20000" in described(), "the other config")
    bad = tool(ctx, "configs", "--alter", *entity, "--add-config", "share.isolation.level=some", code=1)
    check("share.isolation.level" in bad.out + bad.err, f"error: bad value: {bad}")
    tool(ctx, "configs", "--describe", "--entity-type", "groups")


@case
def kafka_console_share_consumer(ctx: Context) -> None:
    topic, group = create(ctx), share_group(ctx)
    reader = ("parse.key=true", "parse.headers=true", "key.separator=:", "null.marker=NULL")
    options = tuple(part for option in reader for part in ("--reader-property", option))
    produce(ctx, topic, "h1:v1,h2:v2\tk:v", "a:b\tk2:NULL", options=options)
    shown = ("print.key=true", "print.headers=true", "print.delivery=true", "print.offset=true")
    formatter = [part for option in shown for part in ("--formatter-property", option)]
    first = share(ctx, topic, group, 2, "--release", *formatter)
    same(
        first,
        ["Offset:0\tDelivery:1\th1:v1,h2:v2\tk\tv", "Offset:1\tDelivery:1\ta:b\tk2\tnull"],
        "released",
    )
    again = share(ctx, topic, group, 2, "--reject", *formatter)
    check(all(re.search(r"Delivery:[23]\t", line) for line in again), f"{again}")
    produce(ctx, topic, "after")
    same(share(ctx, topic, group, 1), ["after"], "what comes after the rejected ones")


@case
def kafka_verifiable_share_consumer(ctx: Context) -> None:
    topic = create(ctx)
    tool(ctx, "verifiable-producer", "--topic", topic, "--max-messages", "20")
    for mode in ("auto", "sync", "async"):
        options = ["--topic", topic, "--group-id", ctx.name("g"), "--max-messages", "20"]
        options += ["--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest"]
        out = tool(ctx, "verifiable-share-consumer", *options).out
        events = [json.loads(line) for line in out.splitlines()]
        got = sum(event["count"] for event in events if event["name"] == "records_consumed")
        same(got, 20, f"consumed with {mode}")
        told = [event for event in events if event["name"] == "offsets_acknowledged"]
        check(told and all(event["success"] for event in told), f"acknowledged with {mode}: {told}")


@case
def kafka_share_consumer_perf_test(ctx: Context) -> None:
    topic, group = create(ctx, 3), share_group(ctx)
    load = ["--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"]
    tool(ctx, "producer-perf-test", *load)
    options = [
        "--topic",
        topic,
        "--group",
        group,
        "--num-records",
        "5000",
        "--threads",
        "2",
        "--timeout",
        "15000",
    ]
    done = tool(ctx, "share-consumer-perf-test", *options)
    row = done.out.splitlines()[1].split(", ")
    check(any(float(one) == 5000 for one in row if re.fullmatch(r"[\d.]+", one)), done.out)


def refusable(ctx: Context, name: str, *arguments: str) -> None:
    """Works, or is refused at once in the tool's own words."""
    place = ["--bootstrap-server", ctx.bootstrap]
    done = HOST.call(MAINS[name], [*place, *arguments], "", ctx.left)
    if done.code != 0 or "Exception" in done.out + done.err:
        check("TimeoutException" not in done.out + done.err, first_error(done))
        ctx.refused = first_error(done)


def first_error(done: Output) -> str:
    lines = [line for line in (done.out + done.err).splitlines() if "Exception" in line or "rror" in line]
    return lines[0].strip() if lines else f"ended with {done.code}"


if __name__ == "__main__":
    java, jars = sys.argv.pop(1), sys.argv.pop(1)
    if "--list" not in sys.argv:
        HOST = Host(java, jars)
    main(
        "java-console-tools",
        re.findall(r"kafka-tools-([\d.]+)\.jar", " ".join(map(str, Path(jars).iterdir())))[0],
    )
