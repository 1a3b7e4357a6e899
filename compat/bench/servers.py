"""The servers under test: each fresh, in a folder of its own on the project's disk, and gone after its turn."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from compat.bench.loads import BEFORE, Load
from compat.peers.kafka import KafkaPeer
from compat.peers.magnetar import MagnetarPeer
from compat.peers.process import Peer
from compat.peers.pulsar import PulsarPeer
from compat.peers.secured import Secured
from compat.tools import PROJECT

SCRATCH = PROJECT / ".cache" / "bench"


def make_server(name: str, load: Load, before: Path | None = None) -> Peer:
    """The server of a turn as its distribution starts it, with the load's settings. `before` is the checkout of the
    server "Before".

    It is not started yet: some loads measure just that.
    """
    secured = None
    if load.secured:
        secured = Secured(
            SCRATCH / "certificates", users={"bench": "bench-secret"}, super_users=("User:bench",)
        )
    if name == BEFORE:
        return MagnetarPeer(settings=load.magnetar, scratch=SCRATCH, checkout=before, secured=secured)
    if name == "Pulsar":
        return PulsarPeer(settings=load.standalone, scratch=SCRATCH)
    if name == "Kafka":
        return KafkaPeer(heap="1g", settings=load.kafka, scratch=SCRATCH, secured=secured)
    return MagnetarPeer(settings=load.magnetar, scratch=SCRATCH, secured=secured)


@contextlib.contextmanager
def removed(server: Peer) -> Iterator[Peer]:
    """At the end of the block its processes and its folder are gone."""
    try:
        yield server
    except KeyboardInterrupt:
        server.kill()
        raise
    finally:
        server.close()


def settle_disk() -> None:
    """Let the kernel write what the turn before left behind, so that the next does not pay for it."""
    os.sync()
