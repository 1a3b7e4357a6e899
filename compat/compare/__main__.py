"""`python -m compat.compare`: run the scripts against both servers, print what differs without a reason.

The exit code is 1 when something does. `--all` prints the expected differences too, `--only NAME` runs one script,
`--kafka` and `--magnetar` take servers that run already (with nothing in them).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from typing import Any

from compat.bench.servers import Magnetar
from compat.compare.difference import Reason, differences, reason_for, reasons
from compat.compare.scripts import SCRIPTS
from compat.compare.server import Server
from compat.peers.kafka.peer import KafkaPeer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.compare", description=__doc__)
    parser.add_argument("--all", action="store_true", help="print the expected differences too")
    parser.add_argument("--only", choices=sorted(SCRIPTS), help="run one script")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs already")
    parser.add_argument("--magnetar", metavar="HOST:PORT", help="a Magnetar that runs already")
    parser.add_argument("--store", default="rocksdb", help="store.driver of the Magnetar that is started")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        kafka = arguments.kafka or stack.enter_context(KafkaPeer()).bootstrap
        magnetar = arguments.magnetar
        if magnetar is None:
            process = stack.enter_context(Magnetar({"node.id": "1", "store.driver": arguments.store}))
            process.start()
            magnetar = process.address
        servers = [Server("kafka", kafka), Server("magnetar", magnetar)]
        for name, script in SCRIPTS.items():
            if arguments.only in (None, name):
                for server in servers:
                    script(server)
        for server in servers:
            server.close()
    return report(servers, show_all=arguments.all)


def report(servers: list[Server], *, show_all: bool) -> int:
    """Print and count. Raises ValueError when the scripts went different ways."""
    known = reasons()
    used: Counter[Reason] = Counter()
    unexpected = 0
    for (label, kafka), (other, magnetar) in zip(servers[0].answers, servers[1].answers, strict=True):
        if label != other:
            raise ValueError(f"the script went different ways: {label} and {other}")
        for found in differences(label, kafka, magnetar):
            reason = reason_for(found, known)
            if reason is not None:
                used[reason] += 1
            else:
                unexpected += 1
            if reason is None or show_all:
                why = f"   ({reason.why})" if reason is not None else ""
                print(
                    f"{label}\n    {found.path}: kafka {_short(found.kafka)}, magnetar {_short(found.magnetar)}{why}"
                )
    print(
        f"{len(servers[0].answers)} answers compared: {unexpected} differences without a reason, "
        f"{used.total()} with one of {len(used)} reasons"
    )
    return 1 if unexpected else 0


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 160 else text[:157] + "..."


if __name__ == "__main__":
    sys.exit(main())
