"""Kafka Connect 4.3 with its file connectors, as its users run them: files, processes and the REST interface."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import Context, case, check, main, restart_case, same
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from security import librdkafka
from topics import compact, entries, messages
from worker import Desk, Worker


def both(desk: Desk, worker: Worker) -> None:
    """Create source and sink through REST and wait until they run."""
    for kind in ("source", "sink"):
        config = desk.connector(kind)
        worker.create(config)
        worker.wait_for_state(config["name"], "RUNNING")


def committed(ctx: Context, topic: str) -> list[str]:
    """The lines in the source's topic, as readers of what is committed have them."""
    return [json.loads(message.value())["payload"] for message in messages(ctx, topic)]


@case
def connect_standalone(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(100)
    worker = desk.standalone()
    desk.wait_for_lines()
    desk.write(100)
    desk.wait_for_lines()
    names = [desk.connector(kind)["name"] for kind in ("sink", "source")]
    same(sorted(worker.ask("GET", "/connectors")), names, "connectors")


@case
def connect_standalone_again(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(50)
    first = desk.standalone()
    desk.wait_for_lines()
    first.stop()
    desk.write(50)
    desk.standalone()
    desk.wait_for_lines()


@case
def connect_distributed(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(100)
    worker = desk.distributed()
    both(desk, worker)
    desk.wait_for_lines()
    sink = desk.connector("sink")["name"]
    worker.ask("PUT", f"/connectors/{sink}/pause")
    worker.wait_for_state(sink, "PAUSED")
    desk.write(50)
    worker.ask("PUT", f"/connectors/{sink}/resume")
    worker.wait_for_state(sink, "RUNNING")
    desk.wait_for_lines()
    worker.ask("PUT", f"/connectors/{sink}/config", desk.connector("sink") | {"tasks.max": "2"})
    worker.wait_for_state(sink, "RUNNING", tasks=2)
    desk.write(50)
    desk.wait_for_lines()
    worker.ask("DELETE", f"/connectors/{sink}")
    for _ in ctx.wait("the connector to be gone"):
        if worker.ask("GET", "/connectors") == [desk.connector("source")["name"]]:
            break


@case
def connect_internal_topics(ctx: Context) -> None:
    desk = Desk(ctx)
    worker = desk.distributed()
    same(worker.ask("GET", "/connectors"), [], "connectors of a new group")
    admin = AdminClient({**librdkafka(ctx.bootstrap)})
    found = admin.list_topics(timeout=ctx.left).topics
    for what, partitions in (("config", 1), ("offset", 5), ("status", 3)):
        topic = f"{desk.group}.{what}"
        check(topic in found, f"no topic for {what}")
        same(len(found[topic].partitions), partitions, f"partitions for {what}")
        resource = ConfigResource(ResourceType.TOPIC, topic)
        configs = admin.describe_configs([resource])[resource].result(timeout=ctx.left)
        same(configs["cleanup.policy"].value, "compact", f"cleanup.policy for {what}")


@case
def connect_worker_killed(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(100)
    first = desk.distributed()
    both(desk, first)
    desk.wait_for_lines()
    first.kill()
    desk.write(100)
    second = desk.distributed()
    second.wait_for_state(desk.connector("source")["name"], "RUNNING")
    desk.wait_for_lines(doubled=True)  # Connect promises at least once


@case
def connect_two_workers(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(50)
    first, second = desk.distributed(), desk.distributed()
    both(desk, first)

    def workers() -> list[str]:
        found = []
        for kind in ("source", "sink"):
            status = first.ask("GET", f"/connectors/{desk.connector(kind)['name']}/status")
            parts = [status["connector"], *status["tasks"]]
            if any(part["state"] != "RUNNING" for part in parts):
                return []
            found += [part["worker_id"] for part in parts]
        return found

    for _ in ctx.wait("both workers to have a share"):
        if set(workers()) == {first.address, second.address}:
            break
    desk.wait_for_lines()
    second.stop()
    for _ in ctx.wait("the first to have all"):
        if set(workers()) == {first.address}:
            break
    desk.write(50)
    desk.wait_for_lines()


@case
def connect_offsets(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(40)
    worker = desk.distributed()
    both(desk, worker)
    desk.wait_for_lines()
    sink = desk.connector("sink")["name"]

    def offset() -> int:
        found = worker.ask("GET", f"/connectors/{sink}/offsets")["offsets"]
        return sum(part["offset"]["kafka_offset"] for part in found)

    for _ in ctx.wait("the sink's offset to be committed"):
        if offset() == 40:
            break
    worker.ask("PUT", f"/connectors/{sink}/stop")
    worker.wait_for_state(sink, "STOPPED", tasks=0)
    where = {"kafka_topic": desk.topic, "kafka_partition": 0}
    altered = {"offsets": [{"partition": where, "offset": {"kafka_offset": 30}}]}
    worker.ask("PATCH", f"/connectors/{sink}/offsets", altered)
    same(offset(), 30, "altered offset")
    desk.sink.unlink()
    worker.ask("PUT", f"/connectors/{sink}/resume")
    for _ in ctx.wait("the last ten lines to come again"):
        if desk.arrived() == desk.expected()[30:]:
            break
    worker.ask("PUT", f"/connectors/{sink}/stop")
    worker.wait_for_state(sink, "STOPPED", tasks=0)
    worker.ask("DELETE", f"/connectors/{sink}/offsets")
    same(offset(), 0, "offsets after they were deleted")
    desk.sink.unlink()
    worker.ask("PUT", f"/connectors/{sink}/resume")
    desk.wait_for_lines()


@case
def connect_exactly_once(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(10)
    worker = desk.distributed(exactly_once_source_support="enabled")
    config = desk.connector("source")
    refusal = "TransactionalIdAuthorizationException"
    worker.ask("PUT", f"/connectors/{config['name']}/config", config, unless_logged=refusal)
    refused = [line for line in worker.log().splitlines() if refusal in line]
    if refused:
        ctx.refused = refused[0].split("Caused by: ")[-1]
    else:
        worker.wait_for_state(config["name"], "RUNNING")


@case
def connect_compacted(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(50)
    first = desk.distributed()
    both(desk, first)
    desk.wait_for_lines()
    source = desk.connector("source")["name"]
    for number in range(20):  # the same keys of the topics for configs and for states, again and again
        first.ask(
            "PUT",
            f"/connectors/{source}/config",
            desk.connector("source") | {"batch.size": f"{1000 + number}"},
        )
        desk.write(5)
    first.wait_for_state(source, "RUNNING")
    desk.wait_for_lines()
    topics = [f"{desk.group}.{what}" for what in ("config", "offset", "status")]
    before = [entries(ctx, topic) for topic in topics]
    first.stop()
    for topic, was in zip(topics, before, strict=True):
        check(max(was.values()) > 1, f"{topic} has nothing to compact")
        compact(ctx, topic)
    desk.write(50)
    second = desk.distributed()
    for kind in ("source", "sink"):
        second.wait_for_state(desk.connector(kind)["name"], "RUNNING")
    desk.wait_for_lines()
    same(
        second.ask("GET", f"/connectors/{source}/config")["batch.size"],
        "1019",
        "the config that was put last",
    )


@case
def connect_fencing(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(100)
    first = desk.distributed(exactly_once_source_support="enabled")
    both(desk, first)
    desk.wait_for_lines()
    first.freeze()  # it is not dead: its producer is open, and comes back when its group has forgotten it
    desk.write(100)
    second = desk.distributed(exactly_once_source_support="enabled")
    source = desk.connector("source")["name"]
    for _ in ctx.wait("the second worker to have the task"):
        if second.known_state(source) is None:
            continue
        status = second.ask("GET", f"/connectors/{source}/status")
        if [task["worker_id"] for task in status["tasks"] if task["state"] == "RUNNING"] == [second.address]:
            break
    for _ in ctx.wait("the lines of the second worker"):
        if len(committed(ctx, desk.topic)) == 200:
            break
    first.thaw()
    desk.write(100)
    for _ in ctx.wait("the last lines"):
        got = committed(ctx, desk.topic)
        check(len(got) == len(set(got)), "lines came twice")
        if len(got) == 300:
            break
    same(got, desk.expected(), "lines in the topic")


@case
def connect_exactly_once_killed(ctx: Context) -> None:
    desk = Desk(ctx)
    worker = desk.distributed(exactly_once_source_support="enabled")
    source = desk.connector("source") | {"batch.size": "20"}
    desk.write(1)
    worker.create(source)
    for _ in range(2):
        worker.wait_for_state(source["name"], "RUNNING")
        had = len(committed(ctx, desk.topic))
        desk.write(3000)
        for _ in ctx.wait("some of the lines"):
            if len(committed(ctx, desk.topic)) > had:
                break
        worker.kill()
        check(len(committed(ctx, desk.topic)) < len(desk.expected()), "the worker was killed too late")
        worker = desk.distributed(exactly_once_source_support="enabled")
    for _ in ctx.wait("all lines"):
        if len(got := committed(ctx, desk.topic)) >= 6_001:
            break
        # the connector keeps back what it has read beyond a batch, until the file grows
        desk.write(1)
    check(got == desk.expected()[: len(got)], "lines are lost, doubled or out of order")


@restart_case
def restart_connect_standalone(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(50)
    desk.standalone()
    desk.wait_for_lines()
    ctx.restart()
    desk.write(50)
    desk.wait_for_lines(doubled=True)


@restart_case
def restart_connect_distributed(ctx: Context) -> None:
    desk = Desk(ctx)
    desk.write(50)
    worker = desk.distributed()
    both(desk, worker)
    desk.wait_for_lines()
    ctx.restart()
    desk.write(50)
    desk.wait_for_lines(doubled=True)
    for kind in ("source", "sink"):
        worker.wait_for_state(desk.connector(kind)["name"], "RUNNING")


if __name__ == "__main__":
    Desk.java, Desk.jars = sys.argv.pop(1), sys.argv.pop(1)
    jar = next(Path(Desk.jars).glob("connect-runtime-*.jar"))
    main("java-connect", jar.stem.removeprefix("connect-runtime-"))
