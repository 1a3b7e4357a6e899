"""Console tools that ask about the node."""

from __future__ import annotations

import json
import re
import tempfile

from common import Context, case, check, same
from tools import create, first_error, produce, table, tool


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
    text = tool(ctx, "features", "describe").out
    told = dict(re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)", text))
    check(told.get("metadata.version", "").startswith("4.3"), f"metadata.version: {text}")
    same(told.get("transaction.version"), "2", "transaction.version")
    again = tool(ctx, "features", "upgrade", "--feature", "transaction.version=2").out
    check("transaction.version was upgraded to 2" in again, f"to what it is: {again}")
    wrong = tool(ctx, "features", "upgrade", "--feature", "transaction.version=9", code=1)
    check("transaction.version" in wrong.out + wrong.err, f"{wrong.out} {wrong.err}")


@case
def kafka_metadata_quorum(ctx: Context) -> None:
    status = tool(ctx, "metadata-quorum", "describe", "--status").out
    leader = re.search(r"LeaderId:\s+(\d+)", status)
    check(leader and f'"id": {leader[1]}' in status, f"the leader is the voter: {status}")
    check(re.search(r"MaxFollowerLag:\s+0\b", status), status)
    rows = table(tool(ctx, "metadata-quorum", "describe", "--replication").out)
    same([(row["Lag"], row["Status"]) for row in rows], [("0", "Leader")], "replication")


@case
def kafka_leader_election(ctx: Context) -> None:
    topic = create(ctx, 2)
    for kind in ("preferred", "unclean"):
        one = ["--election-type", kind, "--topic", topic, "--partition", "1"]
        text = tool(ctx, "leader-election", *one).out
        check(f"Valid replica already elected for partitions {topic}-1" in text, f"one, {kind}: {text}")
    tool(ctx, "leader-election", "--election-type", "preferred", "--all-topic-partitions")
    missing = ["--election-type", "preferred", "--topic", ctx.name(), "--partition", "0"]
    done = tool(ctx, "leader-election", *missing, code=1)
    check("UnknownTopicOrPartition" in done.out + done.err, f"missing: {done.out} {done.err}")


@case
def kafka_reassign_partitions(ctx: Context) -> None:
    topic = create(ctx, 2)
    node = re.search(r"\(id: (\d+)", tool(ctx, "broker-api-versions").out)
    assert node is not None
    own = int(node[1])

    def plan(*nodes: int) -> str:
        rows = [
            {"topic": topic, "partition": index, "replicas": nodes, "log_dirs": ["any"] * len(nodes)}
            for index in range(2)
        ]
        return json.dumps({"version": 1, "partitions": rows})

    def run(body: str, *arguments: str, code: int = 0) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(body)
            file.flush()
            done = tool(
                ctx, "reassign-partitions", "--reassignment-json-file", file.name, *arguments, code=code
            )
            return done.out + done.err

    check("Successfully started" in run(plan(own), "--execute"), "to where they are")
    check("is completed" in run(plan(own), "--verify"), "verify")
    refused = run(plan(own + 1), "--execute", code=1)
    check("Unknown broker" in refused or str(own + 1) in refused, f"to nowhere: {refused}")
    text = tool(ctx, "reassign-partitions", "--list").out
    check("No partition reassignments found" in text, f"list: {text}")


@case
def kafka_client_quotas(ctx: Context) -> None:
    user, client = ctx.name("u"), ctx.name("c")
    # the tool asks for the passwords of users that it describes by themselves
    for whose, value in (
        (["--entity-type", "clients", "--entity-name", client], "producer_byte_rate=200000"),
        (["--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-name", client],
         "consumer_byte_rate=2048,request_percentage=12.5"),
        (["--entity-type", "users", "--entity-default"], "controller_mutation_rate=1000.5"),
        (["--entity-type", "ips", "--entity-name", "10.1.2.3"], "connection_creation_rate=7"),
    ):  # fmt: skip
        done = tool(ctx, "configs", "--alter", *whose, "--add-config", value)
        check("Completed updating" in done.out, f"{done.out} {done.err}")
        wanted = {
            f"{key}={float(rate)}" for key, _, rate in (each.partition("=") for each in value.split(","))
        }
        told: set[str] = set()
        for _ in ctx.wait("the quotas"):
            told = set(tool(ctx, "configs", "--describe", *whose).out.replace(",", " ").split())
            if wanted <= told:
                break
        keys = ",".join(each.partition("=")[0] for each in value.split(","))
        done = tool(ctx, "configs", "--alter", *whose, "--delete-config", keys)
        for _ in ctx.wait("the quotas to go"):
            if not wanted & set(tool(ctx, "configs", "--describe", *whose).out.replace(",", " ").split()):
                break
    wrong = ["--entity-type", "clients", "--entity-name", client, "--add-config", "producer_byte_rate=0.5"]
    refused = tool(ctx, "configs", "--alter", *wrong, code=1)
    check("InvalidRequestException" in refused.out + refused.err, f"a fraction: {refused}")


