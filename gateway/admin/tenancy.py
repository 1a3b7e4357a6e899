"""Verbs of tenants and namespaces: listed, made, changed, deleted. Named in `routes.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from gateway.admin import audit, permissions, resource_groups
from gateway.admin.context import CLUSTER, Context
from gateway.admin.exchange import DONE, Call, RefusedError, Reply, json
from gateway.admin.kept_properties import fits, read
from gateway.admin.never_set import check_creation
from gateway.admin.policies import of_namespace, said_at_creation
from gateway.admin.slices import turn
from gateway.admin.topics import names_in, namespace_of
from gateway.broker.namespaces import NamespaceRow, TenantRow
from semantics.names import DOMAINS, NON_PERSISTENT, PERSISTENT, Namespace, NamingError, check_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.broker.broker import Broker
    from gateway.broker.tenancy import Tenancy

    _Alter = Callable[[dict[str, str]], dict[str, str]]

PAGE = 500
"""Names that are listed before the loop may do something else."""
_BUNDLES = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
"""One bundle holds all: nothing is balanced by bundles here."""


# -- tenants


async def tenants(context: Context, call: Call) -> Reply:
    """The names of all tenants that the caller looks after: to a super-user, of all there are."""
    found: list[str] = []
    for count, each in enumerate(context.broker.catalog.namespaces.tenants(), 1):
        if count % PAGE == 0:
            await turn()
        if call.asker.administers(each):
            found.append(each)
    return json(found)


async def tenant(context: Context, call: Call) -> Reply:
    """`{adminRoles, allowedClusters}`."""
    row = context.broker.tenancy.tenant(call.path[1])
    return json({"adminRoles": row.admin_roles, "allowedClusters": _clusters(row.allowed_clusters)})


async def create_tenant(context: Context, call: Call) -> Reply:
    """The body is as `tenant` answers it; what is left out is none, and all clusters."""
    try:
        name = check_part("tenant", call.path[1] if len(call.path) > 1 else "")
    except NamingError as error:
        raise RefusedError(412, str(error)) from None
    await context.broker.tenancy.create_tenant(name, _said(call, TenantRow()))
    return DONE


async def update_tenant(context: Context, call: Call) -> Reply:
    """What the body leaves out stays."""
    await context.broker.tenancy.update_tenant(call.path[1], lambda row: _said(call, row))
    return DONE


async def delete_tenant(context: Context, call: Call) -> Reply:
    """Without `force` only a tenant that has no namespaces."""
    broker, force = context.broker, call.flag("force")
    if force:
        await broker.audit_log.ready()
    await broker.tenancy.delete_tenant(call.path[1], force=force, begin=partial(audit.begun, broker, call))
    return DONE


def _said(call: Call, row: TenantRow) -> TenantRow:
    body = _object(call)
    roles = row.admin_roles if body.get("adminRoles") is None else _admins(body["adminRoles"])
    clusters = row.allowed_clusters
    if body.get("allowedClusters") is not None:
        clusters = known_clusters(body["allowedClusters"], "allowedClusters")
    return msgspec.structs.replace(row, admin_roles=roles, allowed_clusters=clusters)


# -- namespaces


async def namespaces(context: Context, call: Call) -> Reply:
    """The namespaces of a tenant, in full."""
    broker = context.broker
    broker.tenancy.tenant(call.path[1])
    found: list[str] = []
    for count, namespace in enumerate(broker.catalog.namespaces.of_tenant(call.path[1])):
        if count % PAGE == PAGE - 1:
            await turn()
        found.append(str(namespace))
    return json(found)


async def policies(context: Context, call: Call) -> Reply:
    """Pulsar's Policies, as far as anything of it is kept here."""
    broker, kept = context.broker, context.kept_policies
    namespace = _named(context, call)
    row, version = broker.tenancy.namespace(namespace), (broker.catalog.version, broker.access.version)
    reply = kept.get(namespace, row, version)
    if reply is None:
        reply = await _policies(broker, namespace, row)
        kept.keep(namespace, row, version, reply)
    return reply


async def _policies(broker: Broker, namespace: Namespace, row: NamespaceRow) -> Reply:
    return json(
        {
            "auth_policies": await permissions.of_namespace(broker, namespace, row),
            "replication_clusters": _clusters(row.clusters),
            "bundles": _BUNDLES,
            "properties": row.properties,
            **in_policies(row),
            **of_namespace(row.policies),
            "deleted": row.deleted,
        }
    )


async def create(context: Context, call: Call) -> Reply:
    """The body may be Pulsar's Policies, of which `replication_clusters`, `properties`, `auth_policies` and what FORMS
    have are kept. What of it cannot be set is refused.
    """
    body = _object(call)
    check_creation(body)
    row = NamespaceRow()
    if body.get("replication_clusters"):
        row.clusters = known_clusters(body["replication_clusters"], "replication_clusters")
    if body.get("properties"):
        row.properties = read(body["properties"])
    row.policies = said_at_creation(body)
    granted = permissions.said_at_creation(body, row)
    broker, namespace = context.broker, _parsed(call)
    row.resource_group = resource_groups.said_at_creation(broker, body, call, namespace.tenant)
    first = broker.permissions.first(namespace, granted)
    await broker.tenancy.create(namespace, row, made_with=lambda: broker.access.changing(first))
    return DONE


