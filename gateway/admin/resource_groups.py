"""Verbs of resource groups: listed, made, changed, deleted; which one a namespace is in; what they have used.

Rates between clusters are refused: there is one cluster. Numbers are of a second, and -1 and 0 are no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json, text
from gateway.admin.refusals import may_not
from gateway.admin.slices import turn
from gateway.admin.topics import namespace_of
from gateway.broker.resource_groups import GroupRow, ResourceGroup
from semantics.names import NamingError, check_part
from semantics.policies import MOST_INT, MOST_LONG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from gateway.broker.namespaces import NamespaceRow

_PAGE = 500
"""Namespaces that are looked at before the loop may do something else."""

FIELDS = {
    "publishRateInMsgs": ("publish_messages", MOST_INT),
    "publishRateInBytes": ("publish_bytes", MOST_LONG),
    "dispatchRateInMsgs": ("dispatch_messages", MOST_INT),
    "dispatchRateInBytes": ("dispatch_bytes", MOST_LONG),
}
"""Pulsar's names, ours, and the most that each may be."""
BETWEEN_CLUSTERS = ("replicationDispatchRateInMsgs", "replicationDispatchRateInBytes")


async def groups(context: Context, call: Call) -> Reply:
    """The names of all groups."""
    return json(context.broker.resource_groups.names())


async def group(context: Context, call: Call) -> Reply:
    """What is set of one."""
    return json(shown(_named(context.broker, call.path[1]).row))


async def put(context: Context, call: Call) -> Reply:
    """Make one, or change one that is there: what the body leaves out, or says null to, stays."""
    try:
        name = check_part("resource group", call.path[1])
    except NamingError as error:
        raise RefusedError(412, str(error)) from None
    said = _said(call)
    await context.broker.resource_groups.change(name, lambda row: msgspec.structs.replace(row, **said))
    return DONE


async def delete(context: Context, call: Call) -> Reply:
    """Only one that no namespace is in."""
    broker = context.broker
    found = _named(broker, call.path[1])

    async def free() -> None:
        if (held := await _member(broker, found.name)) is not None:
            raise RefusedError(412, _in_use(found.name, held))

    await broker.resource_groups.delete(found.name, free)
    return DONE


async def stats(context: Context, call: Call) -> Reply:
    """What the namespaces of one have published and read together since the gateway started, and who they are."""
    broker = context.broker
    found = _named(broker, call.path[2])
    return json({**used(found), "namespaces": [each async for each in _members(broker, found.name)]})


def used(group: ResourceGroup) -> dict[str, int]:
    """Messages and bytes that went."""
    return {
        "publishedMsgs": group.published.messages,
        "publishedBytes": group.published.bytes,
        "dispatchedMsgs": group.dispatched.messages,
        "dispatchedBytes": group.dispatched.bytes,
    }


def shown(row: GroupRow) -> dict[str, int]:
    """As Pulsar shows it: what is not set is left out."""
    values = {json_name: getattr(row, name) for json_name, (name, _) in FIELDS.items()}
    return {name: value for name, value in values.items() if value is not None}


def _said(call: Call) -> dict[str, int]:
    body: Mapping[str, Any] = call.json() or {}
    if not isinstance(body, dict):
        raise RefusedError(400, 'The body is an object: {"publishRateInMsgs": 1000}.')
    for name in BETWEEN_CLUSTERS:
        if body.get(name) not in (None, -1, 0):
            raise RefusedError(
                501, f"{name} is not served: there is one cluster, and nothing is copied to another."
            )
    found = {}
    for json_name, (name, most) in FIELDS.items():
        value = body.get(json_name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= most:
            raise RefusedError(
                412, f"{json_name} is a whole number from -1 to {most}, not {str(value)[:40]!r}."
            )
        found[name] = value
    return found


def _named(broker: Broker, name: str) -> ResourceGroup:
    found = broker.resource_groups.get(name)
    if found is None or found.going:
        raise RefusedError(
            404, f"There is no resource group {name[:80]!r}: `resourcegroups create` makes one."
        )
    return found


async def _members(broker: Broker, name: str) -> AsyncIterator[str]:
    """The namespaces that are in a group."""
    namespaces, count = broker.catalog.namespaces, 0
    for tenant in namespaces.tenants():
        for namespace in namespaces.of_tenant(tenant):
            count += 1
            if count % _PAGE == 0:
                await turn()
            row = namespaces.get(namespace)
            if row is not None and row.resource_group == name:
                yield str(namespace)


async def _member(broker: Broker, name: str) -> str | None:
    async for namespace in _members(broker, name):
        return namespace
    return None


def _in_use(name: str, namespace: str) -> str:
    return (
        f"Resource group {name} is in use by {namespace}: take that out before, by "
        f"`namespaces remove-resource-group {namespace}`."
    )


# -- of a namespace


async def of_namespace(context: Context, call: Call) -> Reply:
    """The group's name as a bare word; null where it is in none."""
    row = context.broker.tenancy.namespace(namespace_of(context.broker, *call.path[1:3]))
    return text(row.resource_group) if row.resource_group else json(None)


async def set_of_namespace(context: Context, call: Call) -> Reply:
    """The group must be there."""
    await _put(context, call, call.path[4])
    return DONE


async def remove_of_namespace(context: Context, call: Call) -> Reply:
    await _put(context, call, "")
    return DONE


async def _put(context: Context, call: Call, group: str) -> None:
    namespace = namespace_of(context.broker, *call.path[1:3])

    def change(row: NamespaceRow) -> NamespaceRow:
        return msgspec.structs.replace(
            row, resource_group=_named(context.broker, group).name if group else ""
        )

    await context.broker.tenancy.change(namespace, change)


def said_at_creation(broker: Broker, policies: Mapping[str, Any], call: Call, tenant: str) -> str:
    """The group that a new namespace of a tenant is in; "" for none. A super-user may name one in its Policies, and is
    refused with 404 one that is not there. Who is bound by a rate does not choose it: others are in that of their
    tenant, and to name another is refused with 403, whether it is there or not.
    """
    name = str(policies.get("resource_group_name") or "")
    if not call.asker.checked and name:
        return _named(broker, name).name
    own = broker.catalog.namespaces.resource_group_of_new(tenant)
    if name and name != own:
        raise may_not(call, "it takes a super-user to name a resource group")
    found = broker.resource_groups.get(own) if own else None
    return own if found is not None and not found.going else ""
