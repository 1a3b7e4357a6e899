"""Listeners of namespaces: their clients have bare names there, and nothing of what others have."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import free_port
from tests.integration.commands import admin
from tests.integration.sharing import (
    REJECT,
    acknowledge,
    make_group,
    make_topic,
    member,
    send,
    some,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

EU = "persistent://shop/eu/"
Start = Callable[..., MagnetarPeer]


class Places:
    """A gateway with a listener of public/default, and one each of shop/eu and shop/us."""

    def __init__(self, start: Start, *flags: str, made: bool = True) -> None:
        self.eu, self.us = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.gateway = start(
            *("--listen", f"EU://{self.eu}", "--listen", f"US://{self.us}"),
            "--set=listener.name.eu.pulsar.namespace=shop/eu",
            "--set=listener.name.us.pulsar.namespace=shop/us",
            *flags,
        )
        self.home = self.gateway.bootstrap
        if made:
            self.make()

    def make(self) -> None:
        self.admin("tenants", "create", "shop")
        self.admin("namespaces", "create", "shop/eu")
        self.admin("namespaces", "create", "shop/us")

    def admin(self, *words: str, code: int = 0) -> Any:
        """What `magnetar-admin` answers, or says on stderr where it fails."""
        return admin(self.gateway, *words, code=code)


def client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def topics(bootstrap: str) -> set[str]:
    """All but internal ones, which are there once somebody has looked for a coordinator."""
    return {name for name in client(bootstrap).list_topics(timeout=30).topics if not name.startswith("__")}


def groups(bootstrap: str) -> set[str]:
    # kept until it has answered
    admin = client(bootstrap)
    listed = admin.list_consumer_groups().result(30)
    assert not listed.errors
    return {each.group_id for each in listed.valid}


def reading(bootstrap: str, group: str, *topics: str, **conf: Any) -> Consumer:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 500,
        "log_level": 0,
    }
    found = Consumer({**settings, **conf})
    found.subscribe(list(topics))
    return found


def some_of(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []

    def more() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    until(more, f"{count} records")
    return found


def values(messages: list[Message]) -> list[bytes]:
    return sorted(message.value() or b"" for message in messages)


def refused(future: Any) -> int:
    """The code that a call of the admin client fails with."""
    with pytest.raises(KafkaException) as error:
        future.result(30)
    code: int = error.value.args[0].code()
    return code


def test_one_name_is_a_topic_and_a_group_in_each_place(own_gateway: Start) -> None:
    places = Places(own_gateway)
    for bootstrap, value in ((places.home, b"home"), (places.eu, b"eu"), (places.us, b"us")):
        # made by the producer that asks for it
        send(bootstrap, "orders", [(b"k", value)])
    assert topics(places.eu) == topics(places.us) == {"orders"}
    assert topics(places.home) == {"orders", "shop.eu.orders", "shop.us.orders"}
    assert places.admin("topics", "list", "shop/eu") == [f"{EU}orders"]
    open_ones = []
    for bootstrap, value in ((places.home, b"home"), (places.eu, b"eu"), (places.us, b"us")):
        # one group id at three homes at the same time: three groups, each with all that there is of its topic
        consumer = reading(bootstrap, "billing", "orders")
        (message,) = some_of(consumer, 1)
        assert (message.topic(), message.value()) == ("orders", value)
        consumer.commit(message, asynchronous=False)
        open_ones.append(consumer)
    for consumer in open_ones:
        assert len(consumer.assignment()) == 1
        consumer.close()
    # a pattern of a consumer is over what it is told of
    consumer = reading(places.eu, "all", "^.*", **{"auto.offset.reset": "earliest"})
    send(places.us, "orders", [(b"k", b"2")])
    send(places.eu, "orders", [(b"k", b"2")])
    assert values(some_of(consumer, 2)) == [b"2", b"eu"]
    assert {each.topic for each in consumer.assignment()} == {"orders"}
    consumer.close()
    assert groups(places.home) == groups(places.us) == {"billing"}
    assert groups(places.eu) == {"billing", "all"}

    admin = client(places.eu)
    admin.delete_consumer_groups(["billing"])["billing"].result(30)
    assert groups(places.eu) == {"all"}
    assert groups(places.home) == groups(places.us) == {"billing"}
    admin = client(places.home)
    at = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("billing")])
    assert [each.offset for each in at["billing"].result(30).topic_partitions] == [1]


def test_administrators_reach_what_is_of_their_home(own_gateway: Start) -> None:
    places = Places(own_gateway)
    make_topic(places.home, "home-only")
    make_topic(places.us, "orders", 3)
    admin = client(places.eu)
    admin.create_topics([NewTopic("orders", 1, 1, config={"retention.ms": "1000000"})])["orders"].result(30)
    assert (
        refused(admin.create_topics([NewTopic("orders", 1, 1)])["orders"]) == KafkaError.TOPIC_ALREADY_EXISTS
    )
    for others in ("home-only", "shop.us.orders", "public.default.home-only"):
        assert refused(admin.delete_topics([others])[others]) == KafkaError.UNKNOWN_TOPIC_OR_PART
        grown = admin.create_partitions([NewPartitions(others, 9)])
        assert refused(grown[others]) == KafkaError.UNKNOWN_TOPIC_OR_PART
        resource = ConfigResource(ConfigResource.Type.TOPIC, others)
        assert refused(admin.describe_configs([resource])[resource]) == KafkaError.UNKNOWN_TOPIC_OR_PART
        place = TopicPartition(others, 0)
        assert refused(admin.list_offsets({place: OffsetSpec.latest()})[place]) != KafkaError.NO_ERROR
    admin.create_partitions([NewPartitions("orders", 2)])["orders"].result(30)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    described = admin.describe_configs([resource])[resource].result(30)
    assert described["retention.ms"].value == "1000000"
    send(places.eu, "orders", [(b"k", b"1"), (b"k", b"2")], partition=0)
    end = admin.list_offsets({TopicPartition("orders", 0): OffsetSpec.latest()})
    assert next(iter(end.values())).result(30).offset == 2
    deleted = admin.delete_records([TopicPartition("orders", 0, 1)])
    assert next(iter(deleted.values())).result(30).low_watermark == 1
    (found,) = admin.describe_topics(_names("orders")).values()
    assert (found.result(30).name, len(found.result(30).partitions)) == ("orders", 2)

    entry = ConfigEntry("num.partitions", "7", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    code = refused(admin.incremental_alter_configs([broker])[broker])
    assert code == KafkaError.CLUSTER_AUTHORIZATION_FAILED

    # its own by the name that others have for it
    make_topic(places.eu, "shop.eu.fruit")
    assert topics(places.eu) == {"orders", "fruit"}
    assert "shop.eu.fruit" in topics(places.home)
    admin.delete_topics(["shop.eu.fruit"])["shop.eu.fruit"].result(30)
    assert topics(places.eu) == {"orders"}
    # whatever else a name looks like, it is one of this namespace
    for name in ("public.default.x", "shop.us.x"):
        make_topic(places.eu, name)
        assert topics(places.eu) == {"orders", name}
        admin.delete_topics([name])[name].result(30)
    for wrong in ("..", "a/b", "persistent://shop/us/orders", "x" * 250, "x" * 245):
        with pytest.raises(KafkaException) as error:
            admin.create_topics([NewTopic(wrong, 1, 1)])[wrong].result(30)
        assert error.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
        assert "shop.eu." not in error.value.args[0].str()
    assert topics(places.home) == {"home-only", "shop.eu.orders", "shop.us.orders"}


def _names(*names: str) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(list(names))


def test_a_share_group_is_the_subscription_of_pulsars_admin_api(own_gateway: Start) -> None:
    places = Places(own_gateway)
    make_topic(places.eu, "orders")
    send(places.eu, "orders", [(b"k", b"1"), (b"k", b"2")])
    places.admin("topics", "create-subscription", f"{EU}orders", "-s", "billing", "-m", "earliest")
    assert places.admin("topics", "subscriptions", f"{EU}orders") == ["billing"]
    group = make_group(places.eu, "billing", pulsar__dead__letter__enable="true")
    consumer = member(places.eu, group, "orders")
    messages = some(consumer)
    assert {message.topic() for message in messages} == {"orders"}
    stats = places.admin("topics", "stats", f"{EU}orders")["subscriptions"]
    assert [*stats] == ["billing"]
    assert len(stats["billing"]["consumers"]) == 1
    # and so it is of magnetar-admin, which finds the listener by itself
    places.admin("topics", "produce", f"{EU}orders", "3")
    command = (
        "topics",
        "consume",
        f"{EU}orders",
        "--share",
        "second",
        "--from",
        "earliest",
        "--format",
        "value",
    )
    assert places.gateway.admin(*command).split() == ["1", "2", "3"]
    assert places.admin("topics", "subscriptions", f"{EU}orders") == ["billing", "second"]
    # the group of that name at home is another, and gets nothing of this one's
    make_group(places.home, "billing")
    other = member(places.home, "billing", "shop.eu.orders")
    assert not [each for each in other.poll(1.0) if each.error() is None]
    other.close()
    rejected = 0
    while messages:
        assert acknowledge(consumer, messages, REJECT) == {("orders", 0)}
        rejected += len(messages)
        messages = some(consumer) if rejected < 3 else []
    consumer.close()
    letters = reading(places.eu, "undertaker", "orders-billing-DLQ")
    found = some_of(letters, 3)
    assert values(found) == [b"1", b"2", b"3"]
    headers = dict(found[0].headers() or [])
    assert headers["REAL_SUBSCRIPTION"] == headers["__dlq.errors.group"] == b"billing"
    letters.close()
    assert places.admin("topics", "list", "public/default") == []
    places.admin("topics", "unsubscribe", f"{EU}orders", "-s", "billing")
    assert places.admin("topics", "subscriptions", f"{EU}orders") == ["second"]


def test_letters_stay_at_home_whatever_a_config_or_a_header_says(own_gateway: Start) -> None:
    places = Places(own_gateway)
    make_topic(places.us, "orders")
    for name in ("orders", "tries"):
        make_topic(places.eu, name)
    letters = {"pulsar__dead__letter__enable": "true", "pulsar__dead__letter__topic": "shop.us.orders"}
    make_group(places.eu, "first", **letters)
    make_group(places.eu, "second", pulsar__dead__letter__enable="true", pulsar__retry__letter__topic="tries")
    send(places.eu, "orders", [(b"k", b"1")])
    producer = Producer({"bootstrap.servers": places.eu, "log_level": 0})
    producer.produce("tries", b"2", headers=[("REAL_TOPIC", b"persistent://shop/us/orders")])
    producer.flush(20)
    for group, names in (("first", ["orders"]), ("second", ["tries", "orders"])):
        consumer = member(places.eu, group, *names)
        seen = set[bytes]()
        while len(seen) < len(names):
            found = some(consumer)
            seen |= {each.value() or b"" for each in found}
            acknowledge(consumer, found, REJECT)
        consumer.close()
    until(lambda: any(name.endswith("-second-DLQ") for name in topics(places.eu)), "dead letters")
    # a topic of shop/eu that is called so
    until(lambda: "shop.us.orders" in topics(places.eu), "dead letters")
    assert topics(places.us) == {"orders"}
    assert not [name for name in topics(places.home) if name.startswith("shop.us.orders-")]
    assert places.admin("topics", "stats", "shop/us/orders")["msgInCounter"] == 0


def test_a_queue_topic_serves_the_group_of_its_home(own_gateway: Start) -> None:
    places = Places(own_gateway)
    make_topic(places.eu, "parts")
    admin = client(places.eu)
    queue = "parts-packing-QUEUE"
    admin.create_topics([NewTopic(queue, 2, 1)])[queue].result(30)
    send(places.eu, "parts", [(str(n).encode(), str(n).encode()) for n in range(6)])
    consumer = reading(places.eu, "packing", queue)
    found = some_of(consumer, 6)
    assert values(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    consumer.commit(asynchronous=False)
    stats = places.admin("topics", "stats", f"{EU}parts")["subscriptions"]
    assert stats["packing"]["msgBacklog"] == 0
    assert len(stats["packing"]["consumers"]) == 2
    consumer.close()
    # whoever has that name at home is not this queue's group
    assert topics(places.us) == set()


def test_a_queue_topic_over_a_pattern_reads_the_topics_of_its_home(own_gateway: Start) -> None:
    places = Places(own_gateway)
    admin, queue, config = client(places.eu), "billing-QUEUE", "pulsar.queue.pattern"
    for bootstrap in (places.home, places.eu, places.us):
        make_topic(bootstrap, "orders-a")
    for pattern in ("persistent://shop/us/orders-.*", "public.default.orders-.*"):
        asked = NewTopic(queue, 2, 1, config={config: pattern})
        assert refused(admin.create_topics([asked])[queue]) == KafkaError.INVALID_CONFIG
    # where nothing is said of where it begins, it is at the end that each topic has then
    admin.create_topics([NewTopic(queue, 2, 1, config={config: "orders-.*"})])[queue].result(30)
    for bootstrap, value in ((places.home, b"home"), (places.eu, b"eu"), (places.us, b"us")):
        # the second is made by the producer that asks for it
        for topic in ("orders-a", "orders-b"):
            send(bootstrap, topic, [(b"k", value + topic[-2:].encode())])
    consumer = reading(places.eu, "billing", queue)
    found = some_of(consumer, 2)
    assert values(found) == [b"eu-a", b"eu-b"]
    assert {message.topic() for message in found} == {queue}
    consumer.commit(asynchronous=False)
    consumer.close()
    places.gateway.kill()
    places.gateway.start()
    send(places.us, "orders-c", [(b"k", b"us-c")])
    send(places.eu, "orders-c", [(b"k", b"eu-c")])
    consumer = reading(places.eu, "billing", queue)
    assert values(some_of(consumer, 1)) == [b"eu-c"]
    consumer.close()
    stats = places.admin("topics", "partitioned-stats", f"{EU}{queue}")["magnetar"]["queue"]
    assert stats["pattern"] == f"{EU}orders-.*"
    assert stats["baseTopics"] == ["shop.eu.orders-a", "shop.eu.orders-b", "shop.eu.orders-c"]
    assert topics(places.us) == {"orders-a", "orders-b", "orders-c"}
    assert "has topics" in places.admin("namespaces", "delete", "shop/eu", code=1)
    places.admin("namespaces", "delete", "shop/eu", "--force")
    assert topics(places.home) == {"orders-a", "orders-b"} | {f"shop.us.orders-{end}" for end in "abc"}


def test_a_namespace_that_is_not_there_and_one_that_goes(own_gateway: Start) -> None:
    places = Places(own_gateway, made=False)
    # while there is no namespace shop/eu, this is a topic of public/default, which clients of shop/eu do not reach
    make_topic(places.home, "shop.eu.secret")
    assert "magnetar-admin namespaces create shop/eu" in places.gateway.log()
    assert topics(places.eu) == set()
    admin = client(places.eu)
    with pytest.raises(KafkaException) as error:
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)
    assert "magnetar-admin namespaces create shop/eu" in error.value.args[0].str()
    assert refused(admin.delete_topics(["secret"])["secret"]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    at_home = client(places.home)
    at_home.delete_topics(["shop.eu.secret"])["shop.eu.secret"].result(30)
    places.make()
    send(places.eu, "orders", [(b"k", b"1")])
    consumer = reading(places.eu, "billing", "orders")
    some_of(consumer, 1)
    places.admin("namespaces", "delete", "shop/eu", "--force")
    assert topics(places.eu) == set()
    # and the same again, with a client that had read what was there
    make_topic(places.home, "shop.eu.orders")
    send(places.home, "shop.eu.orders", [(b"k", b"secret")])
    assert [each for each in [consumer.poll(0.5) for _ in range(6)] if each and not each.error()] == []
    consumer.close()
    producer = Producer({"bootstrap.servers": places.eu, "message.timeout.ms": 2000, "log_level": 0})
    told: list[Any] = []
    producer.produce("orders", b"x", on_delivery=lambda error, message: told.append(error))
    producer.flush(20)
    assert told
    assert told[0] is not None


def test_subscriptions_follow_the_listeners(own_gateway: Start) -> None:
    """What was made before its namespace had a listener is met by clients of that, and the other way round."""
    gateway = own_gateway()
    for words in (("tenants", "create", "shop"), ("namespaces", "create", "shop/eu")):
        gateway.admin(*words)
    make_topic(gateway.bootstrap, "shop.eu.orders")
    make_topic(gateway.bootstrap, "shop.eu.parts")
    gateway.admin("topics", "create-subscription", "shop/eu/orders", "-s", "billing", "-m", "earliest")
    queue = "shop.eu.parts-packing-QUEUE"
    admin = client(gateway.bootstrap)
    admin.create_topics([NewTopic(queue, 1, 1)])[queue].result(30)
    pattern = ("--pattern", f"{EU}part.", "-s", "all", "--lanes", "1", "-m", "earliest")
    gateway.admin("topics", "create-subscription", *pattern)
    send(gateway.bootstrap, "shop.eu.orders", [(b"k", b"1"), (b"k", b"2")])
    send(gateway.bootstrap, "shop.eu.parts", [(b"k", b"part")])
    consumer = member(gateway.bootstrap, "billing", "shop.eu.orders")
    acknowledge(consumer, some(consumer)[:1])
    consumer.close()
    gateway.kill()

    eu = f"127.0.0.1:{free_port()}"
    plain = list(gateway.flags)
    gateway.flags += [f"--listen=EU://{eu}", "--set=listener.name.eu.pulsar.namespace=shop/eu"]
    gateway.start()
    assert json.loads(gateway.admin("topics", "subscriptions", "shop/eu/orders", "--output", "json")) == [
        "billing"
    ]
    consumer = member(eu, "billing", "orders")
    (message,) = some(consumer)
    assert message.value() == b"2"
    acknowledge(consumer, [message])
    send(eu, "orders", [(b"k", b"3")])
    assert values(some(consumer)) == [b"3"]
    consumer.close()
    lanes = reading(eu, "packing", "parts-packing-QUEUE")
    assert values(some_of(lanes, 1)) == [b"part"]
    lanes.close()
    lanes = reading(eu, "all", "all-QUEUE")
    assert values(some_of(lanes, 1)) == [b"part"]
    lanes.close()
    gateway.kill()

    gateway.flags = plain
    gateway.start()
    consumer = member(gateway.bootstrap, "billing", "shop.eu.orders")
    assert values(some(consumer)) == [b"3"]
    consumer.close()
