"""Verbs of permissions: which role may do what, in a namespace, on a topic, with a subscription.

They are kept and shown, and do nothing yet: Magnetar does not know who its clients are. What a grant says replaces what
the role had there, as in Pulsar.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.kept_properties import fits
from gateway.admin.topics import found_by, namespace_of, whole_topic
from gateway.broker.namespaces import prefix_of

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.namespaces import NamespaceRow
    from semantics.names import Namespace

    Change = Callable[["Granted"], "Granted"]

ACTIONS = ("produce", "consume", "functions", "sources", "sinks", "packages")
"""What a role may be allowed, as Pulsar calls it."""

Granted = dict[str, list[str]]
"""By role (or subscription), the actions (or roles)."""


# -- of a namespace


async def namespace(context: Context, call: Call) -> Reply:
    """By role, what it may do in all topics of a namespace."""
    return json(_row(context, call).permissions)


async def grant_namespace(context: Context, call: Call) -> Reply:
    """The body is the list of actions."""
    said = _actions(call.json())
    await _change(context, call, "permissions", lambda old: {**old, call.path[4]: said})
    return DONE


async def revoke_namespace(context: Context, call: Call) -> Reply:
    """Take back what a role has there; a role that has nothing stays so."""
    await _change(context, call, "permissions", lambda old: _without(old, call.path[4]))
    return DONE


async def subscriptions(context: Context, call: Call) -> Reply:
    """By subscription, the roles that may use it."""
    return json(_row(context, call).subscription_permissions)


async def grant_subscription(context: Context, call: Call) -> Reply:
    """The body is the list of roles; no other role may use the subscription."""
    said = _roles(call.json())
    await _change(context, call, "subscription_permissions", lambda old: {**old, call.path[5]: said})
    return DONE


async def revoke_subscription(context: Context, call: Call) -> Reply:
    """Take a subscription from one role."""
    name, role = call.path[4:6]

    def change(old: Granted) -> Granted:
        left = [each for each in old.get(name, ()) if each != role]
        return {**old, name: left} if left else _without(old, name)

    await _change(context, call, "subscription_permissions", change)
    return DONE


# -- of a topic


async def topic(context: Context, call: Call) -> Reply:
    """By role, what it may do with a topic: what its namespace allows, and what the topic adds."""
    broker = context.broker
    found = await found_by(broker, call)
    allowed = dict(broker.tenancy.namespace(found.name.namespace).permissions)
    for role, actions in found.topic.permissions.items():
        allowed[role] = _in_order({*allowed.get(role, ()), *actions})
    return json(allowed)


async def grant_topic(context: Context, call: Call) -> Reply:
    """The body is the list of actions."""
    found = whole_topic(await found_by(context.broker, call), "Permissions")
    said = _actions(call.json())

    def change(topic: Topic) -> Topic:
        together = fits({**topic.permissions, call.path[5]: said}, "Permissions")
        return msgspec.structs.replace(topic, permissions=together)

    await context.broker.topics.keep(found.topic.name, change)
    return DONE


async def revoke_topic(context: Context, call: Call) -> Reply:
    """Take back what the topic itself allows a role. Refuses with 412 where it allows nothing, as Pulsar does: what the
    namespace allows is not the topic's to take.
    """
    found = whole_topic(await found_by(context.broker, call), "Permissions")
    role = call.path[5]

    def change(topic: Topic) -> Topic:
        if role not in topic.permissions:
            raise RefusedError(
                412,
                f"Permissions are not set at the topic level: {found.name} itself allows {role} nothing. What its"
                " namespace allows is revoked there.",
            )
        return msgspec.structs.replace(topic, permissions=_without(topic.permissions, role))

    await context.broker.topics.keep(found.topic.name, change)
    return DONE


# -- in Policies


async def of_namespace(broker: Broker, namespace: Namespace, row: NamespaceRow) -> dict[str, object]:
    """Everything that is allowed in a namespace, as Pulsar's Policies have it."""
    prefix, start = prefix_of(namespace), ""
    of_topics: dict[str, Granted] = {}
    while page := broker.catalog.granted(prefix, start):
        for each in page:
            name = broker.catalog.full_of(each)
            if name.namespace == namespace:
                of_topics[str(name)] = each.permissions
        start = page[-1].name + "\0"
        await asyncio.sleep(0)
    return {
        "namespace_auth": row.permissions,
        "destination_auth": of_topics,
        "subscription_auth_roles": row.subscription_permissions,
    }


def said_at_creation(policies: Mapping[str, object], row: NamespaceRow) -> None:
    """Put into the row what Policies say that a namespace is made with. Refuses with 412 what is said of topics."""
    said = policies.get("auth_policies")
    if said is None:
        return
    if not isinstance(said, dict) or not all(isinstance(each, dict | None) for each in said.values()):
        raise RefusedError(400, "auth_policies is an object of objects.")
    if said.get("destination_auth"):
        raise RefusedError(
            412,
            "A namespace that is being made has no topics: allow roles something on a topic when it is there.",
        )
    for role, actions in (said.get("namespace_auth") or {}).items():
        row.permissions[role] = _actions(actions)
    for name, roles in (said.get("subscription_auth_roles") or {}).items():
        row.subscription_permissions[name] = _roles(roles)
    fits([row.permissions, row.subscription_permissions], "Permissions")


# -- what is shared


def _row(context: Context, call: Call) -> NamespaceRow:
    broker = context.broker
    return broker.tenancy.namespace(namespace_of(broker, *call.path[1:3]))


async def _change(context: Context, call: Call, field: str, change: Change) -> None:
    def changed(row: NamespaceRow) -> NamespaceRow:
        return msgspec.structs.replace(row, **{field: fits(change(getattr(row, field)), "Permissions")})

    broker = context.broker
    await broker.tenancy.change(namespace_of(broker, *call.path[1:3]), changed)


def _without(old: Granted, name: str) -> Granted:
    return {key: value for key, value in old.items() if key != name}


def _in_order(actions: set[str]) -> list[str]:
    return [each for each in ACTIONS if each in actions]


def _actions(body: object) -> list[str]:
    """Refuses with 400 what is no list of actions, with 412 an empty one."""
    known = f"{', '.join(ACTIONS[:-1])} and {ACTIONS[-1]}"
    if not isinstance(body, list) or not all(isinstance(each, str) for each in body):
        raise RefusedError(400, f'Actions are a list, such as ["produce"]; there are {known}.')
    wrong = next((each for each in body if each not in ACTIONS), None)
    if wrong is not None:
        raise RefusedError(400, f"There is no action {wrong[:40]!r}; there are {known}.")
    if not body:
        raise RefusedError(412, f"Say what the role may do; there are {known}.")
    return _in_order(set(body))


def _roles(body: object) -> list[str]:
    """Refuses with 400 what is no list of names, with 412 an empty one."""
    if not isinstance(body, list) or not all(isinstance(each, str) and each for each in body):
        raise RefusedError(400, 'Roles are a list of names, such as ["ada"].')
    if not body:
        raise RefusedError(412, "Say which roles may use the subscription.")
    return sorted(set(body))
