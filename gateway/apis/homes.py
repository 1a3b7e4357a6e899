"""Requests and answers of clients in the catalog's words and back.

|  | a client at home in shop/eu | at home in public/default | the catalog, the handlers |
|---|---|---|---|
| a topic of its home | `orders` | `orders` | `shop/eu/orders`; `orders` |
| the same by its whole name | `shop.eu.orders` | | `shop/eu/orders` |
| one of another namespace | `a.b.orders` | `a.b.orders` | `a/b/orders` |
| what can be no topic, or the home is not there | `a/b` | `a/b` | `shop/eu//a/b`; `//a/b`: no topic is called so |
| a topic's id that the client does not reach | the id | the id | an id that nobody has, for this request |
| a group, a transactional id | `billing` | `billing` | its id as `semantics.group_names` makes it |
| what is said of others' topics and groups | nothing | see below | their names |

A name means a topic of the home first, by that very name or else by its whole one; answers then have the name that the
client said. It is of another namespace only where the home has none of that name, and the
client may describe that topic. Where nobody asks for rights, clients at home in public/default reach all namespaces,
and see all in lists, as they did before there were rights; those of other homes reach their own alone.

Which fields these are the schemas say (`entityType`), so an API that is added is translated as all are. Here stands
only what no schema can say: names that are a topic's or a group's by the field beside them, and configs that name
topics. Requests that are decoded by hand have `reach.py`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.config.group_table import NAME_TOPICS
from gateway.wire import schema
from gateway.wire.api_keys import ApiKey
from gateway.wire.errors import Error
from semantics import group_names, names
from semantics.access.acl import Operation
from semantics.names import DEFAULT, Namespace

if TYPE_CHECKING:
    from gateway.broker.broker import Broker
    from gateway.peer import Peer
    from gateway.wire import messages

log = logging.getLogger("magnetar.apis")

NO_ID = bytes(16)
TOPIC, GROUP = 2, 32
"""Types of config resources that have names of a namespace."""


class Role(Enum):
    """What the text in a field is."""

    TOPIC = "topicName"
    GROUP = "groupId"
    ID = "topic id"
    TEXT = "sentence"


class Plan(NamedTuple):
    """What of a struct is translated: fields, whether each is an array, and structs inside."""

    fields: tuple[tuple[str, Role, bool], ...]
    inner: tuple[tuple[str, bool, Plan], ...]
    # it names a resource by a type beside the name
    resource: bool
    # it is a config, or where one comes from
    config: bool

    @property
    def named(self) -> str | None:
        """The field that says whose an element is."""
        return next(
            (name for name, role, many in self.fields if role in (Role.TOPIC, Role.GROUP) and not many), None
        )


_BY_PLACE = {
    ("FindCoordinatorRequest", "key"): Role.GROUP,
    ("FindCoordinatorRequest", "coordinator_keys"): Role.GROUP,
    ("FindCoordinatorResponse", "key"): Role.GROUP,
}
"""What the schemas leave open."""


def role_of(message: str, field: schema.Field) -> Role | None:
    """What a field of a message is; None for one that is as it is in every home."""
    by_place = _BY_PLACE.get((message, field.attribute))
    if by_place is not None:
        return by_place
    if field.type == "uuid" and field.attribute == "topic_id":
        return Role.ID
    if field.entity in ("topicName", "groupId"):
        return Role(field.entity)
    if field.entity == "transactionalId":
        # two namespaces may use the same one: it is kept as a group's id is
        return Role.GROUP
    if field.type == "string" and field.attribute.endswith("error_message"):
        return Role.TEXT
    return None


@cache
def plan(message: str) -> Plan:
    """Of a request or a response by its name."""
    return _plan(message, schema.load(message).fields)


def _plan(message: str, fields: tuple[schema.Field, ...]) -> Plan:
    found = [
        (each.attribute, role, each.array)
        for each in fields
        if each.fields is None and (role := role_of(message, each)) is not None
    ]
    inner = [
        (each.attribute, each.array, its)
        for each in fields
        if each.fields is not None and any((its := _plan(message, each.fields))[:])
    ]
    here = {each.attribute for each in fields}
    # resources of ACLs have other types, and names that are patterns: see acl_names.py
    resource = {"resource_type", "resource_name"} <= here and "Acls" not in message
    return Plan(tuple(found), tuple(inner), resource, config={"name", "value"} <= here)


_LISTS = frozenset(
    (
        ApiKey.METADATA,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
    )
)
"""Lists of all topics: those of other namespaces are in there for who has named them alone."""


class Home:
    """One request of a client, and the names in it."""

    __slots__ = (
        "_catalog",
        "_instead",
        "_lists",
        "_masked",
        "_named",
        "_namespace",
        "_nowhere",
        "_prefix",
        "_rights",
        "_scope",
        "called",
        "there",
    )

    def __init__(self, broker: Broker, peer: Peer) -> None:
        self._catalog = broker.catalog
        self._rights = peer.rights
        self._namespace = Namespace.parse(peer.namespace)
        self._prefix = peer.prefix
        self._nowhere = nowhere(peer)
        # before the ids of its groups; "" where these are kept as clients say them
        self._scope = peer.namespace + group_names.MARK if peer.prefix else ""
        # ids of others' topics -> what stands for them, and back
        self._masked: dict[bytes, bytes] = {}
        self._instead: dict[bytes, bytes] = {}
        # topics of other namespaces that the request names
        self._named: set[str] = set()
        self._lists = False
        self.called: dict[str, str] = {}
        """topics of the home that the request calls by their whole names, and these"""
        self.there = is_there(broker, peer)
        """whether the namespace is: else nothing that it says is a topic"""

    # -- what a client says -----------------------------------------------------------------------------------------

    def inward(self, key: int, request: Any) -> None:
        """Put a decoded request into the catalog's words, in place."""
        self._walk(
            plan(schema.api_name(key) + "Request"),
            request,
            {Role.TOPIC: self.topic, Role.GROUP: self.group, Role.ID: self.topic_id, Role.TEXT: _same},
            inward=True,
        )

    def topic(self, name: str) -> str:
        """The catalog's name of a topic."""
        if not name:
            return name
        if not self.there or not names.is_local(name):
            return self._nowhere + name
        own = self._prefix + name
        if name.count(".") < 2 or self._catalog.get(own) is not None:
            return own
        if (mine := self.own(name)) is not None:
            self.called[mine] = name
            return mine
        return self._elsewhere(name) or own

    def own(self, name: str) -> str | None:
        """What a name would mean of its own home by a whole name, whether that is there; None where nothing."""
        rest = names.of_own(name, self._namespace)
        return self._prefix + rest if rest is not None else None

    def _elsewhere(self, name: str) -> str | None:
        """The topic of another namespace that a name means of which its home has none; None where it means none."""
        if self._prefix and not self._rights.checked:
            return None
        found = self._catalog.namespaces.elsewhere(name, self._namespace)
        if found is None or not self._reaches(found):
            return None
        self._named.add(found)
        return found

    def foreign(self, name: str) -> str | None:
        """What a name would mean of another namespace, whoever asks and whether that is there; None where nothing."""
        found = names.elsewhere(name, self._namespace, lambda _: True)
        if found is None:
            return None
        return found.local if found.namespace == DEFAULT else f"{found.namespace}/{found.local}"

    def _reaches(self, name: str) -> bool:
        """Whether the client knows of a topic of another namespace; or of one that is not there, and it may make."""
        rights = self._rights
        if not rights.checked:
            return not self._prefix
        return rights.topic(Operation.DESCRIBE, name) or (
            self._catalog.get(name) is None and rights.topic(Operation.CREATE, name)
        )

    def _is_own(self, name: str) -> bool:
        """Whether a topic of the catalog is one of the client's home."""
        return name.startswith(self._prefix) if self._prefix else "/" not in name

    def group(self, name: str) -> str:
        """A group's id as it is kept."""
        return group_names.scoped(self._namespace, name)

    def topic_id(self, topic_id: bytes) -> bytes:
        """An id, or one that nobody has where it is that of a topic which the client does not reach."""
        if topic_id == NO_ID:
            return topic_id
        if topic_id in self._masked:
            return self._masked[topic_id]
        topic = self._catalog.by_id(topic_id)
        if topic is None or (self.there and self._is_own(topic.name)):
            return topic_id
        if self.there and self._reaches(topic.name):
            self._named.add(topic.name)
            return topic_id
        instead = os.urandom(16)
        self._masked[topic_id], self._instead[instead] = instead, topic_id
        return instead

    # -- what it is told --------------------------------------------------------------------------------------------

    def outward(self, key: int, response: Any) -> None:
        """Put a response into the client's words, in place, and leave out what is not of its home."""
        self._lists = key in _LISTS
        self._walk(
            plan(schema.api_name(key) + "Response"),
            response,
            {
                Role.TOPIC: self.local,
                Role.GROUP: group_names.bare if self._scope else _same,
                Role.ID: lambda topic_id: self._instead.get(topic_id, topic_id),
                Role.TEXT: self.sentence,
            },
            inward=False,
        )
        if key == ApiKey.METADATA and not self.there:
            _unknown(response)

    def local(self, name: str) -> str:
        """A client's name of a topic."""
        if name.startswith(self._nowhere):
            return name[len(self._nowhere) :]
        if name in self.called:
            return self.called[name]
        if self._prefix and name and "/" not in name:
            return f"{DEFAULT.tenant}.{DEFAULT.name}.{name}"
        return names.dotted(name.removeprefix(self._prefix))

    def sentence(self, text: str) -> str:
        """Names in a text for people are the client's, too."""
        if not text:
            return text
        if not self.there:
            return missing(self._namespace)
        # only where a name begins: one may have the same words within. In a full name of Pulsar's they stay
        begin = "|".join(re.escape(each) for each in (self._scope, self._nowhere, self._prefix) if each)
        return re.sub(rf"(?<![\w./:-])(?:{begin}|{names.SCOPE})", self._shown, text)

    def _shown(self, found: re.Match[str]) -> str:
        """What stands for the begin of a name in a text."""
        return "" if found[1] is None else self._catalog.namespaces.dots(found)

    def _told(self, name: str | None, *, group: bool) -> bool:
        """Whether an element with this name is told: of its home, or a name that the client has said."""
        if not name:
            return True
        if group:
            return name.startswith(self._scope)
        if name.startswith(self._nowhere):
            return True
        if self.there and self._is_own(name):
            return True
        if not self.there or name in self._named:
            return self.there
        if not self._rights.checked:
            # one that the home has under that very name is what it means
            return not self._prefix and self._catalog.get(names.dotted(name)) is None
        return not self._lists and self._reaches(name)

    # -- both -------------------------------------------------------------------------------------------------------

    def _walk(self, its: Plan, message: Any, ways: dict[Role, Callable[[Any], Any]], *, inward: bool) -> None:
        for attribute, role, many in its.fields:
            value = getattr(message, attribute)
            if value is None:
                continue
            way = ways[role]
            if many:
                if not inward:
                    value = [
                        each
                        for each in value
                        if role is Role.TEXT or self._told(each, group=role is Role.GROUP)
                    ]
                value = [way(each) for each in value]
            else:
                value = way(value)
            setattr(message, attribute, value)
        if its.resource:
            _resource(message, ways)
        if its.config and message.name in NAME_TOPICS and message.value:
            message.value = ways[Role.TOPIC](message.value)
        for attribute, many, inner in its.inner:
            value = getattr(message, attribute)
            if value is None:
                continue
            if not many:
                if not inward and not any(self._of_home(inner, [value])):
                    setattr(message, attribute, None)
                else:
                    self._walk(inner, value, ways, inward=inward)
                continue
            if not inward:
                value = list(self._of_home(inner, value))
                setattr(message, attribute, value)
            for each in value:
                self._walk(inner, each, ways, inward=inward)

    def _of_home(self, inner: Plan, elements: list[Any]) -> Iterator[Any]:
        """Those elements of a response that are told."""
        named = inner.named
        group = any(name == named and role is Role.GROUP for name, role, _ in inner.fields)
        for each in elements:
            if inner.resource and each.resource_type in (TOPIC, GROUP):
                told = self._told(each.resource_name, group=each.resource_type == GROUP)
            else:
                told = named is None or self._told(getattr(each, named), group=group)
            if told:
                yield each


