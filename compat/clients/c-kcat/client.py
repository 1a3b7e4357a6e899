"""kcat: drives the program kcat. Topics with more than one partition are made with confluent-kafka."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import NewPartitions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from base import KCAT, Running, admin, create, member, produce, read, run
from common import Context, case, check, codec_cases, main, restart_case, same


def values(count: int) -> list[str]:
    return [f"value-{n} {'x' * 80}" for n in range(count)]


@codec_cases
def produce_and_read(ctx: Context, codec: str) -> None:
    topic = create(ctx)
    produce(ctx, topic, values(500), *([] if codec == "none" else ["-z", codec]), "-X", "acks=all")
    same([m["payload"] for m in read(ctx, topic)], values(500), "values")


@case
def acks(ctx: Context) -> None:
    topic = create(ctx)
    for level in ("0", "1"):
        produce(ctx, topic, values(50), "-X", f"acks={level}")
    same(len(read(ctx, topic)), 100, "records")


@case
def headers(ctx: Context) -> None:
    topic = create(ctx)
    produce(
        ctx, topic, ["v"], "-H", "trace=1", "-H", "twice=1", "-H", "twice=2", "-H", "null", "-H", "empty="
    )
    expected = ["trace", "1", "twice", "1", "twice", "2", "null", None, "empty", ""]
    same(read(ctx, topic)[0]["headers"], expected, "headers")


@case
def null_key_and_value(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, ["k:v", ":no key", "no value:", ":"], "-K", ":", "-Z")
    produce(ctx, topic, ["e:"], "-K", ":")
    got = [(m["key"], m["payload"]) for m in read(ctx, topic)]
    same(got, [("k", "v"), (None, "no key"), ("no value", None), (None, None), ("e", "")], "records")


@case
def timestamps(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, ["v"])
    message = read(ctx, topic)[0]
    same(message["tstype"], "create", "timestamp type")
    check(message["ts"] > 1_600_000_000_000, f"timestamp {message['ts']}")


@case
def auto_create_topic(ctx: Context) -> None:
    topic = ctx.name()
    produce(ctx, topic, values(10))
    same(len(read(ctx, topic)), 10, "records")


@case
def many_partitions(ctx: Context) -> None:
    topic = create(ctx, 60)
    produce(ctx, topic, [f"key-{n}:{n}" for n in range(1200)], "-K", ":")
    got = read(ctx, topic)
    same({int(m["payload"]) for m in got}, set(range(1200)), "values")
    same({m["partition"] for m in got}, set(range(60)), "partitions")


@case
def large_message(ctx: Context) -> None:
    topic = create(ctx)
    big = "x" * 1_000_000
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(big)
        file.flush()
        run(ctx, "-P", "-t", topic, "-X", "message.max.bytes=1048000", file.name)
    same(read(ctx, topic)[0]["payload"] == big, True, "1 MB message equal")


@case
def compacted_topic(ctx: Context) -> None:
    topic = create(ctx, cleanup__policy="compact")
    produce(ctx, topic, ["a:1", "b:2", "a:"], "-K", ":", "-Z")
    got = [(m["key"], m["payload"]) for m in read(ctx, topic)]
    same(got[-1], ("a", None), "tombstone")


@case
def consume_by_assignment(ctx: Context) -> None:
    topic = create(ctx, 3)
    for p in range(3):
        produce(ctx, topic, values(20), "-p", str(p))
    got = read(ctx, topic, "-p", "2", "-o", "beginning")
    same([(m["partition"], m["offset"]) for m in got], [(2, n) for n in range(20)], "partition and offsets")


@case
def consume_by_group(ctx: Context) -> None:
    topic = create(ctx, 3)
    produce(ctx, topic, values(300))
    reader = member(ctx, ctx.name("g"), topic)
    for _ in ctx.wait("300 records"):
        if len(reader.lines()) == 300:
            break
    same(sorted(reader.lines()), sorted(values(300)), "values")


@case
def subscribe_pattern(ctx: Context) -> None:
    prefix = ctx.name()
    for suffix in ("one", "two"):
        produce(ctx, f"{prefix}.{suffix}", [suffix])
    reader = member(ctx, ctx.name("g"), f"^{prefix}\\..*", "-X", "topic.metadata.refresh.interval.ms=500")
    for _ in ctx.wait("both topics"):
        if set(reader.lines()) == {"one", "two"}:
            break
    produce(ctx, f"{prefix}.three", ["three"])
    for _ in ctx.wait("the later topic"):
        if "three" in reader.lines():
            break


@case
def seek_into_batch(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, values(100), "-z", "lz4", "-X", "linger.ms=200")
    same([m["offset"] for m in read(ctx, topic, "-o", "57")], list(range(57, 100)), "offsets")
    same([m["offset"] for m in read(ctx, topic, "-o", "-3")], [97, 98, 99], "the last three")


@case
def seek_by_time(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, ["one"])
    stamp = read(ctx, topic)[0]["ts"]
    for _ in ctx.wait("a later millisecond"):
        produce(ctx, topic, ["two"])
        later = read(ctx, topic)[-1]["ts"]
        if later > stamp:
            break
    first = next(m for m in read(ctx, topic) if m["ts"] > stamp)
    found = run(ctx, "-Q", "-t", f"{topic}:0:{stamp + 1}")[0]
    same(found.strip(), f"{topic} [0] offset {first['offset']}", "offset for a time")
    same(read(ctx, topic, "-o", f"s@{stamp + 1}")[0]["offset"], first["offset"], "first record from a time")


@case
def beginning_and_end_offsets(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, values(25))
    out = run(ctx, "-Q", "-t", f"{topic}:0:-1", "-t", f"{topic}:0:-2", ok=True)[0]
    check("offset" in out, out)
    same(run(ctx, "-Q", "-t", f"{topic}:0:-1")[0].strip(), f"{topic} [0] offset 25", "end")
    same(run(ctx, "-Q", "-t", f"{topic}:0:-2")[0].strip(), f"{topic} [0] offset 0", "beginning")


@case
def empty_poll(ctx: Context) -> None:
    topic = create(ctx)
    same(read(ctx, topic), [], "records of an empty topic")
    reader = Running(ctx, "-C", "-t", topic, "-u", "-f", "%s\\n")
    produce(ctx, topic, ["later"])
    for _ in ctx.wait("the record"):
        if reader.lines() == ["later"]:
            break


@case
def read_committed(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, values(100), "-X", "enable.idempotence=true")
    same(len(read(ctx, topic, "-X", "isolation.level=read_committed")), 100, "records")


def read_some(ctx: Context, group: str, topic: str, count: int, *arguments: str) -> list[str]:
    """So many records as a group member that commits when it ends."""
    options = ["-X", "auto.offset.reset=earliest", "-f", "%o\\n", "-c", str(count), *arguments]
    return run(ctx, "-G", group, "-q", *options, topic)[0].split()


@case
def commit_and_resume(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, values(100))
    same(read_some(ctx, group, topic, 30), [str(n) for n in range(30)], "offsets")
    same(read_some(ctx, group, topic, 70), [str(n) for n in range(30, 100)], "offsets after resume")


@case
def auto_commit(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, values(10))
    reader = member(ctx, group, topic, "-X", "auto.commit.interval.ms=100")
    for _ in ctx.wait("the records"):
        if len(reader.lines()) == 10:
            break
    reader.stop()
    produce(ctx, topic, ["new"])
    same(read_some(ctx, group, topic, 1), ["10"], "the next offset")


def settle(ctx: Context, members: list[Running], counts: list[int]) -> None:
    for _ in ctx.wait(f"shares of {counts}"):
        if sorted(m.assigned() for m in members) == sorted(counts):
            return


def rebalance(ctx: Context, strategy: str) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    option = f"partition.assignment.strategy={strategy}"
    first = member(ctx, group, topic, "-X", option)
    settle(ctx, [first], [4])
    second = member(ctx, group, topic, "-X", option)
    settle(ctx, [first, second], [2, 2])
    first.stop()
    settle(ctx, [second], [4])


@case
def rebalance_eager(ctx: Context) -> None:
    rebalance(ctx, "range")


@case
def static_membership(ctx: Context) -> None:
    topic, group = create(ctx, 4), ctx.name("g")
    one = member(ctx, group, topic, "-X", "group.instance.id=one")
    two = member(ctx, group, topic, "-X", "group.instance.id=two")
    settle(ctx, [one, two], [2, 2])
    changes = one.complaints().count("rebalanced")
    two.stop()
    again = member(ctx, group, topic, "-X", "group.instance.id=two")
    settle(ctx, [one, again], [2, 2])
    same(one.complaints().count("rebalanced"), changes, "rebalances of the other member")


@case
def new_partitions_in_group(ctx: Context) -> None:
    topic = create(ctx)
    reader = member(ctx, ctx.name("g"), topic, "-X", "topic.metadata.refresh.interval.ms=500")
    settle(ctx, [reader], [1])
    admin(ctx).create_partitions([NewPartitions(topic, 3)])[topic].result(ctx.left)
    settle(ctx, [reader], [3])


@restart_case
def restart_resume_group(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    produce(ctx, topic, values(100), "-z", "zstd")
    read_some(ctx, group, topic, 40)
    ctx.restart()
    same(read_some(ctx, group, topic, 60), [str(n) for n in range(40, 100)], "offsets after the restart")
    same([m["payload"] for m in read(ctx, topic)], values(100), "values from the beginning")


@case
def error_unknown_topic(ctx: Context) -> None:
    topic = ctx.name()
    complaint = run(ctx, "-C", "-t", topic, "-e", ok=False)[1]
    check("Unknown topic or partition" in complaint, complaint)


@case
def error_message_too_large(ctx: Context) -> None:
    topic = create(ctx, max__message__bytes=2000)
    complaint = produce(ctx, topic, ["x" * 10_000], ok=False)
    check("Message size too large" in complaint, complaint)


@case
def error_offset_out_of_range(ctx: Context) -> None:
    topic = create(ctx)
    produce(ctx, topic, values(10))
    complaint = run(ctx, "-C", "-t", topic, "-o", "1000", "-X", "topic.auto.offset.reset=error", ok=False)[1]
    check("Offset out of range" in complaint, complaint)


@case
def error_no_key_on_compacted(ctx: Context) -> None:
    complaint = produce(ctx, create(ctx, cleanup__policy="compact"), ["no key"], ok=False)
    check("Broker failed to validate record" in complaint, complaint)


@case
def error_fenced_instance(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    first = member(ctx, group, topic, "-X", "group.instance.id=same")
    settle(ctx, [first], [1])
    member(ctx, group, topic, "-X", "group.instance.id=same")
    for _ in ctx.wait("the first to end"):
        if first.process.poll() is not None:
            break
    check("fenced" in first.complaints(), first.complaints())


@case
def error_inconsistent_protocol(ctx: Context) -> None:
    topic, group = create(ctx), ctx.name("g")
    settle(ctx, [member(ctx, group, topic, "-X", "partition.assignment.strategy=range")], [1])
    other = member(ctx, group, topic, "-X", "partition.assignment.strategy=roundrobin")
    for _ in ctx.wait("the refusal"):
        if "nconsistent group protocol" in other.complaints():
            break


if __name__ == "__main__":
    about = subprocess.run([KCAT, "-V"], capture_output=True, text=True, check=True).stdout
    numbers = re.findall(r"(?:Version|librdkafka) (\S+)", about)
    main("c-kcat", f"{numbers[0]} (librdkafka {numbers[-1]})")
