"""`python -m compat.peers.pulsar jars | run`: fetch the jars, or run one Pulsar standalone in the foreground."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compat.peers import process
from compat.peers.maven import JarsError
from compat.peers.process import PeerError
from compat.peers.pulsar.jars import ensure_jars
from compat.peers.pulsar.peer import PulsarPeer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat.peers.pulsar", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("jars", help="fetch Pulsar's jars (242 MB) if needed and print their folder")
    run = verbs.add_parser("run", help="run one standalone until SIGTERM or Ctrl-C")
    run.add_argument("--port", type=int, default=0, help="of the broker on 127.0.0.1; 0 picks a free one")
    run.add_argument(
        "--dir", type=Path, help="data, configuration and logs; temporary and removed without it"
    )
    run.add_argument("--heap", default="2g", help="the JVM's heap (2g)")
    run.add_argument("--set", action="append", default=[], metavar="K=V", help="a setting of standalone.conf")
    options = parser.parse_args()
    try:
        if options.verb == "jars":
            print(ensure_jars())
            return 0
        given = process.settings(options.set)
        peer = PulsarPeer(port=options.port, directory=options.dir, heap=options.heap, settings=given)
        return process.run(peer, lambda: f"{peer.service_url}, admin {peer.admin_url}")
    except (JarsError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
