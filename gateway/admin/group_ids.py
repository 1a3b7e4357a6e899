"""Names of subscriptions, as Pulsar's admin API says them, and the ids of groups that are kept.

They differ where a namespace is a home (`semantics.homes`). Paths and queries are translated before a verb sees them,
and answers after: so no verb knows of it. Where it is none any more, what its consumer groups have left is called
`shop/eu//billing`, and can be deleted under that name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gateway.admin import topic_names
from gateway.admin.exchange import Call, RefusedError, Reply, has_ids
from gateway.admin.messages import BINARY
from semantics.group_names import SEPARATOR, full, parts, scoped
from semantics.names import DEFAULT, DOMAINS, Namespace, NamingError

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.namespaces import Namespaces

_SCOPE = re.compile(rb"([A-Za-z0-9_-]+)/([A-Za-z0-9_-]+)/(?:\\u001f|\x1f)")
"""What stands before a group's name in its id, in JSON or in text."""

_OF_NAMESPACE = ("clearBacklog", "unsubscribe")


def inward(broker: Broker, call: Call) -> Call:
    """The call with ids in place of names of subscriptions. Refuses a name that no subscription can have with 412."""
    said = (*call.path, *call.query.values())
    if any(SEPARATOR in part for part in said):
        raise RefusedError(412, "A name may not have the control character U+001F.")
    namespaces = broker.catalog.namespaces
    if len(call.path) < 4 or not (namespaces.homes or any(parts(part) for part in said)):
        return call
    path, query = list(call.path), dict(call.query)
    try:
        namespace = Namespace.of(*path[1:3])
        if namespace == DEFAULT and path[0] in DOMAINS:
            # a topic of another namespace may be called as Kafka clients call it
            namespace = namespaces.full(topic_names.named(broker, path[3])).namespace
    except NamingError:
        # whoever serves it says so
        return call
    if namespace == DEFAULT:
        return call
    if path[0] in DOMAINS:
        if len(path) > 5 and path[4] == "subscription":
            path[5] = _kept(namespaces, namespace, path[5])
            left = namespace not in namespaces.homes and path[5] != call.path[5]
            if left and (call.method, len(path)) == ("PUT", 6):
                raise RefusedError(
                    412,
                    f"{call.path[5]} would be of the clients of a listener for {namespace}, and there is none.",
                )
        if "subscription" in query:
            query["subscription"] = _kept(namespaces, namespace, query["subscription"])
    elif path[0] == "namespaces" and path[-2] in _OF_NAMESPACE:
        path[-1] = _kept(namespaces, namespace, path[-1])
    return call._replace(path=tuple(path), query=query)


def _kept(namespaces: Namespaces, namespace: Namespace, name: str) -> str:
    """The id behind the name of a subscription on topics of a namespace."""
    said = parts(name)
    if said is not None and said[0] == namespace and namespace not in namespaces.homes:
        # of a home that is no more
        return scoped(*said)
    return namespaces.group_in(namespace, name)


def outward(broker: Broker, reply: Reply) -> Reply:
    """The answer with names in place of ids."""
    body = reply.body
    if reply.content_type == BINARY or reply.looked_through or not has_ids(body):
        # of somebody's message not a byte is changed
        return reply
    homes = broker.catalog.namespaces.homes

    def scope(found: re.Match[bytes]) -> bytes:
        home = Namespace(found[1].decode(), found[2].decode())
        return b"" if home in homes else full(home, "").encode()

    # what it was made of has ids still
    return reply._replace(body=_SCOPE.sub(scope, body), value=None)
