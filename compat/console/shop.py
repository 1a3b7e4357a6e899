"""A shop at work: groups of every kind, an order that is held up, payments that failed, reminders that wait for their
time, a transaction that nobody ends. What the picture of the console shows, and what the questions of operators are
asked of.

Dead letters of yesterday are written as a client may write them: nothing else in here pretends.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.peers.magnetar import MagnetarPeer
from compat.share_tour import configure

PATIENCE = 60.0
CUSTOMER, FIRST, LATER = "customer-248", 880_012, 880_026
"""Whose order is held up by an earlier one of the same key."""
AGAIN = 12
"""Letters of yesterday with adyen in them that failed fewer than three times."""
REMINDERS = 9
"""That are due within the hour."""


class Shop:
    """A gateway, and those who use it. `with Shop(gateway): …`; the gateway is started."""

    def __init__(self, gateway: MagnetarPeer, now: datetime | None = None) -> None:
        self.gateway = gateway
        self._now = now or datetime.now(UTC)
        self._stack = ExitStack()
        self._chance = random.Random(7)

    def __enter__(self) -> Shop:
        try:
            self._orders()
            self._payments()
            self._reminders()
            self._invoices()
            self._shipping()
            self._ledger()
            self._policies()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # -- what they do -------------------------------------------------------------------------------------------------

    def _orders(self) -> None:
        """Packers by key: one has an order of a customer in hand, and a later one of the same customer waits."""
        self._topic("orders", 3)
        self.gateway.admin(
            *("topics", "create-subscription", "orders", "-s", "packing", "-m", "earliest"),
            *("--type", "key_shared"),
        )
        packers = [self._member("packing", "orders", f"packer-{number}") for number in (1, 2)]
        left = 0

        def packed() -> bool:
            nonlocal left
            for packer in packers:
                for message in _taken(packer):
                    packer.acknowledge(message, AcknowledgeType.ACCEPT)
                    left -= 1
                packer.commit_sync()
            return left <= 0

        for number in range(880_000, 880_240):
            if number not in (FIRST, LATER):
                self._order(number, f"customer-{self._chance.randrange(240)}")
                left += 1
        self._flush()
        _until(packed, "the packers")
        for number in (FIRST, LATER):
            self._order(number, CUSTOMER)
        self._flush()
        # whoever has it keeps it
        _until(lambda: any(_taken(packer) for packer in packers), "the order that is held")

    def _order(self, number: int, customer: str) -> None:
        order = {"order": number, "customer": customer, "lines": number % 5 + 1}
        # they lie here for a while
        self._send("orders", customer, order, at=self._now - timedelta(minutes=25))

    def _payments(self) -> None:
        """Bookings that died, today and yesterday."""
        self._topic("payments", 2)
        configure(self.gateway.bootstrap, "booking")
        booker = self._member("booking", "payments", "booker-1")
        failures = 6
        for number in range(160):
            self._send(
                "payments", f"order-{880_000 + number}", {"order": 880_000 + number, "provider": "stripe"}
            )
        for number in range(failures):
            self._send(
                "payments", f"order-{880_300 + number}", {"order": 880_300 + number, "provider": "adyen"}
            )
        self._flush()
        seen = 0

        def booked() -> bool:
            nonlocal seen
            for message in _taken(booker):
                failed = json.loads(message.value() or b"{}")["provider"] == "adyen"
                booker.acknowledge(message, AcknowledgeType.REJECT if failed else AcknowledgeType.ACCEPT)
                seen += 1
            booker.commit_sync()
            return seen == 160 + failures

        _until(booked, "the bookings")
        yesterday = (self._now - timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0)
        for count, provider, failed in ((AGAIN, "adyen", 1), (5, "adyen", 3), (7, "stripe", 2)):
            for number in range(count):
                order = 879_000 + failed * 100 + number
                self._send(
                    "payments-booking-DLQ",
                    f"order-{order}",
                    {"order": order, "provider": provider, "error": "timeout"},
                    at=yesterday + timedelta(minutes=number),
                    headers={
                        "__dlq.errors.topic": "payments",
                        "__dlq.errors.group": "booking",
                        "__dlq.errors.delivery.count": str(failed),
                        "pulsar-dead-letter-reason": "MAX_DELIVERIES" if failed == 3 else "REJECTED",
                    },
                )
        self._flush()

    def _reminders(self) -> None:
        """Mail that is to be sent later."""
        self._topic("reminders", 1)
        configure(self.gateway.bootstrap, "mailing")
        mailer = self._member("mailing", "reminders", "mailer-1")
        for number in range(REMINDERS + 30):
            soon = number < REMINDERS
            due = self._now + timedelta(minutes=6 * number + 6 if soon else 90 + 40 * (number - REMINDERS))
            headers = {"pulsar-deliver-at": str(_ms(due))}
            self._send("reminders", f"customer-{number}", {"mail": "your cart waits"}, headers=headers)
        self._flush()

        def waits() -> bool:
            assert not _taken(mailer)
            stats = json.loads(
                self.gateway.admin("--output", "json", "topics", "partitioned-stats", "reminders")
            )
            return bool(stats["subscriptions"]["mailing"]["msgDelayed"] == REMINDERS + 30)

        _until(waits, "the reminders")

    def _invoices(self) -> None:
        """A consumer group that is behind, one that is not, and a backlog that somebody cleared."""
        self._topic("invoices", 2)
        for number in range(1_500):
            sent = self._now - timedelta(hours=3, seconds=-2 * number)
            self._send("invoices", f"customer-{number % 240}", {"invoice": number, "cents": 1_990}, at=sent)
        self._flush()
        for group, some in (("accounting", 180), ("archive", 1_500)):
            reader = Consumer(
                {
                    "bootstrap.servers": self.gateway.bootstrap,
                    "group.id": group,
                    "client.id": f"{group}-1",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                    "log_level": 0,
                }
            )
            self._stack.callback(reader.close)
            reader.subscribe(["invoices"])
            read = 0
            while read < some:
                found = reader.consume(min(some - read, 500), PATIENCE)
                assert found, f"{group} was given nothing"
                read += len(found)
            reader.commit(asynchronous=False)
        self.gateway.admin("topics", "create-subscription", "invoices", "-s", "billing", "-m", "earliest")
        self.gateway.admin("topics", "clear-backlog", "invoices", "-s", "billing")

    def _shipping(self) -> None:
        """A queue topic, with a member that knows only offsets."""
        self.gateway.admin(
            *(
                "topics",
                "create-subscription",
                "orders",
                "-s",
                "shipping",
                "-m",
                "earliest",
                "--type",
                "key_shared",
            ),
            *("--lanes", "2"),
        )
        # nobody reads this one
        self.gateway.admin("topics", "create-subscription", "orders", "-s", "loyalty", "-m", "earliest")
        reader = Consumer(
            {
                "bootstrap.servers": self.gateway.bootstrap,
                "group.id": "shipping",
                "client.id": "shipper-1",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._stack.callback(reader.close)
        reader.subscribe(["orders-shipping-QUEUE"])
        assert reader.consume(20, PATIENCE)
        reader.commit(asynchronous=False)

    def _ledger(self) -> None:
        """A transaction that nobody has ended yet."""
        writer = Producer(
            {
                "bootstrap.servers": self.gateway.bootstrap,
                "transactional.id": "ledger-writer",
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        writer.init_transactions(PATIENCE)
        writer.begin_transaction()
        for number in range(3):
            writer.produce(
                "payments", json.dumps({"order": 880_400 + number, "provider": "ledger"}), f"order-{number}"
            )
        assert writer.flush(PATIENCE) == 0
        self._stack.callback(writer.abort_transaction, PATIENCE)

    def _policies(self) -> None:
        self.gateway.admin("namespaces", "set-retention", "public/default", "--time", "7d", "--size", "10G")
        self.gateway.admin("topicPolicies", "set-message-ttl", "orders", "-t", "3d")

    # -- how ----------------------------------------------------------------------------------------------------------

    def _topic(self, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.gateway.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE)

    def _member(self, group: str, topic: str, client: str) -> ShareConsumer:
        found = ShareConsumer(
            {
                "bootstrap.servers": self.gateway.bootstrap,
                "group.id": group,
                "client.id": client,
                "share.acknowledgement.mode": "explicit",
                "log_level": 0,
            }
        )
        self._stack.callback(found.close)
        found.subscribe([topic])
        return found

    def _send(
        self,
        topic: str,
        key: str,
        value: dict[str, Any],
        at: datetime | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._producer.produce(
            topic,
            json.dumps(value),
            key,
            timestamp=_ms(at) if at is not None else 0,
            headers={name: each.encode() for name, each in (headers or {}).items()},
        )
        self._producer.poll(0)

    @property
    def _producer(self) -> Producer:
        if not hasattr(self, "_made"):
            self._made = Producer(
                {"bootstrap.servers": self.gateway.bootstrap, "linger.ms": 5, "log_level": 0}
            )
        return self._made

    def _flush(self) -> None:
        assert self._producer.flush(PATIENCE) == 0


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _taken(member: ShareConsumer) -> list[Message]:
    return [message for message in member.poll(0.1) if message.error() is None]


def _until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"gave up waiting for {what}")
