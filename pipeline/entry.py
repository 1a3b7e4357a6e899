"""Where `magnetar-pipeline` begins: Ctrl-C while it is still being imported ends it quietly."""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def magnetar_pipeline() -> None:
    """`magnetar-pipeline`."""
    try:
        from pipeline.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
