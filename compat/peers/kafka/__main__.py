"""`python -m compat.peers.kafka jars | run`: fetch the jars, or run one node in the foreground."""

from __future__ import annotations

import sys

from compat.peers import jvm
from compat.peers.kafka.jars import ensure_jars
from compat.peers.kafka.peer import KafkaPeer

if __name__ == "__main__":
    sys.exit(jvm.main(KafkaPeer, ensure_jars))