@case
def kafka_client_quotas_bind(ctx: Context) -> None:
    """2.3 MB by clients that may use up 2 MB at once: all of it arrives, and they were told to wait."""
    topic, client = create(ctx), ctx.name("slow")
    whose = ["--entity-type", "clients", "--entity-name", client]
    rates = "producer_byte_rate=200000,consumer_byte_rate=200000"
    tool(ctx, "configs", "--alter", *whose, "--add-config", rates)
    for _ in ctx.wait("the quotas"):
        if "200000" in tool(ctx, "configs", "--describe", *whose).out:
            break
    load = ["--topic", topic, "--num-records", "460", "--record-size", "5000", "--throughput", "-1"]
    named = ["--command-property", f"client.id={client}"]
    done = tool(ctx, "producer-perf-test", *load, "--print-metrics", *named)
    check("460 records sent" in done.out, done.out)
    check(waited(done.out, "produce-throttle-time-max") > 0, f"no producer waited: {done.out}")
    load = ["--topic", topic, "--num-records", "460", "--timeout", "15000"]
    few = ["max.partition.fetch.bytes=300000", "fetch.max.bytes=300000"]
    done = tool(ctx, "consumer-perf-test", *load, "--print-metrics", *named, *few)
    check(int(done.out.splitlines()[1].split(", ")[4]) >= 460, done.out)
    check(waited(done.out, "fetch-throttle-time-max") > 0, f"no consumer waited: {done.out}")
    tool(ctx, "configs", "--alter", *whose, "--delete-config", "producer_byte_rate,consumer_byte_rate")


def waited(text: str, metric: str) -> float:
    """The largest value of a metric that a tool prints."""
    return max((float(each) for each in re.findall(rf"{metric}:\S*\s*:\s*([\d.]+)", text)), default=0.0)


@case
def kafka_user_credentials(ctx: Context) -> None:
    """As kafka-configs asks for users: their passwords, and their quotas beside."""
    name = ctx.name("u")
    one = ["--entity-type", "users", "--entity-name", name]

    def shown(*wanted: str) -> None:
        """Until it is so: in Kafka a change reaches the broker after it was answered."""
        for _ in ctx.wait(f"{name} to have {wanted or 'nothing'}"):
            text = tool(ctx, "configs", "--describe", *one).out
            found = re.findall(r"(SCRAM-SHA-\d+)=\[?iterations=(\d+)", text)
            if sorted(f"{mechanism} {iterations}" for mechanism, iterations in found) == sorted(wanted):
                return

    shown()
    both = "SCRAM-SHA-256=[iterations=8192,password=open-sesame],SCRAM-SHA-512=[password=open-sesame]"
    twice = tool(ctx, "configs", "--alter", *one, "--add-config", both, code=1)
    check("DuplicateResource" in twice.out + twice.err, f"two at once: {twice.out} {twice.err}")
    for said in both.split("],"):
        tool(ctx, "configs", "--alter", *one, "--add-config", f"{said.rstrip(']')}]")
    shown("SCRAM-SHA-256 8192", "SCRAM-SHA-512 4096")
    every = tool(ctx, "configs", "--describe", "--entity-type", "users").out
    check(f"'{name}'" in every, f"it is among all: {every}")
    check("sesame" not in every, "its password is not told")
    for few in ("SCRAM-SHA-256=[iterations=100,password=x]", "SCRAM-SHA-256=[iterations=20000,password=x]"):
        done = tool(ctx, "configs", "--alter", *one, "--add-config", few, code=1)
        check("terations" in done.out + done.err, f"{few}: {done.out} {done.err}")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        tool(ctx, "configs", "--alter", *one, "--delete-config", mechanism)
    shown()
    gone = tool(ctx, "configs", "--alter", *one, "--delete-config", "SCRAM-SHA-256", code=1)
    check(
        "that does not exist" in gone.out + gone.err or "ResourceNotFound" in gone.out + gone.err, f"{gone}"
    )


@case
def kafka_acls(ctx: Context) -> None:
    done = tool(ctx, "acls", "--list", code=1)
    check("TimeoutException" not in done.out, done.out)
    if "SecurityDisabledException" not in done.out:  # what Apache Kafka says without an authorizer
        ctx.refused = first_error(done)


@case
def kafka_client_metrics(ctx: Context) -> None:
    name = ctx.name("m")
    one = ["--name", name]
    tool(
        ctx, "client-metrics", "--alter", *one, "--metrics", "org.apache.kafka.producer", "--interval", "1000"
    )
    for _ in ctx.wait("the subscription"):
        if name in tool(ctx, "client-metrics", "--list").out.split():
            break
    for _ in ctx.wait("its configs"):
        text = tool(ctx, "client-metrics", "--describe", *one).out
        if "interval.ms=1000" in text and "metrics=org.apache.kafka.producer" in text:
            break
    bad = tool(ctx, "client-metrics", "--alter", *one, "--interval", "1", code=1)
    check("interval.ms" in bad.out + bad.err, f"{bad.out} {bad.err}")
    tool(ctx, "client-metrics", "--delete", *one)
    for _ in ctx.wait("it to go"):
        if name not in tool(ctx, "client-metrics", "--list").out.split():
            break
