"""What clients call the resources of ACLs, and the rows that they mean.

A client at home in shop/eu calls them as they are there, topics also by whole names (`shop.eu.orders`, prefix
`shop.eu.ord`), and of others' there are none. One at home in public/default:

|  | rows of public/default | rows of shop/eu |
|---|---|---|
| topics | `orders`, prefix `ord`, `*` | `shop.eu.orders`, prefix `shop.eu.ord`, prefix `shop.eu.` |
| the same, where there is a topic `shop.eu.orders` | `shop.eu.orders` | `shop/eu/orders` |
| groups, transactional ids, the cluster | `billing` | `shop/eu//billing`, `shop/eu//*`, `shop/eu//kafka-cluster` |

Rows of other namespaces than its own are shown to, and made by, who may do so on the whole gateway (`Rights.node`).
Rows of operations that Kafka has no words for are shown to no client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from gateway.broker.errors import KafkaError
from gateway.broker.namespaces import prefix_of
from gateway.wire.errors import Error
from semantics import group_names, names
from semantics.access.acl import ANYWHERE, Acl, Operation, PatternType, ResourceType
from semantics.names import DEFAULT, Namespace

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from semantics.access.filters import Filter

TYPES = [each for each in ResourceType if each > ResourceType.ANY]
"""Those that rows have."""


class Words:
    """Those of one client, who is about to describe or to alter."""

    def __init__(self, broker: Broker, peer: Peer, operation: Operation) -> None:
        self.home = Namespace.parse(peer.namespace)
        self._table = broker.access.table
        self._catalog = broker.catalog
        self._exists = broker.catalog.namespaces.exists
        # whether it may do so on the whole gateway
        self._node = peer.rights.node(operation)
        # whether rows of other namespaces are its business
        self._wide = self.home == DEFAULT and self._node

    # -- what it says -----------------------------------------------------------------------------------------------

    def row(self, said: Acl) -> Acl:
        """A row that it makes. Raises KafkaError CLUSTER_AUTHORIZATION_FAILED where that is not its to make."""
        namespace, pattern, name = self._place(said.resource, said.pattern, said.name)
        of_gateway = namespace == DEFAULT and said.resource is ResourceType.CLUSTER
        if (namespace != self.home and not self._wide) or (of_gateway and not self._node):
            raise KafkaError(
                Error.CLUSTER_AUTHORIZATION_FAILED,
                f"This is for who may do it on the whole gateway: an ACL of {namespace}"
                f"{' on its cluster' if of_gateway else ''}.",
            )
        return said._replace(namespace=namespace, pattern=pattern, name=name)

    def meant(self, said: Filter) -> Iterator[tuple[Acl, Acl | None]]:
        """Rows that may be meant, and of those that are, how the client calls them. Rows may come and go meanwhile."""
        slashes = said.resource is not ResourceType.GROUP and "/" in (said.name or "")
        also = self._of_home(said)
        for row in (
            self._candidates(said) if also is None else chain(self._candidates(said), self._candidates(also))
        ):
            shown = self.shown(row, slashes=slashes)
            is_meant = shown is not None and (
                said.matches(shown) or (also is not None and also.matches(shown))
            )
            yield row, shown if is_meant else None

    def _of_home(self, said: Filter) -> Filter | None:
        """What a filter means by a whole name of a topic of the home; None where it has no such name."""
        if said.name is None or said.resource not in (ResourceType.TOPIC, ResourceType.ANY):
            return None
        pattern = said.pattern
        if pattern is not PatternType.PREFIXED:
            pattern = PatternType.LITERAL
        _, _, name = self._place(ResourceType.TOPIC, pattern, said.name)
        if self.home == DEFAULT or name == said.name:
            return None
        return said._replace(resource=ResourceType.TOPIC, name=name)

    def _candidates(self, said: Filter) -> Iterable[Acl]:
        table = self._table
        types = TYPES if said.resource is ResourceType.ANY else [said.resource]
        if said.name is None:
            one = types[0] if len(types) == 1 else None
            return table.rows(None if self._wide else self.home, one, said.principal)
        found: dict[Acl, None] = {}
        for resource in types:
            literal, prefixed = (
                self._place(resource, pattern, said.name)
                for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
            )
            if said.pattern is PatternType.MATCH:
                found |= dict.fromkeys(table.covering(literal[0], resource, literal[2]))
                continue
            # one of home may have the name from when there was no such namespace
            for namespace, name in {(self.home, said.name), literal[::2], prefixed[::2]}:
                found |= dict.fromkeys(table.named(namespace, resource, name))
        return found

    def _place(
        self, resource: ResourceType, pattern: PatternType, name: str
    ) -> tuple[Namespace, PatternType, str]:
        """The namespace that a name speaks of, and the pattern and the name there."""
        if self.home != DEFAULT:
            return self.home, pattern, self._own(pattern, name) if resource is ResourceType.TOPIC else name
        if resource is not ResourceType.TOPIC:
            found = group_names.parts(name)
            return (
                (found[0], pattern, found[1])
                if found and self._exists(found[0])
                else (DEFAULT, pattern, name)
            )
        if "/" in name and names.is_canonical(name):
            full = names.of_catalog(name)
            return (
                (full.namespace, pattern, full.local)
                if self._exists(full.namespace)
                else (DEFAULT, pattern, name)
            )
        if pattern is not PatternType.PREFIXED and self._catalog.get(name) is not None:
            # a name means a topic of the home first
            return DEFAULT, pattern, name
        parts = name.split(".", 2)
        namespace = Namespace(*parts[:2]) if len(parts) == 3 else DEFAULT
        if namespace == DEFAULT or not self._exists(namespace):
            return DEFAULT, pattern, name
        if pattern is PatternType.PREFIXED:
            if not parts[2]:
                return namespace, PatternType.LITERAL, ANYWHERE
            is_name = names.is_local(parts[2] + "x")
        else:
            is_name = names.is_local(parts[2])
        return (namespace, pattern, parts[2]) if is_name else (DEFAULT, pattern, name)

    def _own(self, pattern: PatternType, name: str) -> str:
        """A name or a prefix of topics of the home, which may have been said with the home before it."""
        if pattern is PatternType.PREFIXED:
            rest = names.of_own(name + "x", self.home)
            # `shop.eu.` alone also is how names in the home may begin
            return rest[:-1] if rest is not None and rest != "x" else name
        rest = names.of_own(name, self.home)
        return name if rest is None or self._catalog.get(prefix_of(self.home) + name) is not None else rest

    # -- what it is told --------------------------------------------------------------------------------------------

    def shown(self, row: Acl, *, slashes: bool = False) -> Acl | None:
        """A row as the client calls it; None for one that it is not told of. `slashes`: who asks for a topic of another
        namespace has written `tenant/namespace/topic`.
        """
        if not row.operation.shown or (row.namespace != self.home and not self._wide):
            return None
        if self.home != DEFAULT:
            return row
        if row.resource is not ResourceType.TOPIC:
            said = group_names.parts(row.name)
            foreign = row.namespace != DEFAULT or (said is not None and self._exists(said[0]))
            return row._replace(name=group_names.full(row.namespace, row.name)) if foreign else row
        if row.namespace == DEFAULT:
            return row
        prefix = prefix_of(row.namespace)
        if row.pattern is PatternType.LITERAL:
            if row.name == ANYWHERE:
                return row._replace(pattern=PatternType.PREFIXED, name=names.dotted(prefix))
            slashes = slashes or self._catalog.get(names.dotted(prefix) + row.name) is not None
        return row._replace(name=(prefix if slashes else names.dotted(prefix)) + row.name)
