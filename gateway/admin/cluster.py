"""Verbs of clusters and brokers: what stock clients ask before those of topics. There is one cluster."""

from __future__ import annotations

import asyncio

from gateway.admin.context import CLUSTER, Context
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, json, text
from gateway.admin.slices import turn
from gateway.admin.topic_names import meant
from semantics.names import DEFAULT, Namespace, is_local
from store.api import Family, Put, StoreError

HEALTH_SECONDS = 5.0
"""How long a health check may take before it has failed."""

PAGE = 500
"""Namespaces that are listed before the loop may do something else."""
BUNDLE = "0x00000000_0xffffffff"
"""The one bundle of each namespace: all hashes."""

_HEALTH = b"admin/health"


async def clusters(context: Context, call: Call) -> Reply:
    return json([CLUSTER])


async def cluster(context: Context, call: Call) -> Reply:
    """Where the cluster is reached: by HTTP only, since Pulsar's own protocol is not spoken here."""
    _cluster(call)
    return json({f"serviceUrl{context.of_tls}": context.url(call.host)})


def _cluster(call: Call) -> None:
    if call.path[1] != CLUSTER:
        raise RefusedError(404, f"There is no cluster {call.path[1][:80]!r}; this one is called {CLUSTER}.")


async def kafka(context: Context, call: Call) -> Reply:
    """Where Kafka clients come in: `{"bootstrap": "host:port"}`. For a `topic`, as they call it where all namespaces
    are: where clients of its namespace do, and as `topic` what they call it there, if it has a listener of its own. For
    clients with a `protocol` (Kafka's security.protocol), where that is spoken. Refuses with 404 where it is not.
    """
    name, said = call.query.get("topic", ""), {}
    protocol = call.query.get("protocol", "").upper()
    home = DEFAULT
    if is_local(name):
        catalog = context.broker.catalog
        full = catalog.namespaces.full(meant(call, context.broker, name))
        own = [each for each in context.broker.settings.listeners if each.namespace == full.namespace]
        # where its own speaks something else, clients of all namespaces reach it, too
        if full.namespace != DEFAULT and any(protocol in ("", each.protocol) for each in own):
            home, said = full.namespace, {"topic": full.local}
    host, port = context.broker.endpoints[listener_of(context, call, home, protocol)]
    return json({"bootstrap": f"[{host}]:{port}" if ":" in host else f"{host}:{port}", **said})


def listener_of(context: Context, call: Call, home: Namespace = DEFAULT, protocol: str = "") -> str:
    """Of several Kafka listeners the one that is advertised by the host which the caller used for this server; of those
    whose clients are at home there, since names of topics are others elsewhere; and that speak a protocol, if it is
    said which.
    """
    if not context.broker.endpoints:
        raise RefusedError(503, "The gateway has no Kafka listener yet.")
    listeners = {each.name: each for each in context.broker.settings.listeners}
    homes = {name: each.namespace for name, each in listeners.items()}
    endpoints = {
        name: at for name, at in context.broker.endpoints.items() if homes.get(name, DEFAULT) == home
    }
    if not endpoints:
        raise RefusedError(503, "Each Kafka listener is for one namespace: there is none for all of them.")
    if protocol:
        spoken = {name: listeners[name].protocol if name in listeners else "PLAINTEXT" for name in endpoints}
        endpoints = {name: at for name, at in endpoints.items() if spoken[name] == protocol}
        if not endpoints:
            others = ", ".join(sorted(set(spoken.values())))
            raise RefusedError(
                404, f"No Kafka listener of this gateway speaks {protocol[:40]}; what is spoken is {others}."
            )
    used = call.host.rpartition(":")[0].strip("[]") if ":" in call.host else call.host
    return next((name for name, (host, _) in endpoints.items() if host == used), next(iter(endpoints)))


async def brokers(context: Context, call: Call) -> Reply:
    """Where the brokers' HTTP is: here, by the name that the client came by (the server may listen on any)."""
    if len(call.path) > 1:
        _cluster(call)
    return json([call.host or context.address])


async def leader_broker(context: Context, call: Call) -> Reply:
    address = call.host or context.address
    return json({"serviceUrl": context.url(call.host), "brokerId": address})


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


async def runtime_configuration(context: Context, call: Call) -> Reply:
    """Every setting as text, and the cluster's name, which clients look for here."""
    settings = {
        row.name: row.value
        for row in context.broker.settings.describe()
        if row.value is not None and not row.sensitive
    }
    return json({"clusterName": CLUSTER, **settings})


async def internal_configuration(context: Context, call: Call) -> Reply:
    """Where metadata is, in the way that Pulsar's standalone writes it. There are no ledgers of BookKeeper to name."""
    data = context.broker.data
    url = f"rocksdb://{data.resolve()}" if data is not None else "memory:local"
    return json({"metadataStoreUrl": url, "configurationMetadataStoreUrl": url})


async def backlog_quota_check(context: Context, call: Call) -> Reply:
    """Each batch that is published is held against its quota: there is no round to begin earlier."""
    return DONE


async def owned_namespaces(context: Context, call: Call) -> Reply:
    """What a broker serves, each namespace by its one bundle: this one serves all."""
    _cluster(call)
    if call.path[2] not in (call.host, context.address):
        raise RefusedError(
            404, f"There is no broker {call.path[2][:80]!r}; this one is {call.host or context.address}."
        )
    there = context.broker.catalog.namespaces
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    found: dict[str, dict[str, object]] = {}
    for tenant in there.tenants():
        for count, namespace in enumerate(there.of_tenant(tenant), 1):
            if count % PAGE == 0:
                await turn()
            found[f"{namespace}/{BUNDLE}"] = status
    return json(found)


async def peers(context: Context, call: Call) -> Reply:
    """Clusters that may take over: none."""
    _cluster(call)
    return json([])


async def failure_domains(context: Context, call: Call) -> Reply:
    """Groups of brokers that fail together: none is named."""
    _cluster(call)
    return json({})


async def failure_domain(context: Context, call: Call) -> Reply:
    _cluster(call)
    raise RefusedError(404, f"There is no failure domain {call.path[3][:80]!r}: none is named.")


async def migration(context: Context, call: Call) -> Reply:
    """Whether clients were sent to another cluster: they are not."""
    _cluster(call)
    return json({"migrated": False})
