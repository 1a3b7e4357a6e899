"""Verbs of what a namespace says beside its policies: it is kept and shown, and one node does little for it.

- allowed clusters: there is one cluster.
- the anti-affinity group: its namespaces are to be on different brokers, as far as there are several.
- the mode of subscriptions' names: with `Prefix` a role uses those that begin with its name, if rights are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.admin.context import CLUSTER
from gateway.admin.exchange import DONE, RefusedError, Reply, json, text
from gateway.admin.slices import turn
from gateway.admin.tenancy import PAGE, known_clusters
from gateway.admin.topics import namespace_of
from semantics.names import MAX_KAFKA_NAME

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.namespaces import NamespaceRow

MODES = ("None", "Prefix")
"""Pulsar's SubscriptionAuthMode."""


async def allowed_clusters(context: Context, call: Call) -> Reply:
    """The clusters that a namespace may be on; none said is all."""
    return json(_row(context, call).allowed_clusters or [])


async def set_allowed_clusters(context: Context, call: Call) -> Reply:
    """The body is a list of clusters: the one there is."""
    await _change(context, call, allowed_clusters=known_clusters(call.json(), "allowedClusters"))
    return DONE


async def subscription_auth_mode(context: Context, call: Call) -> Reply:
    """`"None"` or `"Prefix"`."""
    return json(_row(context, call).subscription_auth_mode)


async def set_subscription_auth_mode(context: Context, call: Call) -> Reply:
    """The body is one of MODES."""
    said = call.json()
    if said not in MODES:
        raise RefusedError(400, f"The mode is {' or '.join(MODES)}, not {str(said)[:40]!r}.")
    await _change(context, call, subscription_auth_mode=said)
    return DONE


async def anti_affinity(context: Context, call: Call) -> Reply:
    """The group's name as a bare word; nothing where there is none."""
    group = _row(context, call).anti_affinity_group
    return text(group) if group else DONE


async def set_anti_affinity(context: Context, call: Call) -> Reply:
    """The body is the group's name: some clients write it as JSON, others bare."""
    group = call.body.decode("utf-8", "replace").strip()
    if group.startswith('"'):
        group = call.json()
    if not group.strip() or len(group) > MAX_KAFKA_NAME:
        raise RefusedError(412, f"The group has a name of at most {MAX_KAFKA_NAME} characters.")
    await _change(context, call, anti_affinity_group=group)
    return DONE


async def delete_anti_affinity(context: Context, call: Call) -> Reply:
    await _change(context, call, anti_affinity_group="")
    return DONE


async def anti_affinity_namespaces(context: Context, call: Call) -> Reply:
    """The namespaces of a group, in full: of the tenant that the parameter `property` names, else of all."""
    cluster, group = call.path[1], call.path[3]
    if cluster != CLUSTER:
        raise RefusedError(412, f"There is no cluster {cluster[:80]!r}; this one is called {CLUSTER}.")
    broker = context.broker
    there = broker.catalog.namespaces
    tenant = call.query.get("property", "")
    if tenant:
        broker.tenancy.tenant(tenant)
    found: list[str] = []
    for owner in [tenant] if tenant else there.tenants():
        for count, namespace in enumerate(there.of_tenant(owner), 1):
            if count % PAGE == 0:
                await turn()
            row = there.get(namespace)
            if row is not None and row.anti_affinity_group == group:
                found.append(str(namespace))
    return json(found)


def _row(context: Context, call: Call) -> NamespaceRow:
    broker = context.broker
    return broker.tenancy.namespace(namespace_of(broker, *call.path[1:3]))


async def _change(context: Context, call: Call, **fields: object) -> None:
    broker = context.broker
    await broker.tenancy.change(
        namespace_of(broker, *call.path[1:3]), lambda row: msgspec.structs.replace(row, **fields)
    )
