"""Verbs of clusters and brokers: what stock clients ask before those of topics. There is one cluster."""

from __future__ import annotations

import asyncio

from gateway.admin.context import CLUSTER, Context
from gateway.admin.exchange import Call, RefusedError, Reply, json, text
from store.api import Family, Put, StoreError

HEALTH_SECONDS = 5.0
"""How long a health check may take before it has failed."""

_HEALTH = b"admin/health"


async def clusters(context: Context, call: Call) -> Reply:
    return json([CLUSTER])


async def cluster(context: Context, call: Call) -> Reply:
    """Where the cluster is reached: by HTTP only, since Pulsar's own protocol is not spoken here."""
    _cluster(call)
    return json({"serviceUrl": f"http://{call.host or context.address}"})


def _cluster(call: Call) -> None:
    if call.path[1] != CLUSTER:
        raise RefusedError(404, f"There is no cluster {call.path[1][:80]!r}; this one is called {CLUSTER}.")


async def kafka(context: Context, call: Call) -> Reply:
    """Where Kafka clients come in: `{"bootstrap": "host:port"}`."""
    host, port = context.broker.endpoints[listener_of(context, call)]
    return json({"bootstrap": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"})


def listener_of(context: Context, call: Call) -> str:
    """Of several Kafka listeners the one that is advertised by the host which the caller used for this server."""
    endpoints = context.broker.endpoints
    if not endpoints:
        raise RefusedError(503, "The gateway has no Kafka listener yet.")
    used = call.host.rpartition(":")[0].strip("[]") if ":" in call.host else call.host
    return next((name for name, (host, _) in endpoints.items() if host == used), next(iter(endpoints)))


async def brokers(context: Context, call: Call) -> Reply:
    """Where the brokers' HTTP is: here, by the name that the client came by (the server may listen on any)."""
    if len(call.path) > 1:
        _cluster(call)
    return json([call.host or context.address])


async def leader_broker(context: Context, call: Call) -> Reply:
    address = call.host or context.address
    return json({"serviceUrl": f"http://{address}", "brokerId": address})


async def version(context: Context, call: Call) -> Reply:
    return text(context.broker.version)


async def health(context: Context, call: Call) -> Reply:
    """`ok` once the store has taken a small write, which is what a producer needs of it."""
    reason = context.not_ready()
    if reason is not None:
        raise RefusedError(503, reason)
    broker = context.broker
    row = Put(Family.META, _HEALTH, broker.clock.wall_ms().to_bytes(8, "big"))
    try:
        async with asyncio.timeout(HEALTH_SECONDS):
            await broker.write([row])
    except TimeoutError:
        raise RefusedError(
            503, f"The store has not taken a write within {HEALTH_SECONDS:g} seconds."
        ) from None
    except StoreError as error:
        raise RefusedError(503, f"The store does not take writes: {error}") from None
    return text("ok")


async def ready(context: Context, call: Call) -> Reply:
    """`ok` while the gateway takes traffic; 503 with the reason else."""
    reason = context.not_ready()
    if reason is not None:
        raise RefusedError(503, reason)
    return text("ok")


async def dynamic_names(context: Context, call: Call) -> Reply:
    """Settings that this API may change while the broker runs: none (kafka-configs.sh changes some)."""
    return json([])


async def dynamic_values(context: Context, call: Call) -> Reply:
    """Settings that this API has changed: none."""
    return json({})


async def runtime_configuration(context: Context, call: Call) -> Reply:
    """Every setting as text, and the cluster's name, which clients look for here."""
    settings = {
        row.name: row.value
        for row in context.broker.settings.describe()
        if row.value is not None and not row.sensitive
    }
    return json({"clusterName": CLUSTER, **settings})
