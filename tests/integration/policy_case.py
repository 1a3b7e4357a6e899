"""One policy as real clients meet it, and members of share groups that see it."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from confluent_kafka import KafkaException, ShareConsumer

from semantics.policies import Level
from semantics.policy_form import Form
from semantics.policy_forms import ALL
from tests.integration.policy_place import Place
from tests.integration.sharing import acknowledge, poll, until


class Said(enum.Enum):
    """Who says something of the policy."""

    NOBODY = "nobody"
    NAMESPACE = "namespace"
    TOPIC = "topic, and its namespace something else"


class Case(ABC):
    """One policy."""

    verb: ClassVar[str]
    type: ClassVar[str] = ""
    at_namespace: ClassVar[tuple[str, ...]] = ()
    """flags of the command that sets it. Nothing where namespaces do not have it"""
    at_topic: ClassVar[tuple[str, ...]] = ()
    """the same; another value. Nothing where topics do not have it"""

    def __init__(self, place: Place) -> None:
        self.place = place

    @classmethod
    def form(cls) -> Form:
        """Raises StopIteration where there is none."""
        return next(form for form in ALL if (form.verb, form.type) == (cls.verb, cls.type))

    def prepare(self) -> None:  # noqa: B027 - most have nothing to do
        """Before anything is said; the topic is there."""

    @abstractmethod
    def shows(self, who: Said) -> None:
        """See the effect of what that level says, with real clients. It may be asked any number of times."""

    # how it is said

    def set_at(self, level: Level) -> None:
        namespace = level is Level.NAMESPACE
        flags = self.at_namespace if namespace else self.at_topic
        self._say("set", level, *flags)

    def remove_at(self, level: Level) -> None:
        self._say("remove", level, *(("--type", self.type) if self.type else ()))

    def _say(self, what: str, level: Level, *flags: str) -> None:
        verb = f"{what}-{self.form().verb_at(level)}"
        if level is Level.NAMESPACE:
            self.place.admin("namespaces", verb, self.place.namespace, *flags)
        else:
            self.place.admin("topicPolicies", verb, self.place.path(), *flags)


def cases_in(names: Mapping[str, object]) -> list[type[Case]]:
    """The cases of a module, in their order."""
    return [
        each
        for each in names.values()
        if isinstance(each, type) and issubclass(each, Case) and each is not Case
    ]


@contextmanager
def members(place: Place, *groups: str) -> Iterator[list[ShareConsumer]]:
    """One of each, and each is there."""
    found: list[ShareConsumer] = []
    for group in groups:
        before = consumers(place)
        found.append(place.member(group))

        def there(consumer: ShareConsumer = found[-1], before: int = before) -> bool:
            acknowledge(consumer, poll(consumer, 0.02))
            return consumers(place) > before

        until(there, f"a member of {group} to come")
    yield found
    for consumer in found:
        consumer.close()
    until(lambda: not consumers(place), "members to go")


def consumers(place: Place) -> int:
    """How many all subscriptions of the topic have."""
    return sum(len(each["consumers"]) for each in place.stats()["subscriptions"].values())


@contextmanager
def refused_member(place: Place, group: str, code: int) -> Iterator[None]:
    """One that is told that it cannot come."""
    consumer = place.member(group)

    codes: list[int] = []

    def told() -> bool:
        try:
            poll(consumer)
        except KafkaException as error:
            codes.append(error.args[0].code())
        return bool(codes)

    until(told, f"a member of {group} to be refused")
    assert codes == [code]
    yield
    consumer.close()
