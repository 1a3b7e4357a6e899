"""Pulsar's topic names, the Kafka names they have on the wire, and what the catalog calls them.

    Pulsar                               on the wire, at home in public/default   in the catalog
    persistent://public/default/orders   orders                                   orders
    persistent://shop/eu/orders          shop.eu.orders                           shop/eu/orders
    persistent://public/default/a-partition-3   a, partition 3                    a

A Kafka connection lives in one namespace, its *home*, and its topics have bare names there. `t.n.x` may mean a topic of
another namespace: only where the home has no topic of that very name, and the namespace is there. So what a name of the
home means never changes because a namespace comes or goes. Where the home itself is `t/n`, and not public/default,
`t.n.x` is its own `x`, unless it has a topic of that very name.

No Kafka name has a slash. So a name of the catalog says its namespace by itself, and the two kinds never meet: what is
stored and what is in memory has the catalog's names, and the wire's are made and read at the edge.

Tenants and namespaces have no dots, and nothing holds the `:` and `=` that Pulsar allows and Kafka does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_KAFKA_NAME = 249
"""Characters in a Kafka topic name, tenant and namespace included: Kafka's limit, which its clients know."""

PERSISTENT, NON_PERSISTENT = DOMAINS = ("persistent", "non-persistent")

SYSTEM_TENANT = "pulsar"
"""Pulsar's own, in which it keeps what its brokers say to each other: nobody makes it."""

SYSTEM_TOPICS = frozenset(("__change_events", "heartbeat"))
"""What Pulsar calls topics of its own, in every namespace: nobody makes one of these names."""

SCOPE = r"([A-Za-z0-9_-]+)/([A-Za-z0-9_-]+)/(?=[A-Za-z0-9._-])"
"""An expression for how the catalog's names of topics begin in other namespaces than public/default, within a text."""

PARTITION = "-partition-"
"""What stands between a partitioned topic's name and the number of one partition."""

_MOST_PART = MAX_KAFKA_NAME - len(".n.t")
"""Characters in a tenant or a namespace, where the other and the topic have one."""

_LOCAL = re.compile(r"[a-zA-Z0-9._-]+\Z")
_PART = re.compile(r"[a-zA-Z0-9_-]+\Z")
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,8})\Z")


class NamingError(ValueError):
    """A name that cannot be a topic, a tenant or a namespace. The text says why, for a person."""


@dataclass(frozen=True, slots=True, order=True)
class Namespace:
    """A tenant and a namespace of it, checked."""

    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """`tenant/namespace`. Raises NamingError."""
        parts = text.split("/")
        if len(parts) != 2:
            raise NamingError(
                f"A namespace is written tenant/namespace, for example public/default; not {text!r}."
            )
        return cls.of(*parts)

    @classmethod
    def of(cls, tenant: str, name: str) -> Namespace:
        """The two parts, checked. Raises NamingError."""
        check_part("tenant", tenant)
        check_part("namespace", name)
        most = MAX_KAFKA_NAME - len("..t")
        if len(tenant) + len(name) > most:
            raise NamingError(
                f"{tenant[:40]}…/{name[:40]}… cannot be a namespace: it has {len(tenant) + len(name)} characters, and "
                f"with more than {most} no topic could be named, since Kafka's names have at most {MAX_KAFKA_NAME}."
            )
        return cls(tenant, name)


DEFAULT = Namespace("public", "default")
"""Where a bare name lives when nothing else is said."""

AUDIT = "magnetar-audit"
"""The topic of `DEFAULT` that the gateway keeps changes in. Nobody else writes it, and it shows to super-users only."""


def only_default(namespace: Namespace) -> bool:
    """The namespaces there are while no others can be made."""
    return namespace == DEFAULT


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A Pulsar topic: plain, partitioned, or one partition of such. `str()` gives the full name."""

    namespace: Namespace
    local: str
    domain: str = "persistent"

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local}"

    @property
    def persistent(self) -> bool:
        return self.domain == "persistent"

    @property
    def partition(self) -> int:
        """The number in `…-partition-3`; -1 for any other name (`…-partition-03` is one)."""
        match = _PARTITION.match(self.local)
        return int(match[2]) if match else -1

    @property
    def parent(self) -> TopicName:
        """The partitioned topic that a partition's name belongs to; itself for any other name."""
        match = _PARTITION.match(self.local)
        return TopicName(self.namespace, match[1], self.domain) if match else self

    def with_partition(self, index: int) -> TopicName:
        """One partition of this topic."""
        return TopicName(self.namespace, f"{self.local}{PARTITION}{index}", self.domain)


def partition_named(name: str) -> tuple[str, int] | None:
    """("orders", 3) for `orders-partition-3`, a name of the catalog or of a client; None for what is no partition's."""
    match = _PARTITION.match(name)
    # ".." is no topic that could have partitions
    return (match[1], int(match[2])) if match and is_canonical(match[1]) else None


