"""`holder.py BOOTSTRAP GROUP TOPIC COUNT`: a member in a process of its own that holds records until it is killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from confluent_kafka import ShareConsumer

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from security import librdkafka


def main() -> None:
    bootstrap, group, topic, count = sys.argv[1:]
    member = ShareConsumer(
        {**librdkafka(bootstrap), "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    member.subscribe([topic])
    while True:
        if found := len(member.poll(0.2)):
            print(f"holds {found}", flush=True)
            if found != int(count):
                sys.exit(f"{found} records instead of {count}")
            time.sleep(600)


if __name__ == "__main__":
    main()
