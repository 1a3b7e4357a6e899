"""A member in Python: a whole consumer of a queue topic with confluent-kafka.

    python worker.py BOOTSTRAP GROUP TOPIC NAME MS

NAME is its client id, MS how long it works on a record. It says what it does as events.py has it, and leaves in order
when its standard input ends. A record whose value says "poison" it cannot do, ever.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

GONE = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
"""The lanes are, or will be, another's: what is not committed comes again there."""


def main(bootstrap: str, group: str, topic: str, name: str, ms: str) -> None:
    """The command."""
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 3_000,
            "heartbeat.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not over.is_set():
        work(consumer, consumer.consume(50, 0.2), int(ms) / 1000)
    consumer.close()


def work(consumer: Consumer, messages: list[Message], pause: float) -> None:
    """Do what one poll gave, and say what became of it in one commit."""
    done: dict[int, TopicPartition] = {}
    nacked: set[int] = set()
    for message in messages:
        lane = message.partition()
        if message.error() or lane in nacked:
            continue
        began = now()
        time.sleep(pause)
        number, *more = message.value().decode().split()
        said = ""
        if "poison" in more:
            # a nack, and "s": the rest of this lane is left for now, so that nothing of the key is done before it
            said = f"ack1;s;n={message.offset()}"
            nacked.add(lane)
        failed = dict(message.headers() or []).get("pulsar-redelivery-count", b"0").decode()
        verdict = "nack" if said else "done"
        where = f"{lane} {message.offset()} {message.key().decode()} {number}"
        # at once: who is killed in the next moment has said what it did
        print(f"took {began} {now()} {where} {failed} {verdict}", flush=True)
        done[lane] = TopicPartition(message.topic(), lane, message.offset() + 1, metadata=said)
    if done and commit(consumer, list(done.values())):
        for place in done.values():
            print(f"acked {now()} {place.partition} {place.offset}")
            if place.partition in nacked:
                consumer.seek(place)
    sys.stdout.flush()


def commit(consumer: Consumer, places: list[TopicPartition]) -> bool:
    """Until it is answered: the gateway may be away for a while. False when the lanes are another's."""
    while True:
        try:
            answered = consumer.commit(offsets=places, asynchronous=False)
            refused = next((place.error for place in answered if place.error), None)
        except KafkaException as error:
            refused = error.args[0]
        if refused is None:
            return True
        if refused.code() in GONE:
            return False
        time.sleep(0.2)


def assigned(consumer: Consumer, places: list[TopicPartition]) -> None:
    print(f"holds {now()} {','.join(str(place.partition) for place in places) or '-'}", flush=True)


def revoked(consumer: Consumer, places: list[TopicPartition]) -> None:
    print(f"holds {now()} -", flush=True)


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BrokenPipeError:  # nobody listens any more
        os._exit(1)
