"""Verbs of permissions: which role may do what, in a namespace, on a topic, with a subscription.

Those of namespaces and topics are rows of ACLs (`gateway/broker/permissions.py`), which Kafka's tools see, too. What a
grant says replaces what the role had there, as in Pulsar. Those of subscriptions are kept with the namespace.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from gateway.admin.exchange import DONE, RefusedError, Reply, json
from gateway.admin.kept_properties import fits
from gateway.admin.topics import found_by, namespace_of, whole_topic
from gateway.auth.credentials import has_control
from gateway.broker.acl_rows import MOST_PRINCIPAL
from gateway.broker.permissions import EVERY
from semantics.access.bundles import ACTIONS
from semantics.access.roles import principal_of
from semantics.names import DEFAULT, NamingError, TopicName, canonical

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call
    from gateway.broker.broker import Broker
    from gateway.broker.namespaces import NamespaceRow
    from semantics.names import Namespace

    Change = Callable[["Granted"], "Granted"]

log = logging.getLogger("magnetar.admin")

MOST_TOLD = 10
"""Topics that a line of log names."""

Granted = dict[str, list[str]]
"""By role (or subscription), the actions (or roles)."""


# -- of a namespace


async def namespace(context: Context, call: Call) -> Reply:
    """By role, what it may do in all topics of a namespace."""
    broker = context.broker
    return json(broker.permissions.on(namespace_of(broker, *call.path[1:3])))


async def grant_namespace(context: Context, call: Call) -> Reply:
    """The body is the list of actions."""
    broker = context.broker
    where, said = namespace_of(broker, *call.path[1:3]), _actions(call.json())
    role = role_named(call.path[4])
    await broker.permissions.grant(where, EVERY, role, said, _fit)
    _tell_of_hidden(broker, where, EVERY, role)
    return DONE


async def revoke_namespace(context: Context, call: Call) -> Reply:
    """Take back what a role has there; a role that has nothing stays so."""
    broker = context.broker
    await broker.permissions.revoke(namespace_of(broker, *call.path[1:3]), EVERY, call.path[4])
    return DONE


async def subscriptions(context: Context, call: Call) -> Reply:
    """By subscription, the roles that may use it."""
    return json(_row(context, call).subscription_permissions)


async def grant_subscription(context: Context, call: Call) -> Reply:
    """The body is the list of roles; no other role may use the subscription."""
    said = _roles(call.json())
    await _change_subscriptions(context, call, lambda old: {**old, call.path[5]: said})
    return DONE


async def revoke_subscription(context: Context, call: Call) -> Reply:
    """Take a subscription from one role."""
    name, role = call.path[4:6]

    def change(old: Granted) -> Granted:
        left = [each for each in old.get(name, ()) if each != role]
        return {**old, name: left} if left else _without(old, name)

    await _change_subscriptions(context, call, change)
    return DONE


# -- of a topic


async def topic(context: Context, call: Call) -> Reply:
    """By role, what it may do with a topic: what its namespace allows, and what the topic adds."""
    broker = context.broker
    full = broker.catalog.namespaces.full((await found_by(broker, call)).topic.name)
    allowed = broker.permissions.on(full.namespace)
    for role, actions in broker.permissions.on(full.namespace, full.local).items():
        allowed[role] = _in_order({*allowed.get(role, ()), *actions})
    return json(allowed)


async def grant_topic(context: Context, call: Call) -> Reply:
    """The body is the list of actions."""
    broker = context.broker
    found = whole_topic(await found_by(broker, call), "Permissions")
    said, role = _actions(call.json()), role_named(call.path[5])
    # it is not deleted meanwhile: what it allows goes with it
    async with broker.topics.changing(found.topic.name):
        full = broker.catalog.namespaces.full(broker.topics.changeable(found.topic.name).name)
        await broker.permissions.grant(full.namespace, full.local, role, said, _fit)
        _tell_of_hidden(broker, full.namespace, full.local, role)
    return DONE


async def revoke_topic(context: Context, call: Call) -> Reply:
    """Take back what the topic itself allows a role. Refuses with 412 where it allows nothing, as Pulsar does: what the
    namespace allows is not the topic's to take.
    """
    broker = context.broker
    found = whole_topic(await found_by(broker, call), "Permissions")
    role, full = call.path[5], broker.catalog.namespaces.full(found.topic.name)
    if not await broker.permissions.revoke(full.namespace, full.local, role):
        raise RefusedError(
            412,
            f"Permissions are not set at the topic level: {found.name} itself allows {role} nothing. What its"
            " namespace allows is revoked there.",
        )
    return DONE


# -- in Policies


async def of_namespace(broker: Broker, namespace: Namespace, row: NamespaceRow) -> dict[str, object]:
    """Everything that is allowed in a namespace, as Pulsar's Policies have it."""
    of_topics = {
        _full(broker, namespace, local): granted
        for local, granted in (await broker.permissions.on_topics(namespace)).items()
    }
    return {
        "namespace_auth": broker.permissions.on(namespace),
        "destination_auth": of_topics,
        "subscription_auth_roles": row.subscription_permissions,
    }