async def delete(context: Context, call: Call) -> Reply:
    """Without `force` only a namespace that has no topics."""
    broker, force, namespace = context.broker, call.flag("force"), _named(context, call)
    if force:
        await broker.audit_log.ready()
    await broker.tenancy.delete(namespace, force=force, begin=partial(audit.begun, broker, call))
    return DONE


async def topics(context: Context, call: Call) -> Reply:
    """The topics of a domain, or of both. `mode` is PERSISTENT, as without one, NON_PERSISTENT or ALL."""
    mode = call.query.get("mode", "").upper()
    domains = {"ALL": DOMAINS, "NON_PERSISTENT": (NON_PERSISTENT,)}.get(mode, (PERSISTENT,))
    found: list[str] = []
    for domain in domains:
        found += await names_in(context, call._replace(path=(domain, *call.path[1:3])))
    return json(found)


async def bundles(context: Context, call: Call) -> Reply:
    """One bundle holds all: nothing is balanced by bundles here."""
    _named(context, call)
    return json(_BUNDLES)


async def clusters(context: Context, call: Call) -> Reply:
    """The clusters that a namespace is on."""
    return json(_clusters(context.broker.tenancy.namespace(_named(context, call)).clusters))


async def set_clusters(context: Context, call: Call) -> Reply:
    """The body is a list of clusters: the one there is, so nothing is copied anywhere."""
    said = known_clusters(call.json(), "replication_clusters")
    await _change(context, call, clusters=said)
    return DONE


async def properties(context: Context, call: Call) -> Reply:
    """What somebody has kept with a namespace."""
    return json(context.broker.tenancy.namespace(_named(context, call)).properties)


async def set_properties(context: Context, call: Call) -> Reply:
    """Those in the body are added to those there are."""
    said = read(call.json())
    await _alter_properties(context, call, lambda old: {**old, **said})
    return DONE


async def clear_properties(context: Context, call: Call) -> Reply:
    await _alter_properties(context, call, lambda old: {})
    return DONE


async def property_of(context: Context, call: Call) -> Reply:
    """One of them as JSON, null where there is none."""
    kept = context.broker.tenancy.namespace(_named(context, call)).properties
    return json(kept.get(call.path[4]))


async def set_property(context: Context, call: Call) -> Reply:
    """The path has its name and its value."""
    await _alter_properties(context, call, lambda old: {**old, call.path[4]: call.path[5]})
    return DONE


async def remove_property(context: Context, call: Call) -> Reply:
    """One of them; the answer is what it was."""
    name, gone = call.path[4], list[str | None]()

    def without(old: dict[str, str]) -> dict[str, str]:
        gone.append(old.get(name))
        return {key: value for key, value in old.items() if key != name}

    await _alter_properties(context, call, without)
    return json(gone[0])


# -- what is shared


def _named(context: Context, call: Call) -> Namespace:
    return namespace_of(context.broker, *call.path[1:3])


def _parsed(call: Call) -> Namespace:
    """A namespace that need not be there."""
    try:
        return Namespace.of(*call.path[1:3])
    except NamingError as error:
        raise RefusedError(412, str(error)) from None


async def _change(context: Context, call: Call, **fields: object) -> None:
    tenancy: Tenancy = context.broker.tenancy
    await tenancy.change(_named(context, call), lambda row: msgspec.structs.replace(row, **fields))


async def _alter_properties(context: Context, call: Call, change: _Alter) -> None:
    await context.broker.tenancy.change(
        _named(context, call),
        lambda row: msgspec.structs.replace(row, properties=fits(change(row.properties), "Properties")),
    )


def _object(call: Call) -> dict[str, object]:
    """The body's object; a client that has nothing to say sends null, or nothing."""
    body = call.json()
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise RefusedError(400, "The body is a JSON object.")
    return body


def in_policies(row: NamespaceRow) -> dict[str, object]:
    """Of what the row has beside FORMS, what is set: as Pulsar's Policies have it. The anti-affinity group is not in
    there.
    """
    found: dict[str, object] = {}
    if row.allowed_clusters is not None:
        found["allowed_clusters"] = row.allowed_clusters
    if row.resource_group:
        found["resource_group_name"] = row.resource_group
    if row.subscription_auth_mode != NamespaceRow().subscription_auth_mode:
        found["subscription_auth_mode"] = row.subscription_auth_mode
    return found


def _names(value: object, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RefusedError(400, f'{what} is a list of names, such as ["{CLUSTER}"].')
    return sorted(set(value))


def _admins(value: object) -> list[str]:
    found = _names(value, "adminRoles")
    return [permissions.role_named(each) for each in found if each]


def known_clusters(value: object, what: str) -> list[str]:
    """A list of clusters that there are. Refuses others, and none, with 412; what is no list with 400."""
    found = _names(value, what)
    others = [each for each in found if each != CLUSTER]
    if others:
        raise RefusedError(412, f"There is no cluster {others[0][:80]!r}; this one is called {CLUSTER}.")
    if not found:
        raise RefusedError(412, f"{what} is not empty: {CLUSTER} is the cluster there is.")
    return found


def _clusters(kept: list[str] | None) -> list[str]:
    return [CLUSTER] if kept is None else kept
