"""Which topic is whose RETRY, DLQ or queue topic: Pulsar's names `<topic>-<subscription>-RETRY` and `-DLQ`, `-QUEUE`
beside them, or a group's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from gateway.broker.namespaces import prefix_of
from semantics import names
from semantics.group_names import bare

if TYPE_CHECKING:
    from gateway.broker.catalog import Topic
    from gateway.broker.namespaces import Namespaces
    from gateway.config.group_configs import GroupConfig
    from semantics.names import Namespace

RETRY = "-RETRY"
DLQ = "-DLQ"
QUEUE = "-QUEUE"


class Topics(Protocol):
    """The catalog, as far as names matter."""

    @property
    def namespaces(self) -> Namespaces: ...

    def get(self, name: str) -> Topic | None: ...


class OverPatterns(Protocol):
    """The catalog, as far as queue topics over patterns matter."""

    def over_patterns(self) -> list[Topic]: ...


class Naming(Protocol):
    """The catalog, as far as Pulsar's names of topics matter."""

    def full(self, name: str) -> names.TopicName: ...


def bases(topics: Topics, name: str, suffix: str) -> Iterator[tuple[str, str]]:
    """(topic, subscription) that a name may be made of, of topics that exist; the longest topic first. The subscription
    is told as the id of its group."""
    if not name.endswith(suffix):
        return
    there = topics.namespaces
    stem = name[: -len(suffix)]
    # a namespace may have a dash in its name
    local = stem.rfind("/") + 1
    end = stem.rfind("-")
    while end > local:
        if end < len(stem) - 1 and topics.get(stem[:end]) is not None:
            yield stem[:end], there.group_of(stem[:end], stem[end + 1 :])
        end = stem.rfind("-", 0, end)


def queue_over(namespace: Namespace, subscription: str) -> str:
    """What the queue topic over a pattern is called that serves the subscriptions of this name on topics of a
    namespace: it lies there, too.
    """
    return f"{prefix_of(namespace)}{bare(subscription)}{QUEUE}"


def over_pattern(topics: Topics, namespace: Namespace, group: str) -> Topic | None:
    """The queue topic over a pattern that serves the subscriptions of a group on topics of a namespace, None where
    there is none.
    """
    found = topics.get(queue_over(namespace, group))
    its = found.queue if found is not None else None
    return found if its is not None and its.pattern and its.subscription == group else None


def over_patterns(topics: OverPatterns, group: str) -> list[Topic]:
    """The queue topics over patterns that serve subscriptions of a group: one for each namespace at most."""
    return [
        each for each in topics.over_patterns() if each.queue is not None and each.queue.subscription == group
    ]


def missing_base(topics: Topics, name: str) -> str | None:
    """Why a topic should not come into being only because somebody asked for it, or None. A queue topic never does:
    with a base it would be a plain topic under a name that its subscription may need.
    """
    for suffix in (RETRY, DLQ, QUEUE):
        if name.endswith(suffix):
            if next(bases(topics, name, suffix), None) is not None:
                if suffix != QUEUE:
                    return None
                return (
                    f"'{name}' is a queue topic's name: it is made with its subscription, or by CreateTopics."
                )
            return (
                f"'{name}' looks like a topic of a subscription, <topic>-<subscription>{suffix}, and there is no such "
                "topic: create it if that is what you want."
            )
    return None


def base_of(topics: Topics, name: str) -> Topic | None:
    """The topic that a RETRY or dead letter topic of this name belongs to, None for any other name."""
    for suffix in (RETRY, DLQ):
        for base, _ in bases(topics, name, suffix):
            return topics.get(base)
    return None


def base_of_retries(topics: Topics, config: GroupConfig, group: str, name: str) -> str | None:
    """The topic whose records a subscription of `group` on `name` tries again, None when these are no retries."""
    if config.retry_letter_topic is not None:
        return name if name == config.retry_letter_topic else None
    suffix = f"-{bare(group)}{RETRY}"
    if not name.endswith(suffix) or "/" in suffix:
        # of a group with slashes in its id it may be the end of another namespace's
        return None
    base = name[: -len(suffix)]
    return base if base and topics.get(base) is not None else None


def is_dead_letters(topics: Topics, name: str) -> bool:
    """Whether a topic holds the dead letters of another one, by its name."""
    return next(bases(topics, name, DLQ), None) is not None


def strays(topics: Topics, base: str, name: str) -> str | None:
    """Why a topic of a subscription on `base` cannot be called so, or None: it would be one of another namespace, of a
    group with slashes in its id.
    """
    if not names.is_canonical(name):
        # whoever makes it says so
        return None
    its, full = topics.namespaces.full(base), topics.namespaces.full(name)
    if its.namespace == full.namespace:
        return None
    return f"'{name}' would be a topic of {full.namespace}, and '{base}' is one of {its.namespace}"


def full_name(topics: Naming, topic: str) -> str:
    """Pulsar's name of a topic of the catalog."""
    return str(topics.full(topic))


def name_of(full: str) -> str | None:
    """What the catalog calls a topic of Pulsar's full name, None for what is none."""
    try:
        return names.canonical(names.parse(full))
    except names.NamingError:
        return None
