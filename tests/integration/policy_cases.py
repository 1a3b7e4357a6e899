"""Of each policy of the table: what real clients see of it while a namespace says it, a topic, or nobody.

Those that are limits: `policy_limits.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.integration import policy_limits
from tests.integration.policy_case import Case, Said, cases_in, consumers, members, refused_member
from tests.integration.policy_place import HOUR, Place
from tests.integration.sharing import until


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


class CompactionThreshold(Case):
    verb = "compaction-threshold"
    at_namespace = ("--threshold", "1")
    at_topic = ("--threshold", "1g")

    def prepare(self) -> None:
        # by its ratio the one is never due, and the other always
        assert self.place.make("u") is None
        for name, ratio in (("t", "1"), ("u", "0")):
            self.place.configure(
                name,
                {
                    "cleanup.policy": "compact",
                    "min.cleanable.dirty.ratio": ratio,
                    "internal.segment.bytes": "300",
                },
            )

    def shows(self, who: Said) -> None:
        place = self.place
        if who is Said.NAMESPACE:
            self._write("t")
            until(lambda: place.stats()["storageSize"] < 900, "the topic to be compacted")
            return
        # what began under the level before is over
        self._rounds()
        self._write("t")
        size = place.stats()["storageSize"]
        assert size > 900
        self._rounds()
        assert place.stats()["storageSize"] == size

    def _rounds(self) -> None:
        for _ in range(2):
            # the second round begins when the first is over
            self._write("u")
            until(lambda: self.place.stats("u")["storageSize"] < 900, "the other one to be compacted")

    def _write(self, name: str) -> None:
        producer = self.place.producer()
        for _ in range(8):
            producer.produce(self.place.named(name), self.place.value(100), b"k")
            assert producer.flush(30) == 0


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
        until(lambda: not consumers(place), "the member to go")
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


CASES = [*cases_in(vars(policy_limits)), *cases_in(globals())]


def parameters() -> list[Any]:
    """One for each, by its name."""
    return [pytest.param(each, id="-".join(filter(None, (each.verb, each.type)))) for each in CASES]
