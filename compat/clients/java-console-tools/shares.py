"""Console tools for share groups."""

from __future__ import annotations

import json
import re
import threading

from common import Context, case, check, same
from tools import Output, create, produce, table, tool


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

    def read() -> None:
        # a member until there is a second message
        limits = ("--max-messages", "2", "--timeout-ms", "60000")
        tool(ctx, "console-share-consumer", "--topic", topic, "--group", group, *limits)

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
    produce(ctx, topic, "b")
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
