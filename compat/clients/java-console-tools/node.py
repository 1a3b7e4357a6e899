"""Console tools that ask about the node."""

from __future__ import annotations

import json
import re

from common import Context, case, check, same
from tools import create, first_error, produce, refusable, tool


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
def kafka_acls(ctx: Context) -> None:
    done = tool(ctx, "acls", "--list", code=1)
    check("TimeoutException" not in done.out, done.out)
    if "SecurityDisabledException" not in done.out:  # what Apache Kafka says without an authorizer
        ctx.refused = first_error(done)


@case
def kafka_client_metrics(ctx: Context) -> None:
    refusable(ctx, "client-metrics", "--list")
