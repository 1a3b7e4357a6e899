"""Where `magnetar` and `magnetar-admin` begin: Ctrl-C while they are still being imported ends them quietly.

No module of theirs imports this one, which would bring each what only the other may import.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def magnetar() -> None:
    """`magnetar`."""
    try:
        from gateway.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def magnetar_admin() -> None:
    """`magnetar-admin`."""
    try:
        from gateway.cli.admin import main

        main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