def _same(text: Any) -> Any:
    return text


def _resource(message: Any, ways: dict[Role, Callable[[Any], Any]]) -> None:
    """A topic or a group whose configs are asked for, or told."""
    if message.resource_type not in (TOPIC, GROUP):
        return
    role = Role.TOPIC if message.resource_type == TOPIC else Role.GROUP
    message.resource_name = ways[role](message.resource_name)


def _unknown(response: messages.MetadataResponse) -> None:
    """Topics of a namespace that is not there are not there: clients ask again, and find them when they come."""
    for topic in response.topics:
        if topic.error_code == Error.INVALID_TOPIC_EXCEPTION and names.is_local(topic.name or ""):
            topic.error_code = Error.UNKNOWN_TOPIC_OR_PARTITION


def is_there(broker: Broker, peer: Peer) -> bool:
    """Whether the home of a client is there. Says in the log what is to be done where it is not."""
    if not peer.prefix:
        return True
    namespace = Namespace.parse(peer.namespace)
    found = broker.catalog.namespaces.exists(namespace)
    if not found:
        log.warning(missing(namespace), extra={"listener": peer.listener, "client": peer.host})
    return found


def nowhere(peer: Peer) -> str:
    """What stands before a name that can be no topic of a client's: no topic of the catalog is called so."""
    return f"{peer.namespace}//" if peer.prefix else "//"


def home_of(broker: Broker, peer: Peer) -> Home | None:
    """What translates for a client; None where its names are the catalog's: there is no namespace but its own."""
    if not peer.prefix and not broker.catalog.namespaces.several:
        return None
    return Home(broker, peer)


def missing(namespace: Namespace) -> str:
    """What a client is told, and the log says, where the namespace of its listener is not there."""
    return (
        f"This listener is for {namespace}, and there is none: magnetar-admin namespaces create {namespace}."
    )
