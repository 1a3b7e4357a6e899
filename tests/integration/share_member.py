"""`share_member.py BOOTSTRAP GROUP TOPIC`: a member of a share group that accepts all it gets, until it is killed.

It prints `NS take KEY VALUE` for each record, and `NS done KEY VALUE` before it sends the acknowledgement; NS is the
monotonic clock, which the processes of a machine share.
"""

from __future__ import annotations

import contextlib
import sys
import time

from confluent_kafka import KafkaException, ShareConsumer


def tell(what: str, key: bytes, value: bytes) -> None:
    print(time.monotonic_ns(), what, key.decode(), value.decode(), flush=True)


def main() -> None:
    bootstrap, group, topic = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    member = ShareConsumer({**settings, "log_level": 0})
    member.subscribe([topic])
    while True:
        found = [message for message in member.poll(0.2) if message.error() is None]
        for message in found:
            tell("take", message.key(), message.value())
        time.sleep(0.02)  # the work: so it is mostly killed with records in hand
        for message in found:
            tell("done", message.key(), message.value())
            member.acknowledge(message)
        with contextlib.suppress(KafkaException):  # what is not confirmed comes again
            member.commit_sync(30)


if __name__ == "__main__":
    main()
