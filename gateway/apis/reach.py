"""Names and ids of topics in requests that are decoded by hand, and lists of all topics that a client sees. What names
mean says `homes.py`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from gateway.apis.homes import Home, home_of, is_there, nowhere
from semantics import names
from semantics.access.acl import Operation
from semantics.names import DEFAULT

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.broker.catalog import Topic
    from gateway.broker.topic_runtime import TopicRuntime
    from gateway.peer import Peer


_DEFAULT = f"{DEFAULT.tenant}.{DEFAULT.name}.".encode()


class Names:
    """Names in UTF-8 as a client says them, in the catalog's words and back."""

    __slots__ = ("_home", "_nowhere", "_prefix")

    def __init__(self, home: Home, peer: Peer) -> None:
        self._home = home
        self._prefix = peer.prefix.encode()
        self._nowhere = nowhere(peer).encode()

    def inward(self, name: bytes) -> bytes:
        """The catalog's name; of what can be no topic one that none has."""
        try:
            return self._home.topic(name.decode()).encode() if name else self._nowhere
        except UnicodeDecodeError:
            return self._nowhere + name

    @property
    def whole(self) -> bool:
        """Whether a topic of the home was called by its whole name."""
        return bool(self._home.called)

    def meanings(self, name: bytes) -> list[bytes]:
        """What a name may have meant when it was said before, what it means now first: topics and namespaces come and
        go, and so do rights.
        """
        found = [self.inward(name), self._prefix + name]
        if name.count(b".") > 1:
            foreign = self._home.foreign(name.decode("utf-8", "replace"))
            found += [foreign.encode()] if foreign is not None else []
            own = self._home.own(name.decode("utf-8", "replace"))
            found += [own.encode()] if own is not None else []
        return list(dict.fromkeys(found))

    def outward(self, name: bytes) -> bytes:
        """What the client calls it, whichever namespaces there were when it said it."""
        if name.startswith(self._nowhere):
            return name[len(self._nowhere) :]
        if self.whole:
            return self._home.local(name.decode()).encode()
        if self._prefix and b"/" not in name:
            return _DEFAULT + name
        return name.removeprefix(self._prefix).replace(b"/", b".")


def names_of(broker: Broker, peer: Peer) -> Names | None:
    """What translates names for a client; None where they are those of the catalog."""
    home = home_of(broker, peer)
    return Names(home, peer) if home is not None else None


def reach(broker: Broker, peer: Peer) -> Callable[[str], bool] | None:
    """What tells whether a client knows of a topic of the catalog by its id; None where it may know of all."""
    rights, prefix = peer.rights, peer.prefix
    if not prefix and (not rights.checked or not broker.catalog.namespaces.several):
        return None
    there = is_there(broker, peer)

    def reaches(name: str) -> bool:
        if name.startswith(prefix) if prefix else "/" not in name:
            return there
        return there and rights.checked and rights.topic(Operation.DESCRIBE, name)

    return reaches


def finder(broker: Broker, peer: Peer, *, by_id: bool) -> Callable[[bytes], TopicRuntime | None]:
    """What looks up topics as a client names them in Produce: by names in UTF-8, or by ids. Others' are not there."""
    if by_id:
        reaches = reach(broker, peer)
        if reaches is None:
            return broker.topic_by_id

        def with_id(topic_id: bytes) -> TopicRuntime | None:
            runtime = broker.topic_by_id(topic_id)
            return runtime if runtime is not None and reaches(runtime.name) else None

        return with_id
    if not peer.prefix and not broker.catalog.namespaces.several:
        return broker.at_home
    # made for the first name that may need it
    translating: list[Names] = []

    def called(name: bytes) -> TopicRuntime | None:
        if not peer.prefix:
            runtime = broker.at_home(name)
            if runtime is not None or name.count(b".") < 2:
                return runtime
        if not translating:
            translating.append(Names(Home(broker, peer), peer))
        return broker.topic(translating[0].inward(name))

    return called


def said(broker: Broker, peer: Peer, name: bytes) -> str:
    """The catalog's name of a topic that a client names in Produce, whether there is one or not."""
    its = names_of(broker, peer)
    return (its.inward(name) if its is not None else name).decode("utf-8", "replace")


def listed(broker: Broker, peer: Peer, start: str = "", limit: int | None = None) -> Iterator[Topic]:
    """The topics that a list of all has for a client, by their names in the catalog, from the name `start` on; fewer
    than `limit` only where there are no more.
    """
    catalog = broker.catalog
    if peer.prefix or not catalog.namespaces.several:
        return catalog.topics_within(peer.prefix, start, limit)
    checked = peer.rights.checked
    return islice(
        (
            topic
            for topic in catalog.topics_within("", start)
            # what its home has under that very name is what the name means
            if "/" not in topic.name or (not checked and catalog.get(names.dotted(topic.name)) is None)
        ),
        limit,
    )


def cluster_id(broker: Broker, peer: Peer) -> str:
    """What the cluster is called to a client. Where rights are asked for, each namespace of its own is another cluster
    to who lives there: so nobody sees by the id who the neighbours are.
    """
    if not peer.prefix or not peer.rights.checked:
        return broker.cluster_id
    said = f"{broker.cluster_id}\n{peer.namespace}".encode()
    return base64.urlsafe_b64encode(hashlib.sha256(said).digest()[:16]).decode().rstrip("=")
