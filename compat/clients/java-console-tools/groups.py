"""Console tools for consumer groups."""

from __future__ import annotations

import json
from typing import Any

from common import Context, case, check, same
from tools import Output, consume, create, produce, table, tool


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
def kafka_streams_application_reset(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, "a", "b")
    consume(ctx, topic, 2, "--from-beginning", "--group", group)
    tool(ctx, "streams-application-reset", "--application-id", group, "--input-topics", topic)
    row = table(tool(ctx, "consumer-groups", "--describe", "--group", group).out)[0]
    same(row["CURRENT-OFFSET"], "0", "offset after the reset")


def objects(text: str) -> list[Any]:
    """What the formatters print: JSON, one object behind the other."""
    found, position, decoder = [], 0, json.JSONDecoder()
    while (position := text.find("{", position)) >= 0:
        one, position = decoder.raw_decode(text, position)
        found.append(one)
    return found


def _hash(name: str) -> int:
    """As Kafka does it: Java's, without the sign."""
    found = 0
    for unit in name:
        found = (31 * found + ord(unit)) & 0xFFFFFFFF
    return 0 if found == 1 << 31 else min(found, (1 << 32) - found)


@case
def kafka_offsets_topic(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, "a", "b", "c")
    consume(ctx, topic, 3, "--from-beginning", "--group", group)
    formatters = "org.apache.kafka.tools.consumer."
    # the group's own partition: in the others somebody commits all the time
    where = ["--partition", str(_hash(group) % 50), "--offset", "earliest"]
    options = ["--topic", "__consumer_offsets", *where, "--timeout-ms", "3000", "--formatter"]
    text = tool(ctx, "console-consumer", *options, formatters + "OffsetsMessageFormatter").out
    told = objects(text)
    mine = [each["value"]["data"] for each in told if each["key"]["data"]["group"] == group and each["value"]]
    same(mine[-1]["offset"], 3, "the offset that was committed last")
    text = tool(ctx, "console-consumer", *options, formatters + "GroupMetadataMessageFormatter").out
    check(group in text, "the group")
    listed = tool(ctx, "topics", "--list").out.split()
    check("__consumer_offsets" in listed, f"listed: {listed}")
    hidden = tool(ctx, "topics", "--list", "--exclude-internal").out.split()
    check("__consumer_offsets" not in hidden, "it is internal")
