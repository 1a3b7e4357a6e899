"""Of each policy of the table: what real clients see of it while a namespace says it, a topic, or nobody."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, ShareConsumer, ThrottleEvent

from semantics.policies import Level
from semantics.policy_form import Form
from semantics.policy_forms import ALL
from tests.integration.policy_place import HOUR, Place
from tests.integration.sharing import acknowledge, poll, some, until


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


class Retention(Case):
    verb = "retention"
    at_namespace = ("--time", "0", "--size", "0")
    at_topic = ("--time", "-1", "--size", "-1")

    def shows(self, who: Said) -> None:
        place = self.place
        assert place.send(place.value()) == []
        if who is Said.NAMESPACE:
            until(lambda: len(set(place.span())) == 1, "what nobody waits for to go")
            return
        start, end = place.span()
        place.admin("topics", "trim-topic", place.path())
        assert place.span() == (start, end), "a round of retention takes nothing"
        assert start < end


class MessageTtl(Case):
    verb = "message-ttl"
    at_namespace = ("-ttl", "30m")
    at_topic = ("-t", "2h")

    def prepare(self) -> None:
        place = self.place
        for name in ("t", "canary"):
            if name != "t":
                assert place.make(name) is None
            place.admin("topics", "create-subscription", place.path(name), "-s", "g", "-m", "earliest")
        place.admin("topicPolicies", "set-message-ttl", place.path("canary"), "-t", "30m")

    def _expired(self, name: str) -> int:
        found: int = self.place.subscription("g", name)["totalMsgExpired"]
        return found

    def shows(self, who: Said) -> None:
        place = self.place
        before = self._expired("t")
        older, old = place.value(), place.value()
        assert place.send(older, age_ms=3 * HOUR) == []
        assert place.send(old, age_ms=HOUR) == []
        for _ in range(2):
            # when the second is gone, whoever looks for what is old has looked at the topic, too
            gone = self._expired("canary")
            assert place.send(place.value(), to="canary", age_ms=HOUR) == []
            until(lambda gone=gone: self._expired("canary") == gone + 1, "what is old to go")  # type: ignore[misc]
        left = {Said.NOBODY: [older, old], Said.NAMESPACE: [], Said.TOPIC: [old]}[who]
        until(lambda: self._expired("t") - before == 2 - len(left), "each that is too old to be counted once")
        if left:
            consumer = place.member("g")
            assert place.shared(consumer, len(left)) == left
            consumer.close()
        assert place.subscription("g")["msgBacklog"] == 0


class MaxTopics(Case):
    verb = "max-topics-per-namespace"
    at_namespace = ("-t", "2")

    def shows(self, who: Said) -> None:
        place = self.place
        refused = [place.make("a"), place.make("b")]
        assert refused[0] is None
        if who is Said.NOBODY:
            assert refused[1] is None
        else:
            assert refused[1] is not None
            assert refused[1].code() == KafkaError.POLICY_VIOLATION
            # a plain producer asks for one, and gets none either
            (error,) = place.send(place.value(), to="c", by=place.producer(**{"message.timeout.ms": 500}))
            assert error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT)
        for name in set(place.topics()) - {"t"}:
            place.admin("topics", "delete-partitioned-topic", place.path(name))


class MaxSubscriptions(Case):
    verb = "max-subscriptions-per-topic"
    at_namespace = ("-m", "1")
    at_topic = ("-s", "2")

    def shows(self, who: Said) -> None:
        place = self.place
        most = {Said.NOBODY: 3, Said.NAMESPACE: 1, Said.TOPIC: 2}[who]
        made = [
            place.allowed("topics", "create-subscription", place.path(), "-s", f"s{each}")
            for each in range(most)
        ]
        assert made == [True] * most
        if who is not Said.NOBODY:
            with refused_member(place, "one-more", KafkaError.POLICY_VIOLATION):
                pass
        for each in range(most):
            place.admin("topics", "unsubscribe", place.path(), "-s", f"s{each}")


@contextmanager
def members(place: Place, *groups: str) -> Iterator[list[ShareConsumer]]:
    """One of each, and each is there."""
    found: list[ShareConsumer] = []
    for group in groups:
        before = _consumers(place)
        found.append(place.member(group))

        def there(consumer: ShareConsumer = found[-1], before: int = before) -> bool:
            acknowledge(consumer, poll(consumer, 0.02))
            return _consumers(place) > before

        until(there, f"a member of {group} to come")
    yield found
    for consumer in found:
        consumer.close()
    until(lambda: not _consumers(place), "members to go")


def _consumers(place: Place) -> int:
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


class MaxConsumers(Case):
    verb = "max-consumers-per-topic"
    at_namespace = ("-c", "1")
    at_topic = ("-c", "2")

    def shows(self, who: Said) -> None:
        most = {Said.NOBODY: 3, Said.NAMESPACE: 1, Said.TOPIC: 2}[who]
        # over all subscriptions of the topic
        with members(self.place, *[f"g{each}" for each in range(most)]):
            if who is not Said.NOBODY:
                with refused_member(self.place, "g0", KafkaError.GROUP_MAX_SIZE_REACHED):
                    pass


class MaxConsumersPerSubscription(Case):
    verb = "max-consumers-per-subscription"
    at_namespace = ("-c", "1")
    at_topic = ("-c", "2")

    def shows(self, who: Said) -> None:
        most = {Said.NOBODY: 3, Said.NAMESPACE: 1, Said.TOPIC: 2}[who]
        with members(self.place, *["g"] * most):
            if who is not Said.NOBODY:
                with refused_member(self.place, "g", KafkaError.GROUP_MAX_SIZE_REACHED):
                    pass
        # of another subscription there may be one
        with members(self.place, "h"):
            pass


class UnackedPerConsumer(Case):
    verb = "max-unacked-messages-per-consumer"
    at_namespace = ("-c", "2")
    at_topic = ("-m", "4")

    def shows(self, who: Said) -> None:
        place = self.place
        place.send_at_once([place.value() for _ in range(10)])
        consumer = place.member("g")
        first = some(consumer)
        assert len(first) == {Said.NOBODY: 10, Said.NAMESPACE: 2, Said.TOPIC: 4}[who]
        assert acknowledge(consumer, first)
        if left := 10 - len(first):
            place.shared(consumer, left)
        consumer.close()


class UnackedPerSubscription(Case):
    verb = "max-unacked-messages-per-subscription"
    at_namespace = ("-c", "2")
    at_topic = ("-m", "4")

    def shows(self, who: Said) -> None:
        place = self.place
        place.send_at_once([place.value() for _ in range(10)])
        one = place.member("g")
        first = some(one)
        assert len(first) == {Said.NOBODY: 10, Said.NAMESPACE: 2, Said.TOPIC: 4}[who]
        other = place.member("g")
        until(lambda: bool(poll(other, 0)) or _consumers(place) == 2, "the other one to come")
        assert poll(other, 0.1) == [], "all that may be in hand is in the first one's"
        assert acknowledge(one, first)
        one.close()
        if left := 10 - len(first):
            place.shared(other, left)
        other.close()


class Deduplication(Case):
    verb = "deduplication"
    at_namespace = ("--enable",)
    at_topic = ("--disable",)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._sequence = 0

    def shows(self, who: Said) -> None:
        place = self.place
        self._sequence += 1
        _, before = place.span()
        value = place.value()
        for _ in range(2):
            # each by a producer of its own, as one that begins again
            headers: list[tuple[str, str | bytes | None]] = [
                ("pulsar-producer-name", b"ada"),
                ("pulsar-sequence-id", b"%d" % self._sequence),
            ]
            assert place.send(value, headers=headers) == []
        _, after = place.span()
        assert after - before == (1 if who is Said.NAMESPACE else 2)


class MaxMessageSize(Case):
    verb = "max-message-size"
    at_topic = ("-m", "5000")

    def shows(self, who: Said) -> None:
        place = self.place
        assert place.send(place.value(1_000)) == []
        errors = [error.code() for error in place.send(place.value(10_000))]
        assert errors == ([KafkaError.MSG_SIZE_TOO_LARGE] if who is Said.TOPIC else [])


class MaxProducers(Case):
    verb = "max-producers-per-topic"
    at_namespace = ("-p", "1")
    at_topic = ("-p", "2")

    def shows(self, who: Said) -> None:
        place = self.place
        until(lambda: not place.stats()["publishers"], "the producers before to be gone")
        most = {Said.NOBODY: 3, Said.NAMESPACE: 1, Said.TOPIC: 2}[who]
        producers = [place.producer() for _ in range(most)]
        for each in producers:
            assert place.send(place.value(), by=each) == []
        if who is not Said.NOBODY:
            (error,) = place.send(place.value())
            assert error.code() == KafkaError.POLICY_VIOLATION


class PublishRate(Case):
    verb = "publish-rate"
    at_namespace = ("-m", "5")
    at_topic = ("-m", "-1")

    def shows(self, who: Said) -> None:
        told: list[ThrottleEvent] = []
        producer = self.place.producer(**{"linger.ms": 20, "throttle_cb": told.append})
        self.place.send_at_once([self.place.value() for _ in range(10)], producer)
        if who is Said.NAMESPACE:
            until(lambda: producer.poll(0.05) >= 0 and told, "to be told to wait")
            assert 0 < told[0].throttle_time <= 2
        else:
            self.place.send_at_once([self.place.value()], producer)
            producer.poll(0)
            assert told == []


class DispatchRate(Case):
    verb = "dispatch-rate"
    at_namespace = ("-md", "5", "-dt", "36000")
    at_topic = ("-md", "-1")

    def shows(self, who: Said) -> None:
        place = self.place
        _, before = place.span()
        assert place.send(*[place.value() for _ in range(15)]) == []
        found = place.read(before, 15)
        assert len(found) == (5 if who is Said.NAMESPACE else 15)


class SubscriptionDispatchRate(Case):
    verb = "subscription-dispatch-rate"
    at_namespace = ("-md", "5", "-dt", "36000")
    at_topic = ("-md", "-1")

    def prepare(self) -> None:
        self.place.admin("topics", "create-subscription", self.place.path(), "-s", "g", "-m", "earliest")

    def shows(self, who: Said) -> None:
        place = self.place
        assert place.send(*[place.value() for _ in range(15)]) == []
        waiting: int = place.subscription("g")["msgBacklog"]
        consumer = place.member("g")
        if who is Said.NAMESPACE:
            assert len(place.shared_until_silent(consumer)) == 5
        else:
            assert len(place.shared(consumer, waiting)) == waiting
        consumer.close()


class DelayedDelivery(Case):
    verb = "delayed-delivery"
    at_namespace = ("--disable",)
    at_topic = ("--enable",)

    def prepare(self) -> None:
        self.place.admin("topics", "create-subscription", self.place.path(), "-s", "g", "-m", "earliest")

    def shows(self, who: Said) -> None:
        place = self.place
        delayed, plain = place.value(), place.value()
        assert place.send(delayed, headers=[("pulsar-deliver-after", b"%d" % HOUR)]) == []
        assert place.send(plain) == []
        wanted = [delayed, plain] if who is Said.NAMESPACE else [plain]
        consumer = place.member("g")
        assert place.shared(consumer, len(wanted)) == wanted
        consumer.close()


class SubscriptionTypes(Case):
    verb = "subscription-types-enabled"
    at_namespace = ("-t", "Shared")
    at_topic = ("-t", "Key_Shared")

    def shows(self, who: Said) -> None:
        place = self.place
        allowed = {
            Said.NOBODY: {"shared", "key_shared"},
            Said.NAMESPACE: {"shared"},
            Said.TOPIC: {"key_shared"},
        }[who]
        for kind in ("shared", "key_shared"):
            made = place.allowed(
                "topics", "create-subscription", place.path(), "-s", f"by-hand-{kind}", "--type", kind
            )
            assert made == (kind in allowed)
            if made:
                place.admin("topics", "unsubscribe", place.path(), "-s", f"by-hand-{kind}")
        if "shared" not in allowed:
            with refused_member(place, "comes", KafkaError.POLICY_VIOLATION):
                pass


class AutoTopicCreation(Case):
    verb = "auto-topic-creation"
    at_namespace = ("--enable", "--type", "partitioned", "-n", "3")

    def shows(self, who: Said) -> None:
        place = self.place
        assert place.send(place.value(), to="asked-for") == []
        made = place.topics()["asked-for"]
        assert made == (1 if who is Said.NOBODY else 3)
        noun = "delete" if who is Said.NOBODY else "delete-partitioned-topic"
        place.admin("topics", noun, place.path("asked-for"))


class AutoSubscriptionCreation(Case):
    verb = "auto-subscription-creation"
    at_namespace = ("--disable",)
    at_topic = ("--enable",)

    def shows(self, who: Said) -> None:
        place = self.place
        if who is Said.NAMESPACE:
            with refused_member(place, "g", KafkaError.POLICY_VIOLATION):
                assert not place.stats()["subscriptions"]
            return
        value = place.value()
        consumer = place.member("g")
        assert place.send(value) == []
        assert value in place.shared(consumer, place.span()[1])
        consumer.close()
        until(lambda: not _consumers(place), "the member to go")
        place.admin("topics", "unsubscribe", place.path(), "-s", "g")


class SubscriptionExpiration(Case):
    verb = "subscription-expiration-time"
    at_namespace = ("-t", "1")

    def prepare(self) -> None:
        # a namespace that has had it all the time
        self.canary = Place(self.place.gateway, "expiration-canary")
        self.canary.admin("namespaces", "create", self.canary.namespace)
        self.canary.admin("namespaces", "set-subscription-expiration-time", self.canary.namespace, "-t", "1")
        assert self.canary.make("t") is None

    def _unused(self, place: Place) -> None:
        place.admin("topics", "create-subscription", place.path(), "-s", "unused")

    def shows(self, who: Said) -> None:
        place = self.place
        # a member keeps its own
        with members(place, "used"):
            self._unused(place)
            for _ in range(2):
                self._unused(self.canary)
                until(lambda: not self.canary.stats()["subscriptions"], "an unused subscription to go")
            if who is Said.NAMESPACE:
                until(lambda: "unused" not in place.stats()["subscriptions"], "the unused one to go")
            assert "used" in place.stats()["subscriptions"]
        if who is Said.NOBODY:
            for group in ("used", "unused"):
                place.admin("topics", "unsubscribe", place.path(), "-s", group)


class InactiveTopics(Case):
    verb = "inactive-topic-policies"
    at_namespace = ("-e", "-t", "1", "-m", "delete_when_no_subscriptions")
    at_topic = ("-d", "-t", "1", "-m", "delete_when_no_subscriptions")

    def prepare(self) -> None:
        self.canary = Place(self.place.gateway, "inactive-canary")
        self.canary.admin("namespaces", "create", self.canary.namespace)

    def shows(self, who: Said) -> None:
        place, canary = self.place, self.canary
        if "t" not in place.topics():
            assert place.make("t") is None
        if who is Said.NAMESPACE:
            until(lambda: "t" not in place.topics(), "a topic that nobody uses to go")
            return
        # one that comes later and goes first
        assert canary.make("t") is None
        canary.admin("topicPolicies", "set-inactive-topic-policies", canary.path(), *self.at_namespace)
        until(lambda: "t" not in canary.topics(), "another topic that nobody uses to go")
        assert "t" in place.topics()


class QuotaOfSize(Case):
    verb = "backlog-quota"
    type = "destination_storage"
    at_namespace = ("-l", "1k", "-p", "producer_exception")
    at_topic = ("-l", "3k", "-p", "producer_exception")

    def prepare(self) -> None:
        self.place.admin("topics", "create-subscription", self.place.path(), "-s", "g", "-m", "earliest")

    def shows(self, who: Said) -> None:
        place = self.place
        taken = 0
        refused: list[KafkaError] = []
        while not refused and taken < 6:
            refused = place.send(place.value(700))
            taken += not refused
        assert taken == {Said.NOBODY: 6, Said.NAMESPACE: 2, Said.TOPIC: 4}[who]
        assert [error.code() for error in refused] == ([KafkaError.POLICY_VIOLATION] if refused else [])
        consumer = place.member("g")
        place.shared(consumer, taken)
        consumer.close()


class QuotaOfAge(Case):
    verb = "backlog-quota"
    type = "message_age"
    at_namespace = ("-lt", "1", "-p", "producer_exception", "--type", "message_age")
    at_topic = ("-lt", "1h", "-p", "producer_exception", "--type", "message_age")

    def prepare(self) -> None:
        self.place.admin("topics", "create-subscription", self.place.path(), "-s", "g", "-m", "earliest")

    def shows(self, who: Said) -> None:
        # nobody reads: what was sent first is the oldest all the time
        place = self.place
        if who is Said.NAMESPACE:
            refused: list[KafkaError] = []

            def late() -> bool:
                refused.extend(place.send(place.value()))
                return bool(refused)

            until(late, "a second to be over")
            assert refused[0].code() == KafkaError.POLICY_VIOLATION
        else:
            assert place.send(place.value()) == []


def _cases() -> list[type[Case]]:
    return [
        each
        for each in globals().values()
        if isinstance(each, type) and issubclass(each, Case) and each is not Case
    ]


CASES = _cases()


def parameters() -> list[Any]:
    """One for each, by its name."""
    return [pytest.param(each, id="-".join(filter(None, (each.verb, each.type)))) for each in CASES]
