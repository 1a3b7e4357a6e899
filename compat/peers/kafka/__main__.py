"""`python -m compat.peers.kafka jars | run`: fetch the jars, or run one Kafka node in the foreground."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compat.peers import process
from compat.peers.kafka.jars import ensure_jars
from compat.peers.kafka.peer import KafkaPeer
from compat.peers.maven import JarsError
from compat.peers.process import PeerError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.peers.kafka", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("jars", help="fetch Kafka's jars if needed and print their folder")
    run = verbs.add_parser("run", help="run one KRaft node until SIGTERM or Ctrl-C")
    run.add_argument("--port", type=int, default=0, help="of the listener on 127.0.0.1; 0 picks a free one")
    run.add_argument(
        "--dir", type=Path, help="data, configuration and logs; temporary and removed without it"
    )
    run.add_argument("--heap", default="512m", help="the JVM's heap (512m)")
    run.add_argument("--set", action="append", default=[], metavar="K=V", help="a broker setting")
    options = parser.parse_args()
    try:
        if options.verb == "jars":
            print(ensure_jars())
            return 0
        given = process.settings(options.set)
        peer = KafkaPeer(port=options.port, directory=options.dir, heap=options.heap, settings=given)
        return process.run(peer, lambda: peer.bootstrap)
    except (JarsError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
