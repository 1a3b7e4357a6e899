"""Orders for the day, at a steady pace. Each key's records are numbered: 0, 1, 2, ..."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

RATE = 1_200
"""Records a second."""
KEYS = 320


class Feeder:
    """A producer in a thread of its own. It survives that the gateway is away."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent: Counter[str] = Counter()
        """Key -> how many records of it."""
        self.failed = ""
        self.poison: tuple[str, int] | None = None
        """Which record it is, once it is sent."""
        self.count = 0
        self._poisonous = ""
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def spoil(self, key: str) -> None:
        """The next record is of this key, and nobody can work on it."""
        self._poisonous = key

    def stop(self) -> None:
        """No more; all that was sent is acknowledged, or `failed` says why not."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """No more, whatever becomes of what was sent: the gateway may not be there."""
        self._over.set()
        while self._thread.is_alive():
            self._producer.purge()
            self._thread.join(0.1)

    def _work(self) -> None:
        chance, began = random.Random(12), time.monotonic()
        while not self._over.wait(0.02):
            due = int((time.monotonic() - began) * RATE)
            while self.count < due and not self._over.is_set():
                key = self._poisonous or f"key-{chance.randrange(KEYS)}"
                number = self.sent[key]
                if self._poisonous:
                    self._poisonous, self.poison = "", (key, number)
                value = f"{number} poison" if self.poison == (key, number) else str(number)
                self._producer.produce(self.topic, value.encode(), key.encode(), on_delivery=self._delivered)
                self.sent[key] += 1
                self.count += 1
            self._producer.poll(0)
        if left := self._producer.flush(30):
            self.failed = self.failed or f"{left} were not acknowledged within 30 s"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed = error.str()
