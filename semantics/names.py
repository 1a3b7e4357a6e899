"""Pulsar's topic names, and the Kafka names they have on the wire.

    persistent://public/default/orders               orders                (the home namespace: bare)
    persistent://shop/eu/orders                      shop.eu.orders        (any other: dotted)
    persistent://public/default/orders-partition-3   orders, partition 3   (one partition of a topic)

A Kafka connection lives in one namespace, its *home*: `public/default` until users are bound to others. Kafka
names may hold dots of their own, so `a.b.c` only means tenant a, namespace b, topic c when that namespace
exists and is not the home; else it is a topic of the home whose name has dots. Where that would leave two
Pulsar topics with one Kafka name, `kafka_name` refuses the second, so that the two functions below are each
other's inverse.

Tenants and namespaces therefore have no dots, and nothing holds the `:` and `=` that Pulsar allows and Kafka
does not.
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


def partition_named(local: str) -> tuple[str, int] | None:
    """("orders", 3) for `orders-partition-3`; None for what is no partition's name."""
    match = _PARTITION.match(local)
    # ".." is no topic that could have partitions
    return (match[1], int(match[2])) if match and is_local(match[1]) else None


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


def kafka_name(
    topic: TopicName, home: Namespace = DEFAULT, exists: Callable[[Namespace], bool] = only_default
) -> str:
    """What a Kafka client whose namespace is `home` calls this topic; a partition keeps its suffix.

    `exists` tells whether a namespace is there. Raises NamingError when the name is too long for Kafka, or
    when it would be read back as another namespace's topic.
    """
    if topic.namespace == home:
        if _elsewhere(topic.local, home, exists) is not None:
            raise NamingError(f"Kafka clients could not tell {topic} from a topic of another namespace.")
        return check_local(topic.local)
    name = f"{topic.namespace.tenant}.{topic.namespace.name}.{topic.local}"
    if len(name) > MAX_KAFKA_NAME:
        raise NamingError(
            f"{topic} is called {name[:40]}… on the Kafka wire, which has {len(name)} characters;"
            f" Kafka allows {MAX_KAFKA_NAME}."
        )
    return name


def from_kafka(
    name: str, home: Namespace = DEFAULT, exists: Callable[[Namespace], bool] = only_default
) -> TopicName:
    """The topic that a Kafka client means by `name`: bare, `tenant.namespace.topic`, or a full Pulsar name.

    The domain is persistent: on Kafka's side a topic's persistence is one of its configs, not part of its
    name. Raises NamingError.
    """
    if "://" in name:
        return parse(name, home)
    check_local(name)
    return _elsewhere(name, home, exists) or TopicName(home, name)


def _elsewhere(name: str, home: Namespace, exists: Callable[[Namespace], bool]) -> TopicName | None:
    """The topic of another, existing namespace that a dotted Kafka name means, if it means one."""
    parts = name.split(".", 2)
    if len(parts) != 3 or not parts[2] or parts[2] in (".", ".."):
        return None
    if not (_PART.match(parts[0]) and _PART.match(parts[1])):
        return None
    namespace = Namespace(parts[0], parts[1])
    if namespace == home or not exists(namespace):
        return None
    return TopicName(namespace, parts[2])
