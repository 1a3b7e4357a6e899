"""What servers on the JVM have in common: a heap, a file of settings, a log, and a command that runs one."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from compat.peers.maven import JarsError
from compat.peers.process import Peer, PeerError, free_port

LOGGING = """\
status = error
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/server.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
"""
"""A log4j2.properties: all into one file, as `Peer.log_tail` expects."""


class JvmPeer(Peer):
    """A server on the JVM. `settings` win over ours; `heap` is both -Xms and -Xmx.

    `more_ports` are for what it serves beside its clients; they are the same after a restart.
    """

    HEAP: str
    """Unless another one is asked for."""
    PATIENCE: float
    """Seconds that a start may take."""

    def __init__(
        self,
        *,
        port: int = 0,
        directory: Path | None = None,
        heap: str = "",
        settings: Mapping[str, str] | None = None,
        start_timeout: float = 0.0,
        scratch: Path | None = None,
    ) -> None:
        super().__init__(port, directory, start_timeout or self.PATIENCE, scratch)
        self.heap = heap or self.HEAP
        self.more_ports = (free_port(), free_port())
        self._settings = dict(settings or {})

    def configure(self, name: str, values: Mapping[str, str]) -> Path:
        """Write the file of settings, and that of the log beside it; where it is."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.properties").write_text(LOGGING.format(folder=self.directory))
        file = self.directory / name
        file.write_text("".join(f"{key}={value}\n" for key, value in {**values, **self._settings}.items()))
        return file

    def places(self) -> tuple[str, ...]:
        """The options of the JVM that keep it to its folder."""
        # what it unpacks for itself goes with the folder, also when it is killed
        return (
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            f"-Djava.io.tmpdir={self.directory}",
        )


def main(peer: type[JvmPeer], ensure_jars: Callable[[], Path]) -> int:
    """`python -m compat.peers.NAME jars | run`: fetch the jars, or run one in the foreground."""
    name = peer.name
    parser = argparse.ArgumentParser(
        prog=f"python -m compat.peers.{name.lower()}",
        description=f"Fetch the jars of Apache {name}, or run one node in the foreground.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("jars", help="fetch the jars if needed and print their folder")
    run = verbs.add_parser("run", help="run one node until SIGTERM or Ctrl-C")
    run.add_argument("--port", type=int, default=0, help="of the listener on 127.0.0.1; 0 picks a free one")
    run.add_argument(
        "--dir", type=Path, help="data, configuration and logs; temporary and removed without it"
    )
    run.add_argument("--heap", default=peer.HEAP, help=f"the JVM's heap ({peer.HEAP})")
    run.add_argument("--set", action="append", default=[], metavar="K=V", help="a setting of the server")
    options = parser.parse_args()
    try:
        if options.verb == "jars":
            print(ensure_jars())
            return 0
        settings = {}
        for pair in options.set:
            key, equals, value = pair.partition("=")
            if not equals:
                raise PeerError(f"--set {pair}: expected key=value")
            settings[key] = value
        return _foreground(
            peer(port=options.port, directory=options.dir, heap=options.heap, settings=settings)
        )
    except (JarsError, PeerError) as error:
        print(error, file=sys.stderr)
        return 1


def _foreground(peer: Peer) -> int:
    """Run it until SIGTERM or Ctrl-C: the exit code."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        with peer:
            try:
                print(f"listening on {peer.told}", flush=True)
                code = peer.wait()
            except KeyboardInterrupt:
                # its data may be wanted again
                peer.stop()
                return 0
            print(f"{peer.name} ended with code {code}\n{peer.log_tail()}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        return 0
