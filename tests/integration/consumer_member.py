"""`consumer_member.py BOOTSTRAP GROUP TOPIC`: a member with group.protocol=consumer that polls until it is killed.

It prints how many partitions it has, each time that this changes.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer


def main() -> None:
    bootstrap, group, topic = sys.argv[1:]
    member = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "log_level": 0}
    )
    member.subscribe([topic])
    has = -1
    while True:
        member.poll(0.1)
        now = len(member.assignment())
        if now != has:
            has = now
            print(has, flush=True)


if __name__ == "__main__":
    main()
