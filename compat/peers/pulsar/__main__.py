"""`python -m compat.peers.pulsar jars | run`: fetch the jars, or run one node in the foreground."""

from __future__ import annotations

import sys

from compat.peers import jvm
from compat.peers.pulsar.jars import ensure_jars
from compat.peers.pulsar.peer import PulsarPeer

if __name__ == "__main__":
    sys.exit(jvm.main(PulsarPeer, ensure_jars))
