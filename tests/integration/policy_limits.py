"""Of each policy that is a limit: what real clients see of it, under it and above."""

from __future__ import annotations

from confluent_kafka import KafkaError, ThrottleEvent

from tests.integration.policy_case import Case, Said, consumers, members, refused_member
from tests.integration.sharing import acknowledge, poll, some, until


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
        until(lambda: bool(poll(other, 0)) or consumers(place) == 2, "the other one to come")
        assert poll(other, 0.1) == [], "all that may be in hand is in the first one's"
        assert acknowledge(one, first)
        one.close()
        if left := 10 - len(first):
            place.shared(other, left)
        other.close()


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
