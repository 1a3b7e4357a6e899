"""`python -m compat.peers.kafka jars | run`: fetch the jars, or run one Kafka node in the foreground."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

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
        return _run(options)
    except (JarsError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(options: argparse.Namespace) -> int:
    settings: dict[str, str] = {}
    for pair in options.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise PeerError(f"--set {pair}: expected key=value")
        settings[key] = value

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    peer = KafkaPeer(port=options.port, directory=options.dir, heap=options.heap, settings=settings)
    try:
        with peer:
            print(f"listening on {peer.bootstrap}", flush=True)
            code = peer.wait()
            print(f"Kafka ended with code {code}\n{peer.log_tail()}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
