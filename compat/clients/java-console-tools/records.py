"""Console tools that make topics, write, read and measure."""

from __future__ import annotations

import json
import re
import tempfile

from common import CODECS, Context, case, check, same
from confluent_kafka import Producer
from security import librdkafka
from tools import consume, create, offsets, produce, table, tool


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
def kafka_transactions(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, "a")
    rows = table(tool(ctx, "transactions", "describe-producers", "--topic", topic, "--partition", "0").out)
    same([row["LastSequence"] for row in rows], ["0"], "last sequences")


@case
def kafka_transactions_open(ctx: Context) -> None:
    topic, name = create(ctx), ctx.name("x")
    # none of the tools leaves a transaction open
    producer = Producer({**librdkafka(ctx.bootstrap), "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(10)
    place = ["--topic", topic, "--partition", "0"]
    listed = {
        row["TransactionalId"]: row["TransactionState"]
        for row in table(tool(ctx, "transactions", "list").out)
    }
    same(listed.get(name), "Ongoing", "list")
    (row,) = table(tool(ctx, "transactions", "describe", "--transactional-id", name).out)
    same((row["TransactionState"], row["TopicPartitions"]), ("Ongoing", f"{topic}-0"), "describe")
    (row,) = table(tool(ctx, "transactions", "describe-producers", *place).out)
    same(row["CurrentTransactionStartOffset"], "0", "describe-producers")
    hanging = tool(ctx, "transactions", "find-hanging", *place).out
    check(topic not in hanging, f"find-hanging says {hanging}")
    # of all topics there are, internal ones too
    everywhere = tool(ctx, "transactions", "find-hanging", "--broker-id", "1")
    same("ERROR" in everywhere.out + everywhere.err, False, "find-hanging of a broker")
    tool(ctx, "transactions", "abort", *place, "--start-offset", "0")
    (row,) = table(tool(ctx, "transactions", "describe", "--transactional-id", name).out)
    same(row["TransactionState"], "CompleteAbort", "after abort")


@case
def kafka_verifiable_clients(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    tool(ctx, "verifiable-producer", "--topic", topic, "--max-messages", "5")
    same(offsets(ctx, "--topic", topic), [f"{topic}:0:5"], "records")
    options = ["--topic", topic, "--group-id", group, "--max-messages", "5", "--reset-policy", "earliest"]
    events = [json.loads(line) for line in tool(ctx, "verifiable-consumer", *options).out.splitlines()]
    same(sum(event["count"] for event in events if event["name"] == "records_consumed"), 5, "consumed")
    check(any(event["name"] == "offsets_committed" and event["success"] for event in events), "no commit")