def check_part(what: str, text: str) -> str:
    """`text` if it can be a tenant's or a namespace's name. Raises NamingError."""
    if not text:
        raise NamingError(f"A {what}'s name cannot be empty.")
    if len(text) > _MOST_PART:
        raise NamingError(
            f"{text[:40]}… cannot be a {what}: it has {len(text)} characters, and with more than {_MOST_PART} no topic "
            f"could be named, since Kafka's names have at most {MAX_KAFKA_NAME}."
        )
    if not _PART.match(text):
        raise NamingError(f"{text!r} cannot be a {what}: it may hold letters, digits, '_' and '-' only.")
    return text


def is_local(text: str) -> bool:
    """Whether Kafka allows it as a topic name."""
    return len(text) <= MAX_KAFKA_NAME and _LOCAL.match(text) is not None and text not in (".", "..")


def check_local(text: str) -> str:
    """`text` if Kafka allows it as a topic name. Raises NamingError."""
    if not text:
        raise NamingError("A topic's name cannot be empty.")
    if text in (".", ".."):
        raise NamingError(f"A topic cannot be called {text!r}.")
    if len(text) > MAX_KAFKA_NAME:
        raise NamingError(
            f"A topic's name has at most {MAX_KAFKA_NAME} characters; this one has {len(text)}."
        )
    if not _LOCAL.match(text):
        raise NamingError(f"{text!r} cannot be a topic: it may hold letters, digits, '.', '_' and '-' only.")
    return text


def parse(text: str, home: Namespace = DEFAULT) -> TopicName:
    """Any of Pulsar's ways to write a topic: the full name, `tenant/namespace/topic`, or `topic` in `home`.

    Raises NamingError.
    """
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = "persistent", text
    elif domain not in DOMAINS:
        raise NamingError(
            f"A topic's full name begins with persistent:// or non-persistent://, not {domain}://."
        )
    parts = rest.split("/")
    if len(parts) == 3:
        return TopicName(Namespace.of(parts[0], parts[1]), check_local(parts[2]), domain)
    if separator or len(parts) != 1:
        raise NamingError(
            f"A topic is written persistent://tenant/namespace/topic, or topic alone; not {text!r}."
        )
    return TopicName(home, check_local(rest), domain)


def canonical(topic: TopicName) -> str:
    """What the catalog calls it; a partition keeps its suffix. Raises NamingError when it is too long for Kafka."""
    if topic.namespace == DEFAULT:
        return check_local(topic.local)
    kafka_name(topic)
    return f"{topic.namespace}/{check_local(topic.local)}"


def of_catalog(name: str) -> TopicName:
    """The topic of a name that the catalog has, of the persistent domain."""
    parts = name.split("/")
    if len(parts) != 3:
        return TopicName(DEFAULT, name)
    return TopicName(Namespace(parts[0], parts[1]), parts[2])


def is_canonical(text: str) -> bool:
    """Whether the catalog may have a topic of this name."""
    parts = text.split("/")
    if len(parts) != 3:
        return is_local(text)
    return (
        len(text) <= MAX_KAFKA_NAME
        and _PART.match(parts[0]) is not None
        and _PART.match(parts[1]) is not None
        and is_local(parts[2])
    )


def dotted(name: str) -> str:
    """A name of the catalog as Kafka's clients and people write it who are at home in public/default."""
    return name.replace("/", ".")


def kafka_name(topic: TopicName, home: Namespace = DEFAULT) -> str:
    """What a Kafka client whose namespace is `home` calls this topic; a partition keeps its suffix. Raises NamingError
    when that is too long for Kafka.
    """
    if topic.namespace == home:
        return check_local(topic.local)
    name = f"{topic.namespace.tenant}.{topic.namespace.name}.{topic.local}"
    if len(name) > MAX_KAFKA_NAME:
        raise NamingError(
            f"{topic} is called {name[:40]}… on the Kafka wire, which has {len(name)} characters;"
            f" Kafka allows {MAX_KAFKA_NAME}."
        )
    return name


def of_own(name: str, home: Namespace) -> str | None:
    """The topic of its own home that a client's dotted name would mean, where the home has none of that name: `orders`
    for `shop.eu.orders` in shop/eu. None for all other names; those of public/default are bare only.
    """
    begin = f"{home.tenant}.{home.name}."
    if home == DEFAULT or not name.startswith(begin):
        return None
    rest = name[len(begin) :]
    return rest if is_local(rest) else None


def elsewhere(
    name: str, home: Namespace = DEFAULT, exists: Callable[[Namespace], bool] = only_default
) -> TopicName | None:
    """The topic of another namespace that a client's dotted name would mean, where its home has none of that name;
    None where it can mean none. `exists` tells whether a namespace is there.
    """
    parts = name.split(".", 2)
    if len(parts) != 3 or not is_local(parts[2]):
        return None
    if not (_PART.match(parts[0]) and _PART.match(parts[1])):
        return None
    namespace = Namespace(parts[0], parts[1])
    if namespace == home or not exists(namespace):
        return None
    return TopicName(namespace, parts[2])