def _full(broker: Broker, namespace: Namespace, local: str) -> str:
    """Pulsar's name of a topic that need not be there."""
    name = TopicName(namespace, local)
    with contextlib.suppress(NamingError):
        return str(broker.catalog.full(canonical(name)))
    return str(name)


def said_at_creation(policies: Mapping[str, object], row: NamespaceRow) -> Granted:
    """By role, the actions that Policies say a namespace is made with; what they say of subscriptions goes into the
    row. Refuses with 412 what is said of topics.
    """
    said, granted = policies.get("auth_policies"), Granted()
    if said is None:
        return granted
    if not isinstance(said, dict) or not all(isinstance(each, dict | None) for each in said.values()):
        raise RefusedError(400, "auth_policies is an object of objects.")
    if said.get("destination_auth"):
        raise RefusedError(
            412,
            "A namespace that is being made has no topics: allow roles something on a topic when it is there.",
        )
    for role, actions in (said.get("namespace_auth") or {}).items():
        granted[role_named(role)] = _actions(actions)
    for name, roles in (said.get("subscription_auth_roles") or {}).items():
        row.subscription_permissions[name] = _roles(roles)
    fits([granted, row.subscription_permissions], "Permissions")
    return granted


# -- what is shared


def _tell_of_hidden(broker: Broker, namespace: Namespace, local: str, role: str) -> None:
    """A topic of public/default that is called as this one would be from there comes first: what was granted has no
    effect for who is at home there. Who has made the grant may know nothing of public/default, so the log is told.
    """
    user = broker.users.get(role)
    if namespace == DEFAULT or (user is not None and user.home not in (None, str(DEFAULT))):
        return
    begin = f"{namespace.tenant}.{namespace.name}."
    if local == EVERY:
        hiding = [each.name for each in broker.catalog.topics_within(begin, limit=MOST_TOLD)]
    else:
        hiding = [begin + local] if broker.catalog.get(begin + local) is not None else []
    if hiding:
        log.warning(
            "topics of public/default have the names by which those of another namespace are called from there, and "
            "hide them from a role that was just allowed to use them: delete these, or give the role a home there",
            extra={"role": role, "namespace": str(namespace), "topics": ", ".join(hiding)},
        )


def _row(context: Context, call: Call) -> NamespaceRow:
    broker = context.broker
    return broker.tenancy.namespace(namespace_of(broker, *call.path[1:3]))


async def _change_subscriptions(context: Context, call: Call, change: Change) -> None:
    def changed(row: NamespaceRow) -> NamespaceRow:
        together = fits(change(row.subscription_permissions), "Permissions")
        return msgspec.structs.replace(row, subscription_permissions=together)

    broker = context.broker
    await broker.tenancy.change(namespace_of(broker, *call.path[1:3]), changed)


def _without(old: Granted, name: str) -> Granted:
    return {key: value for key, value in old.items() if key != name}


def _fit(granted: Granted) -> None:
    fits(granted, "Permissions")


def role_named(name: str) -> str:
    """A role's name. Refuses with 412 what can be none."""
    most = MOST_PRINCIPAL - len(principal_of(""))
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RefusedError(412, "A role's name is text.") from None
    if not 0 < len(name) <= most:
        raise RefusedError(412, f"A role has a name of at most {most} characters.")
    if has_control(name):
        raise RefusedError(412, "The name of a role holds no control character: nobody could be called so.")
    if name.startswith(principal_of("")):
        raise RefusedError(412, f"{name} is a principal: its role is called {name[len(principal_of('')) :]}.")
    return name


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
    return sorted({role_named(each) for each in body})
