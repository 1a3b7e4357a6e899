"""Names of subscriptions, as Pulsar's admin API says them, and the ids of groups that are kept.

They differ where a namespace has a listener of its own (`semantics.group_names`). Paths and queries are translated
before a verb sees them, and answers after: so no verb knows of it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from gateway.admin.exchange import Call, RefusedError, Reply
from gateway.admin.messages import BINARY
from gateway.broker.namespaces import prefix_of
from semantics.group_names import SEPARATOR
from semantics.names import DEFAULT, DOMAINS, Namespace, NamingError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker

_SCOPE = re.compile(rb"[A-Za-z0-9_-]+/[A-Za-z0-9_-]+/(?:\\u001f|\x1f)")
"""What stands before a group's name in its id, in JSON or in text."""

_OF_NAMESPACE = ("clearBacklog", "unsubscribe")


def inward(broker: Broker, call: Call) -> Call:
    """The call with ids in place of names of subscriptions. Refuses a name that no subscription can have with 412."""
    if any(SEPARATOR in part for part in (*call.path, *call.query.values())):
        raise RefusedError(412, "A name may not have the control character U+001F.")
    namespaces = broker.catalog.namespaces
    if not namespaces.homes or len(call.path) < 4:
        return call
    path, query = list(call.path), dict(call.query)
    try:
        namespace = Namespace.of(*path[1:3])
        if namespace == DEFAULT and path[0] in DOMAINS:
            # a topic of another namespace may be called as Kafka clients call it
            namespace = namespaces.full(path[3]).namespace
    except NamingError:
        # whoever serves it says so
        return call
    if namespace not in namespaces.homes:
        return call
    # any topic of the namespace has it: only where it is matters
    topic = prefix_of(namespace) + "any"
    if path[0] in DOMAINS:
        if len(path) > 5 and path[4] == "subscription":
            path[5] = namespaces.group_of(topic, path[5])
        if "subscription" in query:
            query["subscription"] = namespaces.group_of(topic, query["subscription"])
    elif path[0] == "namespaces" and path[-2] in _OF_NAMESPACE:
        path[-1] = namespaces.group_of(topic, path[-1])
    return dataclasses.replace(call, path=tuple(path), query=query)


def outward(broker: Broker, reply: Reply) -> Reply:
    """The answer with names in place of ids."""
    if not broker.catalog.namespaces.homes or not reply.body or reply.content_type == BINARY:
        # of somebody's message not a byte is changed
        return reply
    return reply._replace(body=_SCOPE.sub(b"", reply.body))
