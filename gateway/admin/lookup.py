"""`/lookup/v2/topic/…`: which node serves a topic, and which bundle the topic is in.

Pulsar's clients look topics up before they connect by Pulsar's protocol, which is not spoken here. So `brokerUrl` names
what is: `kafka://host:port` of the listener that is advertised by the name which the caller knows this gateway by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.admin.cluster import BUNDLE, listener_of
from gateway.admin.exchange import RefusedError, Reply, json, text
from gateway.admin.topics import find, named
from gateway.broker import policies
from semantics.names import DOMAINS, canonical

if TYPE_CHECKING:
    from gateway.admin.context import Context
    from gateway.admin.exchange import Call


async def topic(context: Context, call: Call) -> Reply:
    """Where a topic is served: `{brokerUrl, httpUrl, nativeUrl}`. Of one that a client would make by asking for it:
    where it would be. Refuses any other with 404.
    """
    broker = context.broker
    name = named(broker, call)
    try:
        found = await find(broker, name)
    except RefusedError:
        if not name.persistent or policies.new_topic(broker, broker.catalog, canonical(name)) is None:
            raise
        leader = broker.placement.controller
    else:
        leader = broker.placement.replicas(found.topic)[max(found.index, 0)][0]
    nodes = broker.placement.nodes(listener_of(context, call))
    node = next((each for each in nodes if each.id == leader), None)
    if node is None:
        raise RefusedError(503, f"Node {leader}, which leads {name}, cannot be reached at present.")
    host = f"[{node.host}]" if ":" in node.host else node.host
    url = f"kafka://{host}:{node.port}"
    http = {f"httpUrl{context.of_tls}": context.url(call.host)}
    return json({"brokerUrl": url, **http, "nativeUrl": url})


async def bundle(context: Context, call: Call) -> Reply:
    """The range of hashes that a topic is in, as a bare word."""
    named(context.broker, call)
    return text(BUNDLE)


def kind_of(path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """What a path below `/lookup/v2/topic` names, as `routes.py` has it, and the segments behind that."""
    return ("lookup", path[4:]) if len(path) > 3 and path[0] in DOMAINS else ("", ())
